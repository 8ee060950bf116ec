//! The files of the whole history, `history.csv.gz` and `ccu.csv.gz`: one gzip member per day.
//!
//! gzip files may be concatenated (RFC 1952, section 2.2). A new day therefore adds a member, and
//! the members of unchanged days are copied from the previous dumps instead of compressed again.
//! The first member has the header of the table. Each has an extra field, which readers of gzip
//! skip:
//!
//! ```text
//! "IM" | 12, 16 bits | CRC-32 of what follows | length of the member, 32 bits | day since 1970, 32 bits
//! ```
//!
//! The CRC-32 covers the compressed bytes, so that a copy is verified without being inflated.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::FileExt as _;

use flate2::{Compression, GzBuilder};

use super::dumps_writer::{DumpsWriter, HashingWriter, Output};
use super::options::{PublishError, at};
use crate::calendar::UtcDay;
use crate::dataset::{Catalogue, Cell, DayRow, FileKind, write_csv_row};

/// The names of the files.
pub(super) const WHOLE_FILES: [&str; 2] = ["history.csv.gz", "ccu.csv.gz"];
/// The columns behind the date, in the same order.
const KINDS: [FileKind; 2] = [FileKind::Daily, FileKind::Ccu];
/// gzip level, as for the other files of CSV.
const LEVEL: u32 = 2;
/// The day of the member with the header of the table.
const HEADER_DAY: i32 = i32::MIN;
/// Offsets in a member: its CRC-32, its length, and the end of its extra field.
const CHECKSUM_AT: usize = 16;
const LENGTH_AT: usize = 20;
const START_BYTES: usize = 28;

/// The members of a day in both files.
pub(super) type DayMembers = [Vec<u8>; 2];

/// Returns the start of a member: the fixed header of gzip with an extra field, then the field.
fn start(day: i32, bytes: u32, checksum: u32) -> [u8; START_BYTES] {
    let mut start = [0; START_BYTES];
    start[..10].copy_from_slice(&[0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 4, 255]);
    start[10..CHECKSUM_AT].copy_from_slice(&[16, 0, b'I', b'M', 12, 0]);
    start[CHECKSUM_AT..LENGTH_AT].copy_from_slice(&checksum.to_le_bytes());
    start[LENGTH_AT..24].copy_from_slice(&bytes.to_le_bytes());
    start[24..].copy_from_slice(&day.to_le_bytes());
    start
}

/// Returns the 32 bits at an offset of a member.
fn word(member: &[u8], at: usize) -> u32 {
    let word = member[at..].first_chunk();
    u32::from_le_bytes(*word.expect("a member is longer than its start"))
}

/// Compresses the rows of a day.
fn member(day: i32, csv: &[u8]) -> io::Result<Vec<u8>> {
    let extra = &start(day, 0, 0)[12..];
    let builder = GzBuilder::new().extra(extra);
    let mut gzip = builder.write(Vec::new(), Compression::new(LEVEL));
    gzip.write_all(csv)?;
    let mut member = gzip.finish()?;
    let bytes = u32::try_from(member.len()).map_err(io::Error::other)?;
    member[..START_BYTES].copy_from_slice(&start(day, bytes, 0));
    let checksum = crc32fast::hash(&member[LENGTH_AT..]);
    member[..START_BYTES].copy_from_slice(&start(day, bytes, checksum));
    Ok(member)
}

/// Renders the members of a day: its daily rows, and its known peaks of both kinds, by code. Fails if
/// one is longer than 4 GiB.
pub(super) fn day_members(
    catalogue: &Catalogue,
    (date, rows): (UtcDay, &[DayRow]),
) -> io::Result<DayMembers> {
    let text = date.to_string();
    let date_cell = || iter::once(Cell::Text(Some(&text)));
    let (mut history, mut ccu) = (Vec::new(), Vec::new());
    for row in rows {
        let code = catalogue.islands[row.island as usize].code;
        if row.is_daily {
            write_csv_row(&mut history, date_cell().chain(row.cells(code)))?;
        }
        if row.peak_ccu().is_some() {
            // The code and the peak.
            write_csv_row(&mut ccu, date_cell().chain(row.cells(code).take(2)))?;
        }
    }
    Ok([member(date.0, &history)?, member(date.0, &ccu)?])
}

/// The members of a published file, which can be copied.
pub(super) struct KnownMembers {
    file: File,
    /// Offset and length by day.
    members: BTreeMap<i32, (u64, u64)>,
}

impl KnownMembers {
    /// Finds the members of a file of `bytes`; `None` if it has anything else.
    pub(super) fn find(file: File, bytes: u64) -> Option<KnownMembers> {
        let (mut offset, mut members) = (0, BTreeMap::new());
        while offset < bytes {
            let mut found = [0; START_BYTES];
            file.read_exact_at(&mut found, offset).ok()?;
            let (length, checksum) = (word(&found, LENGTH_AT), word(&found, CHECKSUM_AT));
            let day = word(&found, 24).cast_signed();
            let is_next = members.last_key_value().is_none_or(|(last, _)| *last < day);
            let is_start = found == start(day, length, checksum);
            if !is_start || (length as usize) < START_BYTES || !is_next {
                return None;
            }
            members.insert(day, (offset, u64::from(length)));
            offset += u64::from(length);
        }
        let is_whole = offset == bytes && members.remove(&HEADER_DAY).is_some();
        is_whole.then_some(KnownMembers { file, members })
    }

    /// Returns the days, oldest first.
    pub(super) fn days(&self) -> impl Iterator<Item = UtcDay> {
        self.members.keys().map(|day| UtcDay(*day))
    }

    /// Reads the member of a day; `None` if there is none or if it is damaged.
    pub(super) fn read(&self, day: UtcDay) -> Option<Vec<u8>> {
        let (offset, bytes) = *self.members.get(&day.0)?;
        let mut member = vec![0; usize::try_from(bytes).ok()?];
        self.file.read_exact_at(&mut member, offset).ok()?;
        let is_sound = word(&member, CHECKSUM_AT) == crc32fast::hash(&member[LENGTH_AT..]);
        is_sound.then_some(member)
    }

    /// Returns whether a day has a member.
    pub(super) fn contains(&self, day: UtcDay) -> bool {
        self.members.contains_key(&day.0)
    }
}

/// Both files while they are written, day by day. Unbuffered, since a member is one write.
pub(super) struct WholeFiles([HashingWriter<Output>; 2]);

impl WholeFiles {
    /// Creates the files.
    pub(super) fn create(dumps: &DumpsWriter) -> Result<WholeFiles, PublishError> {
        let create = |index: usize| {
            let file = dumps.create(WHOLE_FILES[index]);
            let begun = file.and_then(|mut file| begin(&mut file, index).map(|()| file));
            begun.map_err(at(&dumps.path(WHOLE_FILES[index])))
        };
        Ok(WholeFiles([create(0)?, create(1)?]))
    }

    /// Appends the members of the next day.
    pub(super) fn append(
        &mut self,
        members: &DayMembers,
        dumps: &DumpsWriter,
    ) -> Result<(), PublishError> {
        for (name, (file, member)) in WHOLE_FILES.iter().zip(self.0.iter_mut().zip(members)) {
            file.write_all(member).map_err(at(&dumps.path(name)))?;
        }
        Ok(())
    }

    /// Completes the files.
    pub(super) fn finish(self, dumps: &DumpsWriter) -> Result<(), PublishError> {
        for (name, file) in WHOLE_FILES.into_iter().zip(self.0) {
            dumps.complete(name, file).map_err(at(&dumps.path(name)))?;
        }
        Ok(())
    }
}

/// Begins the file at an index of [`WHOLE_FILES`] with the member of the header.
fn begin(file: &mut HashingWriter<Output>, index: usize) -> io::Result<()> {
    let columns = KINDS[index].columns().0.join(",");
    let header = format!("date,{columns}\n");
    file.write_all(&member(HEADER_DAY, header.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::path::Path;

    use flate2::read::MultiGzDecoder;

    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let name = format!("island-metrics-whole-{}-{name}", std::process::id());
        std::env::temp_dir().join(name)
    }

    fn create(path: &Path) -> HashingWriter<Output> {
        let mut file = HashingWriter::new(Output::File(File::create_new(path).unwrap()));
        begin(&mut file, 1).unwrap();
        file
    }

    fn text(path: &Path) -> String {
        let mut text = String::new();
        let file = File::open(path).unwrap();
        MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn members_are_found_again_and_copied() {
        let (path, copy) = (scratch("a"), scratch("b"));
        let mut file = create(&path);
        for day in [-3, 0, 7, 8] {
            let rows = format!("{day}\n").repeat(usize::from(day != 7) * 1_000);
            file.write_all(&member(day, rows.as_bytes()).unwrap())
                .unwrap();
        }
        let (_, bytes, _) = file.finish();
        let known = KnownMembers::find(File::open(&path).unwrap(), bytes).unwrap();
        assert!(known.days().eq([-3, 0, 7, 8].map(UtcDay)));
        let mut other = create(&copy);
        for day in [-3, 8] {
            other.write_all(&known.read(UtcDay(day)).unwrap()).unwrap();
        }
        assert!(known.read(UtcDay(1)).is_none());
        let want = format!(
            "date,code,peakCCU\n{}{}",
            "-3\n".repeat(1_000),
            "8\n".repeat(1_000)
        );
        assert_eq!(text(&copy), want);
        // A file that was cut, or changed at the start of a member, has no members.
        let whole = fs::read(&path).unwrap();
        for length in [0, 1, START_BYTES, whole.len() - 1] {
            crate::durable::replace(&copy, &whole[..length]).unwrap();
            let found = KnownMembers::find(File::open(&copy).unwrap(), length as u64);
            assert!(found.is_none(), "{length}");
        }
        // No other byte can change unnoticed: at the start of a member nothing is found, elsewhere
        // the day of the byte cannot be read.
        let (first, length) = known.members[&-3];
        for at in 0..first + length {
            let mut other = whole.clone();
            other[usize::try_from(at).unwrap()] ^= 0x40;
            crate::durable::replace(&copy, &other).unwrap();
            let found = KnownMembers::find(File::open(&copy).unwrap(), bytes);
            let is_damaged = found.is_none_or(|found| found.read(UtcDay(-3)).is_none());
            let is_header = (CHECKSUM_AT as u64..first).contains(&at);
            assert!(is_damaged || is_header, "byte {at}");
        }
        for path in [path, copy] {
            fs::remove_file(path).unwrap();
        }
    }
}
