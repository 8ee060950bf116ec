//! Daily quotas of keys: one counter per key, on a cache line of its own with the id of the key.
//!
//! # Why no two keys share a counter, and no key has two
//!
//! A line gets an id once, by compare-and-swap, and keeps it, since a key can be restored, or come back with a key file
//! that was lost. A key without a line gets the first free one: all lines before it have other ids and keep them. Two
//! processes that look for a line for one key reach the same free line, and the later one finds the id there. So no
//! lock is needed, and a place stays valid in every process that uses it. The price is 64 bytes for each key ever known.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::counter_file::{FileLayout, open};
use super::decision::Decision;
use super::key_counter;
use super::lease::LeaseClient;
use super::mapped::{CounterSlab, LINE};
use super::newest_day::NewestDay;
use crate::calendar::UtcDay;
use crate::model::KEYS_MAX;
use crate::regular_file::with_path;
use crate::sync::{AtomicU64, Ordering};

const SEGMENT_LOG2: u32 = 16;
/// Keys per segment. Counters are allocated by segment, 4 MiB each.
const SEGMENT_KEYS: usize = 1 << SEGMENT_LOG2;
const SEGMENT_WORDS: usize = SEGMENT_KEYS * LINE;
const SEGMENTS: u32 = KEYS_MAX >> SEGMENT_LOG2;
const FILE_KIND: u32 = 2;
/// Ids have fewer than 63 bits. The highest bit marks a line that has an id; a free line has 0.
const HAS_ID: u64 = 1 << 63;

/// The words of a key: its counter, then its id.
type Line = [AtomicU64; LINE];

/// The counters of all keys. Memory grows with the number of keys, 64 bytes per key.
#[derive(Debug)]
pub struct KeyedQuota {
    segments: Box<[OnceLock<CounterSlab>]>,
    /// Directory of the counter files; `None` for private memory.
    directory: Option<PathBuf>,
}

impl KeyedQuota {
    /// Creates counters in files of a directory, or in private memory if it is `None`.
    pub fn new(directory: Option<PathBuf>) -> KeyedQuota {
        KeyedQuota {
            segments: (0..SEGMENTS).map(|_| OnceLock::new()).collect(),
            directory,
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
        for number in 0..SEGMENTS {
            let path = directory.join(file_name(number));
            if path.try_exists().map_err(with_path(&path))? {
                for word in quota.segment(number, log)?.iter().step_by(LINE) {
                    let word = word.load(Ordering::Relaxed);
                    if word != 0 {
                        newest.add(key_counter::day(word));
                    }
                }
            }
        }
        Ok(quota)
    }

    /// Returns the places of the counters of keys with these ids. A key that has no counter gets one. If there is no
    /// room for it, its place is one without a counter, and the error is returned too. `log` is called with a line for
    /// each damaged file.
    pub fn places(
        &self,
        ids: impl Iterator<Item = u64> + Clone,
        log: &dyn Fn(&str),
    ) -> (Vec<u32>, io::Result<()>) {
        let ids = ids.map(|id| id | HAS_ID);
        let lines = self.lines();
        let places = lines.map(|(place, line)| (line[1].load(Ordering::Acquire), place));
        let mut places: HashMap<u64, u32> = places.collect();
        let claimed = self.claim(ids.clone(), &mut places, log);
        let place = |id: u64| places.get(&id).copied().unwrap_or(u32::MAX);
        (ids.map(place).collect(), claimed)
    }

    /// Gives the first free line to each id that has no place, and adds it to the places.
    fn claim(
        &self,
        ids: impl Iterator<Item = u64>,
        places: &mut HashMap<u64, u32>,
        log: &dyn Fn(&str),
    ) -> io::Result<()> {
        let mut next = 0..KEYS_MAX;
        for id in ids {
            while !places.contains_key(&id) {
                let full = || io::Error::other("all quota counters of keys are taken");
                let place = next.next().ok_or_else(full)?;
                self.segment(place >> SEGMENT_LOG2, log)?;
                let [counter, of, ..] = self.line(place).expect("its segment is open");
                let (taken, count) = (of.load(Ordering::Acquire), counter.load(Ordering::Relaxed));
                if taken != 0 {
                    places.entry(taken).or_insert(place);
                    continue;
                }
                let claimed = of.compare_exchange(0, id, Ordering::Release, Ordering::Acquire);
                if claimed.is_ok() {
                    // A count without an id is of no key. Another process may count for this one already.
                    let _ =
                        counter.compare_exchange(count, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
                // Another process may have given the line to one of the next ids.
                let taken = claimed.map_or_else(|other| other, |_| id);
                places.entry(taken).or_insert(place);
            }
        }
        Ok(())
    }

    /// Returns the lines of a segment, after opening or allocating them if they are missing.
    fn segment(&self, number: u32, log: &dyn Fn(&str)) -> io::Result<&CounterSlab> {
        let segment = &self.segments[number as usize];
        if let Some(counters) = segment.get() {
            return Ok(counters);
        }
        let layout = FileLayout {
            kind: FILE_KIND,
            sizes: [number, SEGMENT_LOG2],
            words: SEGMENT_WORDS,
        };
        let counters = match &self.directory {
            None => CounterSlab::zeroed(SEGMENT_WORDS),
            Some(directory) => open(directory, &file_name(number), layout, log)?.0,
        };
        // If another thread was first, its lines stay.
        Ok(segment.get_or_init(|| counters))
    }

    /// Sets the counters of days after the one that follows `today` to zero. Returns their number.
    pub fn clear_after(&self, today: UtcDay) -> u64 {
        let open = self.segments.iter().filter_map(OnceLock::get);
        let is_id = |at: usize| !at.is_multiple_of(LINE);
        let is_kept = |at, word| is_id(at) || key_counter::day(word).0 <= today.0.saturating_add(1);
        open.map(|counters| counters.retain(is_kept)).sum()
    }

    /// Returns the keys with requests on `day`, and their number. A revoked key is among them, since it may be restored.
    pub fn counts(&self, day: UtcDay) -> Vec<(LeaseClient, u32)> {
        let counts = self.lines().map(|(_, [counter, id, ..])| {
            let count = key_counter::count(counter.load(Ordering::Relaxed), day);
            (id.load(Ordering::Acquire), count)
        });
        counts
            .filter(|(id, count)| id & HAS_ID != 0 && *count > 0)
            .map(|(id, count)| (LeaseClient::Key(id & !HAS_ID), count))
            .collect()
    }

    /// Returns the requests of a key that are counted for `day`.
    #[cfg(test)]
    pub fn count(&self, day: UtcDay, place: u32) -> u32 {
        self.counter(place).map_or(0, |counter| {
            key_counter::count(counter.load(Ordering::Relaxed), day)
        })
    }

    /// Counts a request of a key if it has one left on `day`. Returns `None` for a key without a counter.
    #[inline]
    pub fn admit(&self, place: u32, limit: u32, day: UtcDay) -> Option<Decision> {
        let counter = self.counter(place)?;
        Some(key_counter::admit(counter, limit, day).0)
    }

    /// Returns the requests that a key has left on `day` without counting one; `None` without a counter.
    pub fn peek(&self, place: u32, limit: u32, day: UtcDay) -> Option<u32> {
        let counter = self.counter(place)?;
        Some(key_counter::peek(counter, limit, day))
    }

    #[inline]
    fn counter(&self, place: u32) -> Option<&AtomicU64> {
        self.line(place).map(|line| &line[0])
    }

    /// The lines of all segments that are open, with their places.
    fn lines(&self) -> impl Iterator<Item = (u32, &Line)> {
        let open = (0..).step_by(SEGMENT_KEYS).zip(&self.segments);
        let open = open.filter_map(|(first, segment)| Some((first, segment.get()?)));
        open.flat_map(|(first, counters)| (first..).zip(counters.as_chunks().0))
    }

    #[inline]
    fn line(&self, place: u32) -> Option<&Line> {
        let place = place as usize;
        let segment = self.segments.get(place / SEGMENT_KEYS)?.get()?;
        segment.as_chunks().0.get(place % SEGMENT_KEYS)
    }
}

fn file_name(segment: u32) -> String {
    format!("quota-keys-{segment}")
}
