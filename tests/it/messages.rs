//! Error messages that depend on the server: what to do about a 429, and what a 404, 405 or 503 is
//! about.

use crate::endpoint_cases::endpoint_cases;
use crate::prelude::*;

fn message(server: &Server, method: &str, target: &str) -> String {
    server.connect().request(method, target, &[]).message()
}

#[test]
fn a_429_names_the_key_page_where_sign_up_is_open() {
    let state = TempDir::new();
    let state = state.join("state");
    let open = Server::start(&words(&format!(
        "--limit-anonymous 1 --limit-free 777 --signup ip --base-url https://api.example/x --state {}",
        state.display()
    )));
    assert_eq!(open.connect().get("/v1").status, 200);
    let found = message(&open, "GET", "/v1");
    let want = "the daily quota of 1 requests is spent (no key was sent); a free key from https://api.example/x/keys allows 777 a day";
    assert_eq!(found, want);
    let closed = Server::start(&["--limit-anonymous", "1"]);
    assert_eq!(closed.connect().get("/v1").status, 200);
    let reply = closed.connect().get("/v1");
    let retry = reply.expect("retry-after");
    let want = format!(
        "the daily quota of 1 requests is spent (no key was sent); it resets at 00:00 UTC, in {retry} seconds"
    );
    assert_eq!(reply.message(), want);
}

#[test]
fn errors_name_the_method_the_creator_and_the_payload() {
    let server = Server::start(&[]);
    let found = message(&server, "DELETE", "/v1");
    assert_eq!(
        found,
        "method \"DELETE\" is not allowed; use GET, HEAD or OPTIONS"
    );
    let found = message(&server, "GET", "/v1/creators/no%20body");
    assert_eq!(found, "creator \"no body\" is not tracked");
    let directory = TempDir::new();
    let empty = Server::of(&directory.join("none"), &[]);
    let mut client = empty.connect();
    for case in endpoint_cases() {
        let Some(payload) = case.payload else {
            continue;
        };
        let reply = client.get(&case.example);
        let want = format!("{payload} has not been published; see /v1/health");
        let want = json!({"error": {"code": "not_ready", "message": want}});
        assert_eq!(
            (reply.status, reply.json()),
            (503, want),
            "{}",
            case.example
        );
        assert!(reply.number("retry-after") > 0);
    }
    let health = client.get("/v1/health");
    assert_eq!(health.status, 200);
    assert_eq!(health.json()["status"], "not_ready");
    // The log shows how to publish.
    empty.await_line("island-metrics publish --dataset DIR --to '");
}

#[test]
fn pages_and_documents_state_the_settings_of_the_server() {
    let server = Server::start(&words(
        "--limit-anonymous 7 --limit-free 4321 --contact me@x.test",
    ));
    let mut client = server.connect();
    for target in ["/docs", "/llms.txt", "/openapi.json"] {
        let text = client.get(target).text().to_owned();
        let all =
            "7 requests without a key|4,321 requests with a free key|Sign-up is closed|me@x.test";
        for part in parts(all) {
            has(&text, part);
        }
    }
    let document = client.get("/openapi.json").json();
    assert_eq!(document["info"]["contact"]["email"], "me@x.test");
    let keys = client.request("GET", "/keys", &[("Accept", "text/html")]);
    assert!(keys.text().contains("href=\"mailto:me@x.test\""));
    let closed = "sign-up is closed on this server";
    let contact = "; ask the publisher for a key: me@x.test";
    let other = Server::start(&[]);
    for (mut client, contact) in [(client, contact), (other.connect(), "")] {
        let error = &client.get("/keys").json()["error"];
        assert_eq!(error["message"], format!("{closed}{contact}"));
    }
    for contact in parts("nobody|javascript:alert(1)|a b@x.test|https://x.test/\"><b>") {
        let output = command()
            .args(["serve", "--print-config", "--contact", contact])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(78), "{contact}");
    }
}

#[test]
fn help_and_version_are_commands_too() {
    for (word, flag) in [("help", "--help"), ("version", "--version")] {
        let (by_word, by_flag) = (run(&[word]), run(&[flag]));
        assert!(
            by_word.status.success() && by_word.stdout == by_flag.stdout,
            "{word}"
        );
    }
    assert_eq!(
        run(&["help", "publish"]).stdout,
        run(&["publish", "--help"]).stdout
    );
    assert_eq!(run(&["help", "dance"]).status.code(), Some(64));
}

#[test]
fn a_size_without_a_unit_must_be_plausible() {
    for (size, code) in [("256", 78), ("1048575", 78), ("1048576", 0), ("64KiB", 0)] {
        let output = run(&["serve", "--print-config", "--memory", size]);
        assert_eq!(output.status.code(), Some(code), "{size}");
    }
}
