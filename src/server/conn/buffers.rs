//! `Buffers`: memory in which a worker's connections gather responses.

use crate::sync::{Mutex, lock};

/// Buffers kept for the next connection that gathers. A worker mostly uses one at a time.
const SPARE_BUFFERS_MAX: usize = 64;

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

#[cfg(test)]
mod tests {
    use super::*;

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
