//! Collected metrics of days that are not merged into `daily/` yet: one append-only file per day in the
//! state directory.
//!
//! In: the metrics of an island's day, in the order in which they came. Out: the merged values of the day.
//! Records of 88 bytes, little-endian, each with a CRC-32; a torn tail is cut. A merge first moves the
//! log aside, so that records that come meanwhile go to a new one, and removes it after `daily/` is durable.
//! A crash in between merges the same records again, which changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::calendar::UtcDay;
use crate::dataset::Metrics;
use crate::durable::sync_directory;
use crate::model::{IslandCode, SortField};
use crate::regular_file;

const RECORD_BYTES: usize = 88;
/// Folder of the logs in the state directory.
const FOLDER: &str = "days";
const LOG: &str = "log";
const MERGING: &str = "merging";

/// Metrics by island.
pub(super) type DayRows = BTreeMap<IslandCode, Metrics>;

/// The logs of all days.
#[derive(Debug)]
pub(super) struct DayLogs {
    folder: PathBuf,
    /// Records that are not written yet.
    pending: BTreeMap<UtcDay, Vec<u8>>,
    /// Files that were written and are not durable yet.
    unsynced: BTreeMap<UtcDay, File>,
}

impl DayLogs {
    /// Opens the logs of a state directory.
    pub(super) fn open(state: &Path) -> io::Result<DayLogs> {
        let folder = state.join(FOLDER);
        crate::durable::create_directory(&folder)?;
        Ok(DayLogs {
            folder,
            pending: BTreeMap::new(),
            unsynced: BTreeMap::new(),
        })
    }

    /// Returns the days that have written records, oldest first.
    pub(super) fn days(&self) -> io::Result<BTreeSet<UtcDay>> {
        let mut days = BTreeSet::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let stem = Path::new(&name).file_stem().and_then(|stem| stem.to_str());
            days.extend(stem.and_then(UtcDay::parse));
        }
        Ok(days)
    }

    /// Adds the metrics of an island on a day. They are written by the next [`flush`](Self::flush).
    pub(super) fn push(&mut self, day: UtcDay, code: IslandCode, metrics: &Metrics) {
        let pending = self.pending.entry(day).or_default();
        pending.extend_from_slice(&encode(code, metrics));
    }

    /// Writes the added records: they then survive the end of this process.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(pending) = self.pending.first_entry() {
            let path = path(&self.folder, *pending.key(), LOG);
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            // A torn record would hide all behind it.
            let before = file.metadata()?.len() / RECORD_BYTES as u64 * RECORD_BYTES as u64;
            file.set_len(before)?;
            if let Err(error) = file.write_all(pending.get()) {
                // Such as a full disk. The records stay pending, and are written whole later.
                file.set_len(before)?;
                return Err(error);
            }
            let (day, _) = pending.remove_entry();
            self.unsynced.insert(day, file);
        }
        Ok(())
    }

    /// Writes the added records and makes them durable: they then survive the end of this machine.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        if self.unsynced.is_empty() {
            return Ok(());
        }
        self.unsynced.values().try_for_each(File::sync_data)?;
        sync_directory(&self.folder)?;
        self.unsynced.clear();
        Ok(())
    }

    /// Takes all records of a day for a merge. Returns the newest non-null value of each metric.
    pub(super) fn take(&mut self, day: UtcDay) -> io::Result<DayRows> {
        let (log, merging) = (
            path(&self.folder, day, LOG),
            path(&self.folder, day, MERGING),
        );
        self.sync()?;
        let mut rows = DayRows::new();
        // Left over from an interrupted merge: it is older than the log.
        let left = read(&merging, &mut rows)?;
        match (left, read(&log, &mut rows)?) {
            (Some(mut bytes), Some(newer)) => {
                // Together in one file, so that the removal is one step.
                bytes.truncate(bytes.len() / RECORD_BYTES * RECORD_BYTES);
                bytes.extend(newer);
                crate::durable::replace(&merging, &bytes)?;
                fs::remove_file(&log)?;
            }
            (None, Some(_)) => fs::rename(&log, &merging)?,
            (_, None) => {}
        }
        sync_directory(&self.folder)?;
        Ok(rows)
    }

    /// Removes the records taken by [`take`](Self::take), after their values are durable elsewhere.
    pub(super) fn finish(&mut self, day: UtcDay) -> io::Result<()> {
        crate::durable::remove(&path(&self.folder, day, MERGING))
    }
}

fn path(folder: &Path, day: UtcDay, kind: &str) -> PathBuf {
    folder.join(format!("{day}.{kind}"))
}

fn encode(code: IslandCode, metrics: &Metrics) -> Vec<u8> {
    let counts = SortField::ALL.map(|field| metrics.count(field).unwrap_or(u64::MAX));
    let decimals = metrics.decimals();
    let decimals = decimals.map(|value| value.unwrap_or(f64::NAN).to_bits());
    let words = [code.number()].into_iter().chain(counts).chain(decimals);
    let mut record: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let crc = u64::from(crc32fast::hash(&record));
    record.extend(crc.to_le_bytes());
    record
}

fn decode(record: &[u8; RECORD_BYTES]) -> Option<(IslandCode, Metrics)> {
    let (words, _) = record.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    if u64::from(crc32fast::hash(&record[..RECORD_BYTES - 8])) != word(10) {
        return None;
    }
    let counts = [1, 2, 3, 4, 5, 6].map(|at| Some(word(at)).filter(|count| *count != u64::MAX));
    let decimals =
        [7, 8, 9].map(|at| Some(f64::from_bits(word(at))).filter(|value| !value.is_nan()));
    Some((
        IslandCode::from_number(word(0))?,
        Metrics::new(counts, decimals),
    ))
}

/// Adds the sound records of a log. Returns its bytes, or `None` if it does not exist.
fn read(path: &Path, rows: &mut DayRows) -> io::Result<Option<Vec<u8>>> {
    let Some((bytes, _)) = regular_file::read(path, u64::MAX)? else {
        return Ok(None);
    };
    // A damaged record does not hide those behind it: all have the same length.
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    for (code, metrics) in records.iter().filter_map(decode) {
        let row = rows.entry(code).or_insert(Metrics::NULL);
        *row = newer(row, &metrics).0;
    }
    Ok(Some(bytes))
}

/// Returns the values of `new` where it has one, else those of `old`, and whether one of them replaced another.
pub(super) fn newer(old: &Metrics, new: &Metrics) -> (Metrics, bool) {
    let mut is_revised = false;
    let counts = SortField::ALL.map(|field| {
        let (old, new) = (old.count(field), new.count(field));
        is_revised |= old.is_some() && new.is_some() && old != new;
        new.or(old)
    });
    let (old, new) = (old.decimals(), new.decimals());
    let decimals = [0, 1, 2].map(|at| {
        is_revised |= old[at].is_some() && new[at].is_some() && old[at] != new[at];
        new[at].or(old[at])
    });
    (Metrics::new(counts, decimals), is_revised)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::scratch_tests::Scratch;

    const DAY: UtcDay = UtcDay(20_700);

    fn code(number: u64) -> IslandCode {
        IslandCode::from_number(number).unwrap()
    }

    fn metrics(
        u: &mut arbtest::arbitrary::Unstructured<'_>,
    ) -> arbtest::arbitrary::Result<Metrics> {
        let mut counts = [None; 6];
        for count in &mut counts {
            *count = u.arbitrary::<Option<u8>>()?.map(u64::from);
        }
        let mut decimals = [None; 3];
        for decimal in &mut decimals {
            *decimal = u
                .arbitrary::<Option<u8>>()?
                .map(|value| f64::from(value) / 255.0);
        }
        Ok(Metrics::new(counts, decimals))
    }

    fn same(one: &DayRows, other: &DayRows) -> bool {
        let bytes = |rows: &DayRows| -> Vec<_> {
            rows.iter()
                .map(|(code, metrics)| encode(*code, metrics))
                .collect()
        };
        bytes(one) == bytes(other)
    }

    /// Crashes at any step of writing and merging, against a map.
    #[test]
    fn every_flushed_value_is_merged_once_or_again_and_none_is_lost() {
        arbtest::arbtest(|u| {
            let scratch = Scratch::new();
            let mut logs = DayLogs::open(scratch.path()).unwrap();
            let (mut want, mut merged) = (DayRows::new(), DayRows::new());
            for _ in 0..u.int_in_range(0..=30)? {
                match u.int_in_range(0..=4)? {
                    // The end of the process: what was flushed is there.
                    0 => {
                        logs.flush().unwrap();
                        logs = DayLogs::open(scratch.path()).unwrap();
                    }
                    1 => {
                        let rows = logs.take(DAY).unwrap();
                        // A crash before the merge is durable.
                        if u.arbitrary()? {
                            for (code, metrics) in rows {
                                let row = merged.entry(code).or_insert(Metrics::NULL);
                                *row = newer(row, &metrics).0;
                            }
                            // A crash before the records are removed.
                            if u.arbitrary()? {
                                logs.finish(DAY).unwrap();
                            }
                        }
                    }
                    _ => {
                        let (code, metrics) = (code(u.int_in_range(0..=3)?), metrics(u)?);
                        logs.push(DAY, code, &metrics);
                        let row = want.entry(code).or_insert(Metrics::NULL);
                        *row = newer(row, &metrics).0;
                    }
                }
            }
            for (code, metrics) in logs.take(DAY).unwrap() {
                let row = merged.entry(code).or_insert(Metrics::NULL);
                *row = newer(row, &metrics).0;
            }
            assert!(same(&merged, &want));
            logs.finish(DAY).unwrap();
            assert!(logs.take(DAY).unwrap().is_empty());
            Ok(())
        });
    }

    #[test]
    fn a_torn_or_damaged_record_costs_itself_only() {
        let scratch = Scratch::new();
        let mut logs = DayLogs::open(scratch.path()).unwrap();
        let row = |count| Metrics::new([Some(count); 6], [None; 3]);
        for number in 0..3 {
            logs.push(DAY, code(number), &row(number));
        }
        logs.sync().unwrap();
        assert_eq!(logs.days().unwrap(), [DAY].into());
        let log = path(&scratch.path().join(FOLDER), DAY, LOG);
        let mut bytes = fs::read(&log).unwrap();
        bytes[RECORD_BYTES + 9] ^= 1;
        bytes.truncate(3 * RECORD_BYTES - 1);
        crate::durable::replace(&log, &bytes).unwrap();
        let mut logs = DayLogs::open(scratch.path()).unwrap();
        logs.push(DAY, code(7), &row(7));
        let rows = logs.take(DAY).unwrap();
        assert_eq!(
            rows.keys().map(|code| code.number()).collect::<Vec<_>>(),
            [0, 7]
        );
    }

    #[test]
    fn null_never_replaces_a_value() {
        let old = Metrics::new(
            [Some(1), None, Some(3), None, None, None],
            [Some(0.5), None, None],
        );
        let new = Metrics::new(
            [None, Some(2), Some(4), None, None, None],
            [None, Some(0.0), None],
        );
        let (merged, is_revised) = newer(&old, &new);
        assert!(is_revised);
        assert_eq!(merged.count(SortField::PeakCcu), Some(1));
        assert_eq!(merged.count(SortField::UniquePlayers), Some(2));
        assert_eq!(merged.count(SortField::MinutesPlayed), Some(4));
        assert_eq!(merged.decimals(), [Some(0.5), Some(0.0), None]);
        assert!(!newer(&old, &old).1);
    }
}
