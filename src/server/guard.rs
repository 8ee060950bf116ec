//! The socket as hyper sees it: what hyper answers by itself becomes an answer of ours.
//!
//! Heads that hyper cannot parse never reach the pipeline; hyper answers them with a bare status and
//! closes. The specification promises JSON and the limit headers for every failure, so that bare
//! head is replaced on its way out.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use memchr::memmem;

/// Hyper's bare answers are the last of their connection and shorter than this.
const BARE_ANSWER_BYTES_MAX: usize = 200;

/// A socket whose bare refusals are replaced by what `refusal` makes of their status.
pub(crate) struct Guard<S, F> {
    socket: S,
    refusal: F,
    /// What still has to go out in place of a bare answer.
    pending: Vec<u8>,
}

impl<S, F: Fn(u16) -> Vec<u8>> Guard<S, F> {
    pub(crate) fn new(socket: S, refusal: F) -> Guard<S, F> {
        Guard {
            socket,
            refusal,
            pending: Vec::new(),
        }
    }
}

/// Where hyper's bare answer begins in what it writes, and its status.
fn bare_answer(written: &[u8]) -> Option<(usize, u16)> {
    // Only heads without a body end so: 304, 204, answers to HEAD, and the bare ones.
    if !written.ends_with(b"\r\n\r\n") {
        return None;
    }
    let tail = written.len().saturating_sub(BARE_ANSWER_BYTES_MAX);
    let start = tail + memmem::rfind(&written[tail..], b"HTTP/1.1 4")?;
    let head = &written[start..];
    // No answer of ours that fails has an empty body.
    memmem::find(head, b"\r\ncontent-length: 0\r\n")?;
    let status = std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()?;
    Some((start, status))
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> Guard<S, F> {
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.pending) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => drop(self.pending.drain(..count)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Read + Unpin, F: Unpin> Read for Guard<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> Write for Guard<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some((start, status)) = bare_answer(bytes) {
            self.pending.extend_from_slice(&bytes[..start]);
            let refusal = (self.refusal)(status);
            self.pending.extend_from_slice(&refusal);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.drain(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.socket).poll_flush(cx),
            other => other,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.drain(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.socket).poll_shutdown(cx),
            other => other,
        }
    }
}
