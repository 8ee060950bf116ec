//! `SendBuffer`: the responses of a connection that the socket has not taken yet, and the worker's
//! pool of such buffers.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use hyper::rt::Write;

pub(in crate::server) const GATHERED_BYTES_MAX: usize = 16 * 1024;
/// Bodies from this length on are not copied: that would cost more than a write of two parts.
const UNCOPIED_BYTES_MIN: usize = 8 * 1024;
/// Buffers kept in a pool. A worker mostly uses two at a time: header lines, and what is sent.
const POOLED_MAX: usize = 64;
/// Buffers that have grown to this capacity are freed.
const GROWN_BYTES: usize = 64 * 1024;

thread_local! {
    /// The buffers of this thread's worker. A connection has one only while something is buffered, so
    /// thousands of idle connections have none, and busy ones share one that is in the CPU's cache.
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn take_buffer() -> Vec<u8> {
    let pooled = POOL.with_borrow_mut(Vec::pop);
    pooled.unwrap_or_else(|| Vec::with_capacity(GATHERED_BYTES_MAX))
}

pub(crate) fn put_buffer(mut buffer: Vec<u8>) {
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOLED_MAX && buffer.capacity() < GROWN_BYTES {
            buffer.clear();
            pool.push(buffer);
        }
    });
}

#[cfg(test)]
pub(crate) fn pooled_buffers() -> usize {
    POOL.with_borrow(Vec::len)
}

/// Buffered bytes, and behind them a body that is not copied. Has no capacity while it is empty.
#[derive(Debug, Default)]
pub(in crate::server) struct SendBuffer {
    bytes: Vec<u8>,
    /// How many of `bytes` the socket has taken.
    taken: usize,
    body: Bytes,
}

impl SendBuffer {
    /// Takes a buffer from the pool, if it has none.
    pub(in crate::server) fn reserve(&mut self) {
        if self.bytes.capacity() == 0 {
            self.bytes = take_buffer();
        }
    }

    pub(in crate::server) fn extend(&mut self, bytes: &[u8]) {
        debug_assert!(self.body.is_empty(), "it is the last");
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a body, or a piece of one. Nothing may be appended before the socket has taken a
    /// long one.
    pub(in crate::server) fn put_body(&mut self, body: Bytes) {
        debug_assert!(self.body.is_empty(), "it is the last");
        if body.len() < UNCOPIED_BYTES_MIN && self.bytes.capacity() > 0 {
            self.extend(&body);
        } else {
            self.body = body;
        }
    }

    /// Whether so much is buffered that it is to be written before more is appended.
    pub(in crate::server) fn is_full(&self) -> bool {
        self.bytes.len() >= GATHERED_BYTES_MAX || !self.body.is_empty()
    }

    pub(in crate::server) fn is_taken(&self) -> bool {
        self.taken == self.bytes.len() && self.body.is_empty()
    }

    /// Returns the buffer to the pool. To be called when the socket has taken all.
    pub(in crate::server) fn release(&mut self) {
        debug_assert!(self.is_taken());
        if self.bytes.capacity() > 0 {
            self.taken = 0;
            put_buffer(std::mem::take(&mut self.bytes));
        }
    }

    pub(in crate::server) fn write_bytes(&self) -> usize {
        self.bytes.len() - self.taken + self.body.len()
    }

    /// Writes once. Returns how many bytes the socket has taken.
    pub(in crate::server) fn poll_write<S: Write + Unpin>(
        &mut self,
        socket: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let socket = Pin::new(socket);
        let buffered = &self.bytes[self.taken..];
        let buffered_bytes = buffered.len();
        let written = if self.body.is_empty() {
            socket.poll_write(cx, buffered)
        } else if buffered.is_empty() {
            socket.poll_write(cx, &self.body)
        } else {
            let parts = [IoSlice::new(buffered), IoSlice::new(&self.body)];
            socket.poll_write_vectored(cx, &parts)
        };
        let bytes = ready!(written)?;
        self.taken += bytes.min(buffered_bytes);
        self.body.advance(bytes.saturating_sub(buffered_bytes));
        if self.body.is_empty() {
            // An empty rest would keep the memory of the whole body, and the permit of a download.
            self.body = Bytes::new();
        }
        Poll::Ready(Ok(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_pool_keeps_few_buffers_and_none_that_grew_much() {
        put_buffer(Vec::with_capacity(GROWN_BYTES));
        assert_eq!(pooled_buffers(), 0);
        for _ in 0..2 * POOLED_MAX {
            put_buffer(b"left by another".to_vec());
        }
        assert_eq!(pooled_buffers(), POOLED_MAX);
        for _ in 0..POOLED_MAX {
            assert_eq!(take_buffer(), b"");
        }
        assert!(take_buffer().capacity() >= GATHERED_BYTES_MAX, "a new one");
    }

    #[test]
    fn a_body_that_the_socket_has_taken_is_freed_at_once() {
        struct Owner {
            _count: Arc<()>,
        }
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &[b'x'; 2 * UNCOPIED_BYTES_MIN]
            }
        }
        /// Takes at most so many bytes of each write.
        struct Taker(usize);
        impl Write for Taker {
            fn poll_write(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(Ok(bytes.len().min(self.0)))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for most in [100, 5_000, usize::MAX] {
            let owner = Arc::new(());
            let mut buffer = SendBuffer::default();
            buffer.reserve();
            buffer.extend(b"head");
            buffer.put_body(Bytes::from_owner(Owner {
                _count: Arc::clone(&owner),
            }));
            assert!(buffer.is_full());
            while !buffer.is_taken() {
                assert_eq!(Arc::strong_count(&owner), 2);
                assert!(buffer.poll_write(&mut Taker(most), &mut cx).is_ready());
            }
            assert_eq!(Arc::strong_count(&owner), 1);
        }
    }
}
