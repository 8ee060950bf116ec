//! `SendBuffer`: the bytes that hyper has written and the socket has not taken yet.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use hyper::rt::Write;

use crate::server::conn::buffers::Buffers;

/// Gathered bytes, and behind them the rest of a connection's last body. Without capacity while there is
/// nothing, so that an idle connection holds no buffer.
#[derive(Debug, Default)]
pub(in crate::server) struct SendBuffer {
    gathered: Vec<u8>,
    taken: usize,
    rest: Bytes,
}

/// What one write has taken.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Taken {
    /// All of it.
    pub(in crate::server) bytes: usize,
    /// The part that was of the body behind the buffer.
    pub(in crate::server) of_body: usize,
}

impl SendBuffer {
    /// Takes a buffer of the worker's, if it has none.
    pub(in crate::server) fn reserve(&mut self, buffers: &Buffers, bytes: usize) {
        if self.gathered.capacity() == 0 {
            self.gathered = buffers.take(bytes);
        }
    }

    pub(in crate::server) fn extend(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
    }

    /// Puts the rest of the last body behind what is gathered.
    pub(in crate::server) fn set_rest(&mut self, rest: Bytes) {
        self.rest = rest;
    }

    /// How much is gathered, taken or not.
    pub(in crate::server) fn gathered_bytes(&self) -> usize {
        self.gathered.len()
    }

    /// Whether all of it was taken.
    pub(in crate::server) fn is_taken(&self) -> bool {
        self.taken == self.gathered.len() && self.rest.is_empty()
    }

    /// Gives the buffer back when all of it was taken.
    pub(in crate::server) fn give_back(&mut self, buffers: &Buffers) {
        self.taken = 0;
        buffers.give_back(std::mem::take(&mut self.gathered));
    }

    /// The length of the next write, with `body` behind what is gathered.
    pub(in crate::server) fn write_bytes(&self, body: &[u8]) -> usize {
        self.gathered.len() - self.taken + body.len().max(self.rest.len())
    }

    /// One write of what is gathered, and of the rest or of `body` behind it.
    pub(in crate::server) fn poll_write<S: Write + Unpin>(
        &mut self,
        socket: &mut S,
        cx: &mut Context<'_>,
        body: &[u8],
    ) -> Poll<io::Result<Taken>> {
        let socket = Pin::new(socket);
        let gathered = &self.gathered[self.taken..];
        let gathered_bytes = gathered.len();
        let behind = if self.rest.is_empty() {
            body
        } else {
            &self.rest
        };
        let written = if gathered.is_empty() {
            socket.poll_write(cx, behind)
        } else if behind.is_empty() {
            socket.poll_write(cx, gathered)
        } else {
            socket.poll_write_vectored(cx, &[IoSlice::new(gathered), IoSlice::new(behind)])
        };
        let bytes = ready!(written)?;
        self.taken += bytes.min(gathered_bytes);
        let mut of_body = bytes.saturating_sub(gathered_bytes);
        if !self.rest.is_empty() {
            self.rest.advance(of_body);
            of_body = 0;
        }
        Poll::Ready(Ok(Taken { bytes, of_body }))
    }
}
