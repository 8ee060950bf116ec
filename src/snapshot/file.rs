//! The reader of payload files, which trusts nothing in them. Bodies are verified when they are
//! read, by the checksums in their [`BodyRef`]; everything else is verified at open.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::error::SnapshotError;
use super::format::{
    BodyRecord, BodyRef, ENTRY_BYTES, MAGIC, Section, TRAILER_BYTES, TRAILER_CHECKED_BYTES,
    contents_checksum, u32_at, u64_at,
};
use super::storage::{Storage, read_resident};
use super::throttle::{chunk_bytes, yield_point};
use crate::calendar::UnixSeconds;

/// The identity of a payload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of its table of contents.
    pub checksum: u32,
    /// Its publish timestamp.
    pub published: UnixSeconds,
}

/// The verified table of contents of a payload file.
#[derive(Debug)]
struct Contents {
    /// The length of the file.
    bytes: u64,
    /// The offset of the first section.
    start: u64,
    entries: Vec<ContentsEntry>,
    checksum: u32,
}

#[derive(Debug)]
struct ContentsEntry {
    id: u32,
    checksum: u32,
    bytes: usize,
}

impl Contents {
    fn read(storage: &Storage) -> Result<Contents, SnapshotError> {
        let bytes = storage.len()?;
        let least = (MAGIC.len() + TRAILER_BYTES) as u64;
        let foreign =
            "not a published file of this version; publish again with this version of the program";
        if bytes < least || storage.read(0, MAGIC.len())? != MAGIC[..] {
            return Err(SnapshotError::Damaged(foreign.to_owned()));
        }
        let trailer_offset = bytes - TRAILER_BYTES as u64;
        let trailer = storage.read(trailer_offset, TRAILER_BYTES)?;
        if trailer[TRAILER_CHECKED_BYTES + 4..] != MAGIC {
            return Err(SnapshotError::Damaged(foreign.to_owned()));
        }
        let (start, end) = (u64_at(&trailer, 0), u64_at(&trailer, 1));
        let table_bytes = u64::from(u32_at(&trailer, 4)) * ENTRY_BYTES as u64;
        let is_sound = start >= MAGIC.len() as u64
            && start <= end
            && end.checked_add(table_bytes) == Some(trailer_offset);
        let table_bytes = usize::try_from(table_bytes).ok().filter(|_| is_sound);
        let table_bytes = table_bytes.ok_or_else(|| {
            SnapshotError::malformed("the trailer", "its offsets do not fit the file's length")
        })?;
        let table = storage.read(end, table_bytes)?;
        let checksum = contents_checksum(&table, &trailer[..TRAILER_CHECKED_BYTES]);
        let written = u32_at(&trailer, 5);
        SnapshotError::expect_checksum("the table of contents", written, checksum)?;
        Ok(Contents {
            bytes,
            start,
            entries: Self::entries(&table, start, end)?,
            checksum,
        })
    }

    /// Decodes the entries. The sections follow each other without gaps from `start` to `end`.
    fn entries(table: &[u8], start: u64, end: u64) -> Result<Vec<ContentsEntry>, SnapshotError> {
        let (mut at, mut entries) = (start, Vec::new());
        for entry in table.chunks_exact(ENTRY_BYTES) {
            let (id, offset, length) = (u32_at(entry, 0), u64_at(entry, 1), u64_at(entry, 2));
            let fits = offset == at && length <= end - at;
            let bytes = usize::try_from(length).ok().filter(|_| fits);
            entries.push(ContentsEntry {
                id,
                checksum: u32_at(entry, 1),
                bytes: bytes.ok_or_else(|| {
                    SnapshotError::malformed(format_args!("section {id}"), "it is not in its place")
                })?,
            });
            at += length;
        }
        if at == end {
            return Ok(entries);
        }
        let problem = "they end before the table of contents";
        Err(SnapshotError::malformed("the sections", problem))
    }
}

impl ContentsEntry {
    fn verify(&self, checksum: u32) -> Result<(), SnapshotError> {
        let part = format_args!("section {}", self.id);
        SnapshotError::expect_checksum(part, self.checksum, checksum)
    }
}

/// Returns the checksum that identifies a payload file, after verifying everything but the bodies.
/// Keeps no more than a chunk of it in memory.
pub(crate) fn verified_checksum(file: File) -> Result<u32, SnapshotError> {
    const CHUNK_BYTES: usize = 1 << 18;
    let storage = Storage::File(Arc::new(file));
    let contents = Contents::read(&storage)?;
    let (mut at, mut buffer) = (contents.start, vec![0; CHUNK_BYTES]);
    for entry in &contents.entries {
        let (mut left, mut hasher) = (entry.bytes, Hasher::new());
        while left > 0 {
            let chunk = &mut buffer[..left.min(CHUNK_BYTES)];
            storage.read_into(at, chunk)?;
            hasher.update(chunk);
            at += chunk.len() as u64;
            left -= chunk.len();
        }
        entry.verify(hasher.finalize())?;
    }
    Ok(contents.checksum)
}

/// An open payload file whose resident region has been verified.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) storage: Storage,
    contents: Contents,
    /// The sections, in the order of the entries.
    sections: Vec<Bytes>,
}

impl SnapshotFile {
    /// Reads and verifies everything but the bodies.
    pub(crate) fn open(storage: Storage) -> Result<SnapshotFile, SnapshotError> {
        let contents = Contents::read(&storage)?;
        let lengths: Vec<usize> = contents.entries.iter().map(|entry| entry.bytes).collect();
        let (mut rest, checksums) = read_resident(&storage, contents.start, &lengths)?;
        let mut sections = Vec::new();
        for (entry, checksum) in contents.entries.iter().zip(checksums) {
            entry.verify(checksum)?;
            sections.push(rest.split_to(entry.bytes));
        }
        Ok(SnapshotFile {
            storage,
            contents,
            sections,
        })
    }

    pub(crate) fn identity(&self, published: UnixSeconds) -> Identity {
        Identity {
            bytes: self.contents.bytes,
            checksum: self.contents.checksum,
            published,
        }
    }

    pub(crate) fn section(&self, section: Section) -> Result<Bytes, SnapshotError> {
        let mut entries = self.contents.entries.iter();
        let at = entries.position(|entry| entry.id == section as u32);
        at.map(|at| self.sections[at].clone())
            .ok_or_else(|| section.malformed("it is missing"))
    }

    /// Returns a section of any number of items.
    pub(crate) fn items<T: FromBytes + Immutable>(
        &self,
        section: Section,
    ) -> Result<SectionSlice<T>, SnapshotError> {
        let bytes = self.section(section)?;
        if !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(section.malformed("its length is not a multiple of its items'"));
        }
        Ok(SectionSlice(bytes, PhantomData))
    }

    /// Returns a section of `count` items.
    pub(crate) fn slice<T>(
        &self,
        section: Section,
        count: usize,
    ) -> Result<SectionSlice<T>, SnapshotError>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        let slice = self.items(section)?;
        section.expect_items(slice.len(), count)?;
        Ok(slice)
    }

    /// Returns a section of offsets that start at 0, never fall, and end at `end`; one more than
    /// there are parts.
    pub(crate) fn bounds(&self, section: Section, end: usize) -> Result<U64Slice, SnapshotError> {
        let bounds: U64Slice = self.items(section)?;
        let is_sound = bounds.first().is_some_and(|first| first.get() == 0)
            && bounds.last().is_some_and(|last| last.get() == end as u64)
            && bounds.windows(2).enumerate().all(|(at, pair)| {
                yield_point(at);
                pair[0].get() <= pair[1].get()
            });
        let problem = "its offsets are not in order";
        is_sound
            .then_some(bounds)
            .ok_or_else(|| section.malformed(problem))
    }

    /// Returns the `count` texts of a section, with their bounds in another one.
    pub(crate) fn texts(
        &self,
        text: Section,
        bounds: Section,
        count: usize,
    ) -> Result<Texts, SnapshotError> {
        let text_bytes = self.section(text)?;
        let texts = Texts {
            bounds: self.bounds(bounds, text_bytes.len())?,
            text: text_bytes,
        };
        text.expect_items(texts.len(), count)?;
        Ok(texts)
    }

    /// Returns a section of numbers below `limit`.
    pub(crate) fn positions(
        &self,
        section: Section,
        limit: usize,
    ) -> Result<U32Slice, SnapshotError> {
        let positions: U32Slice = self.items(section)?;
        let mut highest = None;
        for chunk in positions.chunks(chunk_bytes() / size_of::<U32>()) {
            yield_point(0);
            highest = highest.max(chunk.iter().map(|position| position.get()).max());
        }
        if highest.is_some_and(|highest| highest as usize >= limit) {
            return Err(section.malformed("it points past the last row"));
        }
        Ok(positions)
    }

    /// Returns a section of `count` body records, each of which lies among the bodies.
    pub(crate) fn bodies(
        &self,
        section: Section,
        count: usize,
    ) -> Result<BodySlice, SnapshotError> {
        let records: BodySlice = self.slice(section, count)?;
        let mut bodies = records.iter().enumerate();
        let is_sound = bodies.all(|(at, record)| {
            yield_point(at);
            BodyRef::from_record(record).is_sound(self.contents.start)
        });
        let problem = "a body lies outside the bodies, or has an impossible length";
        is_sound
            .then_some(records)
            .ok_or_else(|| section.malformed(problem))
    }
}

/// A vector of `T` in a section. Requests borrow it: the reference count of its bytes is a cache
/// line that all cores share.
#[derive(Debug)]
pub(crate) struct SectionSlice<T>(Bytes, PhantomData<T>);

pub(crate) type U32Slice = SectionSlice<U32>;
pub(crate) type U64Slice = SectionSlice<U64>;
pub(crate) type BodySlice = SectionSlice<BodyRecord>;

impl<T: FromBytes + Immutable + KnownLayout + Unaligned> Deref for SectionSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        <[T]>::ref_from_bytes(&self.0).expect("the length was checked at open")
    }
}

/// Texts that follow each other, each found by its index.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(super) text: Bytes,
    /// Offset of each text, and the end of the last one.
    pub(super) bounds: U64Slice,
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(crate) fn get(&self, at: usize) -> &[u8] {
        &self.text[self.bounds.index(at)..self.bounds.index(at + 1)]
    }

    /// Finds a text among texts in ascending order.
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        let at = partition_point(self.len(), |at| self.get(at) < text);
        (at < self.len() && self.get(at) == text).then_some(at)
    }
}

impl U64Slice {
    /// Returns an offset as an index. Never truncates: offsets are checked against a length in
    /// memory at open.
    pub(crate) fn index(&self, at: usize) -> usize {
        usize::try_from(self[at].get()).unwrap_or(usize::MAX)
    }
}

/// Returns the first index below `count` for which `is_before` is false, as
/// `slice::partition_point` does.
pub(crate) fn partition_point(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
