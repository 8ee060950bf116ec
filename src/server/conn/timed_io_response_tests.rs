//! The responses of the scenes: each body and its lines are unique, so that none can be taken for
//! another.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::server::conn::context::ConnectionContext;
use crate::server::http::connection::is_last;

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

/// A body that comes whole, or in pieces, each of which is pending at first.
pub(in crate::server) struct Pieces {
    pub(in crate::server) left: Bytes,
    pub(in crate::server) piece: usize,
    pub(in crate::server) is_there: bool,
    /// How many bytes come before it fails.
    pub(in crate::server) sound: usize,
    /// How many pieces have been read from a disk, where the test decides that.
    pub(in crate::server) read: Option<Rc<Cell<usize>>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        if self.sound == 0 {
            return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        if let Some(read) = &self.read {
            match read.get().checked_sub(1) {
                Some(less) => read.set(less),
                None => return Poll::Pending,
            }
        } else if self.piece > 0 {
            self.is_there = !self.is_there;
            if self.is_there {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let most = if self.piece == 0 {
            usize::MAX
        } else {
            self.piece
        };
        let bytes = most.min(self.left.len()).min(self.sound);
        self.sound -= bytes;
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

/// Responds as a worker does, as the target demands.
pub(in crate::server) fn respond(
    request: &Request<Incoming>,
    context: &ConnectionContext,
) -> Response<Pieces> {
    let target = request.uri().to_string();
    let mut words = target
        .trim_matches(|c: char| c == '/' || c == ':')
        .split(['.', ':']);
    let mut figure = || words.next().unwrap().parse::<usize>().unwrap();
    let (number, status, size, piece) = (figure(), figure(), figure(), figure());
    let last = is_last(request);
    if last {
        context.pending.set_last();
    }
    let size = if status == 304 { 0 } else { size };
    let is_head = request.method() == "HEAD";
    let streamed_bytes = if piece > 0 && !is_head { size } else { 0 };
    let left: Bytes = body(number, size).into();
    let in_memory = (piece == 0 && !is_head).then_some(&left);
    context
        .pending
        .put(in_memory, streamed_bytes as u64, |text| {
            text.extend_from_slice(lines(number).as_bytes());
        });
    let mut response = Response::new(Pieces {
        left,
        piece,
        is_there: false,
        sound: usize::MAX,
        read: None,
    });
    *response.status_mut() = StatusCode::from_u16(status.try_into().unwrap()).unwrap();
    let stops = context.handle.is_stopping();
    if last || stops || words.next() == Some("close") {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}
