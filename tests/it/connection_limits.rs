//! Limits of connections: number, idle time, age.

use std::io::ErrorKind;
use std::thread::{scope, sleep};

use crate::http::read_head;
use crate::long_bodies::slow_reader_from;
use crate::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const GET: &[u8] = b"GET /v1/islands?limit=200 HTTP/1.1\r\nhost: x.test\r\n\r\n";

/// Reads to the end of the connection; returns all bytes before.
fn ended(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    if let Err(error) = stream.read_to_end(&mut all) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    all
}

/// Asserts that a timeout was met, with the second in which the server notices it.
#[track_caller]
fn took(limit: Duration, begun: &Stopwatch) {
    let late = 4 * SECOND; // for a loaded machine
    let took = begun.elapsed();
    assert!(
        limit <= took && begun.running() < limit + late,
        "{took:?} for {limit:?}"
    );
}

#[test]
fn each_kind_of_silence_has_its_limit() {
    let server = Server::start(&words(
        "--first-byte-seconds 1 --head-seconds 3 --idle-seconds 6",
    ));
    let server = &server;
    scope(|scope| {
        scope.spawn(|| {
            let begun = Stopwatch::start();
            ended(&mut socket(server.addr()));
            took(SECOND, &begun);
        });
        scope.spawn(|| {
            let begun = Stopwatch::start();
            let mut stream = socket(server.addr());
            // Single bytes do not prolong it.
            while stream.write_all(b"G").is_ok() && begun.elapsed() < 20 * SECOND {
                sleep(SECOND / 4);
            }
            took(3 * SECOND, &begun);
        });
        scope.spawn(|| {
            // Nor does a response to an earlier head.
            let mut stream = socket(server.addr());
            stream.write_all(GET).unwrap();
            sleep(2 * SECOND);
            let begun = Stopwatch::start();
            stream.write_all(b"GET").unwrap();
            ended(&mut stream);
            took(3 * SECOND, &begun);
        });
        scope.spawn(|| {
            let mut stream = socket(server.addr());
            let begun = Stopwatch::start();
            stream.write_all(GET).unwrap();
            ended(&mut stream);
            took(6 * SECOND, &begun);
        });
    });
}

#[test]
fn a_connection_is_closed_after_its_maximum_number_of_requests() {
    let server = Server::start(&["--connection-requests", "3"]);
    let mut stream = socket(server.addr());
    // Five together: the last two are for another connection.
    stream.write_all(&GET.repeat(5)).unwrap();
    let all = ended(&mut stream);
    let heads = memchr::memmem::find_iter(&all, b"HTTP/1.1 200 OK\r\n").count();
    let closes: Vec<usize> =
        memchr::memmem::find_iter(&all, b"\r\nconnection: close\r\n").collect();
    assert_eq!((heads, closes.len()), (3, 1));
    assert!(all.ends_with(b"}}"));
}

#[test]
fn a_connection_over_its_maximum_age_is_closed_after_its_next_response() {
    let server = Server::start(&["--connection-seconds", "1"]);
    let mut client = server.connect();
    assert_eq!(client.get("/v1").header("connection"), None);
    sleep(SECOND + SECOND / 2);
    assert_eq!(client.get("/v1").header("connection"), Some("close"));
}

#[test]
fn an_address_has_no_more_connections_than_it_may_and_others_have_theirs() {
    let server = Server::start(&words(
        "--connections-per-address 3 --trusted-proxy 127.0.0.9",
    ));
    let mut held: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut held {
        assert_eq!(client.get("/v1").status, 200);
    }
    let begun = Stopwatch::start();
    assert_eq!(ended(&mut socket(server.addr())), b"");
    // Not after the ten seconds for the first byte.
    assert!(begun.running() < 5 * SECOND);
    for other in ["127.0.0.2", "127.0.0.9"] {
        // The last is a trusted proxy of many clients.
        let wanted = if other == "127.0.0.9" { 9 } else { 3 };
        let mut all: Vec<Client> = (0..wanted)
            .map(|_| Client::connect_from(other, server.addr()))
            .collect();
        for client in &mut all {
            assert_eq!(client.get("/v1").status, 200, "{other}");
        }
    }
    held.pop();
    // The permit is free when the server has noticed the end.
    wait_for("a permit", || {
        let mut stream = socket(server.addr());
        let request = b"GET /v1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).is_ok() && ended(&mut stream).starts_with(b"HTTP/1.1 200 ")
    });
}

#[test]
fn at_the_limit_the_connection_that_was_silent_for_longest_is_closed() {
    let server = Server::start(&["--connections", "16", "--trusted-proxy", "127.0.0.1"]);
    let mut held: Vec<TcpStream> = (0..16).map(|_| socket(server.addr())).collect();
    for stream in &mut held[1..] {
        stream.write_all(GET).unwrap();
        sleep(SECOND / 20);
    }
    sleep(SECOND / 4);
    let begun = Stopwatch::start();
    assert_eq!(server.connect().get("/v1").status, 200);
    let second = server.connect();
    assert!(begun.running() < 2 * SECOND);
    assert_eq!(ended(&mut held[0]), b"", "no request was sent");
    drop(second);
}

/// Also if the limit of all connections is below that of one address.
#[test]
fn an_address_has_no_more_than_half_of_all_connections() {
    let server = Server::start(&["--connections", "16"]);
    let mut held: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for client in &mut held {
        assert_eq!(client.get("/v1").status, 200);
    }
    assert_eq!(ended(&mut socket(server.addr())), b"");
    let mut other = Client::connect_from("127.0.0.2", server.addr());
    assert_eq!(other.get("/v1").status, 200);
}

/// The clients read enough of their responses that no connection is slow.
#[test]
fn a_few_addresses_leave_connections_for_others() {
    for (addresses, of_each) in [(1, 70), (3, 30), (7, 16)] {
        let server = Server::start(&["--connections", "64", "--limit-anonymous", "65535"]);
        let held: Vec<TcpStream> = (0..addresses * of_each)
            .map(|at| format!("127.0.0.{}", 100 + at % addresses))
            .map(|from| slow_reader_from(&from, &server, GET.repeat(60).as_slice()))
            .collect();
        let begun = Stopwatch::start();
        for at in 0..20 {
            let mut other = Client::connect_from(&format!("127.0.0.{}", 2 + at % 2), server.addr());
            assert_eq!(other.get("/v1").status, 200);
        }
        let took = begun.running();
        assert!(took < 3 * SECOND, "{took:?} beside {addresses} addresses");
        drop(held);
    }
}

/// Returns `true` if the server has not closed the connection. Its unread bytes do not matter.
fn is_open(stream: &TcpStream) -> bool {
    stream.peer_addr().is_ok() && stream.take_error().unwrap().is_none()
}

/// Reads for as long as the connection is open, at most so long.
fn read_at(bytes_per_second: usize, stream: &mut TcpStream, most: Duration) -> Duration {
    let begun = Stopwatch::start();
    let mut chunk = vec![0; bytes_per_second / 5];
    while is_open(stream) && begun.elapsed() < most {
        stream.read_exact(&mut chunk).unwrap();
        sleep(SECOND / 5);
    }
    begun.elapsed()
}

#[test]
fn a_client_that_reads_less_than_the_minimum_rate_is_disconnected() {
    let server = Server::start(&["--send-seconds", "8", "--limit-anonymous", "65535"]);
    scope(|scope| {
        for rate in [0, 15, 120, 5_000, 20_000] {
            let server = &server;
            scope.spawn(move || {
                let request = GET.repeat(100);
                let mut stream = slow_reader_from("127.0.0.1", server, &request);
                let most = 16 * SECOND;
                let took = read_at(rate, &mut stream, most);
                assert_eq!(took < most, rate < 1_024, "{rate} bytes a second: {took:?}");
            });
        }
    });
}

/// Regression: a system that buffers megabytes for a slow client accepts nothing from the server for minutes, which
/// the server treated as an idle client.
#[test]
fn a_slow_reader_gets_every_response_whole() {
    const REQUESTS: usize = 300;
    if !is_slow() {
        return;
    }
    let server = Server::start(&["--limit-anonymous", "65535"]);
    let whole = server.connect().get("/v1/islands?limit=200").body;
    let mut stream = socket(server.addr());
    let mut asking = stream.try_clone().unwrap();
    scope(|scope| {
        scope.spawn(move || asking.write_all(&GET.repeat(REQUESTS)).unwrap());
        let (begun, mut received) = (Instant::now(), Vec::new());
        while begun.elapsed() < 40 * SECOND {
            let mut chunk = [0; 5_000];
            stream.read_exact(&mut chunk).unwrap();
            received.extend(chunk);
            sleep(SECOND / 4);
        }
        let mut all = BufReader::new(received.chain(&stream));
        for _ in 0..REQUESTS {
            let reply = read_head(&mut all, "HTTP/1.1 200 OK").unwrap();
            let mut body = vec![0; reply.number("content-length") as usize];
            all.read_exact(&mut body).unwrap();
            assert!(body == whole, "{} bytes", body.len());
        }
    });
}

/// A client still sending when its response arrives must be able to read it.
#[test]
fn a_client_that_sends_a_body_gets_the_response_and_no_reset() {
    let server = Server::start(&[]);
    for length in [10, 70_000, 500_000] {
        for _ in 0..20 {
            let mut stream = socket(server.addr());
            let head =
                format!("POST /v1 HTTP/1.1\r\nhost: x.test\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let body = vec![b'x'; length];
            for piece in body.chunks(16 * 1024) {
                stream.write_all(piece).unwrap();
            }
            // Reads only now.
            sleep(SECOND / 100);
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
            assert!(answer.ends_with("}}"));
        }
    }
}

/// Regression: the client's next request reached a closed socket, whose reset discarded the unread
/// part of the response before.
#[test]
fn a_client_that_sends_more_after_its_last_response_can_read_it_slowly() {
    let server = Server::start(&["--connection-requests", "2"]);
    for (lines, times) in [("", 3), ("connection: close\r\n", 2)] {
        let mut stream = socket(server.addr());
        let request = format!("GET /v1/islands?limit=200 HTTP/1.1\r\nhost: x.test\r\n{lines}\r\n");
        for _ in 0..times {
            stream.write_all(request.as_bytes()).unwrap();
            sleep(SECOND / 10);
        }
        // Longer than a lingering close takes.
        sleep(2 * SECOND);
        stream.write_all(request.as_bytes()).unwrap();
        sleep(SECOND / 2);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.ends_with(b"}}"), "{} bytes", all.len());
    }
}

#[test]
fn a_body_without_end_is_not_read_for_long() {
    let server = Server::start(&[]);
    let mut stream = socket(server.addr());
    let head = "POST /v1 HTTP/1.1\r\nhost: x.test\r\ncontent-length: 99999999999\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let begun = Stopwatch::start();
    let mut sent = 0;
    let piece = vec![b'x'; 65536];
    while stream.write_all(&piece).is_ok() {
        sent += piece.len();
        assert!(begun.running() < 10 * SECOND, "{sent} bytes accepted");
    }
    // The systems of both sides buffer some megabytes.
    assert!(sent < 32 << 20, "{sent}");
    let mut slow = socket(server.addr());
    let begun = Stopwatch::start();
    slow.write_all(head.as_bytes()).unwrap();
    while slow.write_all(b"x").is_ok() {
        assert!(begun.running() < 10 * SECOND);
        sleep(SECOND / 10);
    }
    took(SECOND, &begun);
}
