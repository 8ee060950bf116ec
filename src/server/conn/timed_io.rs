//! `TimedIo`: the socket as hyper sees it. Completes heads with their header lines, writes
//! responses together, and records the phase of the connection.
//!
//! - **Header lines.** Hyper gets no header but `connection`: it would hash, store, walk and copy
//!   each. They are text already (see `ApiResponse`), which goes behind the status line as the head
//!   passes.
//! - **Unreadable heads.** A head that hyper cannot parse never reaches the pipeline; hyper
//!   responds with a bare status and closes. That is a head without a pending response, and is
//!   replaced by the response that the specification promises for every failure.
//! - **Gathering.** Responses to pipelined requests are written when hyper has no complete head
//!   left and reads on, or has ended: one write for the whole batch. Hyper does not always end by
//!   shutting the socket down (not after a request with `upgrade` or HTTP/2's preface), so its
//!   driver drains this too. Hyper's own `pipeline_flush` gathers as well, but loses the last
//!   responses if unread bytes are left behind them, as a body that is not read.
//! - **No copy** of a long body: it goes to the socket in one write with what is buffered.
//! - **Phases.** The registry sees the first byte of a head, a response that waits for its client,
//!   the last byte taken.
//! - **Streams.** Hyper passes the head of a stream with the first piece, and the others when it
//!   has them. Their total length is known beforehand: nothing else distinguishes a piece from the
//!   next head.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use memchr::memmem;

use crate::server::conn::connection_state::ConnectionPhase;
use crate::server::conn::context::ConnectionContext;
use crate::server::conn::send_buffer::SendBuffer;
use crate::server::conn::time_slice::poll_yield;

/// Bytes that are gathered before they are written.
const GATHERED_BYTES_MAX: usize = 16 * 1024;
/// Bodies from this length on are not copied: that would cost more than a write of two parts.
const UNCOPIED_BYTES_MIN: usize = 8 * 1024;
/// Writes from this length on count against the connection's time slice: they take tens of
/// microseconds.
const TIMED_BYTES_MIN: usize = 64 * 1024;
/// The speed of the slowest client that the server waits for.
const CLIENT_BYTES_PER_SECOND: u64 = 16 * 1024;
/// The start of a head that precedes a response (RFC 9110 section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 ";

/// A socket that completes hyper's heads. `error_response` makes the whole response of a status
/// that hyper responds with by itself.
pub(crate) struct TimedIo<S, F> {
    socket: S,
    error_response: F,
    context: Arc<ConnectionContext>,
    /// The bytes that hyper has written and the socket has not taken yet.
    buffer: SendBuffer,
    /// Bytes that hyper has yet to offer of the body whose head or beginning was taken.
    body_left: u64,
    /// Whether that body is the connection's last.
    is_last: bool,
    /// When the batch of requests was read, if it is timed.
    read_at: Option<Instant>,
    /// Whether `100 Continue` is to be written.
    continues: bool,
    /// Whether there was a response since the connection was idle.
    responded: bool,
    /// Bytes that the socket has taken.
    sent_bytes: u64,
    /// How many bytes are stored for a client that reads nothing, as far as the system reports that.
    send_buffer_bytes: fn(&S) -> usize,
}

impl<S, F: Fn(u16) -> Vec<u8>> TimedIo<S, F> {
    pub(crate) fn new(
        socket: S,
        error_response: F,
        send_buffer_bytes: fn(&S) -> usize,
        context: Arc<ConnectionContext>,
    ) -> TimedIo<S, F> {
        TimedIo {
            socket,
            error_response,
            context,
            buffer: SendBuffer::default(),
            body_left: 0,
            is_last: false,
            read_at: None,
            continues: false,
            responded: false,
            sent_bytes: 0,
            send_buffer_bytes,
        }
    }

    pub(crate) fn into_socket(self) -> S {
        self.socket
    }

    /// Whether the socket has taken all of every response.
    pub(crate) fn is_drained(&self) -> bool {
        self.body_left == 0 && self.buffer.len() == 0
    }

    /// Records that the socket has taken the responses to all requests.
    #[inline]
    pub(crate) fn finish_batch(&mut self) {
        let read_at = self.read_at.take();
        // The bytes read last may have been the end of the connection.
        if std::mem::take(&mut self.responded) {
            self.context.metrics.count_batch();
            if let Some(read_at) = read_at {
                self.context.metrics.durations.observe(read_at.elapsed());
            }
        }
        self.context.access_log.write();
        self.context.handle.enter(ConnectionPhase::Idle);
    }

    /// Records that some of a head was read; the time of the last such read counts.
    #[inline]
    fn begin_head(&mut self, phase: ConnectionPhase) {
        if self.context.metrics.times_next() {
            self.read_at = Some(Instant::now());
        }
        if phase != ConnectionPhase::Head {
            self.context.handle.enter(ConnectionPhase::Head);
        }
    }

    /// Records that the client takes nothing for now. Its system reports free space only when a
    /// third of what is stored for it is gone: a slow client has the time that this takes.
    #[cold]
    fn begin_sending(&mut self) {
        let stored = (self.send_buffer_bytes)(&self.socket) as u64;
        let grace = read_time(stored / 3);
        let handle = &self.context.handle;
        handle.enter_with_grace(ConnectionPhase::Sending, grace);
    }

    /// The time that a slow client may need for what the system stores for it.
    pub(crate) fn rest_time(&self) -> Duration {
        let stored = (self.send_buffer_bytes)(&self.socket) as u64;
        read_time(stored.min(self.sent_bytes))
    }

    fn reserve(&mut self) {
        let pool = &self.context.buffers;
        self.buffer.reserve(pool, GATHERED_BYTES_MAX);
    }

    /// Buffers a head, with its header lines behind the status line.
    fn take_head(&mut self, head: &[u8]) {
        self.responded = true;
        self.reserve();
        // Status lines are short: a search by vectors takes longer to begin.
        let end = head.iter().position(|byte| *byte == b'\n');
        let (status_line, rest) = head.split_at(end.map_or(head.len(), |at| at + 1));
        let buffer = &mut self.buffer;
        let streamed_bytes = self.context.pending.take(|lines| {
            buffer.extend(status_line);
            buffer.extend(lines);
            buffer.extend(rest);
        });
        match streamed_bytes {
            Some(bytes) => self.body_left = bytes,
            None => self.take_error(status(status_line)),
        }
    }

    /// Buffers the response to an unreadable head, which is the last.
    pub(crate) fn take_error(&mut self, status: u16) {
        self.responded = true;
        self.reserve();
        self.buffer.extend(&(self.error_response)(status));
    }

    /// Takes all of the last body, or of its last piece: hyper may end before it offers more.
    fn take_last(&mut self, piece: &[u8]) {
        match self.context.pending.take_last_body(piece.len()) {
            Some(body) => self.buffer.set_rest(body),
            None => self.buffer.extend(piece),
        }
    }
}

/// The time in which the slowest client reads so many bytes.
fn read_time(bytes: u64) -> Duration {
    Duration::from_secs(bytes / CLIENT_BYTES_PER_SECOND)
}

/// The status in a status line of hyper's.
fn status(status_line: &[u8]) -> u16 {
    let digits = status_line.get(9..12).unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    digits.parse().unwrap_or(400)
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> TimedIo<S, F> {
    /// Writes what is buffered. To be called when hyper has ended, however it did.
    pub(crate) fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.len() > 0 {
            while !self.buffer.is_taken() {
                if ready!(self.write(cx, &[]))?.0 == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
            }
            self.buffer.release(&self.context.buffers);
        }
        self.flush(cx)
    }

    /// Writes what TLS has encrypted and the socket has not taken. Without TLS there is nothing.
    #[inline]
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        if flushed.is_pending() && self.context.handle.phase() != ConnectionPhase::Sending {
            self.begin_sending();
        }
        flushed
    }

    /// Writes once what is buffered, and `body` behind it. Returns how much was taken, and how much
    /// of that is of `body`. A long write yields if the time slice is over.
    fn write(&mut self, cx: &mut Context<'_>, body: &[u8]) -> Poll<io::Result<(usize, usize)>> {
        let context = &self.context;
        let is_timed = self.buffer.write_bytes(body) >= TIMED_BYTES_MIN;
        if is_timed && context.time_slice.is_over() {
            return poll_yield(cx);
        }
        let (buffer, socket) = (&mut self.buffer, &mut self.socket);
        let mut write = || buffer.poll_write(socket, cx, body);
        let written = if is_timed {
            context.time_slice.spend(write)
        } else {
            write()
        };
        if written.is_pending() && context.handle.phase() != ConnectionPhase::Sending {
            self.begin_sending();
        }
        let (bytes, of_body) = ready!(written)?;
        if bytes > 0 {
            self.sent_bytes += bytes as u64;
            self.context.metrics.sent_bytes.add(bytes as u64);
            self.context.handle.enter(ConnectionPhase::Processing);
        }
        Poll::Ready(Ok((bytes, of_body)))
    }

    /// Writes a body, or the rest of one. Returns how much of it was taken.
    fn write_body(&mut self, cx: &mut Context<'_>, body: &[u8]) -> Poll<io::Result<usize>> {
        let (_, of_body) = ready!(self.write(cx, body))?;
        self.body_left = self.body_left.saturating_sub(of_body as u64);
        Poll::Ready(Ok(of_body))
    }

    /// Takes more of a body whose beginning was taken before.
    fn continue_body(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        if offered as u64 >= self.body_left && self.is_last {
            // A body that is in memory is one part.
            for part in parts {
                self.take_last(part);
            }
            self.body_left = 0;
            return Poll::Ready(Ok(offered));
        }
        ready!(self.drain(cx))?;
        self.write_body(cx, parts.first().map_or(&[], |part| part))
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
        // Hyper reads only when it has responded to every head in its buffer. Nothing is read from
        // a client that takes no responses.
        ready!(self.drain(cx))?;
        let phase = self.context.handle.phase();
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
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Hyper passes one whole head with its body or the first piece of that, and no other head
    /// until all is taken. A body that was taken in part is offered again without its head.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some((head, bodies)) = parts.split_first() else {
            return Poll::Ready(Ok(0));
        };
        if self.body_left > 0 {
            return self.continue_body(cx, parts);
        }
        // Before a form that its client holds back until then.
        if head.starts_with(CONTINUE) {
            // A response that is ready already stands behind it, and is offered again by itself.
            let bytes = memmem::find(head, b"\r\n\r\n").map_or(head.len(), |at| at + 4);
            self.reserve();
            self.buffer.extend(&head[..bytes]);
            self.continues = true;
            return Poll::Ready(Ok(bytes));
        }
        // The last response is taken whole: hyper may end before it has offered the rest.
        self.is_last = self.context.pending.is_last();
        let is_last = self.is_last;
        if self.buffer.len() >= GATHERED_BYTES_MAX && !is_last {
            ready!(self.drain(cx))?;
        }
        self.take_head(head);
        let Some(body) = bodies.first() else {
            return Poll::Ready(Ok(head.len()));
        };
        self.body_left = self.body_left.max(body.len() as u64);
        if is_last || body.len() < UNCOPIED_BYTES_MIN {
            if is_last {
                self.take_last(body);
            } else {
                self.buffer.extend(body);
            }
            self.body_left -= body.len() as u64;
            return Poll::Ready(Ok(head.len() + body.len()));
        }
        match self.write_body(cx, body) {
            Poll::Ready(taken) => Poll::Ready(taken.map(|bytes| head.len() + bytes)),
            // The head is taken; hyper is woken for the body.
            Poll::Pending => Poll::Ready(Ok(head.len())),
        }
    }

    /// Writes nothing as a rule: hyper reads on or ends, and both write what is buffered. It does
    /// neither while it waits for a disk, or for a form that its client holds back.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.continues {
            ready!(self.drain(cx))?;
            self.continues = false;
            // The form has as long as if it had come with its head.
            self.context.handle.enter(ConnectionPhase::Head);
        }
        if self.body_left > 0 || self.context.pending.waits() {
            ready!(self.drain(cx))?;
            // The client is not the one that is waited for.
            self.context.handle.enter(ConnectionPhase::Processing);
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
