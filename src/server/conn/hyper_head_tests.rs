//! The assumptions about hyper, tested against hyper alone.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};

use super::*;

/// A client whose bytes are there already, and the calls by which hyper writes its responses.
#[derive(Debug)]
struct Recorder {
    sent: &'static [u8],
    calls: Vec<Vec<u8>>,
    is_blocked: Rc<Cell<bool>>,
}

impl Recorder {
    fn new(sent: &'static str) -> Recorder {
        Recorder {
            sent: sent.as_bytes(),
            calls: Vec::new(),
            is_blocked: Rc::default(),
        }
    }
}

impl Read for Recorder {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let sent = std::mem::take(&mut self.sent);
        buffer.put_slice(sent);
        Poll::Ready(Ok(()))
    }
}

impl Write for Recorder {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.calls.push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_blocked.get() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The calls by which hyper responds to what a client sends.
fn calls(sent: &'static str, status: u16, closes: bool) -> Vec<Vec<u8>> {
    let service = service_fn(move |_: Request<Incoming>| {
        let mut response = Response::new(Empty::<Bytes>::new());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if closes {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        ready(Ok::<_, Infallible>(response))
    });
    let io = Recorder::new(sent);
    let mut connection = pin!(
        http1::Builder::new()
            .header_read_timeout(None)
            .half_close(true)
            .serve_connection(io, service)
            .without_shutdown()
    );
    let mut context = Context::from_waker(Waker::noop());
    match connection.as_mut().poll(&mut context) {
        Poll::Ready(Ok(parts)) => parts.io.calls,
        other => panic!("the connection does not end: {other:?}"),
    }
}

#[test]
fn hyper_writes_a_whole_head_of_the_expected_form_with_each_call() {
    let mut shapes = std::collections::BTreeSet::new();
    for request in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "HEAD / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        "OPTIONS / HTTP/1.1\r\nhost: a\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        for status in [200, 204, 206, 304, 400, 404, 416, 429, 500, 503] {
            for closes in [false, true] {
                let calls = calls(request, status, closes);
                let requests = request.matches(" HTTP/1").count();
                assert_eq!(
                    calls.len(),
                    if closes { 1 } else { requests },
                    "{request:?}"
                );
                for call in calls {
                    let text = String::from_utf8_lossy(&call).into_owned();
                    let head = HyperHead::parse(&call);
                    let head = head.unwrap_or_else(|| panic!("{request:?} {status}: {text:?}"));
                    assert!(head.status_line.ends_with(b"\r\n"), "{text:?}");
                    assert_eq!(super::status(&call), status);
                    shapes.insert((head.connection.to_vec(), text.contains("content-length")));
                }
            }
        }
    }
    assert!(shapes.len() > 3, "{shapes:?}");
}

#[test]
fn hyper_responds_to_an_unreadable_head_with_a_status_and_ends() {
    for (request, want) in [
        (
            "GET / HTTP/1.1\r\nbroken\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            400,
        ),
        ("GET /\u{1} HTTP/1.1\r\n\r\n", 400),
    ] {
        let service = service_fn(|_: Request<Incoming>| {
            ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        });
        let io = Recorder::new(request);
        let mut connection = http1::Builder::new()
            .header_read_timeout(None)
            .serve_connection(io, service);
        let mut context = Context::from_waker(Waker::noop());
        let ended = Pin::new(&mut connection).poll(&mut context);
        assert!(matches!(ended, Poll::Ready(Err(_))), "{request:?}");
        let calls = connection.into_parts().io.calls;
        assert_eq!(calls.len(), 1, "{request:?}");
        assert_eq!(status(&calls[0]), want);
    }
}

#[test]
fn hyper_handles_no_further_request_before_a_flush_is_ready() {
    let handled = Cell::new(0);
    let service = service_fn(|_: Request<Incoming>| {
        handled.set(handled.get() + 1);
        ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
    });
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let io = Recorder::new(request);
    let is_blocked = Rc::clone(&io.is_blocked);
    let mut connection = http1::Builder::new()
        .header_read_timeout(None)
        .half_close(true)
        .serve_connection(io, service);
    let mut context = Context::from_waker(Waker::noop());
    for (is_pending, count) in [(true, 1), (true, 1), (false, 2)] {
        is_blocked.set(is_pending);
        let polled = Pin::new(&mut connection).poll(&mut context);
        assert_eq!((polled.is_pending(), handled.get()), (is_pending, count));
    }
    assert_eq!(connection.into_parts().io.calls.len(), 2);
}

#[test]
fn heads_of_another_form_are_found() {
    const DATE: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
    let parses = |lines: &str| {
        let head = format!("HTTP/1.1 200 OK\r\n{lines}");
        HyperHead::parse(head.as_bytes()).is_some()
    };
    for lines in ["", "content-length: 0\r\n", "connection: close\r\n"] {
        assert!(parses(&format!("{lines}{DATE}")), "{lines:?}");
    }
    assert!(parses(&format!(
        "connection: close\r\ncontent-length: 0\r\n{DATE}"
    )));
    for lines in [
        format!("content-length: 5\r\n{DATE}"),
        format!("content-length: 0\r\nconnection: close\r\n{DATE}"),
        format!("content-length: 0\r\ncontent-length: 0\r\n{DATE}"),
        format!("transfer-encoding: chunked\r\n{DATE}"),
        format!("connection: close\r\nserver: x\r\n{DATE}"),
        format!("{DATE}x"),
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(),
        "content-length: 0\r\n\r\n".to_owned(),
        String::new(),
    ] {
        assert!(!parses(&lines), "{lines:?}");
    }
    assert_eq!(HyperHead::parse(b"HTTP/1.1 200 OK"), None);
}
