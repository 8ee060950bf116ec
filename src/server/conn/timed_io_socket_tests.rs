//! A socket whose other end, and whose network, is a test.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

/// Actions of the client and the network on one connection.
#[derive(Debug, Default)]
pub(in crate::server) struct Wire {
    /// The client's bytes, of which `given` were read.
    pub(in crate::server) sent: Vec<u8>,
    pub(in crate::server) given: usize,
    /// How many bytes the next reads give at most, 0 for none yet; all once these are used up.
    pub(in crate::server) reads: Vec<usize>,
    /// Whether the client ends its side when all is sent.
    pub(in crate::server) ends: bool,
    /// Bytes that the client received.
    pub(in crate::server) received: Vec<u8>,
    /// How many bytes the next writes take at most, 0 for none yet; all once these are used up.
    pub(in crate::server) writes: Vec<usize>,
    /// Whether a write takes of one part only.
    pub(in crate::server) one_part: bool,
    /// Writes until the socket fails for good.
    pub(in crate::server) writes_left: usize,
    /// Whether the last write took nothing.
    pub(in crate::server) blocked: bool,
    pub(in crate::server) state: Side,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::server) enum Side {
    #[default]
    Open,
    Shut,
    Failed,
}

#[derive(Clone)]
pub(in crate::server) struct Socket(pub(super) Rc<RefCell<Wire>>);

/// The limit of the next call. `None` once, with a wake-up, where it would be 0.
fn next_limit(limits: &mut Vec<usize>, cx: &Context<'_>) -> Option<usize> {
    let limit = limits.pop().unwrap_or(usize::MAX);
    if limit == 0 {
        cx.waker().wake_by_ref();
    }
    (limit > 0).then_some(limit)
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &mut *self.0.borrow_mut();
        assert!(
            !wire.blocked,
            "a client that takes no responses is read from"
        );
        let left = &wire.sent[wire.given..];
        if left.is_empty() {
            return if wire.ends {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        let Some(limit) = next_limit(&mut wire.reads, cx) else {
            return Poll::Pending;
        };
        let count = left.len().min(buffer.remaining()).min(limit);
        buffer.put_slice(&left[..count]);
        wire.given += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self.0.borrow_mut();
        assert_ne!(wire.state, Side::Shut, "a write after the end");
        if wire.writes_left == 0 {
            wire.state = Side::Failed;
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        wire.writes_left -= 1;
        let limit = next_limit(&mut wire.writes, cx);
        wire.blocked = limit.is_none();
        let Some(limit) = limit else {
            return Poll::Pending;
        };
        let mut count = 0;
        for part in &parts[..if wire.one_part { 1 } else { parts.len() }] {
            let taken = part.len().min(limit - count);
            wire.received.extend_from_slice(&part[..taken]);
            count += taken;
        }
        assert!(count > 0, "a write of nothing");
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().state = Side::Shut;
        Poll::Ready(Ok(()))
    }
}
