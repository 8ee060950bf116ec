//! `TimedIo`: the socket as hyper sees it. Completes heads with their header lines, writes
//! responses together, and records the phase of the connection.
//!
//! - **Header lines.** Hyper gets no header but `connection`: it would hash, store, walk and copy
//!   each. They are text already (see `ApiResponse`), which goes behind the status line as the head
//!   passes. `hyper_head` has everything that is assumed of hyper.
//! - **Unreadable heads.** A head that hyper cannot parse never reaches the pipeline; hyper
//!   responds with a bare status and closes. That is a head without a pending response, and is
//!   replaced by the response that the specification promises for every failure.
//! - **Bodies.** Hyper gets none either, and writes every response as an empty one. The body is
//!   taken from the request handler with the header lines, which have its length. A long one goes to
//!   the socket in one write with what is buffered, without a copy; a stream is polled here, for one
//!   piece at a time.
//! - **Gathering.** Responses to pipelined requests are written when hyper has no complete head
//!   left and reads on, or has ended: one write for the whole batch. Hyper does not always end by
//!   shutting the socket down (not after a request with `upgrade` or HTTP/2's preface), so its
//!   driver drains this too. Hyper's own `pipeline_flush` gathers as well, but loses the last
//!   responses if unread bytes are left behind them, as a body that is not read.
//! - **Phases.** The registry sees the first byte of a head, a response that waits for its client,
//!   the last byte taken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper::rt::{Read, ReadBufCursor, Write};
use memchr::memmem;

use crate::server::conn::connection_state::ConnectionPhase;
use crate::server::conn::connection_state::poll_yield;
use crate::server::conn::context::{BodyStream, ConnectionContext, ResponseBody};
use crate::server::conn::hyper_head::{CONTINUE, HyperHead, status};
use crate::server::conn::send_buffer::{SendBuffer, put_buffer};

/// Writes from this length on count against the connection's time slice: they take tens of
/// microseconds.
const TIMED_BYTES_MIN: usize = 64 * 1024;

/// A socket that completes hyper's heads. `error_response` makes the whole response of a status
/// that hyper responds with by itself.
pub(crate) struct TimedIo<S, F> {
    socket: S,
    error_response: F,
    context: Arc<ConnectionContext>,
    /// Responses that the socket has not taken yet.
    buffer: SendBuffer,
    /// The body behind the buffered bytes, if it comes in pieces.
    stream: Option<BodyStream>,
    /// Hyper's head of the next response, perhaps with `100 Continue` before it, while the response
    /// before it is not sent.
    next_head: Vec<u8>,
    /// When the batch of requests was read, if it is timed.
    read_at: Option<Instant>,
    /// Whether `100 Continue` is to be written.
    continues: bool,
    /// Whether there was a response since the connection was idle.
    responded: bool,
    sent_bytes: u64,
    /// `sent_bytes` at the last wait for the client; initially the bytes that the socket stores for a client that
    /// reads nothing.
    counted_bytes: u64,
}

impl<S, F: Fn(u16) -> Vec<u8>> TimedIo<S, F> {
    pub(crate) fn new(
        socket: S,
        error_response: F,
        stored_bytes: u64,
        context: Arc<ConnectionContext>,
    ) -> TimedIo<S, F> {
        TimedIo {
            socket,
            error_response,
            context,
            buffer: SendBuffer::default(),
            stream: None,
            next_head: Vec::new(),
            read_at: None,
            continues: false,
            responded: false,
            sent_bytes: 0,
            counted_bytes: stored_bytes,
        }
    }

    /// The socket, and how many bytes it has taken.
    pub(crate) fn into_socket(self) -> (S, u64) {
        (self.socket, self.sent_bytes)
    }

    /// Whether the socket has taken all of every response.
    pub(crate) fn is_drained(&self) -> bool {
        self.buffer.is_taken() && self.stream.is_none() && self.next_head.is_empty()
    }

    /// Records that the socket has taken the responses to all requests.
    #[inline]
    pub(crate) fn finish_batch(&mut self) {
        let read_at = self.read_at.take();
        // The bytes read last may have been the end of the connection.
        if std::mem::take(&mut self.responded) {
            self.context.metrics().count_batch();
            if let Some(read_at) = read_at {
                self.context.metrics().durations.observe(read_at.elapsed());
            }
        }
        self.context.write_log();
        self.context.enter(ConnectionPhase::Idle);
    }

    /// Records that some of a head was read; the time of the last such read counts.
    #[inline]
    fn begin_head(&mut self, phase: ConnectionPhase) {
        if self.context.metrics().times_next() {
            self.read_at = Some(Instant::now());
        }
        if phase != ConnectionPhase::Head {
            self.context.enter(ConnectionPhase::Head);
        }
    }

    /// Records that the client takes nothing for now. Systems take and report what is read in pieces:
    /// a client has as much time for the next as a slow one needs for what was taken since the last time.
    #[cold]
    fn begin_sending(&mut self) {
        let bytes = self.sent_bytes.saturating_sub(self.counted_bytes);
        self.counted_bytes += bytes;
        let phase = ConnectionPhase::Sending;
        self.context.wait_for_reader(phase, bytes);
    }

    /// Marks the connection as waiting for the server: for a disk, a form or the store. Client timeouts do not apply.
    /// The time since the first of these calls counts.
    fn begin_waiting(&self) {
        if self.context.phase() != ConnectionPhase::Processing {
            self.context.enter(ConnectionPhase::Processing);
        }
    }

    /// Buffers a head of hyper's and its response. Returns how many bytes of the head were taken.
    fn take_head(&mut self, head: &[u8]) -> io::Result<usize> {
        self.buffer.reserve();
        // Before a form that its client holds back until then.
        if head.starts_with(CONTINUE) {
            // If the response is ready, its head follows in the same call; hyper passes that part again.
            let bytes = memmem::find(head, b"\r\n\r\n").map_or(head.len(), |at| at + 4);
            self.buffer.extend(&head[..bytes]);
            self.continues = true;
            return Ok(bytes);
        }
        self.take_response(head)?;
        Ok(head.len())
    }

    /// Buffers a response: hyper's head with the header lines behind its status line, and the body. Fails if the head
    /// has another form than expected.
    fn take_response(&mut self, head: &[u8]) -> io::Result<()> {
        self.responded = true;
        let Some((lines, body, log_line)) = self.context.take_response() else {
            self.take_error(status(head));
            return Ok(());
        };
        let Some(head) = HyperHead::parse(head) else {
            // It is never sent; the log line says `cut=yes`.
            self.context.put_response((lines, body, log_line));
            self.context.metrics().counters.unexpected_heads.add(1);
            return Err(io::Error::other(
                "hyper wrote a head of another form than expected",
            ));
        };
        for part in [head.status_line, &lines, head.connection, head.date] {
            self.buffer.extend(part);
        }
        put_buffer(lines);
        if let Some(line) = log_line {
            self.context.log(line);
        }
        match body {
            ResponseBody::Whole(body) => self.buffer.put_body(body),
            ResponseBody::Omitted(_) => {}
            ResponseBody::Stream(stream) => self.stream = Some(stream),
        }
        Ok(())
    }

    /// Buffers the response to an unreadable head, which is the last.
    pub(crate) fn take_error(&mut self, status: u16) {
        self.responded = true;
        self.buffer.reserve();
        self.buffer.extend(&(self.error_response)(status));
    }
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> TimedIo<S, F> {
    /// Writes all responses. To be called when hyper has ended, however it did.
    pub(crate) fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.buffer.is_taken() {
                if ready!(self.write(cx))? == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
            }
            self.buffer.release();
            if self.is_drained() {
                return self.flush(cx);
            }
            ready!(self.continue_response(cx))?;
        }
    }

    /// Buffers the next piece of a stream, or the response behind it.
    #[cold]
    fn continue_response(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else {
            let head = std::mem::take(&mut self.next_head);
            let taken = self.take_head(&head)?;
            self.next_head.extend_from_slice(&head[taken..]);
            return Poll::Ready(Ok(()));
        };
        match stream.next.as_mut().poll(cx) {
            Poll::Ready(Ok((piece, rest))) => {
                self.buffer.put_body(piece);
                self.stream = rest;
                Poll::Ready(Ok(()))
            }
            // The connection is closed, so that the client notices that bytes are missing.
            Poll::Ready(Err(error)) => {
                stream.next = Box::pin(std::future::ready(Err(error.kind().into())));
                Poll::Ready(Err(error))
            }
            Poll::Pending => {
                ready!(self.flush(cx))?;
                self.begin_waiting();
                Poll::Pending
            }
        }
    }

    /// Writes what TLS has encrypted and the socket has not taken. Without TLS there is nothing.
    #[inline]
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if flushed.is_pending() && self.context.phase() != ConnectionPhase::Sending {
            self.begin_sending();
        }
        flushed
    }

    /// Writes once what is buffered. Returns how many bytes were taken. A long write yields if the
    /// time slice is over.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let context = &self.context;
        let is_timed = self.buffer.write_bytes() >= TIMED_BYTES_MIN;
        if is_timed && context.time_slice.is_over() {
            return poll_yield(cx);
        }
        let (buffer, socket) = (&mut self.buffer, &mut self.socket);
        let mut write = || buffer.poll_write(socket, cx);
        let written = if is_timed {
            context.time_slice.spend(write)
        } else {
            write()
        };
        if written.is_pending() && context.phase() != ConnectionPhase::Sending {
            self.begin_sending();
        }
        let bytes = ready!(written)?;
        if bytes > 0 {
            self.sent_bytes += bytes as u64;
            self.context.metrics().counters.sent_bytes.add(bytes as u64);
            self.context.enter(ConnectionPhase::Processing);
        }
        Poll::Ready(Ok(bytes))
    }
}

impl<S, F> Read for TimedIo<S, F>
where
    S: Read + Write + Unpin,
    F: Fn(u16) -> Vec<u8> + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // Hyper reads only when it has responded to every head in its buffer, or reads a form.
        // Nothing is read from a client that takes no responses.
        ready!(self.drain(cx))?;
        let phase = self.context.phase();
        if matches!(
            phase,
            ConnectionPhase::Processing | ConnectionPhase::Sending
        ) {
            self.finish_batch();
        }
        ready!(Pin::new(&mut self.socket).poll_read(cx, buffer))?;
        self.begin_head(phase);
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> Write for TimedIo<S, F> {
    /// Hyper passes one whole head; one of `100 Continue` may come before it.
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        head: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.buffer.is_full() || self.stream.is_some() || !self.next_head.is_empty() {
            let drained = self.drain(cx)?;
            // Hyper may end before it offers the head again.
            if drained.is_pending() {
                self.next_head.extend_from_slice(head);
                return Poll::Ready(Ok(head.len()));
            }
        }
        Poll::Ready(self.take_head(head))
    }

    /// Writes nothing as a rule: hyper reads on or ends, and both write what is buffered. It does
    /// neither while it waits for a disk, or for a form that its client holds back. Hyper does not
    /// pass on the next request before this is done, so no client has two long bodies at a time.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_behind = self.stream.is_some() || !self.next_head.is_empty();
        if self.continues || is_behind || self.buffer.is_full() {
            ready!(self.drain(cx))?;
        }
        if std::mem::take(&mut self.continues) {
            // The timeout of a request head begins again for the form.
            self.context.enter(ConnectionPhase::Head);
        }
        if self.context.waits() {
            ready!(self.drain(cx))?;
            self.begin_waiting();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[path = "timed_io_tests.rs"]
mod tests;
