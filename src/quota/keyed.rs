//! Daily quotas of keys: one counter per key, indexed by the key's number, each on its own cache line.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::counter_file::{FileLayout, open};
use super::key_counter;
use super::limits::Decision;
use super::mapped::{CounterSlab, LINE};
use crate::calendar::UtcDay;
use crate::model::KEYS_MAX;
use crate::sync::{AtomicU64, Mutex, lock};

const SEGMENT_LOG2: u32 = 16;
/// Keys per segment. Counters are allocated by segment, 4 MiB each.
const SEGMENT_KEYS: usize = 1 << SEGMENT_LOG2;
const SEGMENTS: usize = KEYS_MAX as usize / SEGMENT_KEYS;
const FILE_KIND: u32 = 2;

/// The counters of all keys. Memory grows with the number of keys, 64 bytes per key.
#[derive(Debug)]
pub struct KeyedQuota {
    segments: Box<[OnceLock<CounterSlab>]>,
    /// Directory of the counter files; `None` for private memory.
    directory: Option<PathBuf>,
    growing: Mutex<()>,
}

impl KeyedQuota {
    /// Creates counters in files of a directory, or in private memory if it is `None`.
    pub fn new(directory: Option<PathBuf>) -> KeyedQuota {
        KeyedQuota {
            segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(),
            directory,
            growing: Mutex::new(()),
        }
    }

    /// Allocates the missing counters for key numbers below `keys`. Counters in files whose day is not
    /// `today` or a day beside it are set to zero; `log` is called with a line for each damaged file.
    pub fn reserve(&self, keys: u32, today: UtcDay, log: &dyn Fn(&str)) -> io::Result<()> {
        let _growing = lock(&self.growing);
        let required = (keys as usize).div_ceil(SEGMENT_KEYS).min(SEGMENTS);
        let keep = |_, bits| key_counter::is_beside(bits, today);
        for (number, segment) in (0..).zip(&self.segments[..required]) {
            if segment.get().is_some() {
                continue;
            }
            let words = SEGMENT_KEYS * LINE;
            let counters = match &self.directory {
                None => CounterSlab::zeroed(words),
                Some(directory) => {
                    let layout = FileLayout {
                        kind: FILE_KIND,
                        sizes: [number, SEGMENT_LOG2],
                        words,
                    };
                    let name = format!("quota-keys-{number}");
                    open(directory, &name, layout, keep, log)?.0
                }
            };
            // The lock excludes other writers, so the segment is still empty.
            let _ = segment.set(counters);
        }
        Ok(())
    }

    /// Counts a request of a key if it has one left on `day`. Refuses keys beyond the reserved range.
    #[inline]
    pub fn admit(&self, number: u32, limit: u32, day: UtcDay) -> Decision {
        match self.counter(number) {
            Some(counter) => key_counter::admit(counter, limit, day).0,
            None => Decision::Refuse,
        }
    }

    /// Returns the requests that a key has left on `day` without counting one.
    pub fn peek(&self, number: u32, limit: u32, day: UtcDay) -> u32 {
        self.counter(number)
            .map_or(0, |counter| key_counter::peek(counter, limit, day))
    }

    #[inline]
    fn counter(&self, number: u32) -> Option<&AtomicU64> {
        let number = number as usize;
        let segment = self.segments.get(number / SEGMENT_KEYS)?.get()?;
        segment.get(number % SEGMENT_KEYS * LINE)
    }
}
