//! `Journal`: lines of the access log from when a request is answered to when its answer has left.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hyper::{Method, StatusCode};

use crate::calendar::UnixSeconds;
use crate::keys::KeyId;
use crate::observe::AccessLogBuffer;
use crate::server::http::request_id::RequestId;
use crate::sync::{Mutex, lock};

/// What a line says of a request. No field can hold a key: see [`request::loggable`](crate::request::loggable).
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) time: UnixSeconds,
    pub(crate) id: RequestId,
    pub(crate) client: IpAddr,
    pub(crate) key: Option<KeyId>,
    pub(crate) method: &'a Method,
    pub(crate) route: &'static str,
    pub(crate) target: &'a str,
    pub(crate) status: StatusCode,
    pub(crate) body_bytes: u64,
    pub(crate) gzip: bool,
}

/// One connection's lines.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Nothing is written where it is `None`.
    access_log: Option<Arc<AccessLogBuffer>>,
    // Taken only by this worker's one thread, so never waited for.
    waiting: Mutex<Vec<(String, Instant)>>,
}

impl Journal {
    pub(crate) fn new(access_log: Option<Arc<AccessLogBuffer>>) -> Journal {
        Journal {
            access_log,
            waiting: Mutex::default(),
        }
    }

    /// Whether lines are written at all.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.access_log.is_some()
    }

    /// Notes a request that was read at `begun`.
    pub(crate) fn note(&self, record: &Record<'_>, begun: Instant) {
        let line = record.to_string();
        let mut waiting = lock(&self.waiting);
        waiting.push((line, begun));
    }

    /// The answers to all that was noted have left.
    #[inline]
    pub(crate) fn left(&self) {
        if let Some(access_log) = &self.access_log {
            self.write(access_log, "");
        }
    }

    #[cold]
    fn write(&self, access_log: &AccessLogBuffer, end: &str) {
        let mut waiting = lock(&self.waiting);
        for (line, begun) in waiting.drain(..) {
            let micros = begun.elapsed().as_micros();
            access_log.line(|text| {
                text.extend_from_slice(format!("{line} us={micros}{end}").as_bytes());
            });
        }
    }
}

/// Answers that were under way when the connection broke are told as cut.
impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(access_log) = self.access_log.take() {
            self.write(&access_log, " cut=yes");
        }
    }
}

/// `name=value` pairs, a value in quotes where it may hold spaces.
impl std::fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.id.digits();
        let id = std::str::from_utf8(&id).expect("digits are ASCII");
        write!(f, "ts={} id={id} ip={}", self.time, self.client)?;
        if let Some(key) = self.key {
            write!(f, " key={key}")?;
        }
        write!(
            f,
            " method={} route={} target=\"{}\" status={} bytes={} enc={}",
            method(self.method),
            self.route,
            self.target,
            self.status.as_u16(),
            self.body_bytes,
            if self.gzip { "gzip" } else { "identity" }
        )
    }
}

/// A method that is known by its name; the name of any other might be anything, a key too.
fn method(method: &Method) -> &str {
    const KNOWN: [Method; 9] = [
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::TRACE,
        Method::CONNECT,
    ];
    if KNOWN.contains(method) {
        method.as_str()
    } else {
        "OTHER"
    }
}
