//! The daily quota of keys: a cell for each, found by the key's number, alone on its cache line.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::counter_file::{FileLayout, StateError, open};
use super::counter_slab::{CounterSlab, LINE};
use super::decision::Decision;
use super::key_counter;
use crate::calendar::UtcDay;
use crate::model::KEYS_MAX;
use crate::sync::{AtomicU64, Mutex, lock};

const SEGMENT_LOG2: u32 = 16;
/// Keys whose cells are made at once: 4 MiB.
const SEGMENT_KEYS: usize = 1 << SEGMENT_LOG2;
const SEGMENTS: usize = KEYS_MAX as usize / SEGMENT_KEYS;
const FILE_KIND: u32 = 2;

/// The counters of all keys. Their memory follows the number of keys, 64 bytes for each.
#[derive(Debug)]
pub struct KeyedQuota {
    segments: Box<[OnceLock<CounterSlab>]>,
    /// Where the cells live; `None` in the process's own memory.
    directory: Option<PathBuf>,
    growing: Mutex<()>,
}

impl KeyedQuota {
    /// Counters in files of a directory, or in memory that ends with the process.
    pub fn new(directory: Option<PathBuf>) -> KeyedQuota {
        KeyedQuota {
            segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(),
            directory,
            growing: Mutex::new(()),
        }
    }

    /// Makes the cells of the keys with numbers below `keys`, where they are not there yet. `today`
    /// tells counts from damage in files; `log` gets a line for a file that is set aside.
    pub fn reserve(&self, keys: u32, today: UtcDay, log: &dyn Fn(&str)) -> Result<(), StateError> {
        let _growing = lock(&self.growing);
        let wanted = (keys as usize).div_ceil(SEGMENT_KEYS).min(SEGMENTS);
        for (number, segment) in (0..).zip(&self.segments[..wanted]) {
            if segment.get().is_none() {
                // Alone under the lock, so it is still empty.
                let _ = segment.set(self.segment(number, today, log)?);
            }
        }
        Ok(())
    }

    fn segment(
        &self,
        number: u32,
        today: UtcDay,
        log: &dyn Fn(&str),
    ) -> Result<CounterSlab, StateError> {
        let words = SEGMENT_KEYS * LINE;
        let Some(directory) = &self.directory else {
            return Ok(CounterSlab::zeroed(words));
        };
        let layout = FileLayout {
            kind: FILE_KIND,
            sizes: [number, SEGMENT_LOG2],
            words,
        };
        let keep = |_, bits| key_counter::is_beside(bits, today);
        let opened = open(directory, &format!("quota-keys-{number}"), layout, keep)?;
        if let Some(notice) = opened.notice {
            log(&notice);
        }
        Ok(opened.words)
    }

    /// Counts a request of the key with that number, if it has one left on that day. A key for
    /// which no room was made has none.
    #[inline]
    pub fn admit(&self, number: u32, limit: u32, day: UtcDay) -> Decision {
        match self.cell(number) {
            Some(cell) => key_counter::admit(cell, limit, day).0,
            None => Decision::Refuse,
        }
    }

    /// Requests that the key has left on that day. Counts nothing.
    pub fn peek(&self, number: u32, limit: u32, day: UtcDay) -> u32 {
        self.cell(number)
            .map_or(0, |cell| key_counter::peek(cell, limit, day))
    }

    #[inline]
    fn cell(&self, number: u32) -> Option<&AtomicU64> {
        let number = number as usize;
        let segment = self.segments.get(number / SEGMENT_KEYS)?.get()?;
        segment.get(number % SEGMENT_KEYS * LINE)
    }
}
