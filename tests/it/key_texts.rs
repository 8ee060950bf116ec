//! Invalid keys in requests, and parts of keys that no response may contain.

use crate::canary::secret;
use crate::prelude::*;
use zlib_rs::crc32::crc32;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters of the checksum at the end of a key.
const CHECK_CHARS: usize = 6;
/// Longest text that fits into a head of 8 KiB with the request line and `Host`.
const LONGEST: u64 = 8_000;
/// Growth allowed for memory that is allocated once and late.
const GROWTH_KIB_MAX: u64 = 2048;

/// The CRC-32 of zip and gzip, in six base62 digits.
fn check(text: &str) -> String {
    let mut rest = crc32(0, text.as_bytes()) as usize;
    let mut digits = [0; CHECK_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[rest % DIGITS.len()];
        rest /= DIGITS.len();
    }
    String::from_utf8(digits.into()).unwrap()
}

/// The key with another secret and a valid checksum: only the key file shows that it is wrong.
pub(crate) fn forged(key: &str) -> String {
    // The check value of CRC-32 in the catalogue of CRC algorithms.
    assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
    let (checked, sum) = key.split_at(key.len() - CHECK_CHARS);
    assert_eq!(check(checked), sum, "the checksum is as it was");
    let (rest, last) = checked.split_at(checked.len() - 1);
    let forged = format!("{rest}{}", if last == "0" { "1" } else { "0" });
    let sum = check(&forged);
    forged + &sum
}

/// Percent-encodes all bytes but letters and digits, and some of those.
fn encoded(rng: &mut Rng, bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() && !rng.one_in(8) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02x}").unwrap();
        }
    }
    text
}

/// How a key is sent.
#[derive(Clone, Copy, Debug)]
enum Place {
    Header,
    Query,
}

fn send(client: &mut Client, rng: &mut Rng, place: Place, key: &[u8]) -> Reply {
    let head = match place {
        Place::Header => {
            let start = b"GET /v1 HTTP/1.1\r\nHost: x.test\r\nAuthorization: Bearer ";
            [&start[..], key, b"\r\n\r\n"].concat()
        }
        Place::Query => {
            let key = encoded(rng, key);
            format!("GET /v1?key={key} HTTP/1.1\r\nHost: x.test\r\n\r\n").into_bytes()
        }
    };
    client.send(&head, false)
}

/// The parts of a refusal that do not depend on time: the body, and some headers.
fn shown(reply: Reply) -> (Vec<(String, String)>, Vec<u8>) {
    let lasting = reply.headers_but(&["date", "x-ratelimit-reset", "x-request-id"]);
    (lasting, reply.body)
}

/// A server with keys, and one connection to it.
pub(crate) struct Service {
    pub(crate) active: String,
    revoked: String,
    /// Of another service.
    unknown: String,
    client: Client,
    pub(crate) server: Server,
    _dir: TempDir,
}

impl Service {
    pub(crate) fn start(more: &[&str]) -> Self {
        let dir = TempDir::new();
        let state = dir.join("state");
        let key = |tier| issue(&state, "ann@x.test", tier);
        let (active, revoked) = (key("free"), key("pro"));
        change_key("revoke", &state, &revoked);
        let unknown = issue(&dir.join("another"), "ann@x.test", "free");
        let log = dir.join("access.log");
        let [state, log] = [&state, &log].map(|path| path.to_str().unwrap());
        let args = ["--state", state, "--access-log", log];
        let server = Server::start(&[&args[..], &["--quota-clients", "9999"], more].concat());
        Self {
            active,
            revoked,
            unknown,
            client: server.connect(),
            server,
            _dir: dir,
        }
    }

    /// Sends GET. No part of the active key's secret may be in the response.
    #[track_caller]
    pub(crate) fn get(&self, client: &mut Client, target: &str, headers: &[(&str, &str)]) -> Reply {
        let reply = client.request("GET", target, headers);
        assert_eq!(leak(&reply, &self.active), None, "{target}: {reply:?}");
        reply
    }

    /// Asserts that a key is refused as invalid, and no quota is used.
    #[track_caller]
    fn refuses(&mut self, rng: &mut Rng, place: Place, key: &[u8]) -> Reply {
        let reply = send(&mut self.client, rng, place, key);
        let text = String::from_utf8_lossy(key);
        assert_eq!(reply.status, 401, "{place:?}: {text}");
        assert_eq!(reply.json()["error"]["code"], "invalid_key", "{text}");
        assert_eq!(reply.expect("x-ratelimit-remaining"), "100", "{text}");
        reply
    }
}

/// Text that is not a key, up to almost the length of a head.
fn no_key(rng: &mut Rng, key: &str, longest: u64) -> Vec<u8> {
    let most = if rng.one_in(2) { longest } else { 80 };
    let length = 1 + rng.below(most);
    let visible = |rng: &mut Rng| b'!' + u8::try_from(rng.below(94)).unwrap();
    let mut bytes: Vec<u8> = (0..length).map(|_| visible(rng)).collect();
    match rng.below(7) {
        0 => {
            for byte in &mut bytes {
                if rng.one_in(2) {
                    *byte = b'_';
                }
            }
        }
        1 => bytes.fill(b'_'),
        2 => bytes = [key.as_bytes(), &bytes].concat(),
        3 => bytes = [b"im_live_", &bytes[..]].concat(),
        4 => bytes = [&bytes, key.as_bytes()].concat(),
        // Not ASCII, and mostly not UTF-8.
        5 => bytes.iter_mut().for_each(|byte| *byte |= 0x80),
        _ => {}
    }
    bytes.truncate(usize::try_from(longest).unwrap());
    bytes
}

#[test]
fn responses_do_not_reveal_what_is_wrong_with_a_key() {
    let (mut service, mut rng) = (Service::start(&[]), Rng(1));
    let key = service.active.clone();
    let no_key = service.refuses(&mut rng, Place::Header, b"x");
    let want = shown(no_key);
    let mut wrong = vec![
        service.unknown.clone(),
        forged(&service.unknown),
        forged(&service.active),
        forged(&service.revoked),
        key.to_lowercase(),
        key.replace("_live_", "_test_"),
        key.replace('_', "-"),
    ];
    for at in 0..key.len() {
        for other in ["0", "z", "_", "~"] {
            let mut changed = key.clone();
            changed.replace_range(at..=at, other);
            wrong.push(changed);
        }
        wrong.extend([key[..at].to_owned(), key[at..].to_owned() + &key]);
        wrong.push(key[at + 1..].to_owned());
    }
    wrong.retain(|text| *text != key && !text.is_empty());
    for text in wrong {
        for place in [Place::Header, Place::Query] {
            let reply = service.refuses(&mut rng, place, text.as_bytes());
            assert!(shown(reply) == want, "{place:?}: {text}");
        }
    }
    // The valid keys stay valid.
    for (key, status) in [(&service.active, 200), (&service.revoked, 403)] {
        for place in [Place::Header, Place::Query] {
            let reply = send(&mut service.client, &mut rng, place, key.as_bytes());
            assert_eq!(reply.status, status, "{place:?}");
        }
    }
}

#[test]
fn malformed_keys_of_any_length_are_refused_alike_and_take_no_memory() {
    let (mut service, mut rng) = (Service::start(&[]), Rng(2));
    let key = service.active.clone();
    let want = shown(service.refuses(&mut rng, Place::Header, b"x"));
    let mut ask = |service: &mut Service, times: u32| {
        for _ in 0..times {
            let (place, longest) = match rng.below(2) {
                0 => (Place::Header, LONGEST),
                _ => (Place::Query, LONGEST / 3),
            };
            let text = no_key(&mut rng, &key, longest);
            let reply = service.refuses(&mut rng, place, &text);
            assert!(shown(reply) == want, "{place:?}: {text:?}");
        }
    };
    ask(&mut service, 2000);
    let before = service.server.resident_kib();
    ask(&mut service, 20_000);
    let after = service.server.resident_kib();
    assert!(after <= before + GROWTH_KIB_MAX, "{before} to {after} KiB");
}

/// A part of a key's secret in a response; error messages truncate what they quote.
fn leak<'a>(reply: &Reply, key: &'a str) -> Option<&'a str> {
    let body = String::from_utf8_lossy(&reply.body);
    let secret = secret(key);
    let mut parts = (0..secret.len() / 12).map(|at| &secret[at * 12..][..12]);
    parts.find(|part| {
        let in_header = |(name, value): &(String, String)| {
            name.contains(&part.to_lowercase()) || value.contains(part)
        };
        body.contains(part) || reply.headers.iter().any(in_header)
    })
}

/// All ways to send a key, valid or not: parts of the query, and header lines.
fn sendings(rng: &mut Rng, key: &str, other: &str) -> Vec<(String, Vec<(&'static str, String)>)> {
    let spelled = encoded(rng, key.as_bytes());
    let header = |value: String| vec![("Authorization", value)];
    let mut sendings = vec![
        (format!("key={key}&key={other}"), Vec::new()),
        (format!("key={other}"), header(format!("Bearer {key}"))),
        (String::new(), header(format!("Bearer {key}"))),
        (String::new(), header(format!("Basic {key}"))),
        (String::new(), header(key.to_owned())),
        (
            String::new(),
            [header(format!("Bearer {key}")), header(key.to_owned())].concat(),
        ),
    ];
    // The last ones are other, undeclared parameters.
    for name in words("key k%65y %6Bey %6b%65%79 KEY key%20 api_key") {
        sendings.push((format!("{name}={key}"), Vec::new()));
        sendings.push((format!("{name}={spelled}"), Vec::new()));
    }
    sendings
}

const TARGETS: &str = "
/v1/islands?limit=1&offset=1 /v1/islands?q=a /v1/creators?limit=1 /v1/islands?limit=0
/v1/islands?sort=secret /v1/creators?offset=-1 /v1 /v1?x=%zz /v1/health /v1/nothing /v1/islands/
/openapi.json /docs /nothing
";

#[test]
fn no_response_contains_any_part_of_a_secret() {
    let (mut service, mut rng) = (Service::start(&[]), Rng(3));
    let (active, revoked) = (service.active.clone(), service.revoked.clone());
    let mut linked = 0;
    for key in [&active, &revoked, &service.unknown] {
        let other = if *key == active { &revoked } else { &active };
        for (piece, lines) in sendings(&mut rng, key, other) {
            let lines: Vec<_> = lines.iter().map(|(name, line)| (*name, &**line)).collect();
            for target in words(TARGETS) {
                let (path, query) = target.split_once('?').unwrap_or((target, "limit=1"));
                for method in ["GET", "HEAD", "OPTIONS", "POST"] {
                    for uri in [
                        format!("{path}?{piece}&{query}"),
                        format!("{path}?{query}&{piece}"),
                    ] {
                        let reply = service.client.request(method, &uri, &lines);
                        let found = leak(&reply, key).or(leak(&reply, other));
                        assert_eq!(found, None, "{method} {uri}: {reply:?}");
                        linked += u32::from(reply.header("link").is_some());
                    }
                }
            }
        }
    }
    assert!(linked > 100, "{linked} answers had links");
}

#[test]
fn no_response_to_an_unreadable_head_contains_any_part_of_a_secret() {
    let service = Service::start(&[]);
    let key = &service.active;
    let host = "Host: x.test\r\n";
    for head in [
        format!("GET /v1?key={key} HTTP/9.9\r\n{host}\r\n"),
        format!("GET /v1?key={key}\x01 HTTP/1.1\r\n{host}\r\n"),
        format!("GET /v1 HTTP/1.1\r\n{host}Authorization Bearer {key}\r\n\r\n"),
        format!("GET /v1 HTTP/1.1\r\n{host}Authorization: Bearer {key}\0\r\n\r\n"),
        format!(
            "GET /v1?key={key}&{} HTTP/1.1\r\n{host}\r\n",
            "a".repeat(9000)
        ),
        format!(
            "GET /v1?key={key} HTTP/1.1\r\n{host}Cookie: {}\r\n\r\n",
            "a".repeat(9000)
        ),
    ] {
        let reply = service.server.connect().send(head.as_bytes(), false);
        assert!(reply.status >= 400, "{}", reply.status);
        assert_eq!(leak(&reply, key), None, "{head:?}: {reply:?}");
    }
}
