//! Sign-up at `/keys`: by address and by mail, and attacks on it.

use crate::admin::{address, metrics};
use crate::dumps::failed_with;
use crate::prelude::*;

/// A form as a browser sends it from our page.
pub(crate) fn post(client: &mut Client, fields: &str, headers: &str) -> Reply {
    let length = fields.len();
    let head = format!(
        "POST /keys HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Accept: text/html\r\n{headers}Content-Length: {length}\r\n\r\n{fields}"
    );
    client.send(head.as_bytes(), false)
}

/// The value of the hidden field of a page's form.
pub(crate) fn pass(page: &Reply) -> String {
    let (_, rest) = page.text().split_once("name=pass value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// The key that a page shows.
pub(crate) fn shown(page: &Reply) -> Option<String> {
    let (_, rest) = page.text().split_once("id=newkey>")?;
    let key = rest.split('<').next().unwrap().to_owned();
    canary::remember(&key);
    Some(key)
}

pub(crate) fn make(client: &mut Client, page: &Reply) -> Reply {
    post(client, &format!("do=issue&pass={}", pass(page)), "")
}

fn status_with(client: &mut Client, key: &str) -> (u16, String) {
    let value = format!("Bearer {key}");
    let reply = client.request("GET", "/v1/islands?limit=1", &[("Authorization", &value)]);
    (reply.status, reply.expect("x-ratelimit-limit").to_owned())
}

/// A server where every address may make keys, and its directory.
pub(crate) fn by_ip(more: &[&str]) -> (TempDir, Server) {
    let dir = TempDir::new();
    let server = by_ip_in(&dir, more);
    (dir, server)
}

fn by_ip_in(dir: &TempDir, more: &[&str]) -> Server {
    let state = dir.join("state");
    let mut args = vec!["--signup", "ip", "--state", state.to_str().unwrap()];
    args.extend(more);
    Server::start(&args)
}

#[test]
fn an_address_makes_three_keys_sees_them_and_revokes_them() {
    let (_dir, server) = by_ip(&[]);
    let mut client = server.connect();
    let mut page = client.get("/keys");
    let mut keys = Vec::new();
    for _ in 0..3 {
        page = make(&mut client, &page);
        assert_eq!(page.status, 200);
        let key = shown(&page).unwrap();
        assert_eq!(
            status_with(&mut client, &key),
            (200, "1000".to_owned()),
            "at once"
        );
        keys.push(key);
    }
    let fourth = make(&mut client, &page);
    assert_eq!((fourth.status, shown(&fourth)), (409, None));
    let fields = format!("do=revoke&id={}&pass={}", id(&keys[1]), pass(&page));
    page = post(&mut client, &fields, "");
    assert_eq!(page.status, 200);
    assert_eq!(status_with(&mut client, &keys[1]).0, 403, "at once");
    for key in &keys {
        assert!(page.text().contains(id(key)));
        assert!(
            !page.text().contains(canary::secret(key)),
            "shown once only"
        );
    }
    assert!(shown(&make(&mut client, &page)).is_some());
}

#[test]
fn no_page_of_another_site_reads_or_acts() {
    let (_dir, server) = by_ip(&["--base-url", "https://metrics.test"]);
    let mut client = server.connect();
    let page = client.get("/keys");
    assert!(page.header("access-control-allow-origin").is_none());
    assert_eq!(page.expect("cross-origin-resource-policy"), "same-origin");
    assert_eq!(page.expect("cache-control"), "no-store");
    assert_eq!(page.expect("x-ratelimit-remaining"), "100");
    for headers in [
        "Origin: https://evil.test\r\n",
        "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        let fields = format!("do=issue&pass={}", pass(&page));
        let reply = post(&mut client, &fields, headers);
        assert_eq!((reply.status, shown(&reply)), (403, None), "{headers}");
        assert!(reply.header("access-control-allow-origin").is_none());
    }
    let fields = format!("do=issue&pass={}", pass(&page));
    let own = post(
        &mut client,
        &fields,
        "Origin: https://metrics.test\r\nSec-Fetch-Site: same-origin\r\n",
    );
    assert!(shown(&own).is_some());
    // The preflight request of another origin is not allowed.
    let asked = [
        ("Origin", "https://evil.test"),
        ("Access-Control-Request-Method", "POST"),
    ];
    let allowed = client.request("OPTIONS", "/keys", &asked);
    assert_eq!(allowed.header("access-control-allow-methods"), None);
    assert_eq!(allowed.header("access-control-allow-headers"), None);
    assert_eq!(allowed.expect("allow"), "GET, HEAD, OPTIONS, POST");
    let elsewhere = client.request("OPTIONS", "/v1", &asked);
    assert_eq!(elsewhere.expect("allow"), "GET, HEAD, OPTIONS");
}

#[test]
fn no_response_at_keys_may_be_read_by_pages_of_other_sites() {
    let (_dir, open) = by_ip(&["--base-url", "https://metrics.test"]);
    let closed = Server::start(&[]);
    for (server, expected) in [
        (&open, [403, 204, 405, 400]),
        (&closed, [404, 204, 405, 400]),
    ] {
        let mut client = server.connect();
        let is_listed = client.get("/sitemap.xml").text().contains("/keys<");
        assert_eq!(is_listed, expected[0] != 404, "in the sitemap");
        let mut statuses = Vec::new();
        for (method, host) in [
            ("GET", "localhost"),
            ("OPTIONS", "localhost"),
            ("DELETE", "localhost"),
            ("GET", "a b"),
        ] {
            let head = format!(
                "{method} /keys HTTP/1.1\r\nHost: {host}\r\nOrigin: https://evil.test\r\n\r\n"
            );
            let reply = client.send(head.as_bytes(), false);
            for name in ["origin", "expose-headers", "methods", "headers"] {
                let name = format!("access-control-allow-{name}").replace("allow-expose", "expose");
                assert_eq!(reply.header(&name), None, "{method} {name}");
            }
            assert_eq!(reply.expect("x-content-type-options"), "nosniff");
            statuses.push(reply.status);
        }
        assert_eq!(statuses, expected);
    }
}

#[test]
fn requests_for_a_foreign_host_get_no_page_of_keys() {
    let (_dir, server) = by_ip(&["--base-url", "https://metrics.test"]);
    let mut client = server.connect();
    let mut visit = |method: &str, host: &str, headers: &str| {
        let head = format!("{method} /keys HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        client.send(head.as_bytes(), method == "HEAD")
    };
    for method in ["GET", "HEAD"] {
        assert_eq!(visit(method, "metrics.test", "").status, 200, "{method}");
        let origin = "Origin: http://evil.test\r\n";
        for headers in ["", origin, "Sec-Fetch-Site: same-origin\r\n"] {
            let reply = visit(method, "evil.test", headers);
            assert_eq!(reply.status, 403, "{method} {headers}");
            assert!(!reply.text().contains("name=pass"), "{method} {headers}");
            assert_eq!(reply.expect("cache-control"), "no-store");
        }
    }
    let linked = visit("GET", "metrics.test", "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(linked.status, 200, "a link from elsewhere may be opened");
    let read = visit("GET", "127.0.0.1", "Origin: https://evil.test\r\n");
    assert_eq!(read.status, 403);
    // Nor is a key issued under such a host, also without an origin.
    let form = "do=issue&pass=x";
    let head = format!("Content-Length: {}\r\n", form.len());
    let request = format!("POST /keys HTTP/1.1\r\nHost: evil.test\r\n{head}\r\n{form}");
    let reply = server.connect().send(request.as_bytes(), false);
    assert!(reply.status == 403 && reply.text().contains("another site"));
}

#[test]
fn invalid_forms_are_refused_and_issue_no_key() {
    let (_dir, server) = by_ip(&[]);
    let mut client = server.connect();
    let good = pass(&client.get("/keys"));
    let long = format!("do=issue&pass={}", "x".repeat(10_000));
    let other = good.replace("127.0.0.1", "127.0.0.2");
    for (fields, status) in [
        (String::new(), 400),
        ("do=drop".to_owned(), 400),
        ("{\"do\":\"issue\"}".to_owned(), 400),
        (format!("do=issue&pass={good}x"), 403),
        (format!("do=issue&pass={other}"), 403),
        ("do=issue".to_owned(), 403),
        (format!("do=revoke&id=0123456789&pass={good}"), 404),
        (format!("do=mail&email=a@x.test&pass={good}"), 403),
        (long, 413),
    ] {
        let reply = post(&mut client, &fields, "");
        assert_eq!(reply.status, status, "{fields}");
        assert_eq!(reply.expect("content-type"), "text/html; charset=utf-8");
    }
    // Programs get errors as JSON.
    let reply = client.send(
        b"POST /keys HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\ndo=drop",
        false,
    );
    failed_with(&reply, 403, "bad_request");
    assert_eq!(reply.header("access-control-allow-origin"), None);
    for method in ["PUT", "DELETE", "PATCH"] {
        let reply = client.request(method, "/keys", &[]);
        assert_eq!(
            (reply.status, reply.expect("allow")),
            (405, "GET, HEAD, OPTIONS, POST")
        );
    }
    assert_eq!(
        client.request("POST", "/v1", &[]).expect("allow"),
        "GET, HEAD, OPTIONS"
    );
    assert_eq!(
        client.get("/keys").text().matches("value=revoke").count(),
        0
    );
}

#[test]
fn a_form_with_expect_gets_100_continue_and_a_slow_one_is_disconnected() {
    let (_dir, server) = by_ip(&["--head-seconds", "1"]);
    let page = server.connect().get("/keys");
    let fields = format!("do=issue&pass={}", pass(&page));
    let head = format!(
        "POST /keys HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        fields.len()
    );
    let mut stream = socket(server.addr());
    stream.write_all(head.as_bytes()).unwrap();
    let mut received = [0; 25];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(fields.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (_, rest) = answer.split_once("id=newkey>").unwrap();
    canary::remember(rest.split('<').next().unwrap());

    // In one write, so that the response is ready with the 100 Continue.
    let mut at_once = socket(server.addr());
    let form = "POST /keys HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\ndo=drop";
    at_once.write_all(form.as_bytes()).unwrap();
    let mut answer = String::new();
    at_once.read_to_string(&mut answer).unwrap();
    let answer = answer
        .strip_prefix("HTTP/1.1 100 Continue\r\n\r\n")
        .unwrap_or(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert!(head.contains("cache-control: no-store") && head.contains("content-security-policy"));
    has(head, &format!("content-length: {}", body.len()));
    assert!(body.starts_with("<!doctype html>"), "{body}");

    let mut slow = socket(server.addr());
    let begun = Stopwatch::start();
    slow.write_all(b"POST /keys HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\ndo=is")
        .unwrap();
    let mut received = Vec::new();
    // A reset closes it too.
    let _ended = slow.read_to_end(&mut received);
    assert_eq!(received, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert!(
        begun.running() < Duration::from_secs(10),
        "{:?}",
        begun.running()
    );
}

#[test]
fn no_request_of_sign_up_takes_keys_away_when_the_key_file_is_lost() {
    let dir = TempDir::new();
    let (state, file) = (dir.join("state"), dir.join("state/keys.jsonl"));
    let mut keys = vec![issue(&state, "a@x.test", "pro")];
    let older = fs::read_to_string(&file).unwrap();
    let more = |of: &str| issue(&state, of, "pro");
    keys.extend(["b@x.test", "c@x.test"].map(more));
    let server = by_ip_in(&dir, &[]);
    let mut client = server.connect();
    // The file is removed, or replaced by an older one, before the first request for the page, which may
    // reach the server before it has noticed.
    for lost in [None, Some(&older)] {
        match lost {
            None => fs::remove_file(&file).unwrap(),
            Some(older) => {
                write_file(&dir.join("state/older"), older);
                fs::rename(dir.join("state/older"), &file).unwrap();
            }
        }
        let page = client.get("/keys");
        keys.push(shown(&make(&mut client, &page)).unwrap());
        server.await_line("missing or out of date");
        for key in &keys {
            assert_eq!(status_with(&mut client, key).0, 200);
        }
        let listed: Vec<String> = listed_keys(&state).into_iter().map(|key| key.0).collect();
        let ids: Vec<&str> = keys.iter().map(|key| id(key)).collect();
        assert_eq!(listed, ids);
    }
    assert!(server.terminate().success());
    let server = by_ip_in(&dir, &[]);
    for key in &keys {
        assert_eq!(status_with(&mut server.connect(), key).0, 200);
    }
}

#[test]
fn changes_by_the_command_line_are_visible_immediately() {
    let (dir, server) = by_ip(&[]);
    let state = dir.join("state");
    let mut client = server.connect();
    client.get("/keys");
    let key = issue(&state, "127.0.0.1", "pro");
    assert!(client.get("/keys").text().contains(id(&key)));
    change_key("revoke", &state, &key);
    assert!(!client.get("/keys").text().contains("value=revoke"));
}

/// A mail command that stores mails as files, a line of shell.
pub(crate) fn mailer(dir: &TempDir, line: &str) -> String {
    let path = dir.join("mailer");
    fs::create_dir_all(dir.join("mail")).unwrap();
    let text = format!("#!/bin/sh\n{line}\n").replace("MAIL", dir.join("mail").to_str().unwrap());
    write_file(&path, &text);
    set_mode(&path, 0o755);
    path.to_str().unwrap().to_owned()
}

fn by_mail(dir: &TempDir, line: &str, admin: &str) -> Server {
    let (state, mailer) = (dir.join("state"), mailer(dir, line));
    let state = state.to_str().unwrap();
    let base = ["--base-url", "https://metrics.test/api", "--state", state];
    let args = ["--signup", "email", "--mailer", &mailer, "--admin", admin];
    Server::start(&[&base[..], &args[..]].concat())
}

pub(crate) const KEEP: &str = "cat >MAIL/new && mv MAIL/new MAIL/$$.mail";

fn mails(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mails = files.filter(|path| path.extension().is_some_and(|end| end == "mail"));
    mails
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

pub(crate) fn ask(client: &mut Client, email: &str) -> Reply {
    let page = client.get("/keys");
    let email = email.replace('@', "%40").replace('+', "%2B");
    post(
        client,
        &format!("do=mail&email={email}&pass={}", pass(&page)),
        "",
    )
}

/// Waits for the first mail, and returns the path and query of its link.
pub(crate) fn mailed_target(dir: &TempDir) -> String {
    wait_for("a mail", || !mails(&dir.join("mail")).is_empty());
    let mail = mails(&dir.join("mail")).remove(0);
    let link = mail
        .lines()
        .find_map(|line| line.strip_prefix("https://metrics.test/api/keys?"));
    format!("/keys?{}", link.unwrap())
}

#[test]
fn a_mailed_link_proves_an_address_and_each_form_gives_one_key() {
    let dir = TempDir::new();
    let server = by_mail(&dir, KEEP, "127.0.0.1:0");
    let mut client = server.connect();
    // No mail: the first one in the folder is that of the next address.
    assert_eq!(ask(&mut client, "a%0d%0aBcc:b@x.test").status, 400);
    let first = ask(&mut client, "ann+x@example.com");
    assert_eq!(first.status, 200);
    let target = mailed_target(&dir);
    let page = client.get(&target);
    assert!(page.text().contains("Keys of <bdi>ann+x@example.com</bdi>"));
    let key = shown(&make(&mut client, &page)).unwrap();
    assert_eq!(status_with(&mut client, &key).0, 200);
    // A form is not accepted twice; the link shows the keys until it expires, as the page states.
    let again = make(&mut client, &page);
    assert_eq!((again.status, shown(&again)), (409, None));
    let back = again.text().split("<a href=\"keys?").nth(1).unwrap();
    let back = client.get(&format!("/keys?{}", back.split('"').next().unwrap()));
    assert!(back.text().contains(id(&key)));
    let reopened = client.get(&target);
    assert!(reopened.text().contains(id(&key)));
    assert!(shown(&make(&mut client, &reopened)).is_some());
    // The responses to an address with keys and to one without are the same.
    let (held, other) = (
        ask(&mut client, "ann+x@example.com"),
        ask(&mut client, "bob@example.com"),
    );
    assert_eq!((held.status, held.body), (other.status, other.body));
    assert_eq!(client.get(&target.replace("example", "sample")).status, 403);
}

#[test]
fn a_failing_mailer_is_reported_to_the_operator_only() {
    let dir = TempDir::new();
    let (admin, port) = address();
    let server = by_mail(&dir, "cat >/dev/null; echo no relay >&2; exit 75", &port);
    let failed = || metrics(admin)["island_metrics_signup_mails_failed_total"] > 0.5;
    assert!(!failed());
    let reply = ask(&mut server.connect(), "ann@example.com");
    assert_eq!(reply.status, 200);
    assert!(!reply.text().contains("relay"));
    server.await_line("no relay");
    wait_for("the count", failed);
}
