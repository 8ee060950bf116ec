//! `Turn`: the time that a connection uses of its worker before other connections get theirs.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Ordering};

/// A connection that has used this much yields to the others, so a pipeline of requests that cost a
/// millisecond each takes turns with them.
const TURN: Duration = Duration::from_millis(1);

/// Time that a connection has used since its task was polled. Only work that may take long is measured:
/// most requests take microseconds, and hyper yields by itself after sixteen of them.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    used_nanos: AtomicU64,
}

impl Turn {
    /// Begins a turn: the connection's task is polled.
    #[inline]
    pub(crate) fn begin(&self) {
        self.used_nanos.store(0, Ordering::Relaxed);
    }

    /// Does some work as a part of the turn.
    #[inline]
    pub(crate) fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // One thread polls the connection, so nothing is lost between the two.
        let before = self.used_nanos.load(Ordering::Relaxed);
        self.used_nanos
            .store(before.saturating_add(nanos), Ordering::Relaxed);
        done
    }

    /// Whether the connection is to yield.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        u128::from(self.used_nanos.load(Ordering::Relaxed)) >= TURN.as_nanos()
    }

    /// `Pending`, with the task woken after all others that are ready have had their turn, and new events
    /// have been looked for. A task that wakes itself is polled again before that.
    pub(crate) fn poll_yield<T>(cx: &mut Context<'_>) -> Poll<T> {
        let mut yielding = std::pin::pin!(tokio::task::yield_now());
        let pending = yielding.as_mut().poll(cx);
        debug_assert!(pending.is_pending(), "it yields once");
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_when_its_time_is_used_and_begins_again() {
        let turn = Turn::default();
        assert!(!turn.is_over());
        while !turn.is_over() {
            turn.spend(|| std::thread::sleep(TURN / 4));
        }
        turn.begin();
        assert!(!turn.is_over());
    }
}
