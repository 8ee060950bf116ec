//! `Member`: what one connection shows of itself, and whether it is to end.

use std::sync::OnceLock;
use std::task::{Context, Waker};

use super::phase::Phase;
use crate::observe::Cut;
use crate::sync::{AtomicU64, Ordering};

/// The connection is within its limits.
const IN_TIME: u64 = 0;
/// It was found overdue, and its task was woken: what the client has sent or taken may not have been looked
/// at yet, if the worker was busy.
const OVERDUE: u64 = 1;
/// Its task has run since. If it is overdue at the next look too, it ends.
const OVERDUE_AND_POLLED: u64 = 2;
/// It is to end, for the reason that is added.
const ENDS: u64 = 3;

/// What a connection shows of itself.
#[derive(Debug)]
pub(super) struct Member {
    /// Place among the members.
    pub(super) at: AtomicU64,
    /// What it is doing, and since which tick.
    pub(super) state: AtomicU64,
    /// Ticks that its client has beyond the limit to take some of an answer.
    pub(super) grace: AtomicU64,
    /// Whether it is to end, and why: one of the constants below, or from [`ENDS`] on the reason.
    ends: AtomicU64,
    waker: OnceLock<Waker>,
}

impl Member {
    pub(super) fn new(at: usize, joined: u64) -> Member {
        Member {
            at: AtomicU64::new(at as u64),
            state: AtomicU64::new(Phase::Fresh.since(joined)),
            grace: AtomicU64::new(0),
            ends: AtomicU64::new(IN_TIME),
            waker: OnceLock::new(),
        }
    }

    pub(super) fn doing(&self) -> (Phase, u64) {
        Phase::of(self.state.load(Ordering::Relaxed))
    }

    /// Ends the connection at the second look that finds it overdue, and not before its task has run in
    /// between: a client is not cut for a delay of the server's own.
    pub(super) fn look(&self, is_overdue: bool, cut: Cut) {
        let seen = self.ends.load(Ordering::Relaxed);
        let turn_to = |next| {
            // The task may have run meanwhile; the next look sees that.
            let _ = self
                .ends
                .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
        };
        match (seen, is_overdue) {
            (OVERDUE | OVERDUE_AND_POLLED, false) => turn_to(IN_TIME),
            (IN_TIME, true) => {
                turn_to(OVERDUE);
                self.wake();
            }
            (OVERDUE_AND_POLLED, true) => self.end(cut),
            _ => {}
        }
    }

    /// Has the connection's task end it.
    pub(super) fn end(&self, cut: Cut) {
        self.ends.store(ENDS + cut as u64, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    pub(super) fn place(&self) -> usize {
        usize::try_from(self.at.load(Ordering::Relaxed)).expect("it was a length")
    }

    /// The reason for which the task that polls is to end the connection, if it is to.
    #[inline]
    pub(super) fn poll_ends(&self, cx: &Context<'_>) -> Option<Cut> {
        // One task polls a connection all its life.
        self.waker.get_or_init(|| cx.waker().clone());
        let ends = &self.ends;
        let seen = ends.load(Ordering::Relaxed);
        if seen == OVERDUE {
            let polled = OVERDUE_AND_POLLED;
            let _ = ends.compare_exchange(seen, polled, Ordering::Relaxed, Ordering::Relaxed);
        }
        let at = usize::try_from(seen.checked_sub(ENDS)?).expect("one of a few");
        Some(Cut::ALL[at])
    }

    /// Whether it is to end.
    pub(super) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed) >= ENDS
    }
}
