//! Daily quotas of keys: one counter per key, indexed by the key's number, each on its own cache line with the id of
//! the key.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::counter_file::{FileLayout, open};
use super::decision::Decision;
use super::key_counter;
use super::mapped::{CounterSlab, LINE};
use super::newest_day::NewestDay;
use crate::calendar::UtcDay;
use crate::model::KEYS_MAX;
use crate::regular_file::with_path;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

const SEGMENT_LOG2: u32 = 16;
/// Keys per segment. Counters are allocated by segment, 4 MiB each.
const SEGMENT_KEYS: usize = 1 << SEGMENT_LOG2;
const SEGMENT_WORDS: usize = SEGMENT_KEYS * LINE;
const SEGMENTS: usize = KEYS_MAX as usize / SEGMENT_KEYS;
const FILE_KIND: u32 = 2;

/// The words of a key: its counter, then its id.
type Line = [AtomicU64; LINE];

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

    /// Opens the counter files that exist in a directory, and adds their days to `newest`. `log` is called
    /// with a line for each damaged file.
    pub fn open(
        directory: &Path,
        newest: &mut NewestDay,
        log: &dyn Fn(&str),
    ) -> io::Result<KeyedQuota> {
        let quota = KeyedQuota::new(Some(directory.to_owned()));
        for (number, segment) in (0..).zip(&quota.segments) {
            let path = directory.join(file_name(number));
            if path.try_exists().map_err(with_path(&path))? {
                let counters = open_segment(directory, number, log)?;
                for word in counters.iter().step_by(LINE) {
                    let word = word.load(Ordering::Relaxed);
                    if word != 0 {
                        newest.add(key_counter::day(word));
                    }
                }
                let _ = segment.set(counters);
            }
        }
        Ok(quota)
    }

    /// Allocates the missing counters for key numbers below `keys`. `log` is called with a line for each
    /// damaged file.
    pub fn reserve(&self, keys: u32, today: UtcDay, log: &dyn Fn(&str)) -> io::Result<()> {
        let _growing = lock(&self.growing);
        let required = (keys as usize).div_ceil(SEGMENT_KEYS).min(SEGMENTS);
        for (number, segment) in (0..).zip(&self.segments[..required]) {
            if segment.get().is_some() {
                continue;
            }
            let counters = match &self.directory {
                None => CounterSlab::zeroed(SEGMENT_WORDS),
                Some(directory) => open_segment(directory, number, log)?,
            };
            clear_after(&counters, today);
            // The lock excludes other writers, so the segment is still empty.
            let _ = segment.set(counters);
        }
        Ok(())
    }

    /// Gives the counters to the keys with these numbers and ids. Numbers may have changed, since a key file can be lost
    /// or replaced by an older one: the count of a key moves with its id. Must be called after `reserve`, and before the
    /// numbers are used.
    pub fn assign(&self, keys: impl Iterator<Item = (u32, u64)>) {
        let _growing = lock(&self.growing);
        // Ids have fewer than 63 bits. The highest bit marks a line that has an id; 0 means no key.
        let keys = keys.map(|(number, id)| (self.line(number), id | 1 << 63));
        let keys = keys.filter_map(|(line, id)| Some((line?, id)));
        let word = |line: &Line, at: usize| line[at].load(Ordering::Relaxed);
        let changed: Vec<(&Line, u64)> = keys.filter(|(line, id)| word(line, 1) != *id).collect();
        if changed.is_empty() {
            return;
        }
        let exchange = |line: &Line, other: &Line| {
            for at in 0..2 {
                let moved = other[at].swap(word(line, at), Ordering::Relaxed);
                line[at].store(moved, Ordering::Relaxed);
            }
        };
        let open = self.segments.iter().filter_map(OnceLock::get);
        let lines = open.flat_map(|counters| counters.as_chunks::<LINE>().0);
        let mut places: HashMap<u64, Option<&Line>> =
            changed.iter().map(|(_, id)| (*id, None)).collect();
        for line in lines.clone() {
            if let Some(place) = places.get_mut(&word(line, 1)) {
                *place = Some(line);
            }
        }
        let mut new = Vec::new();
        for (line, id) in changed {
            let Some(from) = places[&id] else {
                new.push((line, id));
                continue;
            };
            // The other key may get another number too, or come back later, so its count is kept.
            exchange(line, from);
            if let Some(place) = places.get_mut(&word(from, 1)) {
                *place = Some(from);
            }
        }
        let mut free = lines.rev().filter(|line| word(line, 1) == 0);
        for (line, id) in new {
            // Another server on this directory may have given the line to the key, and counted.
            if word(line, 1) != id {
                if word(line, 1) != 0
                    && let Some(free) = free.next()
                {
                    exchange(line, free);
                }
                line[0].store(0, Ordering::Relaxed);
                line[1].store(id, Ordering::Relaxed);
            }
        }
    }

    /// Sets the counters of days after the one that follows `today` to zero. Returns their number.
    pub fn clear_after(&self, today: UtcDay) -> u64 {
        let open = self.segments.iter().filter_map(OnceLock::get);
        open.map(|counters| clear_after(counters, today)).sum()
    }

    /// Returns the requests of a key that are counted for `day`.
    pub fn count(&self, day: UtcDay, number: u32) -> u32 {
        self.counter(number).map_or(0, |counter| {
            key_counter::count(counter.load(Ordering::Relaxed), day)
        })
    }

    /// Counts a request of a key if it has one left on `day`. Refuses keys beyond the reserved range.
    #[inline]
    pub fn admit(&self, number: u32, limit: u32, day: UtcDay) -> Decision {
        match self.counter(number) {
            Some(counter) => key_counter::admit(counter, limit, day).0,
            None => Decision::Refuse,
        }
    }

    /// Returns the requests that a key has left on `day` without counting one; `None` beyond the reserved range.
    pub fn peek(&self, number: u32, limit: u32, day: UtcDay) -> Option<u32> {
        let counter = self.counter(number)?;
        Some(key_counter::peek(counter, limit, day))
    }

    #[inline]
    fn counter(&self, number: u32) -> Option<&AtomicU64> {
        self.line(number).map(|line| &line[0])
    }

    #[inline]
    fn line(&self, number: u32) -> Option<&Line> {
        let number = number as usize;
        let segment = self.segments.get(number / SEGMENT_KEYS)?.get()?;
        segment.as_chunks().0.get(number % SEGMENT_KEYS)
    }
}

fn file_name(segment: u32) -> String {
    format!("quota-keys-{segment}")
}

fn open_segment(directory: &Path, number: u32, log: &dyn Fn(&str)) -> io::Result<CounterSlab> {
    let layout = FileLayout {
        kind: FILE_KIND,
        sizes: [number, SEGMENT_LOG2],
        words: SEGMENT_WORDS,
    };
    let (counters, _) = open(directory, &file_name(number), layout, log)?;
    Ok(counters)
}

fn clear_after(counters: &CounterSlab, today: UtcDay) -> u64 {
    let is_id = |at: usize| !at.is_multiple_of(LINE);
    counters.retain(|at, word| is_id(at) || key_counter::day(word).0 <= today.0.saturating_add(1))
}
