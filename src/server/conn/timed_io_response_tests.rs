//! The responses of the scenes: each body and its lines are unique, so that none can be taken for
//! another.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::server::conn::context::{BodyStream, ConnectionContext, ResponseBody};
use crate::server::conn::send_buffer::take_buffer;
use crate::server::worker::is_last;
use crate::sync::{AtomicU64, Ordering};

/// A body that no other response has. Some look like a response.
pub(in crate::server) fn body(number: usize, size: usize) -> Vec<u8> {
    let text = if number.is_multiple_of(3) {
        format!("HTTP/1.1 200 OK\r\nx-number: {number}\r\n\r\n")
    } else {
        format!("{number}, ")
    };
    text.bytes().cycle().take(size).collect()
}

pub(in crate::server) fn lines(number: usize) -> String {
    format!(
        "x-number: {number}\r\nx-more: {}\r\n",
        "m".repeat(number * 37 % 300)
    )
}

pub(in crate::server) fn refusal(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} Refused\r\ncontent-length: 7\r\n\r\nrefused").into_bytes()
}

/// How bodies in pieces come.
#[derive(Clone, Debug)]
pub(in crate::server) struct Disk {
    /// How many bytes come before it fails.
    pub(in crate::server) sound: usize,
    /// How many pieces have been read, where the test decides that.
    pub(in crate::server) read: Option<Arc<AtomicU64>>,
}

impl Disk {
    pub(in crate::server) const SOUND: Disk = Disk {
        sound: usize::MAX,
        read: None,
    };
}

/// A body that comes in pieces, each of which is pending at first.
#[derive(Clone)]
struct Pieces {
    left: Bytes,
    piece: usize,
    is_there: bool,
    disk: Disk,
}

impl Pieces {
    fn body(self) -> Option<BodyStream> {
        let left = self.left.len() as u64;
        (left > 0).then(|| BodyStream {
            left,
            next: Box::pin(self),
        })
    }
}

impl Future for Pieces {
    type Output = io::Result<(Bytes, Option<BodyStream>)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.disk.sound == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        if let Some(read) = &self.disk.read {
            match read.load(Ordering::Relaxed).checked_sub(1) {
                Some(less) => read.store(less, Ordering::Relaxed),
                None => return Poll::Pending,
            }
        } else {
            self.is_there = !self.is_there;
            if self.is_there {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let bytes = self.piece.min(self.left.len()).min(self.disk.sound);
        self.disk.sound -= bytes;
        let piece = self.left.split_to(bytes);
        Poll::Ready(Ok((piece, self.clone().body())))
    }
}

/// Responds as a worker does, as the target demands.
pub(in crate::server) fn respond(
    request: &Request<Incoming>,
    context: &ConnectionContext,
    disk: Disk,
) -> Response<Empty<Bytes>> {
    let target = request.uri().to_string();
    let mut words = target
        .trim_matches(|c: char| c == '/' || c == ':')
        .split(['.', ':']);
    let mut figure = || words.next().unwrap().parse::<usize>().unwrap();
    let (number, status, size, piece) = (figure(), figure(), figure(), figure());
    let last = is_last(request);
    let is_head = request.method() == "HEAD";
    let left: Bytes = body(number, if status == 304 { 0 } else { size }).into();
    let length = if status == 304 || (is_head && size == 0) {
        String::new()
    } else {
        format!("content-length: {size}\r\n")
    };
    let body = if is_head {
        ResponseBody::Omitted(Some(left.len() as u64))
    } else if piece == 0 {
        ResponseBody::Whole(left)
    } else {
        let pieces = Pieces {
            left,
            piece,
            is_there: false,
            disk,
        };
        let empty = ResponseBody::Whole(Bytes::new());
        pieces.body().map_or(empty, ResponseBody::Stream)
    };
    let mut buffer = take_buffer();
    buffer.extend_from_slice(lines(number).as_bytes());
    buffer.extend_from_slice(length.as_bytes());
    let line = context.registry.access_log.is_some();
    let line = line.then(|| (target.clone(), Instant::now()));
    context.put_response((buffer, body, line));
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::from_u16(status.try_into().unwrap()).unwrap();
    let stops = context.registry.is_stopping();
    if last || stops || words.next() == Some("close") {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}
