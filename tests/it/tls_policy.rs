//! The TLS policy in `tests/README.md`: each row of its table is probed with both kinds of keys.
//!
//! The second column of a row is the probe:
//! - options of `openssl s_client`, which then sends a request;
//! - `renegotiate` and such options: after the handshake, the client requests another one;
//! - `hello`, a version and cipher suites, in hexadecimal: a client hello of the test's own, for what
//!   `openssl` does not offer any more. Records behind the word `then` follow the server's reply;
//! - `bytes`: sent as they are;
//! - `group`: a handshake of rustls with one key exchange group.
//!
//! A probe is accepted if it gets a response, or, without `openssl`, if the server goes on with the
//! handshake. It is refused if the server itself ends the connection: a failure of the client alone is
//! neither.

use std::io::ErrorKind;

use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::prelude::*;
use crate::tls_pairs::{LAST, NAMES, RSA, Scene, VALID, client_config_with, fetch, start};

/// Record types (RFC 8446 section 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// Runs `openssl s_client` and writes each input, with a pause before the next. Returns what it prints.
pub(crate) fn s_client(address: SocketAddr, options: &[&str], inputs: &[&str]) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address.to_string()]);
    if !options.contains(&"-noservername") {
        command.args(["-servername", "localhost"]);
    }
    command.args(options).stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for (at, input) in inputs.iter().enumerate() {
        if at > 0 {
            thread::sleep(Duration::from_millis(500));
        }
        // It may have ended already.
        let _ = stdin.write_all(input.as_bytes());
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Whether a probe was accepted, with the evidence; an error if that is not certain.
fn probe(address: SocketAddr, scene: &Scene, probe: &str) -> Result<(bool, String), String> {
    let words: Vec<&str> = probe.split(' ').collect();
    match words[0] {
        "renegotiate" => {
            let said = s_client(address, &words[1..], &["R\n", LAST]);
            if !said.contains("RENEGOTIATING") || !said.contains("Cipher is ECDHE") {
                return Err(said);
            }
            judged(said, &["no renegotiation"])
        }
        "hello" => {
            let (hello, after) = probe["hello ".len()..]
                .split_once(" then ")
                .unwrap_or((&probe["hello ".len()..], ""));
            let numbers = bytes(hello);
            let reply = exchange(address, &client_hello(&numbers), &bytes(after));
            Ok((is_handshake(&reply, &numbers), format!("{reply:?}")))
        }
        "bytes" => {
            let reply = exchange(address, &bytes(&probe["bytes ".len()..]), &[]);
            Ok((reply.first() == Some(&HANDSHAKE), format!("{reply:?}")))
        }
        "group" => {
            let mut provider = aws_lc_rs::default_provider();
            provider
                .kx_groups
                .retain(|group| format!("{:?}", group.name()) == words[1]);
            assert_eq!(provider.kx_groups.len(), 1, "{probe}");
            Ok((rustls_succeeds(address, scene, provider), String::new()))
        }
        _ => {
            // At the end of its input, it waits for the response.
            let options = [&words[..], &["-ign_eof"]].concat();
            let said = s_client(address, &options, &[LAST]);
            judged(said, &["SSL alert number", "inappropriate fallback"])
        }
    }
}

/// Judges the output of `s_client`, in which a refusal shows as one of `refusals`.
fn judged(said: String, refusals: &[&str]) -> Result<(bool, String), String> {
    let is_refused = refusals.iter().any(|refusal| said.contains(refusal));
    match (said.contains("HTTP/1.1 200"), is_refused) {
        (true, false) => Ok((true, said)),
        (false, true) => Ok((false, said)),
        _ => Err(said),
    }
}

fn rustls_succeeds(address: SocketAddr, scene: &Scene, provider: CryptoProvider) -> bool {
    let config = Arc::new(client_config_with(&scene.pair, provider));
    fetch(address, &config, "/v1").starts_with("HTTP/1.1 200")
}

/// Hexadecimal digits, in words of any length.
fn bytes(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

/// Bytes behind their length, in a number of `width` bytes.
fn prefixed(width: usize, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[4 - width..], content].concat()
}

/// A record with a client hello. `numbers` are a version and cipher suites. It also offers to compress.
fn client_hello(numbers: &[u8]) -> Vec<u8> {
    let (version, suites) = numbers.split_at(2);
    let name = [&[0][..], &prefixed(2, b"localhost")].concat();
    let extensions = [
        [&[0, 0][..], &prefixed(2, &prefixed(2, &name))].concat(),
        // Groups: X25519, P-256, P-384, P-521.
        [
            &[0, 10][..],
            &prefixed(2, &prefixed(2, &bytes("001d 0017 0018 0019"))),
        ]
        .concat(),
        // Uncompressed points.
        [&[0, 11][..], &prefixed(2, &prefixed(1, &[0]))].concat(),
        // Signatures: ECDSA, PSS and PKCS #1 with SHA-256, and the last with SHA-1.
        [
            &[0, 13][..],
            &prefixed(2, &prefixed(2, &bytes("0403 0804 0401 0201"))),
        ]
        .concat(),
        // Heartbeats are welcome.
        [&[0, 15][..], &prefixed(2, &[1])].concat(),
    ];
    let hello = [
        version,
        &[7; 32],
        &prefixed(1, &[]),
        &prefixed(2, suites),
        &prefixed(1, &[1, 0]),
        &prefixed(2, &extensions.concat()),
    ];
    let message = [&[1][..], &prefixed(3, &hello.concat())].concat();
    // Also hellos of TLS 1.2 come in records of 1.0.
    let record_version = [3, version[1].min(1)];
    [&[HANDSHAKE][..], &record_version, &prefixed(2, &message)].concat()
}

/// Sends bytes, and `after` behind the reply to them. Returns all that the server sends until it ends
/// the connection, or pauses.
fn exchange(address: SocketAddr, first: &[u8], after: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    let pause = Some(Duration::from_millis(700));
    socket.set_read_timeout(pause).unwrap();
    let mut reply = Vec::new();
    for bytes in [first, after] {
        // It may have closed the connection.
        let _ = socket.write_all(bytes);
        let mut piece = [0; 4096];
        loop {
            match uninterrupted(|| socket.read(&mut piece)) {
                Ok(0) => return reply,
                Ok(count) => reply.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return reply,
            }
        }
    }
    reply
}

/// Whether all records of a reply are of a handshake, which begins with the choice of an offered suite
/// and of no compression.
fn is_handshake(reply: &[u8], offered: &[u8]) -> bool {
    let (mut rest, mut types) = (reply, Vec::new());
    while let [kind, _, _, high, low, content @ ..] = rest {
        types.push(*kind);
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        rest = content.get(length..).expect("a whole record");
    }
    assert!(types.iter().all(|kind| [ALERT, HANDSHAKE].contains(kind)));
    if types.is_empty() || types.contains(&ALERT) {
        return false;
    }
    // Behind the headers of record and message, the version and the random bytes.
    let session = &reply[5 + 4 + 2 + 32..];
    let choice = &session[1 + usize::from(session[0])..][..3];
    assert!(offered[2..].chunks(2).any(|suite| suite == &choice[..2]));
    assert_eq!(choice[2], 0, "compression");
    true
}

/// Rows of the table: what is offered, the probe, the results for both kinds of keys.
fn rows() -> Vec<[String; 4]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/README.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, table) = text
        .split_once("| offered | probe | ECDSA key | RSA key |\n")
        .unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        cells[1..5].to_vec().try_into().unwrap()
    })
    .collect()
}

#[test]
fn each_row_of_the_policy_is_as_written() {
    let Some(scene) = Scene::new() else { return };
    let rsa = scene.pair_of("rsa", RSA, VALID, NAMES);
    let mut rows = rows();
    assert!(rows.len() > 40, "{} rows", rows.len());
    // The control: a row that is wrong is found.
    rows.push(["control", "`-tls1_2`", "refused", "refused"].map(str::to_owned));
    let wrong = |pair, column: usize| {
        let (_server, address) = start(pair, &["--limit-anonymous", "60000"]);
        let mut wrong = Vec::new();
        for row in &rows {
            let (offered, command) = (&row[0], row[1].trim_matches('`'));
            let result = probe(address, &scene, command);
            let found = match &result {
                Ok((true, _)) => "accepted",
                Ok((false, _)) => "refused",
                Err(_) => "unclear",
            };
            if found != row[column] {
                wrong.push(format!("{offered}: {found}\n{result:?}"));
            }
        }
        wrong
    };
    for (pair, column) in [(&scene.pair, 2), (&rsa, 3)] {
        let wrong = wrong(pair, column);
        assert_eq!(wrong.len(), 1, "{}", wrong.join("\n"));
        assert!(wrong[0].starts_with("control: accepted"), "{}", wrong[0]);
    }
}
