//! `ConnectionContext`: the state that the parts of one connection share. Through it, the request handler
//! passes to the I/O adapter, `TimedIo`, all that hyper's own response lacks: header lines, body, and the
//! line of the access log.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::observe::{LocalCounter, LogBuffer, WorkerMetrics};
use crate::server::conn::connection_state::{ConnectionPhase, ConnectionState, TimeSlice};
use crate::server::conn::limiter::Permit;
use crate::server::conn::registry::{ConnectionRegistry, duration, ticks};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// The state that the request handler, the I/O adapter and the driver of one connection share. The
/// connection leaves the registry when this is dropped.
pub(crate) struct ConnectionContext {
    /// The response whose head hyper has not written yet. Hyper does not pass another request to the handler before
    /// that.
    // This lock and the next are taken by one thread only, so there is never contention.
    response: Mutex<Option<ReadyResponse>>,
    /// The lines of the access log whose responses the socket has not taken yet.
    log_lines: Mutex<Vec<LogLine>>,
    /// Whether a response waits, so that those before it are to be written meanwhile.
    waits: AtomicBool,
    pub(crate) time_slice: TimeSlice,
    pub(crate) requests: LocalCounter,
    pub(in crate::server) registry: Arc<ConnectionRegistry>,
    pub(in crate::server) state: Arc<ConnectionState>,
    /// The tick at which the connection was accepted.
    accepted: u64,
    /// `None` where connections are not limited.
    _permit: Option<Permit>,
    pub(crate) is_tls: bool,
}

impl ConnectionContext {
    pub(in crate::server) fn join(
        registry: &Arc<ConnectionRegistry>,
        permit: Option<Permit>,
        is_tls: bool,
    ) -> Arc<ConnectionContext> {
        let state = registry.join();
        Arc::new(ConnectionContext {
            response: Mutex::default(),
            log_lines: Mutex::default(),
            waits: AtomicBool::new(false),
            time_slice: TimeSlice::default(),
            requests: LocalCounter::default(),
            registry: Arc::clone(registry),
            accepted: state.phase().1,
            state,
            _permit: permit,
            is_tls,
        })
    }

    pub(crate) fn metrics(&self) -> &WorkerMetrics {
        &self.registry.metrics
    }

    #[inline]
    pub(crate) fn phase(&self) -> ConnectionPhase {
        self.state.phase().0
    }

    #[inline]
    pub(crate) fn enter(&self, phase: ConnectionPhase) {
        let since = phase.since(self.registry.now());
        self.state.phase.store(since, Ordering::Relaxed);
    }

    /// Records that a phase begins in which the client has, beyond the timeout, the time in which the
    /// slowest one reads so many bytes.
    pub(crate) fn wait_for_reader(&self, phase: ConnectionPhase, bytes: u64) {
        let rate = u64::from(self.registry.limits.send_rate);
        let grace = bytes * ticks(Duration::from_secs(1)) / rate;
        self.state.grace.store(grace, Ordering::Relaxed);
        self.enter(phase);
    }

    #[inline]
    pub(crate) fn age(&self) -> Duration {
        duration(self.registry.now().saturating_sub(self.accepted))
    }

    pub(in crate::server) fn put_response(&self, response: ReadyResponse) {
        let before = lock(&self.response).replace(response);
        debug_assert!(before.is_none(), "one response at a time");
    }

    /// Takes the response. There is none if the head is hyper's own.
    pub(in crate::server) fn take_response(&self) -> Option<ReadyResponse> {
        lock(&self.response).take()
    }

    /// Waits for work that the response depends on. The responses before it are written meanwhile.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.waits.store(true, Ordering::Relaxed);
        let done = work.await;
        self.waits.store(false, Ordering::Relaxed);
        done
    }

    pub(in crate::server) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Adds a line to the access log, which is written when the socket has taken the response.
    pub(crate) fn log(&self, line: LogLine) {
        lock(&self.log_lines).push(line);
    }

    /// Writes the lines of the access log: the client has taken all responses.
    #[inline]
    pub(crate) fn write_log(&self) {
        if let Some(buffer) = &self.registry.access_log {
            self.write_log_to(buffer, "");
        }
    }

    #[cold]
    fn write_log_to(&self, buffer: &LogBuffer, end: &str) {
        for (text, begun) in lock(&self.log_lines).drain(..) {
            let micros = begun.elapsed().as_micros();
            buffer.line(&format!("{text} us={micros}{end}"));
        }
    }
}

impl Drop for ConnectionContext {
    fn drop(&mut self) {
        // A connection whose task panicked: this is dropped while the task unwinds.
        if std::thread::panicking() {
            self.metrics().counters.panics.add(1);
        }
        // Responses that were under way when the connection broke are logged as cut, also one without a head.
        if let Some((_, _, Some(line))) = self.take_response() {
            self.log(line);
        }
        if let Some(buffer) = &self.registry.access_log {
            self.write_log_to(buffer, " cut=yes");
        }
        self.registry.leave(&self.state);
    }
}

/// The header lines of a response, in a buffer of the worker's pool, its body, and its line of the access log.
pub(in crate::server) type ReadyResponse = (Vec<u8>, ResponseBody, Option<LogLine>);

/// A line of the access log without the time that the response took, and when the request was read.
pub(crate) type LogLine = (String, Instant);

/// A body, or the rest of one, that comes in pieces.
pub(crate) struct BodyStream {
    /// Its length in bytes, which is not 0.
    pub(crate) left: u64,
    pub(crate) next: NextPiece,
}

/// The next piece, and the rest if it is not the last. Nothing is read before this is polled.
pub(crate) type NextPiece =
    Pin<Box<dyn Future<Output = io::Result<(Bytes, Option<BodyStream>)>> + Send>>;

pub(crate) enum ResponseBody {
    Whole(Bytes),
    /// No bytes, with the length that there would be if it is known: for HEAD.
    Omitted(Option<u64>),
    Stream(BodyStream),
}

impl ResponseBody {
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            ResponseBody::Whole(bytes) => Some(bytes.len() as u64),
            ResponseBody::Omitted(bytes) => *bytes,
            ResponseBody::Stream(stream) => Some(stream.left),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.length().unwrap_or(0)
    }
}
