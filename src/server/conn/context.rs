//! `ConnectionContext`: the state that the parts of one connection share.

use std::sync::Arc;

use crate::observe::{AccessLogBuffer, LocalCounter, WorkerMetrics};
use crate::server::conn::pending::{PendingAccessLog, PendingResponse};
use crate::server::conn::registry::ConnectionHandle;
use crate::server::conn::time_slice::TimeSlice;

/// The state that the request handler, the I/O adapter and the driver of one connection share.
pub(crate) struct ConnectionContext {
    pub(crate) pending: PendingResponse,
    pub(crate) access_log: PendingAccessLog,
    pub(crate) time_slice: TimeSlice,
    /// Requests received.
    pub(crate) requests: LocalCounter,
    pub(crate) handle: ConnectionHandle,
    /// Whether the client speaks TLS.
    pub(crate) is_tls: bool,
    /// The worker's counters.
    pub(crate) metrics: Arc<WorkerMetrics>,
}

impl ConnectionContext {
    pub(in crate::server) fn new(
        handle: ConnectionHandle,
        is_tls: bool,
        metrics: &Arc<WorkerMetrics>,
        access_log: Option<Arc<AccessLogBuffer>>,
    ) -> Arc<ConnectionContext> {
        Arc::new(ConnectionContext {
            pending: PendingResponse::default(),
            access_log: PendingAccessLog::new(access_log),
            time_slice: TimeSlice::default(),
            requests: LocalCounter::default(),
            handle,
            is_tls,
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
