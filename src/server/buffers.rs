//! Memory that answers pass through: buffers that a worker's connections share, and the header lines
//! of a connection's answers on their way to its socket.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

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
        let spare = locked(&self.0).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    /// Gives a buffer back. One that had to grow is not kept.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        const GROWN_BYTES: usize = 64 * 1024;
        let mut spare = locked(&self.0);
        if spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() < GROWN_BYTES {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// Header lines of answers, first come, first out.
#[derive(Debug, Default)]
pub(crate) struct Prepared(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    /// Where the first lines begin in the text.
    start: usize,
    /// The length of each answer's lines.
    lengths: VecDeque<usize>,
}

impl Prepared {
    /// Adds the lines that `write` writes.
    pub(crate) fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = locked(&self.0);
        let before = lines.text.len();
        write(&mut lines.text);
        let length = lines.text.len() - before;
        lines.lengths.push_back(length);
    }

    /// Whether there are no lines.
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).lengths.is_empty()
    }

    /// Gives the lines that were added first to `read`, and forgets them. `false` if there are none.
    pub(crate) fn take(&self, read: impl FnOnce(&[u8])) -> bool {
        let mut lines = locked(&self.0);
        let Some(length) = lines.lengths.pop_front() else {
            return false;
        };
        let end = lines.start + length;
        read(&lines.text[lines.start..end]);
        lines.start = end;
        if lines.lengths.is_empty() {
            lines.start = 0;
            lines.text.clear();
            // The links of a search that is kilobytes long are: an idle connection has no use for that.
            lines.text.shrink_to(LINES_BYTES);
        }
        true
    }
}

/// Taken by one thread only, so never waited for.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn lines_come_out_in_the_order_they_went_in() {
        arbtest::arbtest(|u| {
            let prepared = Prepared::default();
            let mut held: VecDeque<Vec<u8>> = VecDeque::new();
            for _ in 0..u.int_in_range(0..=60)? {
                if u.ratio(3, 5)? {
                    let length = *u.choose(&[0, 1, 9, 500, 5000])?;
                    let lines = vec![u.arbitrary()?; length];
                    prepared.add(|text| text.extend_from_slice(&lines));
                    held.push_back(lines);
                } else {
                    let mut taken = None;
                    let any = prepared.take(|lines| taken = Some(lines.to_vec()));
                    assert_eq!(taken, held.pop_front());
                    assert_eq!(any, taken.is_some());
                }
                assert_eq!(prepared.is_empty(), held.is_empty());
                // Nothing is left behind by a connection that is answered as it asks.
                if held.is_empty() {
                    assert_eq!(locked(&prepared.0).text, b"");
                    assert!(locked(&prepared.0).text.capacity() <= LINES_BYTES);
                }
            }
            Ok(())
        });
    }

    #[test]
    fn a_worker_keeps_few_buffers_and_none_that_grew_much() {
        let buffers = Buffers::default();
        buffers.give_back(Vec::with_capacity(64 * 1024));
        assert!(locked(&buffers.0).is_empty());
        for _ in 0..2 * SPARE_BUFFERS_MAX {
            buffers.give_back(b"left by another".to_vec());
        }
        assert_eq!(locked(&buffers.0).len(), SPARE_BUFFERS_MAX);
        for _ in 0..SPARE_BUFFERS_MAX {
            assert_eq!(buffers.take(1000), b"");
        }
        assert!(buffers.take(1000).capacity() >= 1000, "a new one");
    }
}
