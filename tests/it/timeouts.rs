//! Timeouts of clients that read nothing, and none for slow ones. Minutes each, so these run with
//! `IM_TEST_SLOW=1`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::http::uninterrupted;
use crate::processes::Stopwatch;
use crate::support::{Server, is_slow};

const GET: &[u8] = b"GET /v1/islands?limit=200 HTTP/1.1\r\nhost: x.test\r\n\r\n";

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.addr()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    stream
}

/// Number of responses in `bytes`, by their lengths; panics at anything else.
fn answers(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while !bytes.is_empty() {
        assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"));
        let end = memchr::memmem::find(bytes, b"\r\n\r\n").unwrap() + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let (_, length) = head.split_once("content-length: ").unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        bytes = &bytes[end + length..];
        count += 1;
    }
    count
}

/// A client with a large window has up to a minute for what its own system took.
#[test]
fn a_client_that_reads_nothing_of_a_response_is_disconnected() {
    if !is_slow() {
        return;
    }
    let server = Server::start(&["--send-seconds", "2", "--limit-anonymous", "65535"]);
    let mut stream = connect(&server);
    stream
        .set_write_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    // It writes until the buffers of both sides are full, and reads nothing.
    while stream.write_all(&GET.repeat(100)).is_ok() {}
    let begun = Stopwatch::start();
    let is_open = || stream.peer_addr().is_ok() && stream.take_error().unwrap().is_none();
    while is_open() && begun.elapsed() < Duration::from_secs(150) {
        sleep(Duration::from_millis(100));
    }
    let held = socket2::SockRef::from(&stream).send_buffer_size().unwrap();
    let took = begun.running();
    assert!(
        took < Duration::from_secs(100),
        "{took:?}, {held} bytes held"
    );
}

/// Regression: a system that buffers megabytes for a slow client accepts nothing from the server
/// for minutes, which the server treated as an idle client.
#[test]
fn a_slow_reader_gets_the_whole_response() {
    const REQUESTS: usize = 300;
    if !is_slow() {
        return;
    }
    let server = Server::start(&["--limit-anonymous", "65535"]);
    let mut stream = connect(&server);
    let mut asking = stream.try_clone().unwrap();
    let mut received = Vec::new();
    scope(|scope| {
        scope.spawn(move || asking.write_all(&GET.repeat(REQUESTS)).unwrap());
        let mut chunk = [0; 5000];
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(40) {
            stream.read_exact(&mut chunk).unwrap();
            received.extend_from_slice(&chunk);
            sleep(Duration::from_millis(250));
        }
        let mut quick = vec![0; 1 << 20];
        while answers_begun(&received) < REQUESTS || !received.ends_with(b"}}") {
            let count = uninterrupted(|| stream.read(&mut quick)).unwrap();
            assert!(count > 0, "cut after {} bytes", received.len());
            received.extend_from_slice(&quick[..count]);
        }
    });
    assert_eq!(answers(&received), REQUESTS);
}

fn answers_begun(bytes: &[u8]) -> usize {
    memchr::memmem::find_iter(bytes, b"HTTP/1.1 200 OK\r\n").count()
}
