//! `ConnectionContext`: the state that the parts of one connection share. It has the values that the
//! request handler passes to the I/O adapter besides hyper's own response: header lines and body, and
//! the lines of the access log.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Body;

use crate::observe::{AccessLogBuffer, LocalCounter, WorkerMetrics};
use crate::server::conn::registry::ConnectionHandle;
use crate::server::conn::time_slice::TimeSlice;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

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
            access_log: PendingAccessLog {
                buffer: access_log,
                lines: Mutex::default(),
            },
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

/// A body that comes in pieces.
pub(crate) type BodyStream = Pin<Box<dyn Body<Data = Bytes, Error = io::Error> + Send>>;

/// The body of a response.
pub(crate) enum ResponseBody {
    Whole(Bytes),
    /// No bytes, with the length that there would be if it is known: for HEAD.
    Omitted(Option<u64>),
    /// A stream of known length.
    Stream(BodyStream),
}

impl ResponseBody {
    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            ResponseBody::Whole(bytes) => bytes.len() as u64,
            ResponseBody::Omitted(bytes) => bytes.unwrap_or(0),
            ResponseBody::Stream(stream) => stream.size_hint().lower(),
        }
    }

    /// The same for HEAD.
    pub(crate) fn omitted(&self) -> ResponseBody {
        ResponseBody::Omitted(match self {
            ResponseBody::Omitted(bytes) => *bytes,
            body => Some(body.bytes()),
        })
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

/// The response of a connection whose head hyper has not written yet. Hyper does not pass another
/// request to the handler before that.
#[derive(Debug, Default)]
pub(crate) struct PendingResponse {
    /// The header lines, in a buffer of the worker's pool, and the body.
    // Locked by one thread only, so there is never contention.
    response: Mutex<Option<(Vec<u8>, ResponseBody)>>,
    /// Whether hyper may end the connection before it has written the head, as after CONNECT, or
    /// after `upgrade` and a body.
    is_last: AtomicBool,
    /// Whether a response waits, so that those before it are to be written meanwhile.
    waits: AtomicBool,
}

impl PendingResponse {
    /// Puts a response.
    pub(in crate::server) fn put(&self, lines: Vec<u8>, body: ResponseBody) {
        let before = lock(&self.response).replace((lines, body));
        debug_assert!(before.is_none(), "one response at a time");
    }

    /// Marks the next response as the last.
    pub(crate) fn set_last(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Waits for work that the response depends on. The responses before it are written meanwhile.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.waits.store(true, Ordering::Relaxed);
        let done = work.await;
        self.waits.store(false, Ordering::Relaxed);
        done
    }

    /// Whether a response waits.
    pub(in crate::server) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Whether a head that hyper writes now is the last: that of the last response, or one of
    /// hyper's own, for a request that it cannot parse.
    pub(in crate::server) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed) || lock(&self.response).is_none()
    }

    /// Takes header lines and body. There are none if the head is hyper's own.
    pub(in crate::server) fn take(&self) -> Option<(Vec<u8>, ResponseBody)> {
        lock(&self.response).take()
    }
}

/// The lines of one connection whose responses the client has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct PendingAccessLog {
    /// `None` where there is no access log.
    buffer: Option<Arc<AccessLogBuffer>>,
    // Locked by one thread only, so there is never contention.
    /// Each without the time that the response took, and when its request was read.
    lines: Mutex<Vec<(String, Instant)>>,
}

impl PendingAccessLog {
    /// Whether there is an access log.
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.buffer.is_some()
    }

    /// Adds a line, of a request that was read at `begun`.
    pub(crate) fn push(&self, text: String, begun: Instant) {
        lock(&self.lines).push((text, begun));
    }

    /// Writes the lines: the client has taken all responses.
    #[inline]
    pub(crate) fn write(&self) {
        if let Some(buffer) = &self.buffer {
            self.write_to(buffer, "");
        }
    }

    #[cold]
    fn write_to(&self, buffer: &AccessLogBuffer, end: &str) {
        for (text, begun) in lock(&self.lines).drain(..) {
            let micros = begun.elapsed().as_micros();
            buffer.line(&format!("{text} us={micros}{end}"));
        }
    }
}

/// Responses that were under way when the connection broke are logged as cut.
impl Drop for PendingAccessLog {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.write_to(&buffer, " cut=yes");
        }
    }
}
