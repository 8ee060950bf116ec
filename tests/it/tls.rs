//! Responses over TLS (CONTRACT section 10): the same as without, sessions, and connections that are
//! cut.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, ProtocolVersion, StreamOwned};

use crate::cli::printed;
use crate::prelude::*;
use crate::tls_pairs::{
    LAST, Scene, arguments, client_config_with, connect, curl, fetch, text, without_tickets,
};

#[test]
fn both_versions_answer_as_without_tls_and_name_hsts() {
    let Some(scene) = Scene::new() else { return };
    let (server, address) = scene.start(&[]);
    let plain = Client::connect(server.addr()).get("/v1/islands?limit=2");
    assert!(plain.header("strict-transport-security").is_none());
    for version in ["--tlsv1.3", "--tls-max=1.2"] {
        let version: Vec<&str> = version.split('=').collect();
        let output = curl(address, &scene.pair, &[&version[..], &["-D", "-"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let hsts = "strict-transport-security: max-age=31536000";
        assert!(head.lines().any(|line| line == hsts), "{head}");
        assert_eq!(body.as_bytes(), plain.body);
    }
}

#[test]
fn without_a_plain_listener_links_and_log_are_https() {
    let Some(scene) = Scene::new() else { return };
    let words = ["serve", "--listen-tls", "127.0.0.1:0", "--print-config"];
    let output = run(&[&words[..], &arguments(&scene.pair)].concat());
    assert!(output.status.success());
    assert_eq!(printed(&output)[0].1, "(none)");
    let mut command = command();
    command
        .args(["serve", "--listen-tls", "127.0.0.1:0"])
        .args(arguments(&scene.pair));
    let mut running = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut log = BufReader::new(running.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on ") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0);
    }
    let (_, address) = line.trim().split_once("listening on https://").unwrap();
    let response = fetch(
        address.parse().unwrap(),
        &scene.client_config(),
        "/v1/islands?limit=1",
    );
    has(&response, &format!("link: <https://{address}/v1/islands?"));
}

#[test]
fn pipelined_requests_are_answered_in_order_and_the_end_is_announced() {
    let Some(scene) = Scene::new() else { return };
    let (_server, address) = scene.start(&[]);
    let mut client = connect(address, &scene.client_config());
    let requests = (1..=40)
        .map(|limit| format!("GET /v1/islands?limit={limit} HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    let requests: String = requests.collect();
    client.write_all((requests + LAST).as_bytes()).unwrap();
    let mut responses = String::new();
    // An end without `close_notify` would be an error.
    client.read_to_string(&mut responses).unwrap();
    let mut limits = responses.match_indices("\"limit\":").map(|(at, name)| {
        let rest = &responses[at + name.len()..];
        rest[..rest.find(',').unwrap()].parse::<u32>().unwrap()
    });
    assert!((1..=40).eq(limits.by_ref().take(40)));
}

#[test]
fn a_long_body_arrives_whole_at_a_slow_reader_and_a_client_that_leaves_costs_nothing() {
    let Some(scene) = Scene::new() else { return };
    let dataset = scene.directory.join("dataset");
    let sizes = ["--islands", "9000", "--creators", "3", "--days", "2"];
    let to = ["synth", "--until", "2026-11-20", "--to", text(&dataset)];
    assert!(run(&[&to[..], &sizes].concat()).status.success());
    let published = scene.directory.join("published");
    publish(&dataset, &published, "2026-11-20T00:00:00Z");
    let (server, address) = scene.start(&["--published", text(&published)]);
    let config = scene.client_config();
    let creators = fetch(address, &config, "/v1/creators");
    let slug = creators.split("\"slug\":\"").nth(1).unwrap();
    let target = format!("/v1/creators/{}", slug.split('"').next().unwrap());
    let plain = Client::connect(server.addr()).get(&target);
    assert!(plain.body.len() > 1_000_000, "{}", plain.body.len());
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut client = connect(address, &config);
    client.write_all(request.as_bytes()).unwrap();
    let (mut body, mut piece) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        thread::sleep(Duration::from_millis(5));
        match uninterrupted(|| client.read(&mut piece)).unwrap() {
            0 => break,
            bytes => body.extend_from_slice(&piece[..bytes]),
        }
    }
    assert!(body.ends_with(&plain.body));
    // A client that closes its socket without an alert, in the middle of the response.
    for _ in 0..20 {
        let mut client = connect(address, &config);
        client.write_all(request.as_bytes()).unwrap();
        client.read_exact(&mut piece).unwrap();
    }
    assert!(fetch(address, &config, "/v1/health").starts_with("HTTP/1.1 200"));
}

/// Whole TLS records of a socket, up to a number of them: an attacker between client and server can end
/// the connection behind any record.
struct Records {
    socket: TcpStream,
    unread: Vec<u8>,
    passed: usize,
    end_after: usize,
}

impl Read for Records {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() && self.passed < self.end_after {
            let mut header = [0; 5];
            match self.socket.read_exact(&mut header) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => other?,
            }
            let length = u16::from_be_bytes([header[3], header[4]]);
            let mut content = vec![0; usize::from(length)];
            self.socket.read_exact(&mut content)?;
            self.unread = [&header[..], &content].concat();
            self.passed += 1;
        }
        let count = (&self.unread[..]).read(buffer)?;
        self.unread.drain(..count);
        Ok(count)
    }
}

impl Write for Records {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Sends requests and reads to the end, or to the end of so many records. Returns the number of records,
/// those of the handshake included, and the responses.
fn exchange(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    requests: &str,
    end_after: usize,
) -> (usize, io::Result<String>) {
    let StreamOwned { conn, sock, .. } = connect(address, config);
    let records = Records {
        socket: sock,
        unread: Vec::new(),
        passed: 0,
        end_after,
    };
    let mut client = StreamOwned::new(conn, records);
    let mut responses = String::new();
    let sent = client.write_all(requests.as_bytes());
    let read = sent.and_then(|()| client.read_to_string(&mut responses));
    (client.sock.passed, read.map(|_| responses))
}

/// Configurations of clients that use TLS 1.2 and 1.3 only.
fn of_each_version(scene: &Scene) -> [Arc<ClientConfig>; 2] {
    [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3].map(|version| {
        let mut provider = aws_lc_rs::default_provider();
        provider
            .cipher_suites
            .retain(|suite| suite.version().version == version);
        Arc::new(client_config_with(&scene.pair, provider))
    })
}

#[test]
fn pipelined_responses_share_a_record() {
    let Some(scene) = Scene::new() else { return };
    let (_server, address) = scene.start(&[]);
    let request = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for config in of_each_version(&scene) {
        // The first connection of a client gets a ticket and has a full handshake.
        exchange(address, &config, LAST, usize::MAX).1.unwrap();
        let (of_one, one) = exchange(address, &config, LAST, usize::MAX);
        let requests = request.repeat(10) + LAST;
        let (of_many, many) = exchange(address, &config, &requests, usize::MAX);
        assert!(one.unwrap().starts_with("HTTP/1.1 200"));
        assert_eq!(many.unwrap().matches("HTTP/1.1 200").count(), 11);
        assert_eq!(of_many, of_one);
    }
}

/// Truncation attacks: a response that was cut behind any record, the last one included, is an error for
/// the client.
#[test]
fn a_client_detects_a_truncated_response() {
    let Some(scene) = Scene::new() else { return };
    let (_server, address) = scene.start(&[]);
    let request = LAST.replace("/v1 ", "/v1/islands?limit=200 ");
    for config in of_each_version(&scene) {
        let config = without_tickets(&config);
        let (records, whole) = exchange(address, &config, &request, usize::MAX);
        let whole = whole.unwrap();
        assert!(
            whole.starts_with("HTTP/1.1 200") && records > 5,
            "{records}"
        );
        for end_after in 0..records {
            let (_, cut) = exchange(address, &config, &request, end_after);
            let error = cut.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{end_after}");
        }
    }
}

#[test]
fn a_request_that_was_cut_is_not_answered_and_a_whole_one_is() {
    let Some(scene) = Scene::new() else { return };
    let (_server, address) = scene.start(&[]);
    for config in of_each_version(&scene) {
        for (request, is_answered) in [(LAST, true), (&LAST[..LAST.len() - 2], false)] {
            let mut client = connect(address, &config);
            client.write_all(request.as_bytes()).unwrap();
            // The end of the connection without `close_notify`.
            client.sock.shutdown(Shutdown::Write).unwrap();
            let mut response = Vec::new();
            let _ = client.read_to_end(&mut response);
            assert_eq!(response.starts_with(b"HTTP/1.1 200"), is_answered);
        }
    }
}

#[test]
fn a_session_continues_on_any_worker_and_never_with_early_data() {
    let Some(scene) = Scene::new() else { return };
    let (_server, address) = scene.start(&["--workers", "4"]);
    for config in of_each_version(&scene) {
        let mut config = config.as_ref().clone();
        config.enable_early_data = true;
        let config = Arc::new(config);
        fetch(address, &config, "/v1");
        for _ in 0..10 {
            let mut client = connect(address, &config);
            assert!(client.conn.early_data().is_none(), "the ticket permits it");
            client.write_all(LAST.as_bytes()).unwrap();
            let mut response = String::new();
            client.read_to_string(&mut response).unwrap();
            assert_eq!(client.conn.handshake_kind(), Some(HandshakeKind::Resumed));
        }
    }
}

/// The same timeout as without TLS.
#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let Some(scene) = Scene::new() else { return };
    // The system of a client that reads nothing takes a hundred kilobytes for it.
    let (server, address) = scene.start(&["--send-seconds", "1", "--send-rate", "65536"]);
    let before = server.open_files().len();
    let mut client = connect(address, &scene.client_config());
    wait_for("the connection", || server.open_files().len() > before);
    let request = "GET /v1/islands?limit=200 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    // Responses of more bytes than any system buffers. The server reads no more requests meanwhile.
    client.sock.set_nonblocking(true).unwrap();
    let _ = client.write_all(request.repeat(400).as_bytes());
    wait_for("its end", || server.open_files().len() <= before);
}

#[test]
fn an_inherited_socket_named_tls_is_for_tls() {
    let Some(scene) = Scene::new() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let start = |arguments: &[&str]| {
        let names = "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=tls";
        let mut shell = after(&format!("{names}; exec 3<&0 0</dev/null"));
        shell.arg("serve").args(arguments);
        shell.stderr(Stdio::piped());
        shell.stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())));
        shell
    };
    let output = start(&[]).output().unwrap();
    let stderr = stderr_of(&output, 78);
    has(&stderr, "the socket named tls requires --tls-certificate");
    let unused = ["--listen-tls", "127.0.0.1:0"];
    let mut running = start(&[&arguments(&scene.pair)[..], &unused].concat());
    let mut running = running.spawn().unwrap();
    let stderr = BufReader::new(running.stderr.take().unwrap());
    let running = Running(running);
    let response = fetch(address, &scene.client_config(), "/v1/islands?limit=1");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    has(&response, &format!("link: <https://{address}/"));
    signal(running.0.id(), "-TERM");
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("--listen-tls is not used")));
}
