//! Values that the request handler passes to the I/O adapter besides hyper's own response:
//! `PendingResponse` with the header lines and the way to write the body, and the lines of the
//! access log.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::observe::AccessLogBuffer;
use crate::sync::{Mutex, MutexGuard, lock};

/// Memory that a connection keeps for header lines: those of most responses fit.
const LINES_BYTES: usize = 1024;

/// The response of a connection that hyper has not written yet. Hyper does not pass another request
/// to the handler before that.
#[derive(Debug, Default)]
pub(crate) struct PendingResponse(
    // Locked by one thread only, so there is never contention.
    Mutex<PendingHead>,
);

#[derive(Debug, Default)]
struct PendingHead {
    lines: Vec<u8>,
    /// Whether the lines are those of a response whose head was not written yet.
    is_there: bool,
    /// The length of a body that comes in pieces; 0 of any other.
    streamed_bytes: u64,
    /// Whether hyper may end the connection before it has offered all of the response, as after
    /// CONNECT, or after `upgrade` and a body.
    is_last: bool,
    /// The last body, if it is in memory: what hyper does not offer is taken from here, without a
    /// copy.
    last_body: Bytes,
    /// Whether a response waits, so that those before it are to be written meanwhile.
    waits: bool,
}

impl PendingResponse {
    /// Puts a response, whose header lines `write` appends. `body` is the body that is sent, if it
    /// is in memory; `streamed_bytes` the length of one that comes in pieces.
    pub(crate) fn put(
        &self,
        body: Option<&Bytes>,
        streamed_bytes: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut head = self.head();
        debug_assert!(!head.is_there, "one response at a time");
        head.lines.clear();
        write(&mut head.lines);
        head.is_there = true;
        head.streamed_bytes = streamed_bytes;
        if let Some(body) = body
            && head.is_last
        {
            head.last_body = body.clone();
        }
    }

    /// Marks the next response as the last, all of which hyper may not offer.
    pub(crate) fn set_last(&self) {
        self.head().is_last = true;
    }

    /// Waits for work that the response depends on. The responses before it are written meanwhile.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.head().waits = true;
        let done = work.await;
        self.head().waits = false;
        done
    }

    /// Whether a response waits.
    pub(in crate::server) fn waits(&self) -> bool {
        self.head().waits
    }

    /// Whether a head that hyper writes now is the last: that of the last response, or one of
    /// hyper's own, for a request that it cannot parse.
    pub(in crate::server) fn is_last(&self) -> bool {
        let head = self.head();
        head.is_last || !head.is_there
    }

    /// Passes the lines to `read`, and clears them. Returns the length of a body that comes in
    /// pieces, or `None` if there is no response: the head is hyper's own.
    pub(in crate::server) fn take(&self, read: impl FnOnce(&[u8])) -> Option<u64> {
        let mut head = self.head();
        if !head.is_there {
            return None;
        }
        head.is_there = false;
        read(&head.lines);
        head.lines.clear();
        // The links of a long search are kilobytes: an idle connection has no use for that.
        head.lines.shrink_to(LINES_BYTES);
        Some(head.streamed_bytes)
    }

    /// Takes the last body, if it is as long as what hyper offers of it.
    pub(in crate::server) fn take_last_body(&self, offered_bytes: usize) -> Option<Bytes> {
        let mut head = self.head();
        let is_whole = head.last_body.len() == offered_bytes;
        is_whole.then(|| std::mem::take(&mut head.last_body))
    }

    fn head(&self) -> MutexGuard<'_, PendingHead> {
        lock(&self.0)
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
    pub(crate) fn new(buffer: Option<Arc<AccessLogBuffer>>) -> PendingAccessLog {
        PendingAccessLog {
            buffer,
            lines: Mutex::default(),
        }
    }

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
            buffer.line(|out| {
                out.extend_from_slice(format!("{text} us={micros}{end}").as_bytes());
            });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_once_and_leave_little_behind() {
        let pending = PendingResponse::default();
        for length in [0, 1, 500, 5000, 9] {
            assert!(pending.is_last());
            assert_eq!(pending.take(|_| panic!("nothing is there")), None);
            let lines = vec![b'x'; length];
            pending.put(None, length as u64, |text| text.extend_from_slice(&lines));
            assert!(!pending.is_last());
            let mut taken = None;
            let streamed = pending.take(|lines| taken = Some(lines.to_vec()));
            assert_eq!((streamed, taken), (Some(length as u64), Some(lines)));
            assert!(pending.head().lines.capacity() <= LINES_BYTES);
        }
    }

    #[test]
    fn the_last_body_is_taken_whole_or_not_at_all() {
        let body = Bytes::from_static(b"body");
        let pending = PendingResponse::default();
        pending.put(Some(&body), 0, |_| {});
        assert_eq!(pending.take_last_body(4), None, "it is not the last");
        assert_eq!(pending.take(|_| {}), Some(0));
        pending.set_last();
        pending.put(Some(&body), 0, |_| {});
        assert!(pending.is_last());
        assert_eq!(pending.take_last_body(3), None);
        assert_eq!(pending.take_last_body(4), Some(body));
    }
}
