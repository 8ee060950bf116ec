//! Raw bytes on a socket: requests that no client library sends, whether the connection stays open,
//! and the quota used.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use crate::oracle::World;
use crate::support::{Reply, Server, TempDir};

const HEALTH: &[u8] = b"GET /v1/health HTTP/1.1\r\nHost: x.test\r\n\r\n";

/// A server of a small dataset, unless another is given; it also listens on an address known before.
struct Wire {
    address: String,
    server: Server,
    _published: TempDir,
}

impl Wire {
    fn start(args: &[&str]) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(20_000);
        let [.., high, low] = std::process::id().to_be_bytes();
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        // No other process of this machine's tests uses this loopback address.
        let address = format!("127.77.{high}.{low}:{port}");
        let mut words = vec!["--listen", &address];
        words.extend(args);
        let dir = TempDir::new();
        let published;
        if !args.contains(&"--published") {
            published = World::random(1, 12).publish(&dir);
            words.extend(["--published", published.to_str().unwrap()]);
        }
        let server = Server::start(&words);
        Self {
            address,
            server,
            _published: dir,
        }
    }

    fn limited_to(limit: &str) -> Self {
        Self::start(&["--limit-anonymous", limit])
    }

    fn connect(&self) -> Raw {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        Raw(BufReader::new(stream))
    }
}

/// A connection on which sending and reading are separate.
struct Raw(BufReader<TcpStream>);

impl Raw {
    fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.strip_suffix("\r\n").unwrap().to_owned()),
        }
    }

    /// The next response, which must have the quota headers; `None` once the connection is closed.
    fn read(&mut self, is_head: bool) -> Option<Reply> {
        let line = self.line()?;
        let status = line.strip_prefix("HTTP/1.").and_then(|l| l.get(2..5));
        let status = status.unwrap_or_else(|| panic!("status line {line:?}"));
        let mut reply = Reply {
            status: status.parse().unwrap(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.line().unwrap();
            let Some((name, value)) = line.split_once(": ") else {
                assert_eq!(line, "");
                break;
            };
            reply.headers.push((name.to_owned(), value.to_owned()));
        }
        for name in ["limit", "remaining", "reset"] {
            let value = reply.expect(&format!("x-ratelimit-{name}"));
            assert!(value.parse::<u32>().is_ok(), "{name}: {value}");
        }
        // RFC 9110 section 6.6.1: on every response, also to malformed heads.
        assert_eq!(reply.expect("date").len(), 29);
        if !is_head && reply.status != 204 && reply.status != 304 {
            reply.body = vec![0; reply.expect("content-length").parse().unwrap()];
            self.0.read_exact(&mut reply.body).unwrap();
        }
        Some(reply)
    }

    fn ask(&mut self, bytes: &[u8]) -> Reply {
        self.write(bytes);
        self.read(bytes.starts_with(b"HEAD")).unwrap()
    }

    fn request(&mut self, method: &str, target: &str, more: &str) -> Reply {
        self.ask(format!("{method} {target} HTTP/1.1\r\nHost: x.test\r\n{more}\r\n").as_bytes())
    }
}

fn remaining(reply: &Reply) -> u32 {
    reply.expect("x-ratelimit-remaining").parse().unwrap()
}

#[track_caller]
fn failed_with(reply: &Reply, code: &str, what: &str) {
    let json = reply.json();
    assert_eq!(json["error"]["code"], code, "{what}: {json}");
    assert!(json["error"]["message"].is_string(), "{what}: {json}");
}

/// The required result of a request: one of these statuses, an error code, an open connection.
struct Shape {
    bytes: Vec<u8>,
    statuses: &'static [u16],
    code: &'static str,
    open: bool,
}

fn shape(
    bytes: impl Into<Vec<u8>>,
    statuses: &'static [u16],
    code: &'static str,
    open: bool,
) -> Shape {
    Shape {
        bytes: bytes.into(),
        statuses,
        code,
        open,
    }
}

/// A valid head with this request line.
fn line(request: &str) -> String {
    format!("{request} HTTP/1.1\r\nHost: x.test\r\n\r\n")
}

fn get(host: &str) -> String {
    format!("GET /v1 HTTP/1.1\r\n{host}\r\n")
}

#[track_caller]
fn come_out_as_expected(shapes: &[Shape]) {
    let wire = Wire::limited_to("60000");
    let mut wrong = String::new();
    for shape in shapes {
        let shown: String = String::from_utf8_lossy(&shape.bytes)
            .chars()
            .take(80)
            .collect();
        let mut raw = wire.connect();
        raw.write(&shape.bytes);
        let Some(reply) = raw.read(shape.bytes.starts_with(b"HEAD")) else {
            writeln!(wrong, "{shown:?}: no answer").unwrap();
            continue;
        };
        let code = match reply.status {
            400.. => reply.json()["error"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            _ => String::new(),
        };
        let _closed_already = raw.0.get_mut().write_all(HEALTH);
        let open = raw.read(false).is_some_and(|health| health.status == 200);
        if !shape.statuses.contains(&reply.status) || code != shape.code || open != shape.open {
            let (status, want) = (reply.status, (shape.statuses, shape.code, shape.open));
            writeln!(
                wrong,
                "{shown:?}: {status} {code:?} open {open}, want {want:?}"
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_form_of_host_and_target_is_validated() {
    come_out_as_expected(&[
        shape(get(""), &[400], "bad_request", true),
        shape(get("Host: a\r\nHost: b\r\n"), &[400], "bad_request", true),
        shape(get("Host: a/b\r\n"), &[400], "bad_request", true),
        shape(get("Host: a b\r\n"), &[400], "bad_request", true),
        shape(get("Host: [::1]:80\r\n"), &[200], "", true),
        shape("GET /v1 HTTP/1.0\r\n\r\n", &[200], "", false),
        shape(line("CONNECT a:1"), &[405], "method_not_allowed", false),
        shape(line("OPTIONS *"), &[204], "", true),
        shape(line("GET *"), &[400], "bad_request", true),
        shape(line("GET http://evil/v1"), &[200], "", true),
        shape(line("GET v1"), &[400], "bad_request", true),
        shape(line("GET /v1/creators/épic"), &[404], "not_found", true),
        shape(line("GET /v1/creators/a%2Fb"), &[404], "not_found", true),
        shape(line("GET /v1%2Fislands"), &[404], "not_found", true),
        shape(line("GET /v1/creators/%00"), &[404], "not_found", true),
        shape(line("GET /v1/creators/%zz"), &[400], "bad_request", true),
        shape(line("GET /v1/creators/%FF"), &[400], "bad_request", true),
        shape(line("BREW /v1"), &[405], "method_not_allowed", true),
        shape(
            line("GET /v1/islands?limit=12345678901234567890"),
            &[400],
            "bad_request",
            true,
        ),
        shape(
            line("GET /v1/islands?offset=12345678901234567890"),
            &[200],
            "",
            true,
        ),
    ]);
}

#[test]
fn every_unreadable_head_is_answered_with_json() {
    let long_url = line(&format!("GET /v1?{}", "a".repeat(8192)));
    let long_header = get(&format!("Host: x\r\nCookie: {}\r\n", "a".repeat(9216)));
    come_out_as_expected(&[
        shape(long_url, &[400, 414, 431], "bad_request", false),
        shape(long_header, &[431], "bad_request", false),
        shape("rubbish\r\n\r\n", &[400], "bad_request", false),
        shape(
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &[400],
            "bad_request",
            false,
        ),
        shape(
            "GET /v1 HTTP/9.9\r\nHost: x\r\n\r\n",
            &[400],
            "bad_request",
            false,
        ),
        shape(get("Host: x\r\nno colon\r\n"), &[400], "bad_request", false),
    ]);
}

/// The characters that hyper refuses in a target, raw and as the message requires them.
#[test]
fn the_response_to_a_target_that_is_not_encoded_says_how_to_encode_it() {
    let wire = Wire::limited_to("60000");
    for (raw, encoded) in [
        ("\"", "%22"),
        ("<", "%3C"),
        (">", "%3E"),
        (" ", "%20"),
        ("\t", "%09"),
        ("\u{7f}", "%7F"),
    ] {
        let ask = |text: &str| {
            let mut socket = wire.connect();
            socket.write(line(&format!("GET /v1/islands?q=a{text}b")).as_bytes());
            socket.read(false).unwrap()
        };
        let refused = ask(raw);
        assert_eq!(refused.status, 400, "{raw:?}");
        let json = refused.json();
        let message = json["error"]["message"].as_str().unwrap();
        let named = [
            r#"spaces, ", <, >, control"#,
            "%20 for a space",
            r#"%22 for ""#,
        ];
        assert!(named.iter().all(|part| message.contains(part)), "{message}");
        assert_ne!(ask(encoded).json()["error"]["message"], message, "{raw:?}");
    }
}

#[test]
fn a_request_with_a_body_is_answered_and_then_the_connection_closes() {
    let with = |method, more| format!("{method} /v1 HTTP/1.1\r\nHost: x.test\r\n{more}");
    let chunked = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let length = "Content-Length: 3\r\n\r\nabc";
    come_out_as_expected(&[
        shape(with("POST", length), &[405], "method_not_allowed", false),
        shape(with("GET", length), &[200], "", false),
        shape(with("GET", chunked), &[400], "bad_request", false),
        shape(with("OPTIONS", chunked), &[204], "", false),
        shape(with("POST", chunked), &[405], "method_not_allowed", false),
        shape(with("GET", "Content-Length: 0\r\n\r\n"), &[200], "", true),
    ]);
}

#[test]
fn fifty_pipelined_requests_are_answered_in_order() {
    let wire = Wire::limited_to("60000");
    let mut raw = wire.connect();
    let mut bytes = String::new();
    for limit in 1..=50 {
        bytes.push_str(&line(&format!("GET /v1/islands?limit={limit}")));
    }
    raw.write(bytes.as_bytes());
    for limit in 1..=50 {
        let reply = raw.read(false).unwrap();
        assert_eq!(reply.json()["meta"]["limit"], limit);
        assert_eq!(remaining(&reply), 60_000 - limit);
    }
}

#[test]
fn two_answers_then_a_malformed_head_are_three_answers() {
    let wire = Wire::limited_to("60000");
    for more in ["rubbish\r\n\r\n", "GET /v1 HTTP/1.1\r\n\0: x\r\n\r\n"] {
        let mut raw = wire.connect();
        let bytes = [line("GET /v1"), line("GET /v1/islands"), more.to_owned()].concat();
        raw.write(bytes.as_bytes());
        assert_eq!(raw.read(false).unwrap().status, 200);
        assert_eq!(raw.read(false).unwrap().status, 200);
        let reply = raw.read(false).unwrap();
        assert_eq!(reply.status, 400);
        failed_with(&reply, "bad_request", more);
        assert!(raw.read(false).is_none(), "the connection closes");
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let wire = Wire::limited_to("60000");
    let mut raw = wire.connect();
    let headers = |reply: Reply| -> Vec<_> {
        let passing = |name: &str| {
            ["date", "x-request-id"].contains(&name) || name.starts_with("x-ratelimit-re")
        };
        let kept = reply.headers.into_iter();
        kept.filter(|(name, _)| !passing(&name.to_lowercase()))
            .collect()
    };
    for target in [
        "/v1",
        "/v1/islands",
        "/v1/health",
        "/v1/nothing",
        "/openapi.json",
    ] {
        let get = raw.request("GET", target, "");
        let head = raw.request("HEAD", target, "");
        assert_eq!(get.status, head.status, "{target}");
        assert_eq!(headers(get), headers(head), "{target}");
    }
    // The next response follows, not a body.
    assert_eq!(raw.ask(HEALTH).status, 200);
}

#[test]
fn options_carries_the_preflight_headers() {
    let wire = Wire::limited_to("60000");
    let mut raw = wire.connect();
    let more = "Origin: http://a.test\r\nAccess-Control-Request-Method: GET\r\n\
        Access-Control-Request-Headers: authorization\r\n";
    let reply = raw.request("OPTIONS", "/v1/islands", more);
    assert_eq!(reply.status, 204);
    assert_eq!(reply.expect("access-control-allow-origin"), "*");
    let methods = reply.expect("access-control-allow-methods");
    assert!(
        methods.contains("GET") && methods.contains("HEAD"),
        "{methods}"
    );
    let allowed = reply.expect("access-control-allow-headers").to_lowercase();
    // `*` alone covers neither `Authorization` nor older browsers.
    for name in [
        "authorization",
        "content-type",
        "x-requested-with",
        "cache-control",
        "traceparent",
        "tracestate",
        "baggage",
        "sentry-trace",
        "*",
    ] {
        assert!(
            allowed.split(", ").any(|header| header == name),
            "{name}: {allowed}"
        );
    }
    assert!(reply.header("access-control-max-age").is_some());
}

#[test]
fn a_trailing_slash_is_unknown_and_the_message_names_the_path_without() {
    let wire = Wire::limited_to("60000");
    let mut raw = wire.connect();
    for path in ["/v1", "/v1/islands"] {
        let reply = raw.request("GET", &format!("{path}/"), "");
        assert_eq!(reply.status, 404);
        failed_with(&reply, "not_found", path);
        assert!(reply.text().contains(path), "{}", reply.text());
        assert!(
            !reply.text().contains(&format!("want {path}/")),
            "{}",
            reply.text()
        );
    }
}

#[test]
fn a_key_is_not_valid_and_spends_nothing() {
    let wire = Wire::limited_to("100");
    let mut raw = wire.connect();
    let authorized = |value: &str| format!("Authorization: {value}\r\n");
    for (target, more) in [
        ("/v1", authorized("Bearer x")),
        ("/v1", authorized("Basic eDp5")),
        ("/v1", authorized("")),
        ("/v1?key=", String::new()),
        ("/v1/islands?key=abc", String::new()),
        ("/v1/islands?limit=2&k%65y=abc", String::new()),
        ("/v1/health?key=abc", String::new()),
        ("/v1/health", authorized("Bearer x")),
        ("/v1/nothing", authorized("Bearer x")),
    ] {
        let reply = raw.request("GET", target, &more);
        assert_eq!(reply.status, 401, "{target} {more:?}");
        failed_with(&reply, "invalid_key", target);
        assert_eq!(remaining(&reply), 100, "{target} {more:?}");
    }
    for (target, more) in [
        ("/openapi.json?key=abc", ""),
        ("/openapi.json", "Authorization: x\r\n"),
    ] {
        assert_eq!(raw.request("GET", target, more).status, 200, "{target}");
    }
    assert_eq!(remaining(&raw.request("GET", "/v1", "")), 99);
}

#[test]
fn responses_use_quota_as_the_contract_requires() {
    let wire = Wire::limited_to("100");
    let mut raw = wire.connect();
    let etag = raw.request("GET", "/v1", "").expect("etag").to_owned();
    let known = format!("If-None-Match: {etag}\r\n");
    let mut left = 99;
    for (method, target, more, status, spent) in [
        ("GET", "/v1", "", 200, 1),
        ("HEAD", "/v1", "", 200, 1),
        ("GET", "/v1", known.as_str(), 304, 1),
        ("GET", "/v1/islands?limit=x", "", 400, 1),
        ("GET", "/v1/nothing", "", 404, 1),
        ("HEAD", "/v1/nothing", "", 404, 1),
        ("GET", "/v1/health", "", 200, 0),
        ("HEAD", "/v1/health", "", 200, 0),
        ("GET", "/openapi.json", "", 200, 0),
        ("OPTIONS", "/v1", "", 204, 0),
        ("DELETE", "/v1", "", 405, 0),
        ("GET", "/v1", "Authorization: Bearer x\r\n", 401, 0),
    ] {
        let reply = raw.request(method, target, more);
        assert_eq!(reply.status, status, "{method} {target}");
        left -= spent;
        assert_eq!(remaining(&reply), left, "{method} {target} {more:?}");
    }
}

#[test]
fn requests_for_unpublished_data_use_no_quota() {
    let dir = TempDir::new();
    let empty = dir.join("empty");
    fs::create_dir_all(&empty).unwrap();
    let wire = Wire::start(&[
        "--limit-anonymous",
        "5",
        "--published",
        empty.to_str().unwrap(),
    ]);
    let mut raw = wire.connect();
    for _ in 0..8 {
        let reply = raw.request("GET", "/v1/islands", "");
        assert_eq!((reply.status, remaining(&reply)), (503, 5));
    }
}

#[test]
fn exactly_as_many_as_the_limit_are_admitted() {
    let wire = Wire::limited_to("3");
    let mut raw = wire.connect();
    for left in [2, 1, 0] {
        let reply = raw.request("GET", "/v1", "");
        assert_eq!((reply.status, remaining(&reply)), (200, left));
        assert_eq!(reply.expect("x-ratelimit-limit"), "3");
    }
    for _ in 0..3 {
        let reply = raw.request("GET", "/v1", "");
        assert_eq!((reply.status, remaining(&reply)), (429, 0));
        failed_with(&reply, "rate_limited", "the fourth");
        assert_eq!(
            reply.expect("retry-after"),
            reply.expect("x-ratelimit-reset")
        );
    }
    assert_eq!(raw.request("GET", "/v1/health", "").status, 200);
}

#[test]
fn sixteen_concurrent_clients_get_no_more_than_the_limit() {
    let wire = Wire::start(&["--limit-anonymous", "50", "--workers", "4"]);
    let ask = || {
        let mut client = wire.server.connect();
        let replies = (0..10).map(|_| client.get("/v1"));
        replies
            .map(|reply| (reply.status, remaining(&reply)))
            .collect::<Vec<_>>()
    };
    let replies: Vec<_> = thread::scope(|scope| {
        let asking: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        asking
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let admitted = replies.iter().filter(|(status, _)| *status == 200);
    let left: Vec<u32> = admitted.map(|(_, left)| *left).collect();
    assert_eq!(left.len(), 50);
    assert_eq!(BTreeSet::from_iter(left), (0..50).collect());
    let refused = replies.iter().filter(|reply| **reply == (429, 0));
    assert_eq!(refused.count(), 110);
}

#[test]
fn a_client_that_has_shut_down_its_sending_side_gets_every_response() {
    let wire = Wire::limited_to("60000");
    for _ in 0..200 {
        let mut raw = wire.connect();
        raw.write(&b"GET /v1 HTTP/1.1\r\nHost: x.test\r\n\r\n".repeat(5));
        raw.0.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        for _ in 0..5 {
            assert_eq!(raw.read(false).unwrap().status, 200);
        }
        assert!(raw.read(false).is_none());
    }
}
