//! The ledger: what was asked of the upstream for each island, and when. An append-only file.
//!
//! In: one record after each usable response. Out: the newest record of each island at start.
//! Format: a 16-byte header, then records of 48 bytes, little-endian, each with a CRC-32. A torn or damaged
//! tail is cut at start: its islands are asked again, nothing is lost. The file is compacted at start.
//! A record must be written only after the values that it accounts for are durable.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::calendar::{UnixSeconds, UtcDay};
use crate::durable::AtomicFile;
use crate::model::IslandCode;

const HEADER: &[u8; 16] = b"im-ledger     1\n";
const RECORD_BYTES: usize = 48;
const NAME: &str = "ledger";

/// State of one island.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IslandState {
    pub(super) code: IslandCode,
    /// Day on which the catalogue first showed the island.
    pub(super) first_seen: UtcDay,
    /// Newest whole day that a usable response has covered.
    pub(super) covered: Option<UtcDay>,
    /// Time of the newest usable response.
    pub(super) asked_at: UnixSeconds,
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
    /// Creates the state of an island that was never asked.
    pub(super) fn new(code: IslandCode, first_seen: UtcDay) -> IslandState {
        IslandState {
            code,
            first_seen,
            covered: None,
            asked_at: UnixSeconds(0),
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
        record[8..16].copy_from_slice(&self.asked_at.0.to_le_bytes());
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
            asked_at: UnixSeconds(long(8)),
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
    file: File,
    /// Records that are not written yet.
    pending: Vec<u8>,
}

/// Contents of a ledger at start.
#[derive(Debug, Default)]
pub(super) struct LedgerContents {
    pub(super) islands: Vec<IslandState>,
    /// Bytes of a torn or damaged tail that were cut.
    pub(super) bytes_cut: usize,
}

impl Ledger {
    /// Reads the ledger of a state directory, without changing it. A missing file is an empty ledger.
    pub(super) fn read(state: &Path) -> io::Result<LedgerContents> {
        let mut bytes = Vec::new();
        match File::open(path(state)) {
            Ok(mut file) => drop(file.read_to_end(&mut bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let Some(records) = bytes.strip_prefix(HEADER) else {
            return Ok(LedgerContents {
                islands: Vec::new(),
                bytes_cut: bytes.len(),
            });
        };
        let mut newest: HashMap<IslandCode, usize, ahash::RandomState> = HashMap::default();
        let mut islands: Vec<IslandState> = Vec::new();
        let (records, _) = records.as_chunks::<RECORD_BYTES>();
        let sound = records.iter().map_while(IslandState::decode);
        let mut count = 0;
        for island in sound {
            count += 1;
            match newest.entry(island.code) {
                std::collections::hash_map::Entry::Occupied(at) => islands[*at.get()] = island,
                std::collections::hash_map::Entry::Vacant(at) => {
                    at.insert(islands.len());
                    islands.push(island);
                }
            }
        }
        let bytes_cut = bytes.len() - HEADER.len() - count * RECORD_BYTES;
        Ok(LedgerContents { islands, bytes_cut })
    }

    /// Rewrites the ledger with one record per island, and opens it for appending.
    pub(super) fn open(state: &Path, islands: &[IslandState]) -> io::Result<Ledger> {
        let mut compact = AtomicFile::create(state, NAME)?;
        compact.out.write_all(HEADER)?;
        for island in islands {
            compact.out.write_all(&island.encode())?;
        }
        compact.commit(&path(state))?;
        let file = OpenOptions::new().append(true).open(path(state))?;
        Ok(Ledger {
            file,
            pending: Vec::new(),
        })
    }

    /// Adds a record. It is written by the next [`sync`](Self::sync).
    pub(super) fn push(&mut self, island: &IslandState) {
        self.pending.extend_from_slice(&island.encode());
    }

    /// Writes the added records and makes them durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let before = self.file.metadata()?.len();
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

fn path(state: &Path) -> PathBuf {
    state.join(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::scratch::Scratch;

    fn island(
        u: &mut arbtest::arbitrary::Unstructured<'_>,
    ) -> arbtest::arbitrary::Result<IslandState> {
        Ok(IslandState {
            code: IslandCode::from_number(u.int_in_range(0..=20)?).unwrap(),
            first_seen: UtcDay(u.arbitrary()?),
            covered: u.arbitrary::<Option<u16>>()?.map(|day| UtcDay(day.into())),
            asked_at: UnixSeconds(u.arbitrary()?),
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
            ledger.sync().unwrap();
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
            let read = Ledger::read(scratch.path()).unwrap();
            let mut found = read.islands.clone();
            want.sort_by_key(|island| island.code);
            found.sort_by_key(|island| island.code);
            assert_eq!(found, want);
            Ledger::open(scratch.path(), &read.islands).unwrap();
            assert_eq!(Ledger::read(scratch.path()).unwrap().bytes_cut, 0);
            Ok(())
        });
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
        let read = Ledger::read(scratch.path()).unwrap();
        assert_eq!(read.islands, &islands[..1]);
        assert_eq!(read.bytes_cut, 2 * RECORD_BYTES);
    }
}
