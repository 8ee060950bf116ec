//! Test harness: starts the binary on a free port and always stops it. It has no expectations of
//! responses.

use std::os::unix::fs::PermissionsExt as _;
use std::process::ExitStatus;
use std::sync::atomic::AtomicUsize;
use std::sync::{PoisonError, mpsc};
use std::thread::JoinHandle;

use crate::prelude::*;
use crate::processes::figure;

pub(crate) use crate::http::{Client, Reply};

/// The `--base-url` of tests that set no other.
pub(crate) const BASE_URL: &str = "http://x.test";

/// The header of a daily file.
pub(crate) const DAILY: &str = "code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,recommendations,averageMinutesPerPlayer,retentionD1,retentionD7\n";

/// Timeout of responses and starts. At forty times the load of its cores, a machine took over 30 seconds.
const PATIENCE: Duration = Duration::from_mins(2);

/// Whether tests run in their long form, which takes minutes.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("IM_TEST_SLOW").is_some()
}

/// Whether tests that wait for minutes run as well, by `IM_TEST_SLOW=all`.
pub(crate) fn is_slowest() -> bool {
    std::env::var_os("IM_TEST_SLOW").is_some_and(|value| value == "all")
}

/// Number of kills in tests that kill processes at random moments.
pub(crate) fn kills() -> u32 {
    if is_slow() { 1000 } else { 25 }
}

/// A temporary directory, removed when dropped, after a check that no secret is in it.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// One on a disk. `.ci/run` has the others in memory.
    pub(crate) fn on_disk() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    fn within(directory: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("island-metrics-it-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let leak = canary::file_with_a_secret(&self.0);
        let _gone_already = fs::remove_dir_all(&self.0);
        assert!(
            leak.is_none() || thread::panicking(),
            "a secret in {}",
            leak.unwrap().display()
        );
    }
}

/// Copies the keys of a state directory to a new one.
pub(crate) fn copy_keys(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::copy(from.join("keys.jsonl"), to.join("keys.jsonl")).unwrap();
}

/// Writes a file of a test, and the directories above it.
pub(crate) fn write_file(path: &Path, text: &str) {
    write_bytes(path, text.as_bytes());
}

/// The same with bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "a test's input need not survive a crash"
)]
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The binary under test, without the project's environment variables.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_island-metrics"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ISLAND_METRICS_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// The binary in place of a shell, which has run a script before: with its limits, variables and
/// descriptors, and its process id.
pub(crate) fn after(script: &str) -> Command {
    let (server, script) = (command(), format!("{script}; exec \"$@\""));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(server.get_program());
    for (name, _) in server.get_envs() {
        shell.env_remove(name);
    }
    shell.stdin(Stdio::null());
    shell
}

/// The words of a command, which are separated by blanks.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The parts of a text, which are separated by bars.
pub(crate) fn parts(text: &str) -> Vec<&str> {
    text.split('|').collect()
}

/// Runs the binary until it exits.
pub(crate) fn run(args: &[&str]) -> Output {
    command().args(args).output().unwrap()
}

/// Runs `keys issue`, which may be refused.
pub(crate) fn try_issue(state: &Path, address: &str, tier: &str) -> Output {
    let state = state.to_str().unwrap();
    let words = ["--state", state, "--address", address, "--tier", tier];
    run(&[&["keys", "issue"][..], &words].concat())
}

/// The key printed by `keys issue`, which must print nothing else. From now on its secret must not
/// appear anywhere.
pub(crate) fn printed_key(output: &Output) -> String {
    let stderr = stderr_of(output, 0);
    let printed = std::str::from_utf8(&output.stdout).unwrap();
    let key = printed.strip_suffix('\n').unwrap();
    let segments: Vec<&str> = key.split('_').collect();
    assert!(
        matches!(segments[..], ["im", "live", _, _]),
        "stdout is more than a key"
    );
    canary::remember(key);
    assert!(
        !canary::holds_a_secret(stderr.as_bytes()),
        "the key is on stderr"
    );
    key.to_owned()
}

/// Whether a server has accepted a connection and read all that came, by the kernel's table: the ends
/// of each connection, its bytes that wait for a reader, and an inode once it is accepted.
fn is_read(server: SocketAddr, client: SocketAddr) -> bool {
    let [server, client] = [server, client].map(|end| format!(":{:04X}", end.port()));
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let row: Vec<&str> = line.split_whitespace().collect();
        let is_it = row[1].ends_with(&server) && row[2].ends_with(&client);
        is_it && row[4].ends_with(":00000000") && row[9] != "0"
    })
}

/// Issues a key.
pub(crate) fn issue(state: &Path, address: &str, tier: &str) -> String {
    printed_key(&try_issue(state, address, tier))
}

pub(crate) fn id(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

/// Runs `keys revoke` or `keys restore`, which must succeed.
pub(crate) fn change_key(change: &str, state: &Path, key: &str) {
    let words = ["keys", change, id(key), "--state", state.to_str().unwrap()];
    stderr_of(&run(&words), 0);
}

/// The keys that `keys list` prints: id and status.
pub(crate) fn listed_keys(state: &Path) -> Vec<(String, String)> {
    let output = run(&["keys", "list", "--json", "--state", state.to_str().unwrap()]);
    stderr_of(&output, 0);
    let keys: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    keys.iter()
        .map(|key| (text(&key["id"]), text(&key["status"])))
        .collect()
}

/// Waits until the files of a dataset are older than a tick of the file system's clock: stamps of younger ones do not
/// identify them.
pub(crate) fn settle() {
    thread::sleep(Duration::from_millis(25));
}

/// Publishes a dataset, which must succeed.
#[track_caller]
pub(crate) fn publish(dataset: &Path, to: &Path, generated_at: &str) {
    settle();
    let mut publish = publish_command(dataset, to);
    publish.args(["--generated-at", generated_at]);
    stderr_of(&publish.output().unwrap(), 0);
}

pub(crate) fn publish_command(dataset: &Path, to: &Path) -> Command {
    let mut publish = command();
    publish.args(["publish", "--dataset"]).arg(dataset);
    publish.arg("--to").arg(to);
    publish
}

#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in {text}");
}

/// A running server, killed when dropped. No secret and no panic may be in its log.
pub(crate) struct Server {
    child: Child,
    addr: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    /// Number of log lines before the next that is waited for.
    consumed: AtomicUsize,
    /// Reads the log until the server exits.
    log_reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts `serve` with these arguments after `--listen`, and waits until it logs its address.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_as(command(), args)
    }

    /// The same with a prepared command. Unless the arguments set them, there are counters for few clients: those of
    /// the default take a third of the CPU time of a start.
    pub(crate) fn start_as(mut command: Command, args: &[&str]) -> Self {
        let mut child = command
            .env("ISLAND_METRICS_QUOTA_CLIENTS", "100000")
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, receiver) = mpsc::channel();
        let log = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&log);
        // Reads to the end, so that the server never blocks on a full pipe.
        let log_reader = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                read.lock().unwrap().push(line.clone());
                let _started_already = sender.send(line);
            }
        });
        let mut server = Self {
            child,
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            log,
            consumed: AtomicUsize::new(0),
            log_reader: Some(log_reader),
        };
        loop {
            let Ok(line) = receiver.recv_timeout(PATIENCE) else {
                let log = server.log.lock().unwrap().join("\n");
                panic!("the server did not start: {args:?}\n{log}");
            };
            if let Some((_, rest)) = line.split_once("listening on http://") {
                let addr = rest
                    .split(|c: char| c.is_whitespace() || c == '/')
                    .next()
                    .unwrap();
                server.addr = addr.parse().unwrap();
                return server;
            }
        }
    }

    /// Serves a published directory, with an anonymous limit above the requests of any test.
    pub(crate) fn of(published: &Path, more: &[&str]) -> Self {
        let mut args = vec![
            "--published",
            published.to_str().unwrap(),
            "--base-url",
            BASE_URL,
        ];
        args.extend(words("--limit-anonymous 60000 --workers 1"));
        args.extend(more);
        Self::start(&args)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sends SIGKILL, as the system does when memory is short.
    pub(crate) fn kill(&self) {
        signal(self.child.id(), "-KILL");
    }

    /// Sends SIGTERM and does not wait.
    pub(crate) fn ask_to_stop(&self) {
        signal(self.child.id(), "-TERM");
    }

    /// Sends SIGHUP: keys and data are reloaded.
    pub(crate) fn hang_up(&self) {
        signal(self.child.id(), "-HUP");
    }

    /// Sends SIGUSR1: the access log is opened again.
    pub(crate) fn rotate(&self) {
        signal(self.child.id(), "-USR1");
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// A connection with an incomplete request head, which the server has read.
    pub(crate) fn half_a_request(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.write_all(b"GET /v1 HTTP/1.1\r\nHost:").unwrap();
        let own = stream.local_addr().unwrap();
        wait_for("half a head to be read", || is_read(self.addr, own));
        stream
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        signal(self.child.id(), "-TERM");
        self.child.wait().unwrap()
    }

    /// Waits until the server has ended by itself.
    #[cfg(feature = "tls")]
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Its log lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a log line that contains `part`, after the line waited for before.
    #[track_caller]
    pub(crate) fn await_line(&self, part: &str) {
        let begun = Instant::now();
        loop {
            let lines = self.lines();
            let consumed = self.consumed.load(Ordering::Relaxed);
            let new = lines
                .iter()
                .skip(consumed)
                .position(|line| line.contains(part));
            if let Some(at) = new {
                self.consumed.store(consumed + at + 1, Ordering::Relaxed);
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "no {part:?} in {lines:#?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident memory (Linux).
    pub(crate) fn resident_kib(&self) -> u64 {
        self.figure("status", "VmRSS:")
    }

    /// Resident memory that no file backs (Linux).
    pub(crate) fn anonymous_kib(&self) -> u64 {
        self.figure("status", "RssAnon:")
    }

    /// Bytes read from disk, not from the page cache (Linux).
    pub(crate) fn bytes_read_from_disk(&self) -> u64 {
        self.figure("io", "read_bytes:")
    }

    /// Bytes read from files and sockets (Linux).
    pub(crate) fn bytes_read(&self) -> u64 {
        self.figure("io", "rchar:")
    }

    /// The most resident memory so far (Linux).
    pub(crate) fn peak_kib(&self) -> u64 {
        self.figure("status", "VmHWM:")
    }

    /// The names of its threads (Linux), of which the first 15 bytes are kept.
    #[cfg(feature = "shared-quota")]
    pub(crate) fn thread_names(&self) -> BTreeSet<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // A thread may end meanwhile.
        let names =
            tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    fn figure(&self, file: &str, name: &str) -> u64 {
        figure(self.child.id(), file, name)
    }

    pub(crate) fn open_files(&self) -> Vec<PathBuf> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        // A descriptor may be closed meanwhile.
        open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .collect()
    }

    /// Waits until after midnight if fewer seconds are left in the day.
    pub(crate) fn wait_for_a_day_with(&self, seconds_left: u32) {
        let mut client = self.connect();
        let mut reset = || client.get("/v1/health").number("x-ratelimit-reset");
        while reset() < seconds_left {
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// A new keep-alive connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _dead_already = self.child.kill();
        let _reaped_already = self.child.wait();
        let _failed = self.log_reader.take().map(JoinHandle::join);
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let leak = log
            .iter()
            .any(|line| canary::holds_a_secret(line.as_bytes()));
        let panicked = log.iter().find(|line| line.contains("panicked"));
        assert!(!leak || thread::panicking(), "a secret on stderr");
        assert!(panicked.is_none() || thread::panicking(), "{panicked:?}");
    }
}
