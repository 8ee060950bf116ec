//! The reader of payload files, which trusts nothing in them. Bodies are verified when they are
//! read, by the checksums in their [`BodyRef`]; everything else is verified at open.

use std::iter;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use bytes::Bytes;
use memchr::memmem::Finder;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::error::SnapshotError;
use super::format::{
    BodyRecord, BodyRef, ENTRY_BYTES, MAGIC, Section, TRAILER_BYTES, UNCHECKED_BYTES, u32_at,
    u64_at,
};
use super::storage::{Storage, read_resident};
use crate::calendar::UnixSeconds;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub bytes: u64,
    /// CRC-32 of all that follows its bodies.
    pub checksum: u32,
    pub published: UnixSeconds,
}

/// The trailer of a payload file, from which the resident region is found.
pub(super) struct Trailer {
    pub(super) identity: Identity,
    /// The end of the bodies and start of the resident region.
    start: u64,
    section_count: usize,
}

impl Trailer {
    /// Reads it. Its checksum is not verified.
    pub(super) fn read(storage: &Storage) -> Result<Trailer, SnapshotError> {
        let bytes = storage.len()?;
        let least = (MAGIC.len() + TRAILER_BYTES) as u64;
        if bytes < least || storage.read(0, MAGIC.len())? != MAGIC[..] {
            let problem = "not a published file of this version; publish again with this version of the program";
            return Err(SnapshotError::Damaged(problem.to_owned()));
        }
        let trailer = storage.read(bytes - TRAILER_BYTES as u64, TRAILER_BYTES)?;
        if !trailer.ends_with(&MAGIC) {
            let problem = "it is not where the file ends; the file may be truncated";
            return Err(SnapshotError::malformed("the trailer", problem));
        }
        let start = u64_at(&trailer, 0);
        if !(MAGIC.len() as u64..=bytes - TRAILER_BYTES as u64).contains(&start) {
            let problem = "its offset does not fit the file's length";
            return Err(SnapshotError::malformed("the trailer", problem));
        }
        let identity = Identity {
            bytes,
            checksum: u32_at(&trailer, 5),
            published: UnixSeconds(u64_at(&trailer, 1).cast_signed()),
        };
        let section_count = u32_at(&trailer, 4) as usize;
        Ok(Trailer {
            identity,
            start,
            section_count,
        })
    }
}

/// An open payload file whose resident region has been verified.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) storage: Storage,
    pub(crate) identity: Identity,
    bodies_end: u64,
    sections: Vec<(u32, Bytes)>,
}

impl SnapshotFile {
    /// Reads and verifies everything but the bodies.
    pub(crate) fn open(storage: Storage) -> Result<SnapshotFile, SnapshotError> {
        let trailer = Trailer::read(&storage)?;
        let malformed = |problem: &str| SnapshotError::malformed("the table of contents", problem);
        let resident_bytes = trailer.identity.bytes - trailer.start - UNCHECKED_BYTES as u64;
        let resident_bytes = usize::try_from(resident_bytes);
        let resident_bytes = resident_bytes.map_err(|_| malformed("it is too large"))?;
        let (mut rest, checksum) = read_resident(&storage, trailer.start, resident_bytes)?;
        let part = "the part behind the bodies";
        SnapshotError::expect_checksum(part, trailer.identity.checksum, checksum)?;
        if !trailer.identity.published.has_text() {
            let problem = "its time is not in the years 1970 to 9999";
            return Err(SnapshotError::malformed("the trailer", problem));
        }
        let behind = trailer.section_count * ENTRY_BYTES + TRAILER_BYTES - UNCHECKED_BYTES;
        let sections_end = resident_bytes.checked_sub(behind);
        let contents = rest.split_off(sections_end.ok_or_else(|| malformed("it is cut short"))?);
        let mut sections = Vec::with_capacity(trailer.section_count);
        for entry in contents[..trailer.section_count * ENTRY_BYTES].chunks_exact(ENTRY_BYTES) {
            let bytes = usize::try_from(u64_at(entry, 0)).ok();
            let bytes = bytes.filter(|bytes| *bytes <= rest.len());
            let bytes = bytes.ok_or_else(|| malformed("it has more than the sections"))?;
            sections.push((u32_at(entry, 2), rest.split_to(bytes)));
        }
        if !rest.is_empty() {
            return Err(malformed("it has less than the sections"));
        }
        Ok(SnapshotFile {
            storage,
            identity: trailer.identity,
            bodies_end: trailer.start,
            sections,
        })
    }

    /// Returns a section of texts, each of at most `bytes_max` bytes.
    pub(crate) fn short_texts(
        &self,
        section: Section,
        count: Option<usize>,
        bytes_max: usize,
    ) -> Result<Texts, SnapshotError> {
        let texts: Texts = self.lists(section, count)?;
        let is_short = |pair: &[U32]| (pair[1].get() - pair[0].get()) as usize <= bytes_max;
        let is_short = texts.bounds.windows(2).all(is_short);
        let problem = format!("a text has more than {bytes_max} bytes");
        is_short
            .then_some(texts)
            .ok_or_else(|| section.malformed(&problem))
    }

    pub(crate) fn section(&self, section: Section) -> Result<Bytes, SnapshotError> {
        let mut sections = self.sections.iter();
        let found = sections.find(|(id, _)| *id == section as u32);
        found
            .map(|(_, bytes)| bytes.clone())
            .ok_or_else(|| section.malformed("it is missing"))
    }

    /// Returns a section of `count` items, or of any number.
    pub(crate) fn items<T: Item>(
        &self,
        section: Section,
        count: Option<usize>,
    ) -> Result<SectionSlice<T>, SnapshotError> {
        let bytes = self.section(section)?;
        if !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(section.malformed("its length is not a multiple of its items'"));
        }
        section.expect_items(bytes.len() / size_of::<T>(), count)?;
        Ok(SectionSlice(bytes, PhantomData))
    }

    /// Returns a section of `count` lists, or of any number.
    pub(crate) fn lists<T: Item>(
        &self,
        section: Section,
        count: Option<usize>,
    ) -> Result<Lists<T>, SnapshotError> {
        let items: SectionSlice<T> = self.items(section, None)?;
        // The first list starts behind the bounds.
        let first = items
            .0
            .first_chunk()
            .map_or(0, |first| u32::from_le_bytes(*first));
        let bounds_bytes = first as usize * size_of::<T>();
        let bounds = items.0.get(..bounds_bytes);
        let bounds = bounds.and_then(|bounds| <[U32]>::ref_from_bytes(bounds).ok());
        let is_sound = bounds.is_some_and(|bounds| {
            let last = bounds
                .last()
                .is_some_and(|last| last.get() as usize == items.len());
            last && bounds.is_sorted_by_key(|bound| bound.get())
        });
        if !is_sound {
            return Err(section.malformed("its bounds are not in order"));
        }
        let bounds = SectionSlice(items.0.slice(..bounds_bytes), PhantomData);
        let lists = Lists { bounds, items };
        section.expect_items(lists.len(), count)?;
        Ok(lists)
    }

    /// Returns the `count` body records, each of which lies among the bodies.
    pub(crate) fn bodies(&self, count: usize) -> Result<BodySlice, SnapshotError> {
        let records: BodySlice = self.items(Section::Bodies, Some(count))?;
        let mut bodies = records.iter().map(BodyRef::from_record);
        let is_sound = bodies.all(|body| body.is_sound(self.bodies_end));
        let problem = "a body lies outside the bodies, or has an impossible length";
        is_sound
            .then_some(records)
            .ok_or_else(|| Section::Bodies.malformed(problem))
    }
}

impl Section {
    /// Verifies that the numbers of a section are below `limit`.
    pub(crate) fn expect_below(self, numbers: &[U32], limit: usize) -> Result<(), SnapshotError> {
        let highest = numbers.iter().map(|number| number.get()).max();
        if highest.is_some_and(|highest| highest as usize >= limit) {
            return Err(self.malformed("it points past the last row"));
        }
        Ok(())
    }
}

/// The type of an item in a section: its bytes are read in place.
pub(crate) trait Item: FromBytes + Immutable + KnownLayout + Unaligned {}

impl<T: FromBytes + Immutable + KnownLayout + Unaligned> Item for T {}

/// A vector of `T` in a section. Requests borrow it: the reference count of its bytes is a cache
/// line that all cores share.
#[derive(Debug)]
pub(crate) struct SectionSlice<T>(Bytes, PhantomData<T>);

pub(crate) type U32Slice = SectionSlice<U32>;
pub(crate) type U64Slice = SectionSlice<U64>;
pub(crate) type BodySlice = SectionSlice<BodyRecord>;

impl<T: Item> Deref for SectionSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        <[T]>::ref_from_bytes(&self.0).expect("the length was checked at open")
    }
}

/// Lists of `T` in a section, each found by its index.
#[derive(Debug)]
pub(crate) struct Lists<T> {
    /// The start of each list, and the end of the last one.
    bounds: U32Slice,
    /// The whole section, to which the bounds refer.
    items: SectionSlice<T>,
}

pub(crate) type Texts = Lists<u8>;

impl<T: Item> Lists<T> {
    pub(crate) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(crate) fn range(&self, at: usize) -> Range<usize> {
        self.bounds[at].get() as usize..self.bounds[at + 1].get() as usize
    }

    pub(crate) fn get(&self, at: usize) -> &[T] {
        &self.items[self.range(at)]
    }

    pub(crate) fn all(&self) -> &[T] {
        &self.items[self.bounds[0].get() as usize..]
    }
}

impl Texts {
    /// Returns bytes of one text by their positions in the section.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.items[range]
    }

    /// Finds a text among texts in ascending order.
    pub(crate) fn find(&self, text: &[u8]) -> Option<usize> {
        let at = partition_point(self.len(), |at| self.get(at) < text);
        (at < self.len() && self.get(at) == text).then_some(at)
    }

    /// Iterates over the texts that contain a needle, which is not empty. They are searched as one text, which costs
    /// less than a search of each.
    pub(crate) fn containing<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> {
        let finder = Finder::new(needle);
        let mut next = 0;
        iter::from_fn(move || {
            while next < self.len() {
                let start = self.range(next).start;
                let found = start + finder.find(&self.items[start..])?;
                let at = (next..self.len()).find(|at| found < self.range(*at).end)?;
                next = at + 1;
                // Otherwise it continues in the next text, as a later one in this text would too.
                if found + needle.len() <= self.range(at).end {
                    return Some(at);
                }
            }
            None
        })
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

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
