//! `TimeSlice`: the time that a connection may use before other connections of its worker get theirs.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Ordering};

/// A connection that has used this much time yields to the others, so a pipeline of requests that
/// cost a millisecond each takes turns with them.
const TIME_SLICE: Duration = Duration::from_millis(1);

/// The time that a connection has used since its task was polled. Only work that may take long is
/// measured: most requests take microseconds, and hyper yields by itself after sixteen of them.
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

    /// Whether the connection is to yield.
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
