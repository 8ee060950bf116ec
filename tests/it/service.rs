//! The server under a service manager: notifications, signals, and inherited sockets, with which
//! restarts refuse no connection.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::AtomicU64;
use std::thread::{scope, sleep};

use crate::dump_files::published;
use crate::long_bodies::slow_reader_from;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const HEALTH: &str = "/v1/health";

/// The socket for a program's notifications.
pub(crate) struct Manager {
    pub(crate) dir: TempDir,
    socket: UnixDatagram,
}

impl Manager {
    pub(crate) fn new() -> Manager {
        let dir = TempDir::new();
        let socket = UnixDatagram::bind(dir.join("notify")).unwrap();
        socket.set_read_timeout(Some(10 * SECOND)).unwrap();
        Manager { dir, socket }
    }

    /// The program with the environment of a service.
    pub(crate) fn command(&self) -> Command {
        let mut command = command();
        command.env("NOTIFY_SOCKET", self.dir.join("notify"));
        command.env("WATCHDOG_USEC", "2000000");
        command
    }

    fn start(&self, args: &[&str]) -> Server {
        Server::start_as(self.command(), args)
    }

    pub(crate) fn next(&self) -> String {
        let mut datagram = [0; 500];
        let length = uninterrupted(|| self.socket.recv(&mut datagram)).unwrap();
        String::from_utf8(datagram[..length].to_vec()).unwrap()
    }

    /// The next datagram with this line; others are skipped.
    #[track_caller]
    pub(crate) fn await_line(&self, line: &str) -> String {
        let begun = Stopwatch::start();
        while begun.running() < 10 * SECOND {
            let datagram = self.next();
            if datagram.lines().any(|found| found == line) {
                return datagram;
            }
        }
        panic!("no {line}");
    }
}

#[test]
fn a_service_manager_is_notified_of_readiness_and_the_end() {
    let manager = Manager::new();
    let server = manager.start(&[]);
    let ready = manager.next();
    assert!(ready.starts_with("READY=1\nSTATUS=at the start: serving 300 islands, published 20"));
    assert_eq!(server.connect().get(HEALTH).status, 200);
    let begun = Stopwatch::start();
    for _ in 0..6 {
        manager.await_line("WATCHDOG=1");
    }
    let fed = begun.running() / 6;
    assert!(fed < SECOND, "the watchdog is fed every {fed:?}");
    assert!(server.terminate().success());
    manager.await_line("STOPPING=1");
}

#[test]
fn a_reload_shows_changes_of_keys_before_the_next_poll() {
    let dir = TempDir::new();
    let state = dir.join("state");
    let key = issue(&state, "a@x.test", "free");
    let server = Server::start(&["--state", state.to_str().unwrap()]);
    let mut client = server.connect();
    let target = format!("/v1?key={key}");
    let mut waits = Vec::new();
    for (change, want) in [("revoke", 403), ("restore", 200)].repeat(4) {
        change_key(change, &state, &key);
        server.hang_up();
        let begun = Stopwatch::start();
        wait_for(change, || client.get(&target).status == want);
        waits.push(begun.running());
    }
    // Without a reload, each change waits for almost the whole interval of 250 ms: it follows the poll that showed the
    // last one. The shortest wait, since other programs can delay any of them.
    let shortest = waits.iter().min().unwrap();
    assert!(*shortest < Duration::from_millis(100), "{waits:?}");
}

/// The calls by which a worker waits for events.
const WAITS: &str = "epoll_wait,epoll_pwait,epoll_pwait2";

/// Runs strace on one thread of a process, so that its next one of these calls takes some seconds.
fn stall(process: u32, thread: &str, calls: &str, seconds: u32) -> Option<Child> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let task = tasks.map(|task| task.unwrap()).find(|task| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim() == thread
    });
    let inject = format!("inject={calls}:delay_enter={seconds}s:when=1");
    let task = task.unwrap().file_name().into_string().unwrap();
    Command::new("strace")
        .args(["-qq", "-e", &format!("trace={calls}"), "-e", &inject])
        .args(["-o", "/dev/null", "-p", &task])
        .spawn()
        .ok()
}

#[test]
fn a_worker_that_does_not_answer_starves_the_watchdog_until_it_does_again() {
    if crate::strace::Tracer::new().is_none() {
        return;
    }
    let manager = Manager::new();
    let (admin, port) = address();
    let server = manager.start(&["--workers", "2", "--admin", &port]);
    let livez = || Client::connect(admin).get("/livez");
    manager.await_line("WATCHDOG=1");
    assert_eq!(livez().status, 200);
    let mut tracer = stall(server.process(), "worker-1", WAITS, 9).unwrap();
    let begun = Stopwatch::start();
    let mut last = Duration::ZERO;
    // Up to two seconds late is allowed.
    manager.socket.set_read_timeout(Some(SECOND)).unwrap();
    let mut datagram = [0; 100];
    while begun.elapsed() < 7 * SECOND {
        if let Ok(length) = uninterrupted(|| manager.socket.recv(&mut datagram))
            && datagram[..length].starts_with(b"WATCHDOG=1")
        {
            last = begun.running();
        }
    }
    assert!(last < 4 * SECOND, "fed {last:?} after the worker stopped");
    let reply = livez();
    assert_eq!(reply.status, 503);
    assert!(reply.text().starts_with("worker 1 "), "{}", reply.text());
    manager.socket.set_read_timeout(Some(10 * SECOND)).unwrap();
    manager.await_line("WATCHDOG=1");
    assert_eq!(livez().status, 200);
    let _ended_already = tracer.kill();
    tracer.wait().unwrap();
}

#[test]
fn a_stalled_poll_is_measured_until_it_continues() {
    if crate::strace::Tracer::new().is_none() {
        return;
    }
    let dir = TempDir::new();
    let published = published(&dir);
    let (admin, port) = address();
    let server = Server::of(&published, &["--admin", &port]);
    let age = |what: &str| -> f64 {
        let name = format!("island_metrics_poll_age_seconds{{what=\"{what}\"}}");
        metrics(admin)[&name]
    };
    assert!(age("data") < 2.0 && age("keys") < 2.0);
    let mut tracer = stall(server.process(), "poll-data", "openat", 6).unwrap();
    // Like a disk that does not respond; loaded data is served meanwhile.
    wait_for("a stalled poll", || age("data") > 4.0);
    assert_eq!(server.connect().get("/v1/islands").status, 200);
    assert!(age("data") > 4.0 && age("keys") < 2.0);
    wait_for("the next poll", || age("data") < 2.0);
    let _ended_already = tracer.kill();
    tracer.wait().unwrap();
}

/// A server with an inherited socket, like by systemd.
fn start_on(listener: &TcpListener, args: &[&str]) -> Server {
    let mut activated = after("export LISTEN_PID=$$ LISTEN_FDS=1; exec 3<&0 0</dev/null");
    activated.stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())));
    Server::start_as(activated, args)
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn restarts_on_an_inherited_socket_refuse_no_connection_and_fail_no_request() {
    let restarts = if is_slow() { 50 } else { 10 };
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let args = words("--limit-anonymous 65535 --trusted-proxy 127.0.0.0/8");
    let mut server = start_on(&listener, &args);
    assert_eq!(server.addr(), address);
    let (done, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut slowest = Duration::ZERO;
    // Open for longer than the clients.
    let _last = scope(|scope| {
        let _done = SetOnDrop(&done);
        for client in 0..8 {
            let (done, answers) = (&done, &answers);
            scope.spawn(move || ask_until(done, address, client, answers));
        }
        for _ in 0..restarts {
            sleep(SECOND / 20);
            let begun = Stopwatch::start();
            assert!(server.terminate().success());
            slowest = slowest.max(begun.running());
            server = start_on(&listener, &args);
        }
        server
    });
    let answers = answers.into_inner();
    assert!(answers > restarts * 20, "only {answers} answers");
    // All repeat their requests, so none is waited for.
    assert!(slowest < 5 * SECOND, "{slowest:?}");
}

/// Repeats requests; half of the clients use a new connection for each. Every request must get a
/// response.
fn ask_until(done: &AtomicBool, address: SocketAddr, client: usize, answers: &AtomicU64) {
    let mut connection = Client::connect(address);
    while !done.load(Ordering::Relaxed) {
        let count = answers.fetch_add(1, Ordering::Relaxed);
        let forwarded = format!("198.51.{client}.{}", count / 30_000);
        let lines = [
            ("X-Forwarded-For", forwarded.as_str()),
            ("Connection", "close"),
        ];
        let lines = &lines[..=client % 2];
        let reply = connection.request("GET", "/v1/islands?limit=200", lines);
        assert_eq!(reply.status, 200);
        assert!(reply.text().ends_with("}}"));
    }
}

#[test]
fn the_inherited_socket_named_admin_is_the_admin_listener() {
    let (public, admin) = (listener(), listener());
    // The second one takes the descriptor of stdout.
    let names = "export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=api:admin";
    let mut activated = after(&format!("{names}; exec 3<&0 4<&1 0</dev/null 1>/dev/null"));
    activated
        .arg("serve")
        .stdin(Stdio::from(OwnedFd::from(public.try_clone().unwrap())))
        .stdout(Stdio::from(OwnedFd::from(admin.try_clone().unwrap())));
    let mut child = activated.spawn().unwrap();
    let ask = |listener: &TcpListener, path| {
        let address = listener.local_addr().unwrap();
        Client::connect(address).get(path).status
    };
    let answers = [
        ask(&public, "/v1"),
        ask(&public, "/metrics"),
        ask(&admin, "/metrics"),
        ask(&admin, "/v1"),
    ];
    let _ended_already = child.kill();
    child.wait().unwrap();
    assert_eq!(answers, [200, 404, 200, 404]);
}

#[test]
fn an_inherited_descriptor_must_be_a_listening_socket() {
    let mut activated = after("export LISTEN_PID=$$ LISTEN_FDS=1; exec 3</dev/null");
    let output = activated.arg("serve").output().unwrap();
    let stderr = stderr_of(&output, 78);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("LISTEN_FDS"), "{stderr}");
}

#[test]
fn silent_clients_and_incomplete_heads_do_not_delay_a_shutdown() {
    let server = Server::start(&[]);
    let silent = server.connect();
    let mut idle = server.connect();
    assert_eq!(idle.get(HEALTH).status, 200);
    let half = server.half_a_request();
    let begun = Stopwatch::start();
    assert!(server.terminate().success());
    let took = (begun.elapsed(), begun.running());
    assert!(took.0 >= SECOND && took.1 < 8 * SECOND, "{took:?}");
    drop((silent, half));
}

#[test]
fn a_head_that_is_ended_after_the_signal_is_answered_and_its_connection_closed() {
    let server = Server::start(&[]);
    let mut half = server.half_a_request();
    server.ask_to_stop();
    server.await_line("stopping");
    half.write_all(b" x.test\r\n\r\n").unwrap();
    let mut answer = String::new();
    half.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

/// A client that has begun to read responses, and reads no more of them.
fn slow_reader(server: &Server) -> TcpStream {
    let request = b"GET /v1/islands?limit=200 HTTP/1.1\r\nhost: x.test\r\n\r\n";
    let mut stream = slow_reader_from("127.0.0.1", server, &request.repeat(60));
    stream.read_exact(&mut [0]).unwrap();
    stream
}

#[test]
fn a_second_signal_ends_a_server_immediately() {
    let server = Server::start(&[]);
    let _slow = slow_reader(&server);
    server.ask_to_stop();
    server.await_line("stopping");
    let begun = Stopwatch::start();
    assert!(server.terminate().success());
    // Not after the drain of 25 seconds.
    assert!(begun.running() < 8 * SECOND);
}

#[test]
fn requests_that_take_longer_than_the_drain_are_cut() {
    let server = Server::start(&["--drain-seconds", "1"]);
    let _slow = slow_reader(&server);
    let begun = Stopwatch::start();
    assert!(server.terminate().success());
    let took = (begun.elapsed(), begun.running());
    assert!(took.0 >= SECOND && took.1 < 8 * SECOND, "{took:?}");
}
