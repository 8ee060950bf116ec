//! `ConnectionState`: the phase of one connection, and whether it is to end. `TimeSlice`: the time that it may use
//! before other connections of its worker get theirs.

use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::observe::CloseReason;
use crate::sync::{AtomicU64, Ordering};

const IN_TIME: u64 = 0;
/// The connection is overdue, and its task was woken. A busy worker may not have noticed what the client
/// has sent or taken.
const OVERDUE: u64 = 1;
/// The task has run since, and runs once more after the runtime has polled for events.
const OVERDUE_AND_POLLED: u64 = 2;
/// The task has run after that poll. If the connection is still overdue at the next check, it is closed.
const OVERDUE_AND_IDLE: u64 = 3;
/// The task of the connection must close it; the number of the reason is added.
const CLOSING: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// The TLS handshake is under way, or no byte of it has come yet.
    Handshake,
    /// No byte of a request has come yet.
    New,
    /// A head is being read, or none of its response was written yet.
    Head,
    /// The socket has taken some of a response, or a response waits for a disk, a form or the store.
    Processing,
    /// A response waits for the client to take it.
    Sending,
    /// The client has taken all responses.
    Idle,
    /// The last response was sent; what the client still sends is discarded.
    Closing,
}

impl ConnectionPhase {
    pub(crate) const ALL: [ConnectionPhase; 7] = [
        ConnectionPhase::Handshake,
        ConnectionPhase::New,
        ConnectionPhase::Head,
        ConnectionPhase::Processing,
        ConnectionPhase::Sending,
        ConnectionPhase::Idle,
        ConnectionPhase::Closing,
    ];
    const BITS: u32 = 3;

    /// Packs the phase and the tick at which it began into a word.
    pub(crate) fn since(self, ticks: u64) -> u64 {
        ticks << ConnectionPhase::BITS | self as u64
    }

    fn unpack(word: u64) -> (ConnectionPhase, u64) {
        let at = usize::try_from(word & ((1 << ConnectionPhase::BITS) - 1)).expect("three bits");
        (ConnectionPhase::ALL[at], word >> ConnectionPhase::BITS)
    }

    /// The reason for which a connection is closed that stays in this phase for too long.
    pub(crate) fn close_reason(self) -> CloseReason {
        match self {
            ConnectionPhase::Handshake => CloseReason::Handshake,
            ConnectionPhase::New => CloseReason::FirstByte,
            ConnectionPhase::Head => CloseReason::Head,
            ConnectionPhase::Processing | ConnectionPhase::Sending => CloseReason::Send,
            ConnectionPhase::Idle | ConnectionPhase::Closing => CloseReason::Idle,
        }
    }

    /// Whether the server waits for the client, and closing the connection would lose no response.
    pub(crate) fn waits_for_client(self) -> bool {
        !matches!(self, ConnectionPhase::Processing | ConnectionPhase::Sending)
    }
}

/// The state of a connection, which its task and the registry share.
#[derive(Debug)]
pub(in crate::server) struct ConnectionState {
    /// The phase, and the tick at which it began.
    pub(in crate::server) phase: AtomicU64,
    /// Ticks beyond the timeout in which the slowest client would have read what this one has taken before, or has
    /// left to read.
    pub(in crate::server) grace: AtomicU64,
    /// One of the constants above.
    closing: AtomicU64,
    waker: OnceLock<Waker>,
}

impl ConnectionState {
    pub(in crate::server) fn new(tick: u64) -> ConnectionState {
        ConnectionState {
            phase: AtomicU64::new(ConnectionPhase::New.since(tick)),
            grace: AtomicU64::new(0),
            closing: AtomicU64::new(IN_TIME),
            waker: OnceLock::new(),
        }
    }

    pub(in crate::server) fn phase(&self) -> (ConnectionPhase, u64) {
        ConnectionPhase::unpack(self.phase.load(Ordering::Relaxed))
    }

    /// Ends the connection at the second check that finds it overdue, and not before its task has
    /// run in between: no connection is closed for a delay of the server's own.
    pub(in crate::server) fn check(&self, is_overdue: bool, reason: CloseReason) {
        let seen = self.closing.load(Ordering::Relaxed);
        // The task may run meanwhile; the next check sees that.
        match (seen, is_overdue) {
            (OVERDUE | OVERDUE_AND_POLLED | OVERDUE_AND_IDLE, false) => {
                self.transition(seen, IN_TIME);
            }
            (IN_TIME, true) => {
                self.transition(seen, OVERDUE);
                self.wake();
            }
            (OVERDUE_AND_IDLE, true) => self.close(reason),
            _ => {}
        }
    }

    /// Makes the connection's task close it.
    pub(in crate::server) fn close(&self, reason: CloseReason) {
        self.closing
            .store(CLOSING + reason as u64, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Polls the connection's work, unless the connection is to end. The task is woken when that
    /// changes.
    #[inline]
    pub(in crate::server) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, CloseReason>> {
        // One task polls a connection all its life.
        self.waker.get_or_init(|| cx.waker().clone());
        if let Some(at) = self.closing.load(Ordering::Relaxed).checked_sub(CLOSING) {
            let at = usize::try_from(at).expect("one of a few");
            return Poll::Ready(Err(CloseReason::ALL[at]));
        }
        let polled = work(cx).map(Ok);
        match self.closing.load(Ordering::Relaxed) {
            OVERDUE if polled.is_pending() => {
                self.transition(OVERDUE, OVERDUE_AND_POLLED);
                poll_yield(cx)
            }
            OVERDUE_AND_POLLED if polled.is_pending() => {
                self.transition(OVERDUE_AND_POLLED, OVERDUE_AND_IDLE);
                Poll::Pending
            }
            _ => polled,
        }
    }

    /// Changes the stored value, unless another thread has changed it.
    fn transition(&self, seen: u64, next: u64) {
        let _ = self
            .closing
            .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(in crate::server) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed) >= CLOSING
    }
}

/// A connection that has used this much time yields to the others, so a pipeline of requests that
/// cost a millisecond each takes turns with them.
const TIME_SLICE: Duration = Duration::from_millis(1);

/// The time that a connection has used since its task was polled. Only work that may take long is
/// measured: most requests take microseconds, and their number is limited.
#[derive(Debug, Default)]
pub(crate) struct TimeSlice {
    used_nanos: AtomicU64,
}

impl TimeSlice {
    /// Begins a time slice: the connection's task is polled.
    #[inline]
    pub(crate) fn begin(&self) {
        self.used_nanos.store(0, Ordering::Relaxed);
    }

    /// Runs work and adds its time.
    #[inline]
    pub(crate) fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // One thread polls the connection, so nothing is lost between the two.
        let used = self.used_nanos.load(Ordering::Relaxed);
        self.used_nanos
            .store(used.saturating_add(nanos), Ordering::Relaxed);
        done
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        u128::from(self.used_nanos.load(Ordering::Relaxed)) >= TIME_SLICE.as_nanos()
    }
}

/// Returns `Pending`, and wakes the task after all other ready tasks have run and new events were
/// polled. A task that wakes itself is polled again before that.
pub(crate) fn poll_yield<T>(cx: &mut Context<'_>) -> Poll<T> {
    let mut yielding = std::pin::pin!(tokio::task::yield_now());
    let pending = yielding.as_mut().poll(cx);
    debug_assert!(pending.is_pending(), "it yields once");
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_phases_are_read_back_from_what_was_stored() {
        for phase in ConnectionPhase::ALL {
            for ticks in [0, 1, u64::MAX >> ConnectionPhase::BITS] {
                assert_eq!(ConnectionPhase::unpack(phase.since(ticks)), (phase, ticks));
            }
        }
    }

    #[test]
    fn a_time_slice_is_over_when_its_time_is_used_and_begins_again() {
        let slice = TimeSlice::default();
        assert!(!slice.is_over());
        while !slice.is_over() {
            slice.spend(|| std::thread::sleep(TIME_SLICE / 4));
        }
        slice.begin();
        assert!(!slice.is_over());
    }
}
