//! `ConnectionContext`: the state that the parts of one connection share.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::observe::{AccessLogBuffer, LocalCounter, WorkerMetrics};
use crate::server::conn::pending::{PendingAccessLog, PendingResponse};
use crate::server::conn::registry::ConnectionHandle;
use crate::server::conn::send_buffer::BufferPool;
use crate::sync::{AtomicU64, Ordering};

/// The state that the request handler, the I/O adapter and the driver of one connection share.
pub(crate) struct ConnectionContext {
    pub(crate) pending: PendingResponse,
    pub(crate) access_log: PendingAccessLog,
    pub(crate) time_slice: TimeSlice,
    /// Requests received.
    pub(crate) requests: LocalCounter,
    pub(crate) handle: ConnectionHandle,
    /// The worker's buffers.
    pub(crate) buffers: Arc<BufferPool>,
    /// The worker's counters.
    pub(crate) metrics: Arc<WorkerMetrics>,
}

impl ConnectionContext {
    pub(in crate::server) fn new(
        handle: ConnectionHandle,
        buffers: &Arc<BufferPool>,
        metrics: &Arc<WorkerMetrics>,
        access_log: Option<Arc<AccessLogBuffer>>,
    ) -> Arc<ConnectionContext> {
        Arc::new(ConnectionContext {
            pending: PendingResponse::default(),
            access_log: PendingAccessLog::new(access_log),
            time_slice: TimeSlice::default(),
            requests: LocalCounter::default(),
            handle,
            buffers: Arc::clone(buffers),
            metrics: Arc::clone(metrics),
        })
    }
}

/// Counts a connection whose task panicked: this is dropped while the task unwinds.
impl Drop for ConnectionContext {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.metrics.panics.add(1);
        }
    }
}

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
