//! TLS (CONTRACT section 10): handshakes, their limits, and responses over TLS.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, TempDir, command, is_slow, publish, run};
use crate::tls_pairs::{
    ECDSA, NAMES, RSA, VALID, arguments, client_config, connect, curl, fetch, has_openssl, pair,
    pair_of, start, text,
};

/// Runs `openssl s_client` with these arguments and input. Returns what it prints.
fn s_client(address: SocketAddr, more: &[&str], input: &str) -> String {
    let target = address.to_string();
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &target, "-servername", "localhost"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let (out, err) = (output.stdout, output.stderr);
    String::from_utf8_lossy(&[out, err].concat()).into_owned()
}

const LAST: &str = "GET /v1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[test]
fn both_versions_answer_as_without_tls_and_name_hsts() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let (server, address) = start(&pair, &[]);
    let plain = Client::connect(server.addr()).get("/v1/islands?limit=2");
    assert!(plain.header("strict-transport-security").is_none());
    for version in ["--tlsv1.3", "--tls-max=1.2"] {
        let version: Vec<&str> = version.split('=').collect();
        let output = curl(address, &pair, &[&version[..], &["-D", "-"]].concat());
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
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let words = ["serve", "--listen-tls", "127.0.0.1:0", "--print-config"];
    let output = run(&[&words[..], &arguments(&pair)].concat());
    assert!(output.status.success());
    let mut command = command();
    command
        .args(["serve", "--listen-tls", "127.0.0.1:0"])
        .args(arguments(&pair));
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on ") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut log, &mut line).unwrap() > 0);
    }
    let (_, address) = line.trim().split_once("listening on https://").unwrap();
    let response = fetch(
        address.parse().unwrap(),
        &client_config(&pair),
        "/v1/islands?limit=1",
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        response.contains(&format!("link: <https://{address}/v1/islands?")),
        "{response}"
    );
}

#[test]
fn old_versions_weak_ciphers_renegotiation_and_other_protocols_are_refused() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    for (name, key) in [("ecdsa", ECDSA), ("rsa", RSA)] {
        let pair = pair_of(&directory.join("tls"), name, key, VALID, NAMES);
        let (_server, address) = start(&pair, &[]);
        // Security level 0, so that the client itself refuses none of them.
        for refused in [
            &["-tls1"][..],
            &["-tls1_1"],
            &["-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"],
            &["-tls1_2", "-cipher", "AES128-GCM-SHA256:@SECLEVEL=0"],
            &[
                "-tls1_2",
                "-cipher",
                "ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:@SECLEVEL=0",
            ],
            &[
                "-tls1_2",
                "-cipher",
                "DHE-RSA-AES128-GCM-SHA256:@SECLEVEL=0",
            ],
            &["-tls1_2", "-cipher", "NULL:eNULL:aNULL:@SECLEVEL=0"],
            &["-alpn", "h2"],
        ] {
            let cipher = if refused[0].starts_with("-tls1") && refused.len() == 1 {
                &["-cipher", "ALL:@SECLEVEL=0"][..]
            } else {
                &[]
            };
            let said = s_client(address, &[refused, cipher].concat(), LAST);
            assert!(!said.contains("HTTP/1.1 200"), "{name} {refused:?}: {said}");
        }
        for accepted in [
            &["-tls1_2"][..],
            &["-tls1_3"],
            &["-alpn", "h2,http/1.1"],
            &["-tls1_2", "-cipher", "CHACHA20"],
        ] {
            let said = s_client(address, &[accepted, &["-ign_eof"]].concat(), LAST);
            assert!(said.contains("HTTP/1.1 200"), "{name} {accepted:?}: {said}");
        }
        // A line `R` asks for a new handshake.
        let said = s_client(address, &["-tls1_2"], "R\nGET /v1 HTTP/1.0\r\n\r\n");
        assert!(!said.contains("HTTP/1.1 200"), "{said}");
    }
}

#[test]
fn a_session_continues_on_any_worker() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let (_server, address) = start(&pair, &["--workers", "4"]);
    let config = client_config(&pair);
    fetch(address, &config, "/v1");
    for _ in 0..10 {
        let mut client = connect(address, &config);
        client.write_all(LAST.as_bytes()).unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        let kind = client.conn.handshake_kind();
        assert_eq!(kind, Some(tokio_rustls::rustls::HandshakeKind::Resumed));
        assert!(!client.conn.is_early_data_accepted());
    }
}

#[test]
fn plain_http_on_a_tls_port_gets_a_400_that_names_https() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let (_server, address) = start(&pair, &[]);
    let reply = Client::connect(address).get("/v1");
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], "bad_request");
    assert!(reply.text().contains("https://"), "{}", reply.text());
}

#[test]
fn pipelined_requests_are_answered_in_order_and_the_end_is_announced() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let (_server, address) = start(&pair, &[]);
    let mut client = connect(address, &client_config(&pair));
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
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let dataset = directory.join("dataset");
    let sizes = ["--islands", "9000", "--creators", "3", "--days", "2"];
    let to = ["synth", "--to", text(&dataset)];
    assert!(run(&[&to[..], &sizes].concat()).status.success());
    let published = directory.join("published");
    publish(&dataset, &published, "2026-11-20T00:00:00Z");
    let (server, address) = start(&pair, &["--published", text(&published)]);
    let config = client_config(&pair);
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
        match client.read(&mut piece).unwrap() {
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

/// Opens connections that send the beginning of a handshake, or nothing.
fn half_handshakes(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let open = |at: usize| {
        let mut socket = TcpStream::connect(address).unwrap();
        // The header of a record of 512 bytes, and a little of it.
        let part: &[u8] = if at.is_multiple_of(2) {
            &[22, 3, 1, 2, 0, 1, 0, 1]
        } else {
            &[]
        };
        // The server may have closed it.
        let _ = socket.write_all(part);
        socket
    };
    (0..count).map(open).collect()
}

#[test]
fn half_handshakes_keep_no_client_out() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let (server, address) = start(&pair, &["--connections", "400", "--workers", "2"]);
    let flood = half_handshakes(address, 390);
    let config = client_config(&pair);
    for _ in 0..20 {
        let begun = Instant::now();
        assert!(fetch(address, &config, "/v1").starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    // An eighth of all connections is left of them.
    let connections = server.open_files().len();
    assert!(connections < 300, "{connections} open files");
    drop(flood);
}

#[test]
fn a_handshake_that_never_ends_is_cut_and_a_dripped_one_too() {
    if !has_openssl() || !is_slow() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let (_server, address) = start(&pair, &[]);
    let begun = Instant::now();
    let mut silent = TcpStream::connect(address).unwrap();
    let mut dripped = TcpStream::connect(address).unwrap();
    // One byte a second of a record that is never complete.
    let record = [&[22, 3, 1, 2, 0, 1, 0, 1][..], &[0; 400]].concat();
    for byte in record {
        thread::sleep(Duration::from_secs(1));
        if dripped.write_all(&[byte]).is_err() {
            break;
        }
    }
    let seconds = begun.elapsed().as_secs();
    assert!((9..=14).contains(&seconds), "{seconds}");
    assert_eq!(silent.read(&mut [0; 9]).unwrap_or(0), 0);
}

#[test]
fn a_shutdown_waits_for_no_handshake() {
    if !has_openssl() {
        return;
    }
    let directory = TempDir::new();
    let pair = pair(&directory.join("tls"), "a");
    let (server, address) = start(&pair, &[]);
    let flood = half_handshakes(address, 50);
    thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    assert!(server.terminate().success());
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    drop(flood);
}
