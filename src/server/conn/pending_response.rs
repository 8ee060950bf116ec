//! `PendingResponse`: what the worker hands to the I/O adapter for each response, besides hyper's own
//! response: the header lines, and how the body is to be written.

use std::future::Future;

use bytes::Bytes;

use crate::sync::{Mutex, MutexGuard, lock};

/// Memory that a connection keeps for header lines: as much as those of most responses take.
const LINES_BYTES: usize = 1024;

/// The response of a connection that hyper has not written yet. Hyper requests no other before that.
#[derive(Debug, Default)]
pub(crate) struct PendingResponse(
    // Locked by one thread only, so there is never contention.
    Mutex<State>,
);

#[derive(Debug, Default)]
struct State {
    lines: Vec<u8>,
    /// Whether the lines are those of a response whose head has not passed yet.
    is_there: bool,
    /// The length of a body that comes in pieces.
    streamed_bytes: u64,
    /// Whether hyper may end the connection before it has offered all of the response, as after CONNECT, or
    /// after `upgrade` and a body.
    is_last: bool,
    /// The last body, if it is in memory: what hyper does not offer is taken from here, without a copy.
    last_body: Bytes,
    /// Whether a response waits, so that those before it are to be written meanwhile.
    waits: bool,
}

impl PendingResponse {
    /// Hands over a response whose header lines `write` appends, and whose body comes in pieces if
    /// `streamed_bytes` is not 0. Returns whether it is the last.
    pub(crate) fn put(&self, streamed_bytes: u64, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut state = self.state();
        debug_assert!(!state.is_there, "one response at a time");
        state.lines.clear();
        write(&mut state.lines);
        state.is_there = true;
        state.streamed_bytes = streamed_bytes;
        state.is_last
    }

    /// Hands over the body of the last response, if it is in memory and is sent.
    pub(crate) fn set_last_body(&self, body: Bytes) {
        self.state().last_body = body;
    }

    /// Marks the next response as the last, all of which hyper may not offer.
    pub(crate) fn set_last(&self) {
        self.state().is_last = true;
    }

    /// Waits for something that the response depends on. The responses before it are written meanwhile.
    pub(crate) async fn waiting<T>(&self, work: impl Future<Output = T>) -> T {
        self.state().waits = true;
        let done = work.await;
        self.state().waits = false;
        done
    }

    /// Whether a response waits.
    pub(in crate::server) fn waits(&self) -> bool {
        self.state().waits
    }

    /// Whether a head that passes now is the last: that of the last response, or one of hyper's own, for a
    /// request that it cannot read.
    pub(in crate::server) fn is_last(&self) -> bool {
        let state = self.state();
        state.is_last || !state.is_there
    }

    /// Gives the lines to `read`, and forgets them. Returns the length of a body that comes in pieces, or
    /// `None` if there is no response: the head is hyper's own.
    pub(in crate::server) fn take(&self, read: impl FnOnce(&[u8])) -> Option<u64> {
        let mut state = self.state();
        if !state.is_there {
            return None;
        }
        state.is_there = false;
        read(&state.lines);
        state.lines.clear();
        // The links of a long search are kilobytes: an idle connection has no use for that.
        state.lines.shrink_to(LINES_BYTES);
        Some(state.streamed_bytes)
    }

    /// Takes the last body, if it is as long as what hyper offers of it.
    pub(in crate::server) fn take_last_body(&self, offered_bytes: usize) -> Option<Bytes> {
        let mut state = self.state();
        let is_whole = state.last_body.len() == offered_bytes;
        is_whole.then(|| std::mem::take(&mut state.last_body))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
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
            pending.put(length as u64, |text| text.extend_from_slice(&lines));
            assert!(!pending.is_last());
            let mut taken = None;
            let streamed = pending.take(|lines| taken = Some(lines.to_vec()));
            assert_eq!((streamed, taken), (Some(length as u64), Some(lines)));
            assert!(pending.state().lines.capacity() <= LINES_BYTES);
        }
    }

    #[test]
    fn the_last_body_is_given_whole_or_not_at_all() {
        let body = Bytes::from_static(b"body");
        let pending = PendingResponse::default();
        assert!(!pending.put(0, |_| {}), "it is not the last");
        assert_eq!(pending.take(|_| {}), Some(0));
        pending.set_last();
        assert!(pending.put(0, |_| {}));
        pending.set_last_body(body.clone());
        assert!(pending.is_last());
        assert_eq!(pending.take_last_body(3), None);
        assert_eq!(pending.take_last_body(4), Some(body));
    }
}
