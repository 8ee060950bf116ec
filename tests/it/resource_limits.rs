//! Limits of the memory that clients can cause, and of the time they can occupy a worker.

use std::sync::atomic::AtomicUsize;

use crate::catalogue::Catalogue;
use crate::long_bodies::slow_reader;
use crate::prelude::*;

const KIB: u64 = 1024;

#[test]
fn the_last_response_of_a_connection_is_not_copied() {
    let catalogue = Catalogue::new();
    let server = Server::of(&catalogue.published, &[]);
    let live = server.connect().get("/v1/live").body;
    assert!(live.len() > 4 << 20);
    for (more, behind) in [
        ("", ""),
        ("Connection: close\r\n", ""),
        ("Content-Length: 1\r\n", "x"),
        ("Content-Length: 1\r\n", ""),
        ("Content-Length: 9\r\nUpgrade: h2c\r\n", ""),
        ("Connection: close, upgrade\r\nUpgrade: h2c\r\n", ""),
        (
            "Upgrade: websocket\r\nConnection: upgrade\r\nContent-Length: 2\r\n",
            "xx",
        ),
    ] {
        let before = server.anonymous_kib();
        let request = format!("GET /v1/live HTTP/1.1\r\nHost: a\r\n{more}\r\n{behind}");
        let readers: Vec<_> = (0..40).map(|_| slow_reader(&server, &request)).collect();
        for mut reader in &readers {
            let mut some = [0; 100];
            reader.read_exact(&mut some).unwrap();
            assert!(some.starts_with(b"HTTP/1.1 200 OK\r\n"), "{more}");
        }
        // A copy for each client would be 200 MB.
        let held = server.anonymous_kib().saturating_sub(before);
        assert!(held < 16 * KIB, "{held} KiB with {more:?}");
        // All of it arrives in the end.
        let mut reader = readers.into_iter().next().unwrap();
        let mut received = vec![0; live.len()];
        reader.read_exact(&mut received).unwrap();
        let end = memchr::memmem::find(&received, b"\r\n\r\n");
        // The beginning was read earlier.
        let body = end.map_or(&received[..], |end| &received[end + 4..]);
        assert!(live.starts_with(body), "{more}");
        let mut rest = vec![0; live.len() - body.len()];
        reader.read_exact(&mut rest).unwrap();
        assert!(live.ends_with(&rest), "{more}");
    }
}

/// Requests that fill every cache: pages of all kinds, bodies, and searches for long texts.
fn targets(rng: &mut Rng) -> Vec<String> {
    let mut targets = Vec::new();
    for _ in 0..if is_slow() { 1500 } else { 400 } {
        let (limit, offset) = (1 + rng.below(200), rng.below(30_000));
        targets.push(format!("/v1/islands?limit={limit}&offset={offset}"));
        let island = rng.below(30_000);
        let code = format!("{:04}-{:04}-0001", island / 10_000, island % 10_000);
        targets.push(format!("/v1/islands/{code}"));
        let limit = 1 + rng.below(200);
        targets.push(format!("/v1/islands?limit={limit}&q={}", rng.below(3000)));
        let q = "q".repeat(7000);
        targets.push(format!("/v1/islands?limit=1&tag={q}{island}"));
        let searched = &q[..1000];
        targets.push(format!("/v1/islands?limit=1&q={searched}{island}"));
        targets.push(format!("/v1/creators?limit=1&q={searched}{island}"));
        targets.push(format!("/v1/creators/{q}{island}"));
    }
    targets
}

#[test]
fn caches_stay_within_their_limit() {
    const MEMORY_MIB: u64 = 16;
    let catalogue = Catalogue::new();
    let published = catalogue.published.to_str().unwrap();
    let mut args = vec!["--published", published, "--memory", "16MiB"];
    args.extend(["--workers", "8", "--limit-anonymous", "65535"]);
    let server = Server::start(&args);
    let before = server.anonymous_kib();
    thread::scope(|scope| {
        for seed in 0..4 {
            let server = &server;
            scope.spawn(move || {
                // Responses requested once, or by one client only, are not cached for long.
                let mut clients = [2, 3].map(|last| {
                    let from = format!("127.0.{seed}.{last}");
                    Client::connect_from(&from, server.addr())
                });
                for target in targets(&mut Rng(seed + 1)) {
                    for client in &mut clients {
                        for coding in ["gzip", "identity", "identity"] {
                            let coding = ("Accept-Encoding", coding);
                            let reply = client.request("GET", &target, &[coding]);
                            assert!(matches!(reply.status, 200 | 404), "{}", reply.status);
                        }
                    }
                }
            });
        }
    });
    let held = server.anonymous_kib().saturating_sub(before);
    // Stacks, connections and fragmentation are not part of the caches.
    let allowed = MEMORY_MIB * KIB * 5 / 4 + 8 * KIB;
    assert!(held < allowed, "{held} KiB held, {allowed} allowed");
}

#[test]
fn a_pipeline_of_expensive_requests_takes_turns_with_other_connections() {
    let catalogue = Catalogue::new();
    let server = Server::of(&catalogue.published, &[]);
    let mut requests = String::new();
    for at in 0..400 {
        let target = format!("/v1/islands?limit=200&offset={}", at * 70);
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        requests.push_str(&head);
    }
    let mut stream = socket(server.addr());
    stream.write_all(requests.as_bytes()).unwrap();
    let answers = AtomicUsize::new(0);
    let mut meanwhile = Vec::new();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut buffer, mut tail) = (vec![0; 1 << 16], Vec::new());
            while answers.load(Ordering::Relaxed) < 400 {
                let count = uninterrupted(|| stream.read(&mut buffer)).unwrap();
                assert!(count > 0, "closed after {answers:?} answers");
                tail.extend_from_slice(&buffer[..count]);
                let more = memchr::memmem::find_iter(&tail, b"HTTP/1.1 200").count();
                answers.fetch_add(more, Ordering::Relaxed);
                let kept = tail.len().saturating_sub(11);
                tail.drain(..kept);
            }
        });
        let mut client = server.connect();
        while !reader.is_finished() {
            let before = answers.load(Ordering::Relaxed);
            assert_eq!(client.get("/v1/health").status, 200);
            meanwhile.push(answers.load(Ordering::Relaxed) - before);
        }
    });
    meanwhile.sort_unstable();
    // Before, sixteen expensive requests were processed before another connection got its turn.
    let median = meanwhile[meanwhile.len() / 2];
    assert!(meanwhile.len() > 20, "answered {} times", meanwhile.len());
    assert!(median < 8, "{median} expensive requests during a cheap one");
}
