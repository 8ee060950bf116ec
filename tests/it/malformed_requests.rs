//! Raw bytes on a socket: requests that no client library sends, and whether the connection stays
//! open.

use std::io::Write;

use crate::dump_files::Slow;
use crate::prelude::*;

const HEALTH: &[u8] = b"GET /v1/health HTTP/1.1\r\nHost: x.test\r\n\r\n";

/// A server of a small dataset, and its directory.
fn serve() -> (TempDir, Server) {
    World::random(1, 12).serve()
}

fn connect(server: &Server) -> Raw {
    Raw(Slow::send(server.addr(), b""))
}

/// A connection on which sending and reading are separate.
struct Raw(Slow);

impl Raw {
    fn write(&mut self, bytes: &[u8]) {
        self.stream().write_all(bytes).unwrap();
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.0.0.get_mut()
    }

    /// The next response, which must have the quota headers; `None` once the connection is closed.
    fn read(&mut self, is_head: bool) -> Option<Reply> {
        let mut reply = self.0.next_head()?;
        for name in ["limit", "remaining", "reset"] {
            let value = reply.expect(&format!("x-ratelimit-{name}"));
            assert!(value.parse::<u32>().is_ok(), "{name}: {value}");
        }
        // RFC 9110 section 6.6.1: on every response, also to malformed heads.
        assert_eq!(reply.expect("date").len(), 29);
        if !is_head && reply.status != 204 && reply.status != 304 {
            let length = reply.expect("content-length").parse().unwrap();
            reply.body = self.0.take(length);
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
    let (_dir, server) = serve();
    let mut wrong = String::new();
    for shape in shapes {
        let shown: String = String::from_utf8_lossy(&shape.bytes)
            .chars()
            .take(80)
            .collect();
        let mut raw = connect(&server);
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
        let _closed_already = raw.stream().write_all(HEALTH);
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
        shape(get("Host: a:b:c\r\n"), &[400], "bad_request", true),
        shape(get("Host: a:80:\r\n"), &[400], "bad_request", true),
        shape(get("Host: a:b\r\n"), &[400], "bad_request", true),
        shape(get("Host: ::1\r\n"), &[400], "bad_request", true),
        shape(get("Host: [::1\r\n"), &[400], "bad_request", true),
        shape(get("Host: []\r\n"), &[400], "bad_request", true),
        shape(get("Host: [::1]80\r\n"), &[400], "bad_request", true),
        shape(get("Host: [::1]:80\r\n"), &[200], "", true),
        shape(get("Host: [::1]\r\n"), &[200], "", true),
        shape(get("Host: a:\r\n"), &[200], "", true),
        shape(get("Host:\r\n"), &[200], "", true),
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
        shape(long_url, &[400, 431], "bad_request", false),
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
    let (_dir, server) = serve();
    for (raw, encoded) in [
        ("\"", "%22"),
        ("<", "%3C"),
        (">", "%3E"),
        (" ", "%20"),
        ("\t", "%09"),
        ("\u{7f}", "%7F"),
    ] {
        let ask = |text: &str| {
            let mut socket = connect(&server);
            socket.write(line(&format!("GET /v1/islands?q=a{text}b")).as_bytes());
            socket.read(false).unwrap()
        };
        let refused = ask(raw);
        assert_eq!(refused.status, 400, "{raw:?}");
        let message = refused.message();
        let named = [
            r#"spaces, ", <, >, `, control characters or bytes that are not UTF-8"#,
            "%20 is a space",
            r#"%22 is ""#,
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
fn two_answers_then_a_malformed_head_are_three_answers() {
    let (_dir, server) = serve();
    for more in ["rubbish\r\n\r\n", "GET /v1 HTTP/1.1\r\n\0: x\r\n\r\n"] {
        let mut raw = connect(&server);
        let bytes = [line("GET /v1"), line("GET /v1/islands"), more.to_owned()].concat();
        raw.write(bytes.as_bytes());
        assert_eq!(raw.read(false).unwrap().status, 200);
        assert_eq!(raw.read(false).unwrap().status, 200);
        let reply = raw.read(false).unwrap();
        assert_eq!(reply.status, 400);
        assert_eq!(reply.json()["error"]["code"], "bad_request", "{more}");
        assert!(!reply.message().is_empty());
        assert!(raw.read(false).is_none(), "the connection closes");
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let (_dir, server) = serve();
    let mut raw = connect(&server);
    let passing = ["date", "x-request-id", "x-ratelimit-re"];
    for target in words("/v1 /v1/islands /v1/health /v1/nothing /openapi.json") {
        let get = raw.request("GET", target, "");
        let head = raw.request("HEAD", target, "");
        assert_eq!(get.status, head.status, "{target}");
        assert_eq!(
            get.headers_but(&passing),
            head.headers_but(&passing),
            "{target}"
        );
    }
    // The next response follows, not a body.
    assert_eq!(raw.ask(HEALTH).status, 200);
}

#[test]
fn options_carries_the_preflight_headers() {
    let (_dir, server) = serve();
    let mut raw = connect(&server);
    let more = "Origin: http://a.test\r\nAccess-Control-Request-Method: GET\r\n\
        Access-Control-Request-Headers: authorization\r\n";
    let reply = raw.request("OPTIONS", "/v1/islands?limit=1&page=2", more);
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("x-ignored-parameters"), Some("page"));
    assert_eq!(reply.expect("access-control-allow-origin"), "*");
    reply.lists("access-control-allow-methods", "GET HEAD");
    // `*` alone covers neither `Authorization` nor older browsers.
    let allowed = "Authorization Content-Type X-Requested-With Cache-Control Traceparent Tracestate \
        Baggage Sentry-Trace *";
    reply.lists("access-control-allow-headers", allowed);
    assert!(reply.header("access-control-max-age").is_some());
}

#[test]
fn a_client_that_has_shut_down_its_sending_side_gets_every_response() {
    let (_dir, server) = serve();
    for _ in 0..200 {
        let mut raw = connect(&server);
        raw.write(&b"GET /v1 HTTP/1.1\r\nHost: x.test\r\n\r\n".repeat(5));
        raw.stream().shutdown(std::net::Shutdown::Write).unwrap();
        for _ in 0..5 {
            assert_eq!(raw.read(false).unwrap().status, 200);
        }
        assert!(raw.read(false).is_none());
    }
}
