//! Bodies of many megabytes: sent in pieces, complete or visibly truncated, at a bounded cost for
//! others.

use crate::catalogue::{Catalogue, ISLANDS, ISLANDS_OF_ONE};
use crate::damaged_files::{failed_responses, monitored};
use crate::http::socket_from;
use crate::prelude::*;

/// The first day, on which all islands are new: 16 MB.
const FIRST_DAY: &str = "/v1/new/2026-11-01";
const CREATOR: &str = "/v1/creators/large";
const KIB: u64 = 1024;
/// Allowance for a loaded machine, for responses that take microseconds.
const PROMPT: Duration = Duration::from_millis(700);

pub(crate) fn gunzip(gzip: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(gzip)
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

/// A client with a small receive buffer that reads only on request.
pub(crate) fn slow_reader(server: &Server, request: &str) -> TcpStream {
    slow_reader_from("127.0.0.1", server, request.as_bytes())
}

/// The same from an address of this machine.
pub(crate) fn slow_reader_from(from: &str, server: &Server, request: &[u8]) -> TcpStream {
    let mut stream = socket_from(from, server.addr(), Some(4096));
    stream.write_all(request).unwrap();
    stream
}

/// The longest time of a request of another client during `work`.
pub(crate) fn slowest(server: &Server, target: &str, work: impl FnOnce()) -> Duration {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut client = server.connect();
            let mut slowest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begun = Stopwatch::start();
                assert_eq!(client.get(target).status, 200);
                slowest = slowest.max(begun.running());
                thread::sleep(Duration::from_millis(1));
            }
            slowest
        });
        let end = SetOnDrop(&is_over);
        work();
        drop(end);
        watching.join().unwrap()
    })
}

/// Sends pipelined requests, of which the last closes the connection, and reads to the end.
fn pipeline(server: &Server, requests: &str) -> Vec<u8> {
    let mut stream = socket(server.addr());
    stream.write_all(requests.as_bytes()).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    received
}

#[test]
fn a_long_body_is_the_same_in_both_forms_and_head_and_304_know_it() {
    let catalogue = Catalogue::new();
    let server = Server::of(&catalogue.published, &["--memory", "16MiB"]);
    let mut client = server.connect();
    for target in [FIRST_DAY, CREATOR] {
        let plain = client.get(target);
        let gzip = client.get_coded(target, true);
        assert_eq!((plain.status, gzip.status), (200, 200));
        assert_eq!(gzip.expect("content-encoding"), "gzip");
        assert!(gunzip(&gzip.body) == plain.body, "{target}");
        assert!(plain.body.len() > 1 << 20, "{target} is short");
        let rows = if target == FIRST_DAY {
            plain.json()["islands"].as_array().unwrap().len()
        } else {
            plain.json()["creator"]["islands"].as_array().unwrap().len()
        };
        let wanted = if target == FIRST_DAY {
            ISLANDS
        } else {
            ISLANDS_OF_ONE
        };
        assert_eq!(rows, wanted as usize, "{target}");
        for (get, coding) in [(&plain, "identity"), (&gzip, "gzip")] {
            let coding = ("Accept-Encoding", coding);
            let head = client.request("HEAD", target, &[coding]);
            assert_eq!(head.status, 200);
            for name in words("content-length etag content-type cache-control vary") {
                assert_eq!(head.header(name), get.header(name), "{name} of {target}");
            }
            let known = ("If-None-Match", get.expect("etag"));
            assert_eq!(client.request("GET", target, &[coding, known]).status, 304);
        }
    }
}

#[test]
fn head_and_304_of_a_long_body_cost_no_more_than_others() {
    let catalogue = Catalogue::new();
    let server = Server::of(&catalogue.published, &["--memory", "16MiB"]);
    let etag = server.connect().get(FIRST_DAY).expect("etag").to_owned();
    for head in [
        format!("HEAD {FIRST_DAY} HTTP/1.1\r\nHost: a\r\n"),
        format!("GET {FIRST_DAY} HTTP/1.1\r\nHost: a\r\nIf-None-Match: {etag}\r\n"),
    ] {
        let requests = format!("{head}\r\n").repeat(99) + &head + "Connection: close\r\n\r\n";
        let before = server.anonymous_kib();
        let slowest = slowest(&server, "/v1/health", || {
            let received = pipeline(&server, &requests);
            let answers = memchr::memmem::find_iter(&received, b"HTTP/1.1 ").count();
            assert_eq!(answers, 100);
        });
        // Each took 30 ms when it inflated the body.
        assert!(slowest < PROMPT, "{slowest:?} beside {head}");
        let held = server.anonymous_kib().saturating_sub(before);
        assert!(held < 8 * KIB, "{held} KiB");
    }
}

#[test]
fn readers_of_long_bodies_use_little_memory_and_delay_no_other_client() {
    let catalogue = Catalogue::new();
    let server = Server::of(&catalogue.published, &["--memory", "64MiB"]);
    let before = server.anonymous_kib();
    for coding in ["identity", "gzip"] {
        let request =
            format!("GET {FIRST_DAY} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
        let slowest = slowest(&server, "/v1/health", || {
            let readers: Vec<_> = (0..25).map(|_| slow_reader(&server, &request)).collect();
            // Each reads something, so that all responses have begun.
            for mut reader in &readers {
                let mut some = [0; 1000];
                reader.read_exact(&mut some).unwrap();
                assert!(some.starts_with(b"HTTP/1.1 200 OK\r\n"));
            }
            let held = server.anonymous_kib().saturating_sub(before);
            assert!(held < 25 * KIB, "25 readers hold {held} KiB");
        });
        assert!(slowest < PROMPT, "{slowest:?}");
    }
    let get = format!("GET {FIRST_DAY} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let slowest = slowest(&server, "/v1/health", || {
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| assert!(pipeline(&server, &get).len() > 10 << 20));
            }
        });
    });
    assert!(slowest < PROMPT, "{slowest:?} beside six whole bodies");
}

#[test]
fn a_long_body_that_is_damaged_ends_short_and_is_logged() {
    let catalogue = Catalogue::new();
    let (server, admin) = monitored(&catalogue.published, &["--memory", "16MiB"]);
    let mut client = server.connect();
    let whole = client.get(FIRST_DAY);
    let gzip = client.get_coded(FIRST_DAY, true);
    let (at, bytes) = catalogue.stored(&gzip.body);
    let ends_short = |mut reader: TcpStream, mut received: Vec<u8>, whole: &[u8]| {
        let _reset_by_the_server = reader.read_to_end(&mut received);
        assert!(received.starts_with(b"HTTP/1.1 200 OK\r\n"));
        let head = memchr::memmem::find(&received, b"\r\n\r\n").unwrap() + 4;
        let body = received.split_off(head);
        assert!(body.len() < whole.len(), "{} bytes", body.len());
        body
    };
    catalogue.flip(at + bytes / 2);
    for (coding, whole) in [("identity", &whole.body), ("gzip", &gzip.body)] {
        let request =
            format!("GET {FIRST_DAY} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
        ends_short(slow_reader(&server, &request), Vec::new(), whole);
    }
    server.await_line("could not be sent");
    assert_eq!(client.get(CREATOR).status, 200, "others are served");
    catalogue.flip(at + bytes / 2);
    let again = client.get(FIRST_DAY);
    assert_eq!(again.status, 200, "it is read again");
    assert!(again.body == whole.body);
    // The gzip form may fit into the socket buffers.
    let request = format!("GET {FIRST_DAY} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut reader = slow_reader(&server, &request);
    let mut received = vec![0; 1000];
    reader.read_exact(&mut received).unwrap();
    // Far beyond what has been read.
    catalogue.flip(at + bytes - 1000);
    let body = ends_short(reader, received, &whole.body);
    catalogue.flip(at + bytes - 1000);
    assert!(whole.body.starts_with(&body), "what came was published");
    // In the log there is one line in ten seconds.
    assert!((failed_responses(admin) - 3.0).abs() < 0.1);
}

#[test]
fn damage_of_a_body_that_a_publish_has_replaced_is_logged_too() {
    let catalogue = Catalogue::new();
    // A publish takes longer than a client may stop on a loaded machine.
    let words = ["--memory", "16MiB", "--send-seconds", "60"];
    let server = Server::of(&catalogue.published, &words);
    let mut client = server.connect();
    let gzip = client.get_coded(FIRST_DAY, true);
    let (at, bytes) = catalogue.stored(&gzip.body);
    // A publish keeps the file of the one before, which the reader continues with.
    let request = format!("GET {FIRST_DAY} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut reader = slow_reader(&server, &request);
    let mut received = vec![0; 1000];
    reader.read_exact(&mut received).unwrap();
    catalogue.publish_again();
    server.await_line("serving the publish of 2026-11-21T00:20:00Z");
    thread::sleep(Duration::from_millis(600));
    catalogue.flip(at + bytes - 1000);
    let _reset_by_the_server = reader.read_to_end(&mut received);
    server.await_line("could not be sent");
    let whole = client.get(FIRST_DAY);
    assert_eq!(whole.status, 200, "the new one is whole");
    assert!(received.len() < whole.body.len(), "{}", received.len());
}

#[test]
fn one_address_does_not_take_all_download_slots() {
    let catalogue = Catalogue::new();
    let published = catalogue.published.to_str().unwrap();
    let mut args = vec!["--published", published, "--memory", "16MiB"];
    args.extend(["--workers", "1", "--connections", "256"]);
    let server = Server::start(&args);
    for target in [FIRST_DAY, "/dumps/islands.json"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let readers: Vec<_> = (0..40).map(|_| slow_reader(&server, &request)).collect();
        let statuses: Vec<String> = readers
            .iter()
            .map(|mut reader| {
                let mut status = [0; 12];
                reader.read_exact(&mut status).unwrap();
                String::from_utf8_lossy(&status[9..]).into_owned()
            })
            .collect();
        let count = |status: &str| statuses.iter().filter(|found| *found == status).count();
        assert!(count("503") > 0, "{target}: {statuses:?}");
        assert_eq!(count("200") + count("503"), 40, "{statuses:?}");
        let mut other = Client::connect_from("127.0.0.2", server.addr());
        for _ in 0..10 {
            assert_eq!(other.get(target).status, 200, "{target} of another address");
        }
        if target == FIRST_DAY {
            let left = server.connect().get("/v1/health").left() as usize;
            assert_eq!(left, 100 - count("200"), "503 costs nothing");
            let mut busy = server.connect();
            let reply = busy.get(target);
            assert_eq!((reply.status, reply.expect("retry-after")), (503, "60"));
            assert_eq!(reply.json()["error"]["code"], "not_ready");
        }
        drop(readers);
        // All permits are returned; threads may read for closed connections for a moment.
        wait_within(Duration::from_secs(10), target, || {
            let part = ("Range", "bytes=0-9");
            server.connect().request("HEAD", target, &[part]).status != 503
        });
    }
}
