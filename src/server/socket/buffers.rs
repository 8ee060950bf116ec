//! Memory that answers pass through: buffers that a worker's connections share, and the header lines
//! of a connection's answer on their way to its socket.

use bytes::Bytes;

use crate::sync::{Mutex, lock};

/// Buffers kept for the next connection that gathers. A worker mostly uses one at a time.
const SPARE_BUFFERS_MAX: usize = 64;

/// Memory that a connection keeps for header lines: as much as those of most answers take.
const LINES_BYTES: usize = 1024;

/// Buffers of a worker to gather answers in. A connection has one only while something is gathered,
/// so that thousands of idle ones hold none, and those that are busy share one that is in the cache.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty buffer with room for `bytes`.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let spare = lock(&self.0).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    /// Gives a buffer back. One that had to grow is not kept.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        const GROWN_BYTES: usize = 64 * 1024;
        let mut spare = lock(&self.0);
        if spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() < GROWN_BYTES {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// The header lines of a connection's answer, until its head passes. Hyper asks for no other answer
/// before that.
#[derive(Debug, Default)]
pub(crate) struct Prepared(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    are_there: bool,
}

impl Prepared {
    /// Takes in the lines that `write` writes.
    pub(crate) fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = lock(&self.0);
        debug_assert!(!lines.are_there, "one answer at a time");
        lines.text.clear();
        write(&mut lines.text);
        lines.are_there = true;
    }

    /// Whether there are no lines.
    pub(crate) fn is_empty(&self) -> bool {
        !lock(&self.0).are_there
    }

    /// Gives the lines to `read`, and forgets them. `false` if there are none.
    pub(crate) fn take(&self, read: impl FnOnce(&[u8])) -> bool {
        let mut lines = lock(&self.0);
        if !lines.are_there {
            return false;
        }
        lines.are_there = false;
        read(&lines.text);
        lines.text.clear();
        // The links of a search that is kilobytes long are: an idle connection has no use for that.
        lines.text.shrink_to(LINES_BYTES);
        true
    }
}

/// The body of a connection's last response. Hyper may end before it has offered all of that; then the rest
/// is taken from here, where it costs no copy.
#[derive(Debug, Default)]
pub(crate) struct LastBody(Mutex<Bytes>);

impl LastBody {
    pub(crate) fn put(&self, body: Bytes) {
        *lock(&self.0) = body;
    }

    /// Takes the body, if it is as long as what hyper offers of it.
    pub(crate) fn take(&self, offered_bytes: usize) -> Option<Bytes> {
        let mut body = lock(&self.0);
        (body.len() == offered_bytes).then(|| std::mem::take(&mut *body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_once_and_leave_little_behind() {
        let prepared = Prepared::default();
        for length in [0, 1, 500, 5000, 9] {
            assert!(prepared.is_empty());
            assert!(!prepared.take(|_| panic!("nothing is there")));
            let lines = vec![b'x'; length];
            prepared.put(|text| text.extend_from_slice(&lines));
            assert!(!prepared.is_empty());
            let mut taken = None;
            assert!(prepared.take(|lines| taken = Some(lines.to_vec())));
            assert_eq!(taken, Some(lines));
            assert!(lock(&prepared.0).text.capacity() <= LINES_BYTES);
        }
    }

    #[test]
    fn a_worker_keeps_few_buffers_and_none_that_grew_much() {
        let buffers = Buffers::default();
        buffers.give_back(Vec::with_capacity(64 * 1024));
        assert!(lock(&buffers.0).is_empty());
        for _ in 0..2 * SPARE_BUFFERS_MAX {
            buffers.give_back(b"left by another".to_vec());
        }
        assert_eq!(lock(&buffers.0).len(), SPARE_BUFFERS_MAX);
        for _ in 0..SPARE_BUFFERS_MAX {
            assert_eq!(buffers.take(1000), b"");
        }
        assert!(buffers.take(1000).capacity() >= 1000, "a new one");
    }
}
