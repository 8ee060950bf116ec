//! `SendBuffer`: the bytes that hyper has written and the socket has not taken yet, and the
//! worker's pool of such buffers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use hyper::rt::Write;

use crate::sync::{Mutex, lock};

/// Buffers kept in a pool. A worker mostly uses one at a time.
const POOLED_MAX: usize = 64;
/// Buffers that have grown to this capacity are freed.
const GROWN_BYTES: usize = 64 * 1024;

/// A worker's buffers. A connection has one only while something is buffered, so thousands of idle
/// connections have none, and busy ones share one that is in the CPU's cache.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Mutex<Vec<Vec<u8>>>);

impl BufferPool {
    /// An empty buffer; a new one has a capacity of `bytes`.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let pooled = lock(&self.0).pop();
        pooled.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    pub(crate) fn put(&self, mut buffer: Vec<u8>) {
        let mut pooled = lock(&self.0);
        if pooled.len() < POOLED_MAX && buffer.capacity() < GROWN_BYTES {
            buffer.clear();
            pooled.push(buffer);
        }
    }
}

/// Buffered bytes, and behind them the rest of a connection's last body. Has no capacity while it
/// is empty.
#[derive(Debug, Default)]
pub(in crate::server) struct SendBuffer {
    bytes: Vec<u8>,
    /// How many of `bytes` the socket has taken.
    taken: usize,
    rest: Bytes,
}

impl SendBuffer {
    /// Takes a buffer from the pool, if it has none.
    pub(in crate::server) fn reserve(&mut self, pool: &BufferPool, bytes: usize) {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.take(bytes);
        }
    }

    pub(in crate::server) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends the rest of the last body.
    pub(in crate::server) fn set_rest(&mut self, rest: Bytes) {
        self.rest = rest;
    }

    /// Bytes that are buffered, taken or not.
    pub(in crate::server) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the socket has taken all.
    pub(in crate::server) fn is_taken(&self) -> bool {
        self.taken == self.bytes.len() && self.rest.is_empty()
    }

    /// Returns the buffer to the pool when the socket has taken all.
    pub(in crate::server) fn release(&mut self, pool: &BufferPool) {
        self.taken = 0;
        pool.put(std::mem::take(&mut self.bytes));
    }

    /// The length of the next write, with `body` behind the buffered bytes.
    pub(in crate::server) fn write_bytes(&self, body: &[u8]) -> usize {
        self.bytes.len() - self.taken + body.len().max(self.rest.len())
    }

    /// Writes once what is buffered, and the rest or `body` behind it. Returns how many bytes the
    /// socket has taken, and how many of them are of `body`.
    pub(in crate::server) fn poll_write<S: Write + Unpin>(
        &mut self,
        socket: &mut S,
        cx: &mut Context<'_>,
        body: &[u8],
    ) -> Poll<io::Result<(usize, usize)>> {
        let socket = Pin::new(socket);
        let buffered = &self.bytes[self.taken..];
        let buffered_bytes = buffered.len();
        let behind = if self.rest.is_empty() {
            body
        } else {
            &self.rest
        };
        let written = if buffered.is_empty() {
            socket.poll_write(cx, behind)
        } else if behind.is_empty() {
            socket.poll_write(cx, buffered)
        } else {
            socket.poll_write_vectored(cx, &[IoSlice::new(buffered), IoSlice::new(behind)])
        };
        let bytes = ready!(written)?;
        self.taken += bytes.min(buffered_bytes);
        let of_behind = bytes.saturating_sub(buffered_bytes);
        if self.rest.is_empty() {
            return Poll::Ready(Ok((bytes, of_behind)));
        }
        self.rest.advance(of_behind);
        Poll::Ready(Ok((bytes, 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_keeps_few_buffers_and_none_that_grew_much() {
        let pool = BufferPool::default();
        pool.put(Vec::with_capacity(64 * 1024));
        assert!(lock(&pool.0).is_empty());
        for _ in 0..2 * POOLED_MAX {
            pool.put(b"left by another".to_vec());
        }
        assert_eq!(lock(&pool.0).len(), POOLED_MAX);
        for _ in 0..POOLED_MAX {
            assert_eq!(pool.take(1000), b"");
        }
        assert!(pool.take(1000).capacity() >= 1000, "a new one");
    }
}
