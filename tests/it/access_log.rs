//! The access log: a line for each request, and no key in any line.

use crate::prelude::*;

/// The lines of a log, split into fields.
fn lines(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let fields = |line: &str| {
        line.split(' ')
            .map(|field| {
                let (name, value) = field.split_once('=').unwrap();
                (name.to_owned(), value.trim_matches('"').to_owned())
            })
            .collect()
    };
    text.lines().map(fields).collect()
}

#[test]
fn every_response_has_its_own_log_line_that_describes_it() {
    let dir = TempDir::new();
    let (log, state) = (dir.join("access.log"), dir.join("state"));
    let key = issue(&state, "a@x.test", "free");
    let server = Server::start(&words(&format!(
        "--access-log {} --state {} --trusted-proxy 127.0.0.1",
        log.display(),
        state.display()
    )));
    let mut client = server.connect();
    let bearer = format!("Bearer {key}");
    let mut asked = Vec::new();
    for (method, target, lines) in [
        ("GET", "/v1/islands?limit=2&q=a+b", &[][..]),
        ("GET", "/v1", &[("Authorization", bearer.as_str())]),
        ("GET", "/v1", &[("X-Forwarded-For", "2001:db8::7")]),
        ("HEAD", "/v1/live", &[]),
        ("OPTIONS", "/v1", &[]),
        ("DELETE", "/v1/creators/a", &[]),
        ("GET", "/v1/nothing", &[("Accept-Encoding", "gzip")]),
        ("GET", "/openapi.json", &[("Accept-Encoding", "gzip")]),
    ] {
        let reply = client.request(method, target, lines);
        asked.push((method, target, reply));
    }
    let unreadable = client.send(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", false);
    drop(client);
    assert!(server.terminate().success());
    let mut lines = lines(&log);
    let last = lines.pop().unwrap();
    assert_eq!(last["id"], unreadable.expect("x-request-id"));
    assert_eq!((&*last["status"], &*last["route"]), ("400", "unreadable"));
    assert_eq!(lines.len(), asked.len());
    let id = id(&key);
    for (at, (line, (method, target, reply))) in lines.iter().zip(&asked).enumerate() {
        assert_eq!(line["id"], reply.expect("x-request-id"));
        assert_eq!((&*line["method"], &*line["target"]), (*method, *target));
        assert_eq!(line["status"], reply.status.to_string());
        assert_eq!(line["bytes"], reply.body.len().to_string());
        let encoding = reply.header("content-encoding").unwrap_or("identity");
        assert_eq!(line["enc"], encoding);
        assert_eq!(line.get("key").map(String::as_str), (at == 1).then_some(id));
        let client = if at == 2 { "2001:db8::7" } else { "127.0.0.1" };
        assert_eq!(line["ip"], client);
        assert!(line["us"].parse::<u64>().unwrap() < 10_000_000);
        assert!(line["ts"].ends_with('Z') && line["ts"].len() == 20);
    }
    assert_eq!(lines[0]["route"], "/v1/islands");
    assert_eq!(lines[5]["route"], "/v1/creators/{slug}");
}

#[test]
fn no_key_is_logged_wherever_it_was_sent() {
    let dir = TempDir::new();
    let (log, state) = (dir.join("access.log"), dir.join("state"));
    // At the end of the test its content is searched for the secret of this key.
    let key = issue(&state, "a@x.test", "free");
    let log_path = log.to_str().unwrap();
    let words = ["--access-log", log_path, "--state", state.to_str().unwrap()];
    let server = Server::start(&words);
    let encoded = key.replace('_', "%5f");
    let twice = encoded.replace('%', "%25");
    let mut asked = 0;
    for key in [&key, &encoded, &twice] {
        for target in [
            format!("/v1?key={key}"),
            format!("/v1?%6bey={key}"),
            format!("/v1/{key}"),
            format!("/v1/creators/{key}"),
            format!("/v1/islands?q={key}"),
            format!("/v1/islands?tag=a&{key}=b"),
            format!("/{key}/v1?x"),
        ] {
            for (method, lines) in [
                ("GET", &[][..]),
                (key.as_str(), &[]),
                ("GET", &[("User-Agent", key.as_str())]),
                ("GET", &[("X-Forwarded-For", key.as_str())]),
                ("GET", &[("Authorization", key.as_str())]),
            ] {
                if method.contains('%') {
                    continue;
                }
                server.connect().request(method, &target, lines);
                asked += 1;
            }
        }
    }
    assert!(server.terminate().success());
    assert_eq!(lines(&log).len(), asked);
}

#[test]
fn a_renamed_log_is_reopened_by_a_signal() {
    let dir = TempDir::new();
    let (log, old) = (dir.join("access.log"), dir.join("access.log.1"));
    let server = Server::start(&["--access-log", log.to_str().unwrap()]);
    let mut client = server.connect();
    let mut asked = 0;
    let mut ask = |times: u32| {
        for _ in 0..times {
            client.get("/v1/health");
            asked += 1;
        }
    };
    ask(10);
    fs::rename(&log, &old).unwrap();
    server.rotate();
    wait_for("the new log", || log.exists());
    ask(20);
    drop(client);
    assert!(server.terminate().success());
    let (first, second) = (lines(&old).len(), lines(&log).len());
    // Lines not yet written at the signal are in the new file.
    assert_eq!(first + second, 30);
    assert!(second >= 20);
}
