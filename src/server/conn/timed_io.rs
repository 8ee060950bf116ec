//! The socket as hyper sees it: heads get their lines, and answers leave together.
//!
//! - **Lines.** Hyper is given no header lines but `connection`: it would hash, store, walk and copy
//!   each of them. They are text already (see `answer`), and are put behind the status line as the
//!   head passes.
//! - **Refusals.** A head that hyper cannot parse never reaches the pipeline; hyper answers it with a
//!   bare status and closes. That is a head for which there are no lines, so it is known, and is
//!   replaced by what the specification promises for every failure.
//! - **Gathering.** Answers of pipelined requests are written when hyper has no complete head left
//!   and reads on, or has ended: one write for the whole batch. Hyper does not end by shutting the
//!   socket down each time (a request with `upgrade` and HTTP/2's preface keep it from that), so the
//!   connection drains the guard itself. Hyper's own `pipeline_flush` gathers too, but loses the last
//!   answers where unread bytes are left behind them, as a body that nobody reads.
//! - **No copy** of a long body: it goes to the socket in one write with what is gathered.
//! - **Progress.** What the connection is doing is noted for the roster: the first byte of a head, an
//!   answer that waits for its client, the last byte taken.
//! - **Pieces.** Of a file hyper gives the head with the first piece, and the others when it has them. How
//!   many bytes are to come is told beforehand: nothing else tells a piece from the next head.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use memchr::{memchr, memmem};

use crate::observe::{LocalCounter, WorkerMetrics};
use crate::server::conn::buffers::Buffers;
use crate::server::conn::pending_log::Journal;
use crate::server::conn::pending_response::PendingResponse;
use crate::server::conn::phase::Phase;
use crate::server::conn::registry::Membership;
use crate::server::conn::send_buffer::{SendBuffer, Taken};
use crate::server::conn::turn::Turn;

/// Answers gathered before they are written.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// Bodies from this length on are not copied: that would cost more than a write with two parts.
const STRAIGHT_BYTES_MIN: usize = 8 * 1024;

/// Writes from this length on are timed as a part of the connection's turn: they take tens of microseconds.
const TIMED_BYTES_MIN: usize = 64 * 1024;

/// The slowest client that is waited for takes so much a second.
const CLIENT_BYTES_A_SECOND: u64 = 16 * 1024;

/// Begins a head that is no answer yet (RFC 9110 section 15.2.1).
const GO_ON: &[u8] = b"HTTP/1.1 100 ";

/// What a guard shares with the rest of its connection.
pub(crate) struct Shared {
    /// The response whose head hyper has not written yet.
    pub(crate) pending: PendingResponse,
    /// The worker's buffers.
    pub(crate) buffers: Arc<Buffers>,
    /// The time that the connection uses before others get theirs.
    pub(crate) turn: Turn,
    /// Requests that came.
    pub(crate) asked: LocalCounter,
    /// Where progress is noted.
    pub(crate) membership: Membership,
    /// The worker's counters.
    pub(crate) metrics: Arc<WorkerMetrics>,
    /// Lines of the access log that wait for their answers to leave.
    pub(crate) journal: Journal,
}

/// What is dropped while its task unwinds was of a connection that ended by a fault of ours.
impl Drop for Shared {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.metrics.panics.add(1);
        }
    }
}

/// A socket that completes hyper's heads. `refusal` makes the whole answer of a status that hyper
/// answers by itself.
pub(crate) struct Guard<S, F> {
    socket: S,
    refusal: F,
    shared: Arc<Shared>,
    /// What hyper has written and the socket has not taken yet.
    buffer: SendBuffer,
    /// Bytes of a body whose beginning was taken, or whose head was, and that hyper will offer yet.
    owed: u64,
    /// Whether that body is the connection's last.
    is_last: bool,
    /// When what is being answered was read, if that is timed.
    timed: Option<Instant>,
    /// Whether a client is to be told at once to go on.
    goes_on: bool,
    /// Whether anything was answered since the client was waited for.
    answered: bool,
    /// Bytes that the socket took.
    sent_bytes: u64,
    /// How much the system holds for a client that takes nothing, as far as it tells.
    send_buffer_bytes: fn(&S) -> usize,
}

impl<S, F: Fn(u16) -> Vec<u8>> Guard<S, F> {
    pub(crate) fn new(
        socket: S,
        refusal: F,
        send_buffer_bytes: fn(&S) -> usize,
        shared: Arc<Shared>,
    ) -> Guard<S, F> {
        Guard {
            socket,
            refusal,
            shared,
            buffer: SendBuffer::default(),
            owed: 0,
            is_last: false,
            timed: None,
            goes_on: false,
            answered: false,
            sent_bytes: 0,
            send_buffer_bytes,
        }
    }

    /// The socket, when all is written that is to be.
    pub(crate) fn into_socket(self) -> S {
        self.socket
    }

    /// Whether the socket has taken all of every response.
    pub(crate) fn is_drained(&self) -> bool {
        self.owed == 0 && self.buffer.gathered_bytes() == 0
    }

    /// Notes that everything read was answered, and every answer was taken.
    #[inline]
    pub(crate) fn rest(&mut self) {
        let read = self.timed.take();
        // What was read last may have been the end of the connection.
        if std::mem::take(&mut self.answered) {
            self.shared.metrics.count_batch();
            if let Some(read) = read {
                self.shared.metrics.durations.observe(read.elapsed());
            }
        }
        self.shared.journal.left();
        self.shared.membership.enter(Phase::Idle);
    }

    /// Notes that something of a head has come; timed is the last that came of it.
    #[inline]
    fn begin(&mut self, phase: Phase) {
        if self.shared.metrics.times_next() {
            self.timed = Some(Instant::now());
        }
        if phase != Phase::Head {
            self.shared.membership.enter(Phase::Head);
        }
    }

    /// Notes that the client takes nothing more for now. Its system asks for more only when a third of
    /// what it holds is gone: a slow client has the time that this takes.
    #[cold]
    fn wait(&mut self) {
        let held = (self.send_buffer_bytes)(&self.socket) as u64;
        self.shared.membership.send(time_for(held / 3));
    }

    /// How long a slow client may need for what the system holds for it yet.
    pub(crate) fn rest_time(&self) -> Duration {
        let held = (self.send_buffer_bytes)(&self.socket) as u64;
        time_for(held.min(self.sent_bytes))
    }

    fn have_room(&mut self) {
        let buffers = &self.shared.buffers;
        self.buffer.reserve(buffers, GATHERED_BYTES_MAX);
    }

    /// Gathers a head, with its lines behind the status line.
    fn take_head(&mut self, head: &[u8]) {
        self.answered = true;
        self.have_room();
        let status_line_end = memchr(b'\n', head).map_or(head.len(), |at| at + 1);
        let (status_line, rest) = head.split_at(status_line_end);
        let buffer = &mut self.buffer;
        let streamed_bytes = self.shared.pending.take(|lines| {
            buffer.extend(status_line);
            buffer.extend(lines);
            buffer.extend(rest);
        });
        match streamed_bytes {
            Some(bytes) => self.owed = bytes,
            None => self.refuse(status(status_line)),
        }
    }

    /// Gathers the answer to a head that cannot be read, which is the last.
    pub(crate) fn refuse(&mut self, status: u16) {
        self.answered = true;
        self.have_room();
        self.buffer.extend(&(self.refusal)(status));
    }
}

/// How long a slow client needs for so much.
fn time_for(bytes: u64) -> Duration {
    Duration::from_secs(bytes / CLIENT_BYTES_A_SECOND)
}

/// The status of a status line of hyper's.
fn status(status_line: &[u8]) -> u16 {
    let digits = status_line.get(9..12).unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    digits.parse().unwrap_or(400)
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> Guard<S, F> {
    /// Writes what is gathered. To be called when hyper has ended, however it did.
    pub(crate) fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.gathered_bytes() == 0 {
            return Poll::Ready(Ok(()));
        }
        while !self.buffer.is_taken() {
            if ready!(self.write(cx, &[]))?.bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        self.buffer.give_back(&self.shared.buffers);
        Poll::Ready(Ok(()))
    }

    /// One write of what is gathered, and of `body` behind it. A long write yields if the connection's turn
    /// is over.
    fn write(&mut self, cx: &mut Context<'_>, body: &[u8]) -> Poll<io::Result<Taken>> {
        let turn = &self.shared.turn;
        let is_timed = self.buffer.write_bytes(body) >= TIMED_BYTES_MIN;
        if is_timed && turn.is_over() {
            return Turn::poll_yield(cx);
        }
        let (buffer, socket) = (&mut self.buffer, &mut self.socket);
        let mut write = || buffer.poll_write(socket, cx, body);
        let written = if is_timed { turn.spend(write) } else { write() };
        if written.is_pending() && self.shared.membership.phase() != Phase::Sending {
            self.wait();
        }
        let taken = ready!(written)?;
        if taken.bytes > 0 {
            self.sent_bytes += taken.bytes as u64;
            self.shared.metrics.sent_bytes.add(taken.bytes as u64);
            self.shared.membership.enter(Phase::Answering);
        }
        Poll::Ready(Ok(taken))
    }

    /// Writes a body, or the rest of one, of which `owed` bytes are left. Returns how much of it was taken.
    fn write_body(&mut self, cx: &mut Context<'_>, body: &[u8]) -> Poll<io::Result<usize>> {
        let of_body = ready!(self.write(cx, body))?.of_body;
        self.owed = self.owed.saturating_sub(of_body as u64);
        Poll::Ready(Ok(of_body))
    }

    /// Takes all of the last body, or of its last piece: hyper may end before it offers more.
    fn take_last(&mut self, piece: &[u8]) {
        match self.shared.pending.take_last_body(piece.len()) {
            Some(body) => self.buffer.set_rest(body),
            None => self.buffer.extend(piece),
        }
    }

    /// Takes some of a body whose beginning was taken before.
    fn go_on(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        let is_rest = offered as u64 >= self.owed;
        if is_rest && self.is_last {
            // A body that is in memory is one piece.
            for piece in pieces {
                self.take_last(piece);
            }
            self.owed = 0;
            return Poll::Ready(Ok(offered));
        }
        ready!(self.drain(cx))?;
        self.write_body(cx, pieces.first().map_or(&[], |piece| piece))
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
        ready!(self.drain(cx))?;
        let phase = self.shared.membership.phase();
        if matches!(phase, Phase::Answering | Phase::Sending) {
            self.rest();
        }
        ready!(Pin::new(&mut self.socket).poll_read(cx, buffer))?;
        self.begin(phase);
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin, F: Fn(u16) -> Vec<u8> + Unpin> Write for Guard<S, F> {
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

    /// Hyper gives one head and its body, or the first piece of that, whole; and no other head until all
    /// is taken. A body that was taken in part is offered again without its head.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some((first, bodies)) = parts.split_first() else {
            return Poll::Ready(Ok(0));
        };
        if self.owed > 0 {
            return self.go_on(cx, parts);
        }
        // Before a form comes that its client holds back until it is told to go on.
        if first.starts_with(GO_ON) {
            // An answer that is ready already stands behind it, and is offered again by itself.
            let bytes = memmem::find(first, b"\r\n\r\n").map_or(first.len(), |at| at + 4);
            self.have_room();
            self.buffer.extend(&first[..bytes]);
            self.goes_on = true;
            return Poll::Ready(Ok(bytes));
        }
        // The last answer is taken whole at once: hyper may end before it has offered the rest.
        self.is_last = self.shared.pending.is_last();
        let last = self.is_last;
        if self.buffer.gathered_bytes() >= GATHERED_BYTES_MAX && !last {
            ready!(self.drain(cx))?;
        }
        self.take_head(first);
        let Some(body) = bodies.first() else {
            return Poll::Ready(Ok(first.len()));
        };
        self.owed = self.owed.max(body.len() as u64);
        if body.len() < STRAIGHT_BYTES_MIN || last {
            if last {
                self.take_last(body);
            } else {
                self.buffer.extend(body);
            }
            self.owed -= body.len() as u64;
            return Poll::Ready(Ok(first.len() + body.len()));
        }
        match self.write_body(cx, body) {
            Poll::Ready(Ok(count)) => Poll::Ready(Ok(first.len() + count)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // The head is taken; hyper is woken for the body.
            Poll::Pending => Poll::Ready(Ok(first.len())),
        }
    }

    /// Writes nothing as a rule: hyper reads on or ends, and both write what is gathered. Only if it waits
    /// for a disk, or for a form that its client holds back, it does neither.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.goes_on {
            ready!(self.drain(cx))?;
            self.goes_on = false;
            // It has as long as if it had come with its head.
            self.shared.membership.enter(Phase::Head);
        }
        if self.owed > 0 || self.shared.pending.waits() {
            ready!(self.drain(cx))?;
            // It is not the client who is silent.
            self.shared.membership.enter(Phase::Answering);
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
