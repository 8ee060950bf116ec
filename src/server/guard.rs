//! The socket as hyper sees it: answers leave together, and hyper's own become ours.
//!
//! Answers of pipelined requests are gathered and written when hyper has no complete head left and
//! reads on, or ends: one write for the whole batch. Hyper's own `pipeline_flush` does the same but
//! loses the last answers where unread bytes are left behind them, as a body that nobody reads.
//!
//! Heads that hyper cannot parse never reach the pipeline; hyper answers them with a bare status and
//! closes. The specification promises JSON and the limit headers for every failure, so that bare
//! head is replaced on its way out.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use memchr::memmem;

use crate::sync::{AtomicBool, Ordering};

/// Hyper's bare answers are the last of their connection and shorter than this.
const BARE_ANSWER_BYTES_MAX: usize = 200;

/// Answers gathered before they are written; what is longer goes straight to the socket.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// A socket whose bare refusals are replaced by what `refusal` makes of their status.
pub(crate) struct Guard<S, F> {
    socket: S,
    refusal: F,
    /// What hyper has written and the socket has not taken yet.
    gathered: Vec<u8>,
    /// Set before the connection's last answer: hyper may then end without reading or shutting
    /// down, as after CONNECT.
    ending: Arc<AtomicBool>,
}

impl<S, F: Fn(u16) -> Vec<u8>> Guard<S, F> {
    pub(crate) fn new(socket: S, refusal: F, ending: Arc<AtomicBool>) -> Guard<S, F> {
        Guard {
            socket,
            refusal,
            gathered: Vec::new(),
            ending,
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
        while !self.gathered.is_empty() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.gathered) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => drop(self.gathered.drain(..count)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S, F> Read for Guard<S, F>
where
    S: Read + Write + Unpin,
    F: Fn(u16) -> Vec<u8> + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // Hyper reads only when it has answered every head it holds. A client that takes no
        // answers is not read from either.
        match self.drain(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.socket).poll_read(cx, buffer),
            other => other,
        }
    }
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> Write for Guard<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some((start, status)) = bare_answer(bytes) {
            self.gathered.extend_from_slice(&bytes[..start]);
            let refusal = (self.refusal)(status);
            self.gathered.extend_from_slice(&refusal);
            return Poll::Ready(Ok(bytes.len()));
        }
        if self.gathered.len() + bytes.len() <= GATHERED_BYTES_MAX {
            self.gathered.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        match self.drain(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.socket).poll_write(cx, bytes),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Writes nothing but a last answer: after any other, hyper reads on or shuts down, and both
    /// write what is gathered.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending.load(Ordering::Relaxed) {
            self.drain(cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.drain(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.socket).poll_shutdown(cx),
            other => other,
        }
    }
}
