//! The ledger: what was requested from the upstream for each island, and when. An append-only file.
//!
//! In: one record after each usable response. Out: the newest record of each island at start.
//! Format: a 16-byte header, then records of 48 bytes, little-endian, each with a CRC-32. A torn or damaged
//! tail is cut at start: its islands are requested again, nothing is lost. The file is compacted at start, and
//! whenever it has several records of each island.
//! A record must be written only after the values that it accounts for are durable.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use crate::calendar::{UnixSeconds, UtcDay};
use crate::durable::AtomicFile;
use crate::model::IslandCode;
use crate::regular_file;

const HEADER: &[u8; 16] = b"im-ledger     1\n";
const RECORD_BYTES: usize = 48;
const NAME: &str = "ledger";
/// Records of each island, on average, at which the file is compacted.
const COMPACT_FACTOR: u64 = 4;
/// Size below which it is never compacted.
const COMPACT_MIN_BYTES: u64 = 1 << 20;

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
    /// Peak of `data_day`.
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

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let day = |day: Option<UtcDay>| day.map_or(i32::MIN, |day| day.0);
        let mut record = [0; RECORD_BYTES];
        record[0..8].copy_from_slice(&self.code.number().to_le_bytes());
        record[8..16].copy_from_slice(&self.requested_at.0.to_le_bytes());
        record[16..20].copy_from_slice(&self.first_seen.0.to_le_bytes());
        record[20..24].copy_from_slice(&day(self.covered).to_le_bytes());
        record[24..28].copy_from_slice(&day(self.data_day).to_le_bytes());
        record[28..32].copy_from_slice(&self.peak.to_le_bytes());
        record[32] = self.empty_responses;
        record[33] = u8::from(self.is_gone);
        let crc = crc32fast::hash(&record[..RECORD_BYTES - 4]);
        record[RECORD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// Decodes a record; `None` if it is damaged.
    fn decode(record: &[u8; RECORD_BYTES]) -> Option<IslandState> {
        let word = |at: usize| i32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| i64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        if crc32fast::hash(&record[..RECORD_BYTES - 4]) != word(RECORD_BYTES - 4).cast_unsigned() {
            return None;
        }
        let day = |at| Some(word(at)).filter(|day| *day != i32::MIN).map(UtcDay);
        Some(IslandState {
            code: IslandCode::from_number(long(0).cast_unsigned())?,
            first_seen: UtcDay(word(16)),
            covered: day(20),
            requested_at: UnixSeconds(long(8)),
            data_day: day(24),
            peak: word(28).cast_unsigned(),
            empty_responses: record[32],
            is_gone: record[33] != 0,
        })
    }
}

/// The open ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    state: PathBuf,
    file: File,
    /// Size of the compacted file.
    compact_bytes: u64,
    /// Records that are not written yet.
    pending: Vec<u8>,
}

impl Ledger {
    /// Reads the ledger of a state directory, without changing it. A missing file is an empty ledger. Returns
    /// also the bytes of a torn or damaged tail, which [`open`](Self::open) cuts.
    pub(super) fn read(state: &Path) -> io::Result<(Vec<IslandState>, u64)> {
        let mut islands = Vec::new();
        let Some(file) = regular_file::open(&path(state))? else {
            return Ok((islands, 0));
        };
        let mut bytes_left = file.metadata()?.len();
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut header = [0; HEADER.len()];
        let mut newest: HashMap<IslandCode, usize, ahash::RandomState> = HashMap::default();
        if read_whole(&mut file, &mut header)? && header == *HEADER {
            bytes_left = bytes_left.saturating_sub(HEADER.len() as u64);
            let mut record = [0; RECORD_BYTES];
            while read_whole(&mut file, &mut record)? {
                let Some(island) = IslandState::decode(&record) else {
                    break;
                };
                bytes_left = bytes_left.saturating_sub(RECORD_BYTES as u64);
                match newest.entry(island.code) {
                    Entry::Occupied(at) => islands[*at.get()] = island,
                    Entry::Vacant(at) => {
                        at.insert(islands.len());
                        islands.push(island);
                    }
                }
            }
        }
        Ok((islands, bytes_left))
    }

    /// Rewrites the ledger with one record per island, and opens it for appending.
    pub(super) fn open<'a>(
        state: &Path,
        islands: impl IntoIterator<Item = &'a IslandState>,
    ) -> io::Result<Ledger> {
        let mut compact = AtomicFile::create(state, NAME)?;
        compact.out.write_all(HEADER)?;
        for island in islands {
            compact.out.write_all(&island.encode())?;
        }
        compact.commit(&path(state))?;
        let file = OpenOptions::new().append(true).open(path(state))?;
        Ok(Ledger {
            state: state.to_owned(),
            compact_bytes: file.metadata()?.len(),
            file,
            pending: Vec::new(),
        })
    }

    /// Adds a record. It is written by the next [`sync`](Self::sync).
    pub(super) fn push(&mut self, island: &IslandState) {
        self.pending.extend_from_slice(&island.encode());
    }

    /// Writes the added records and makes them durable. `islands` are the newest states of all islands, for a
    /// file that has grown long.
    pub(super) fn sync<'a>(
        &mut self,
        islands: impl Iterator<Item = &'a IslandState>,
    ) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let before = self.file.metadata()?.len();
        if before > COMPACT_MIN_BYTES.max(self.compact_bytes * COMPACT_FACTOR) {
            *self = Ledger::open(&self.state.clone(), islands)?;
            return Ok(());
        }
        if let Err(error) = self.file.write_all(&self.pending) {
            // Half a record would hide all records behind it.
            self.file.set_len(before)?;
            return Err(error);
        }
        self.file.sync_data()?;
        self.pending.clear();
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::scratch_tests::Scratch;

    fn island(
        u: &mut arbtest::arbitrary::Unstructured<'_>,
    ) -> arbtest::arbitrary::Result<IslandState> {
        Ok(IslandState {
            code: IslandCode::from_number(u.int_in_range(0..=20)?).unwrap(),
            first_seen: UtcDay(u.arbitrary()?),
            covered: u.arbitrary::<Option<u16>>()?.map(|day| UtcDay(day.into())),
            requested_at: UnixSeconds(u.arbitrary()?),
            data_day: u.arbitrary::<Option<u16>>()?.map(|day| UtcDay(day.into())),
            peak: u.arbitrary()?,
            empty_responses: u.arbitrary()?,
            is_gone: u.arbitrary()?,
        })
    }

    #[test]
    fn the_newest_record_of_each_island_survives_a_cut_at_any_byte() {
        arbtest::arbtest(|u| {
            let scratch = Scratch::new();
            let mut ledger = Ledger::open(scratch.path(), &[]).unwrap();
            let mut written = Vec::new();
            for _ in 0..u.int_in_range(0..=40)? {
                let island = island(u)?;
                ledger.push(&island);
                written.push(island);
            }
            ledger.sync(std::iter::empty()).unwrap();
            let path = scratch.path().join(NAME);
            let whole = std::fs::read(&path).unwrap();
            let cut = u.int_in_range(0..=whole.len())?;
            crate::durable::replace(&path, &whole[..cut]).unwrap();
            let kept = cut.saturating_sub(HEADER.len()) / RECORD_BYTES;
            let mut want: Vec<IslandState> = Vec::new();
            for island in &written[..kept] {
                want.retain(|other| other.code != island.code);
                want.push(*island);
            }
            let (read, _) = Ledger::read(scratch.path()).unwrap();
            let mut found = read.clone();
            want.sort_by_key(|island| island.code);
            found.sort_by_key(|island| island.code);
            assert_eq!(found, want);
            Ledger::open(scratch.path(), &read).unwrap();
            assert_eq!(Ledger::read(scratch.path()).unwrap().1, 0);
            Ok(())
        });
    }

    #[test]
    fn a_long_ledger_is_compacted_to_the_newest_states() {
        let scratch = Scratch::new();
        let mut ledger = Ledger::open(scratch.path(), &[]).unwrap();
        let mut island = IslandState::new(IslandCode::from_number(7).unwrap(), UtcDay(9));
        let mut longest = 0;
        for round in 1..=3 * COMPACT_MIN_BYTES / 48_000 {
            for _ in 0..1000 {
                island.peak += 1;
                ledger.push(&island);
            }
            ledger.sync([&island].into_iter()).unwrap();
            let length = std::fs::metadata(path(scratch.path())).unwrap().len();
            assert!(length <= COMPACT_MIN_BYTES + 48_016, "{round}: {length}");
            longest = longest.max(length);
            assert_eq!(Ledger::read(scratch.path()).unwrap().0, [island]);
        }
        assert!(longest > COMPACT_MIN_BYTES / 2);
    }

    #[test]
    fn a_damaged_record_ends_the_ledger() {
        let scratch = Scratch::new();
        let code = |number| IslandCode::from_number(number).unwrap();
        let islands: Vec<IslandState> = (0..3)
            .map(|number| IslandState::new(code(number), UtcDay(9)))
            .collect();
        Ledger::open(scratch.path(), &islands).unwrap();
        let path = scratch.path().join(NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEADER.len() + RECORD_BYTES + 3] ^= 1;
        crate::durable::replace(&path, &bytes).unwrap();
        let (read, bytes_cut) = Ledger::read(scratch.path()).unwrap();
        assert_eq!(read, &islands[..1]);
        assert_eq!(bytes_cut, 2 * RECORD_BYTES as u64);
    }
}
