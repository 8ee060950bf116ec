//! [`CounterSlab`]: the words of a counter table, in a mapped file or on the heap.

use std::ops::Deref;

use super::mapped::MappedCounters;
use crate::sync::{AtomicU64, Ordering};

/// Words in a cache line.
pub(crate) const LINE: usize = 64 / 8;
/// Words in a page of the smallest size that systems use.
const PAGE: usize = 4096 / 8;

/// A fixed number of counters shared by threads, aligned to a cache line.
#[derive(Debug)]
pub(crate) enum CounterSlab {
    /// Counters mapped from a file, which outlive the process and may be shared with other processes,
    /// or from anonymous memory.
    Mapped(MappedCounters),
    /// Counters on the heap, where no memory can be mapped, as in a loom model.
    Heap(Box<[AtomicU64]>),
}

impl CounterSlab {
    /// Allocates counters of zero and touches every page, so that memory use does not grow later.
    pub(crate) fn zeroed(len: usize) -> CounterSlab {
        let words = match MappedCounters::anonymous(len) {
            Ok(words) => CounterSlab::Mapped(words),
            Err(_) => CounterSlab::Heap((0..len).map(|_| AtomicU64::new(0)).collect()),
        };
        for word in words.iter().step_by(PAGE) {
            word.store(0, Ordering::Relaxed);
        }
        words
    }

    /// Sets the counters to zero for which `keep` returns `false`, given their index and bits.
    pub(crate) fn retain(&self, keep: impl Fn(usize, u64) -> bool) {
        for (at, word) in self.iter().enumerate() {
            let bits = word.load(Ordering::Relaxed);
            if bits != 0 && !keep(at, bits) {
                // If the swap fails, another thread has stored a newer count, which stays.
                let _ = word.compare_exchange(bits, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

impl Deref for CounterSlab {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match self {
            CounterSlab::Mapped(words) => words,
            CounterSlab::Heap(words) => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_begin_at_a_cache_line() {
        for len in [1, 8, 9, 4096, 100_000] {
            let words = CounterSlab::zeroed(len);
            assert_eq!(words.len(), len);
            assert_eq!(words.as_ptr().addr() % (LINE * 8), 0);
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
    }
}
