//! The admin listener: metrics that agree with the requests sent, liveness and readiness.

use std::sync::LazyLock;
use std::sync::atomic::AtomicU16;

use crate::prelude::*;

/// A free address, and its text. The port is outside the system's ephemeral range, whose ports are
/// soon reused by the thousands of connections of other tests. Each process has a block of ports, of which it holds the
/// first: another process must not take the port of a server that starts again.
pub(crate) fn address() -> (SocketAddr, String) {
    const BLOCK: u16 = 1_000;
    static HELD: LazyLock<(u16, TcpListener)> = LazyLock::new(|| {
        let mut firsts = (20_000..32_000).step_by(BLOCK.into()).cycle();
        let held =
            firsts.find_map(|first| Some((first, TcpListener::bind(("127.0.0.1", first)).ok()?)));
        held.unwrap()
    });
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let port = HELD.0 + 1 + NEXT.fetch_add(1, Ordering::Relaxed) % (BLOCK - 1);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return (address, address.to_string());
        }
    }
}

/// Samples by name and labels. Panics at a malformed line.
pub(crate) fn metrics(admin: SocketAddr) -> BTreeMap<String, f64> {
    let reply = Client::connect(admin).get("/metrics");
    assert_eq!(reply.status, 200);
    let kind = reply.expect("content-type");
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let (mut samples, mut family) = (BTreeMap::new(), String::new());
    for line in reply.text().lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.split(' ');
            let (word, name) = (words.next().unwrap(), words.next().unwrap());
            assert!(["HELP", "TYPE"].contains(&word), "{line}");
            name.clone_into(&mut family);
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with(&family), "{line} in {family}");
        let before = samples.insert(name.to_owned(), value.parse().unwrap());
        assert!(before.is_none(), "{name} twice");
    }
    samples
}

#[test]
fn metrics_agree_with_the_requests_sent() {
    let dir = TempDir::new();
    let state = dir.join("state");
    let key = issue(&state, "a@x.test", "free");
    let (admin, port) = address();
    let text = format!(
        "--state {} --limit-anonymous 5 --limit-free 2 --admin {port}",
        state.display()
    );
    let server = Server::start(&words(&text));
    server.wait_for_a_day_with(60);
    let mut client = server.connect();
    let keyed = format!("/v1?key={key}");
    let mut bytes = 0;
    for (target, lines, times) in [
        ("/v1", &[][..], 2),
        ("/v1/islands/12", &[], 1),
        ("/v1/nothing", &[], 1),
        ("/v1/islands?limit=2", &[("Accept-Encoding", "gzip")], 3),
        ("/v1/nothing", &[], 1),
        (&keyed, &[], 5),
        ("/v1/health", &[], 7),
        ("/docs", &[], 1),
    ] {
        for _ in 0..times {
            let reply = client.request("GET", target, lines);
            if reply.header("content-encoding") == Some("gzip") {
                bytes += reply.body.len();
            }
        }
    }
    let samples = metrics(admin);
    let requests = |route: &str, code: u16| {
        let name =
            format!("island_metrics_http_requests_total{{route=\"{route}\",code=\"{code}\"}}");
        samples.get(&name).copied().unwrap_or(0.0)
    };
    for (route, code, want) in [
        ("/v1", 200, 4.0),
        ("/v1", 429, 3.0),
        ("/v1/islands/{code}", 400, 1.0),
        ("unknown", 404, 1.0),
        ("unknown", 429, 1.0),
        ("/v1/islands", 200, 1.0),
        ("/v1/islands", 429, 2.0),
        ("/docs", 200, 1.0),
    ] {
        assert!((requests(route, code) - want).abs() < 0.1, "{route} {code}");
    }
    assert!(requests("/v1/health", 200) >= 7.0);
    let is = |name: &str, want: f64| {
        let found = samples[&format!("island_metrics_{name}")];
        assert!((found - want).abs() < 0.01, "{name} is {found}, not {want}");
    };
    is("quota_rejections_total{tier=\"anonymous\"}", 3.0);
    is("quota_rejections_total{tier=\"free\"}", 3.0);
    is("quota_rejections_total{tier=\"pro\"}", 0.0);
    is("keys", 1.0);
    is("snapshot_rows{kind=\"islands\"}", 300.0);
    let islands = "http_response_body_bytes_total{route=\"/v1/islands\",encoding=\"gzip\"}";
    is(islands, f64::from(u32::try_from(bytes).unwrap()));
    assert!(samples["process_resident_memory_bytes"] > 1e6);
    assert!(samples["island_metrics_http_sent_bytes_total"] > 5000.0);
    let build = |name: &String| name.starts_with("island_metrics_build_info{version=\"1.");
    assert!(samples.keys().any(build));
}

#[test]
fn a_server_is_ready_when_something_is_published_and_alive_before() {
    let dir = TempDir::new();
    let (dataset, published) = (dir.join("dataset"), dir.join("published"));
    let (admin, port) = address();
    let server = Server::of(&published, &["--admin", &port]);
    let ask = |path: &str| Client::connect(admin).get(path);
    assert_eq!((ask("/livez").status, ask("/readyz").status), (200, 503));
    assert_eq!(ask("/readyz").text(), "nothing is published\n");
    write_file(
        &dataset.join("islands.csv"),
        "code,title,creator,createdIn,tags\n0000-0000-0001,A,,,\n",
    );
    publish(&dataset, &published, "2026-11-20T12:05:00Z");
    server.await_line("serving the publish");
    // Metrics are updated a moment later.
    let comes =
        |is_so: &dyn Fn() -> bool| wait_within(Duration::from_secs(10), "the metrics", is_so);
    let counts_one = |what: &str| (metrics(admin)[what] - 1.0).abs() < 0.1;
    comes(&|| ask("/readyz").status == 200);
    assert!(counts_one(
        "island_metrics_reloads_total{what=\"data\",result=\"ok\"}"
    ));
    // Renamed into place: an incomplete file would be another fault.
    write_file(&published.join("aside"), "{");
    fs::rename(published.join("aside"), published.join("manifest.json")).unwrap();
    server.await_line("still serving the previous publish");
    let refused = "island_metrics_reloads_total{what=\"data\",result=\"refused\"}";
    comes(&|| counts_one(refused));
    assert_eq!(ask("/readyz").status, 200);
    // A stopping server is not ready while requests are in progress.
    let _half = server.half_a_request();
    server.ask_to_stop();
    server.await_line("stopping");
    assert_eq!(ask("/readyz").text(), "stopping\n");
}

#[test]
fn the_admin_listener_answers_nothing_else() {
    let (admin, port) = address();
    let _server = Server::start(&["--admin", &port]);
    let mut client = Client::connect(admin);
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("GET", "/metrics/", 404),
        ("POST", "/metrics", 405),
        ("HEAD", "/metrics", 200),
        ("GET", "/livez?verbose", 200),
    ] {
        let reply = client.request(method, path, &[]);
        assert_eq!(reply.status, status, "{method} {path}");
    }
}

#[test]
fn an_admin_address_that_is_taken_stops_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", &address];
    let output = run(&words);
    let said = stderr_of(&output, 69);
    assert!(said.contains(&address), "{said}");
}

/// Runs `healthcheck`; returns its exit code, stdout and stderr.
fn healthcheck(admin: &str) -> (Option<i32>, String, String) {
    let output = run(&["healthcheck", "--admin", admin]);
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, error)
}

#[test]
fn healthcheck_succeeds_while_a_server_is_ready() {
    let (_, port) = address();
    let server = Server::start(&["--admin", &port]);
    let (code, said, error) = healthcheck(&port);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(said.starts_with("ready; serving the publish of "), "{said}");
    // As in a container: both commands read one variable, with the address that the server binds.
    let any = port.replace("127.0.0.1", "0.0.0.0");
    let mut command = command();
    command.arg("healthcheck").env("ISLAND_METRICS_ADMIN", any);
    assert!(command.output().unwrap().status.success());
    drop(server);
    let (code, said, error) = healthcheck(&port);
    assert_eq!((code, said.as_str()), (Some(1), ""));
    let wanted = format!("island-metrics: no response from {port}: ");
    assert!(error.starts_with(&wanted), "{error}");
}

#[test]
fn connections_that_send_no_request_keep_no_healthcheck_and_no_scraper_out() {
    let (admin, port) = address();
    let _server = Server::start(&["--admin", &port]);
    for start in ["", "G", "GET /readyz HTTP/1.1\r\nhost: a\r\n"] {
        let open = || {
            let mut stream = TcpStream::connect(admin).unwrap();
            stream.write_all(start.as_bytes()).unwrap();
            stream
        };
        let mut held: Vec<TcpStream> = (0..300).map(|_| open()).collect();
        for _ in 0..5 {
            let (code, _, error) = healthcheck(&port);
            assert_eq!((code, error.as_str()), (Some(0), ""), "{start:?}");
            metrics(admin);
            // Each is replaced as soon as it is closed.
            held.drain(..60);
            held.extend((0..60).map(|_| open()));
        }
    }
}

#[test]
fn healthcheck_fails_with_the_reason_while_a_server_is_not_ready() {
    let dir = TempDir::new();
    let (_, port) = address();
    let _server = Server::of(&dir.join("published"), &["--admin", &port]);
    let (code, said, error) = healthcheck(&port);
    assert_eq!((code, said.as_str()), (Some(1), ""));
    assert_eq!(error, "island-metrics: nothing is published\n");
}

#[test]
fn healthcheck_requests_again_where_a_response_takes_too_long() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (paused, _) = listener.accept().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 100]).unwrap() > 0);
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nready\n").unwrap();
        drop((paused, stream));
    });
    let (code, said, error) = healthcheck(&port);
    assert_eq!(
        (code, said.as_str(), error.as_str()),
        (Some(0), "ready\n", "")
    );
    server.join().unwrap();
}

#[test]
fn healthcheck_fails_where_something_else_or_nothing_responds() {
    let server = Server::start(&[]);
    let (code, _, error) = healthcheck(&server.addr().to_string());
    assert_eq!(code, Some(1));
    has(&error, "must respond with 200 or 503, got \"HTTP/1.0 404");
    // Accepts connections in its queue, and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = Stopwatch::start();
    let silent = silent.local_addr().unwrap().to_string();
    let (code, _, error) = healthcheck(&silent);
    let want = format!("island-metrics: no response from {silent} within 4 s\n");
    assert_eq!((code, error), (Some(1), want));
    assert!(begun.running() < Duration::from_secs(10));
}
