//! `Member`: what one connection shows of itself, and whether it is to end.

use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use crate::observe::CloseReason;
use crate::server::conn::phase::Phase;
use crate::server::conn::turn::Turn;
use crate::sync::{AtomicU64, Ordering};

/// The connection is within its limits.
const IN_TIME: u64 = 0;
/// It was found overdue, and its task was woken. If the worker was busy, the worker may not have noticed what
/// the client has sent or taken.
const OVERDUE: u64 = 1;
/// Its task has run since, and is to run again when the runtime has looked for new events.
const OVERDUE_AND_POLLED: u64 = 2;
/// Its task has run after that too. If it is overdue at the next look, it ends.
const OVERDUE_AND_IDLE: u64 = 3;
/// It is to end, for the reason that is added.
const ENDS: u64 = 4;

/// What a connection shows of itself.
#[derive(Debug)]
pub(in crate::server) struct Member {
    /// Place among the members.
    pub(in crate::server) at: AtomicU64,
    /// What it is doing, and since which tick.
    pub(in crate::server) state: AtomicU64,
    /// Ticks that its client has beyond the limit to take some of an answer.
    pub(in crate::server) grace: AtomicU64,
    /// Whether it is to end, and why: one of the constants above, or from [`ENDS`] on the reason.
    ends: AtomicU64,
    waker: OnceLock<Waker>,
}

impl Member {
    pub(in crate::server) fn new(at: usize, joined: u64) -> Member {
        Member {
            at: AtomicU64::new(at as u64),
            state: AtomicU64::new(Phase::Fresh.since(joined)),
            grace: AtomicU64::new(0),
            ends: AtomicU64::new(IN_TIME),
            waker: OnceLock::new(),
        }
    }

    pub(in crate::server) fn doing(&self) -> (Phase, u64) {
        Phase::of(self.state.load(Ordering::Relaxed))
    }

    /// Ends the connection at the second look that finds it overdue, and not before its task has run in
    /// between: a client is not cut for a delay of the server's own.
    pub(in crate::server) fn look(&self, is_overdue: bool, cut: CloseReason) {
        let seen = self.ends.load(Ordering::Relaxed);
        // The task may run meanwhile; the next look sees that.
        let turn_to = |next| self.turn(seen, next);
        match (seen, is_overdue) {
            (OVERDUE | OVERDUE_AND_POLLED | OVERDUE_AND_IDLE, false) => turn_to(IN_TIME),
            (IN_TIME, true) => {
                turn_to(OVERDUE);
                self.wake();
            }
            (OVERDUE_AND_IDLE, true) => self.end(cut),
            _ => {}
        }
    }

    /// Has the connection's task end it.
    pub(in crate::server) fn end(&self, cut: CloseReason) {
        self.ends.store(ENDS + cut as u64, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    pub(in crate::server) fn place(&self) -> usize {
        usize::try_from(self.at.load(Ordering::Relaxed)).expect("it was a length")
    }

    /// Polls the connection's work, unless the connection is to end. The task is woken when that changes.
    #[inline]
    pub(in crate::server) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, CloseReason>> {
        // One task polls a connection all its life.
        self.waker.get_or_init(|| cx.waker().clone());
        if let Some(at) = self.ends.load(Ordering::Relaxed).checked_sub(ENDS) {
            let at = usize::try_from(at).expect("one of a few");
            return Poll::Ready(Err(CloseReason::ALL[at]));
        }
        let polled = work(cx).map(Ok);
        match self.ends.load(Ordering::Relaxed) {
            OVERDUE if polled.is_pending() => {
                self.turn(OVERDUE, OVERDUE_AND_POLLED);
                Turn::poll_yield(cx)
            }
            OVERDUE_AND_POLLED if polled.is_pending() => {
                self.turn(OVERDUE_AND_POLLED, OVERDUE_AND_IDLE);
                Poll::Pending
            }
            _ => polled,
        }
    }

    /// Changes what is stored, unless another thread has changed it.
    fn turn(&self, seen: u64, next: u64) {
        let _ = self
            .ends
            .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub(in crate::server) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed) >= ENDS
    }
}
