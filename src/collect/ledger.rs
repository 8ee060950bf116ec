//! The ledger: what the upstream gave for each island, and when. An append-only file in the state directory.
//!
//! In: after a usable response, the metrics of its days, and then the new state of its island. Out: the
//! newest states at start, and the metrics that are not merged into `daily/` yet.
//!
//! Format: a 16-byte header, then records of eleven little-endian words: code and day, nine values, a CRC-32.
//! A torn or damaged tail is cut at start. The metrics of a response come before its state, which records that
//! the island was requested. So the islands of a lost tail are requested again, and nothing is lost.
//!
//! A merge ends with a new file, which has the states only. A crash before that merges the same metrics again,
//! which changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::Metrics;
use crate::durable::AtomicFile;
use crate::model::{IslandCode, SortField};
use crate::regular_file;

const HEADER: &[u8; 16] = b"im-ledger     2\n";
const RECORD_BYTES: usize = 88;
const CRC_BYTES: usize = 8;
/// Bits of a code in the first word, below those of the day.
const CODE_BITS: u32 = 40;
/// In place of a day: no day is as late.
const NO_DAY: u64 = i64::MAX.cast_unsigned();
const NAME: &str = "ledger";

pub(super) type DayRows = BTreeMap<IslandCode, Metrics>;

/// State of one island.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IslandState {
    pub(super) code: IslandCode,
    /// Day on which the catalogue first showed the island.
    pub(super) first_seen: UtcDay,
    /// Newest whole day that a usable response has covered.
    pub(super) covered: Option<UtcDay>,
    /// Time of the newest usable response.
    pub(super) requested_at: UnixSeconds,
    /// Newest day with data.
    pub(super) data_day: Option<UtcDay>,
    pub(super) peak: u32,
    /// Number of responses without recent data since the last one with data, at most 255.
    pub(super) empty_responses: u8,
    /// The upstream answered 404 and the catalogue has not shown the island since.
    pub(super) is_gone: bool,
}

impl IslandState {
    /// Creates the state of an island that was never requested.
    pub(super) fn new(code: IslandCode, first_seen: UtcDay) -> IslandState {
        IslandState {
            code,
            first_seen,
            covered: None,
            requested_at: UnixSeconds(0),
            data_day: None,
            peak: 0,
            empty_responses: 0,
            is_gone: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Record {
    State(IslandState),
    /// The metrics of an island on a day after 1970-01-01.
    Metrics(IslandCode, UtcDay, Metrics),
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let (code, day, values) = match self {
            Record::State(state) => {
                let word = |day: UtcDay| i64::from(day.0).cast_unsigned();
                let values = vec![
                    word(state.first_seen),
                    state.covered.map_or(NO_DAY, word),
                    state.requested_at.0.cast_unsigned(),
                    state.data_day.map_or(NO_DAY, word),
                    state.peak.into(),
                    state.empty_responses.into(),
                    state.is_gone.into(),
                ];
                (state.code, 0, values)
            }
            Record::Metrics(code, day, metrics) => {
                let counts = SortField::ALL.map(|field| metrics.count(field).unwrap_or(u64::MAX));
                let decimals = metrics.decimals().map(|value| value.unwrap_or(f64::NAN));
                let values = [&counts[..], &decimals.map(f64::to_bits)].concat();
                (*code, day.0, values)
            }
        };
        let first = code.number() | u64::from(day.cast_unsigned()) << CODE_BITS;
        let words = [first].into_iter().chain(values);
        let mut record: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        record.resize(RECORD_BYTES - CRC_BYTES, 0);
        let crc = u64::from(crc32fast::hash(&record));
        record.extend(crc.to_le_bytes());
        record
    }

    /// Decodes a record; `None` if it is damaged.
    fn decode(record: &[u8; RECORD_BYTES]) -> Option<Record> {
        let (words, _) = record.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        if u64::from(crc32fast::hash(&record[..RECORD_BYTES - CRC_BYTES])) != word(10) {
            return None;
        }
        let code = IslandCode::from_number(word(0) & ((1 << CODE_BITS) - 1))?;
        let day = i32::try_from(word(0) >> CODE_BITS).ok()?;
        if day > 0 {
            let counts =
                [1, 2, 3, 4, 5, 6].map(|at| Some(word(at)).filter(|count| *count != u64::MAX));
            let decimals =
                [7, 8, 9].map(|at| Some(f64::from_bits(word(at))).filter(|value| !value.is_nan()));
            let metrics = Metrics::new(counts, decimals);
            return Some(Record::Metrics(code, UtcDay(day), metrics));
        }
        let day = |at| i32::try_from(word(at).cast_signed()).ok().map(UtcDay);
        Some(Record::State(IslandState {
            code,
            first_seen: day(1)?,
            covered: day(2),
            requested_at: UnixSeconds(word(3).cast_signed()),
            data_day: day(4),
            peak: u32::try_from(word(5)).ok()?,
            empty_responses: u8::try_from(word(6)).ok()?,
            is_gone: word(7) != 0,
        }))
    }
}

#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    /// Records that are not written yet.
    pending: Vec<u8>,
}

impl Ledger {
    /// Passes the sound records of a state directory's ledger to `each`, oldest first, without changing the file.
    /// A missing file is an empty ledger. Returns the bytes of a torn or damaged tail.
    pub(super) fn read(state: &Path, mut each: impl FnMut(Record)) -> io::Result<u64> {
        let Some(file) = regular_file::open(&path(state))? else {
            return Ok(0);
        };
        let mut bytes_left = file.metadata()?.len();
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut header = [0; HEADER.len()];
        if !read_whole(&mut file, &mut header)? || header != *HEADER {
            return Ok(bytes_left);
        }
        bytes_left = bytes_left.saturating_sub(HEADER.len() as u64);
        let mut record = [0; RECORD_BYTES];
        while read_whole(&mut file, &mut record)?
            && let Some(record) = Record::decode(&record)
        {
            bytes_left = bytes_left.saturating_sub(RECORD_BYTES as u64);
            each(record);
        }
        Ok(bytes_left)
    }

    /// Returns the days of which the ledger has metrics.
    pub(super) fn days(state: &Path) -> io::Result<BTreeSet<UtcDay>> {
        let mut days = BTreeSet::new();
        Ledger::read(state, |record| {
            if let Record::Metrics(_, day, _) = record {
                days.insert(day);
            }
        })?;
        Ok(days)
    }

    /// Returns the newest non-null value of each metric of a day. One day at a time, since the metrics of all
    /// days would need several times the memory of the rest.
    pub(super) fn rows(state: &Path, day: UtcDay) -> io::Result<DayRows> {
        let mut rows = DayRows::new();
        Ledger::read(state, |record| match record {
            Record::Metrics(code, of, metrics) if of == day => {
                let row = rows.entry(code).or_insert(Metrics::NULL);
                *row = newer(row, &metrics).0;
            }
            _ => {}
        })?;
        Ok(rows)
    }

    /// Opens the ledger for appending, without the bytes of its tail that [`read`](Self::read) returned.
    pub(super) fn open(state: &Path, tail_bytes: u64) -> io::Result<Ledger> {
        let length = path(state).metadata().map_or(0, |found| found.len());
        if length == tail_bytes {
            return Ledger::replace(state, []);
        }
        let ledger = Ledger::append(state)?;
        ledger.file.set_len(length - tail_bytes)?;
        Ok(ledger)
    }

    /// Replaces the ledger with one record per island, and opens it for appending.
    pub(super) fn replace<'a>(
        state: &Path,
        islands: impl IntoIterator<Item = &'a IslandState>,
    ) -> io::Result<Ledger> {
        let mut file = AtomicFile::create(state, NAME)?;
        file.out.write_all(HEADER)?;
        for island in islands {
            file.out.write_all(&Record::State(*island).encode())?;
        }
        file.commit(&path(state))?;
        Ledger::append(state)
    }

    fn append(state: &Path) -> io::Result<Ledger> {
        Ok(Ledger {
            file: OpenOptions::new().append(true).open(path(state))?,
            pending: Vec::new(),
        })
    }

    /// Adds a record. It is written by the next [`flush`](Self::flush).
    pub(super) fn push(&mut self, record: &Record) {
        self.pending.extend(record.encode());
    }

    /// Writes the added records: they then survive the end of this process.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        if let Err(error) = self.file.write_all(&self.pending) {
            // Such as a full disk. Half a record would hide all behind it; they stay pending, and are written
            // whole later.
            self.file.set_len(before)?;
            return Err(error);
        }
        self.pending.clear();
        Ok(())
    }

    /// Writes the added records and makes them durable: they then survive the end of this machine.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_data()
    }
}

/// Fills a buffer. Returns `false` at the end of the file, also if it ends within the buffer.
fn read_whole(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        result => result.map(|()| true),
    }
}

fn path(state: &Path) -> PathBuf {
    state.join(NAME)
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
#[path = "ledger_tests.rs"]
mod tests;
