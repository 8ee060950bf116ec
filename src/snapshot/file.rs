//! The payload file, byte by byte, and the reader that trusts nothing in it.
//!
//! ```text
//! magic 8          "IMSNAP" and the format's version, two bytes big-endian
//! bodies           each as gzip, or plain where gzip would not be smaller
//! sections         the resident part: read whole at open
//! contents         24 bytes a section: id u32, crc32 u32, offset u64, length u64
//! trailer 32       sections' offset u64, contents' offset u64, section count u32, crc32 u32 of
//!                  the contents and the trailer before it, magic 8
//! ```
//! All integers are little-endian. Bodies are checked when they are read, by the checksums in
//! their [`BodyRef`]; everything else is checked at open.
//!
//! The identity form of a body that has a gzip form is inflated from it. Stored besides, it was four
//! fifths of all bodies, and of the memory in which the system keeps what is read of them.

use std::fmt::Display;
use std::ops::Range;

use bytes::Bytes;

use super::error::SnapshotError;
use super::identity::Identity;
use super::pace::{give_way, pieces};
use super::resident::read_resident;
use super::storage::Storage;
use super::views::{BodyRef, BodyRefs, Ints, IntsView, Longs, u32_at, u64_at};
use crate::calendar::UnixSeconds;

/// First and last eight bytes of a payload file. A file of another version is refused, never guessed at.
pub(crate) const MAGIC: [u8; 8] = *b"IMSNAP\x00\x03";
pub(crate) const ENTRY_BYTES: usize = 24;
pub(crate) const TRAILER_BYTES: usize = 32;

/// A part of the resident region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(
    missing_docs,
    reason = "each is described where it is written, in publish::history_payload"
)]
pub enum Section {
    Stamp = 1,
    Frames,
    Days,
    RowText,
    RowEnds,
    Codes,
    Levels,
    Orders,
    TagNames,
    TagNameEnds,
    TagStarts,
    TagOrders,
    RowTagStarts,
    RowTags,
    RowCreators,
    RowTools,
    CreatorStarts,
    CreatorOrders,
    ToolStarts,
    ToolOrders,
    TitleText,
    TitleEnds,
    TitleSuffixRows,
    TitleSamples,
    TitleCommon,
    TitleCommonRows,
    CreatorRowText,
    CreatorRowEnds,
    CreatorSlugs,
    CreatorSlugEnds,
    CreatorsBySlug,
    SlugText,
    SlugEnds,
    SlugSuffixRows,
    SlugSamples,
    SlugCommon,
    SlugCommonRows,
    IslandBodies,
    CcuBodies,
    CreatorBodies,
    RankingBodies,
    NewBodies,
    FixedBodies,
}

/// An open payload file whose resident region has been checked.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    storage: Storage,
    bytes: u64,
    bodies_end: u64,
    sections: Vec<(u32, Bytes)>,
    checksum: u32,
}

impl SnapshotFile {
    /// Reads and checks everything but the bodies.
    pub(crate) fn open(storage: Storage) -> Result<SnapshotFile, SnapshotError> {
        let length = storage.len()?;
        let least = (MAGIC.len() + TRAILER_BYTES) as u64;
        if length < least || storage.read(0, MAGIC.len())? != MAGIC[..] {
            return Err(SnapshotError::Foreign {
                expected: "its first eight bytes",
            });
        }
        let trailer_offset = length - TRAILER_BYTES as u64;
        let trailer = storage.read(trailer_offset, TRAILER_BYTES)?;
        if trailer[24..] != MAGIC {
            return Err(SnapshotError::Foreign {
                expected: "its last eight bytes",
            });
        }
        let (start, contents) = (u64_at(&trailer, 0), u64_at(&trailer, 1));
        let count = u64::from(u32_at(&trailer, 4));
        let sound = start >= MAGIC.len() as u64
            && start <= contents
            && contents.checked_add(count * ENTRY_BYTES as u64) == Some(trailer_offset);
        if !sound {
            return Err(SnapshotError::malformed(
                "the trailer",
                "its offsets do not fit the file's length",
            ));
        }
        let table_bytes = usize::try_from(trailer_offset - contents)
            .map_err(|_| SnapshotError::malformed("the table of contents", "it is too long"))?;
        let table = storage.read(contents, table_bytes)?;
        let checksum = contents_checksum(&table, &trailer[..20]);
        expect_checksum("the table of contents", u32_at(&trailer, 5), checksum)?;
        Ok(SnapshotFile {
            sections: Self::read_sections(&storage, &table, start..contents)?,
            storage,
            bytes: length,
            bodies_end: start,
            checksum,
        })
    }

    /// Reads the sections that a table of contents names: one right behind the other, they fill the
    /// `region`.
    fn read_sections(
        storage: &Storage,
        table: &[u8],
        region: Range<u64>,
    ) -> Result<Vec<(u32, Bytes)>, SnapshotError> {
        let (mut end, mut lengths) = (region.start, Vec::new());
        for entry in table.chunks_exact(ENTRY_BYTES) {
            let (id, offset, length) = (u32_at(entry, 0), u64_at(entry, 1), u64_at(entry, 2));
            let fits = offset == end && length <= region.end - end;
            let length = usize::try_from(length).ok().filter(|_| fits);
            lengths.push(length.ok_or_else(|| {
                SnapshotError::malformed(format_args!("section {id}"), "it is not in its place")
            })?);
            end += u64_at(entry, 2);
        }
        if end != region.end {
            return Err(SnapshotError::malformed(
                "the sections",
                "they end before the table of contents",
            ));
        }
        let (mut rest, checksums) = read_resident(storage, region.start, &lengths)?;
        let entries = table.chunks_exact(ENTRY_BYTES).zip(lengths).zip(checksums);
        let mut sections = Vec::new();
        for ((entry, length), checksum) in entries {
            let id = u32_at(entry, 0);
            expect_checksum(format_args!("section {id}"), u32_at(entry, 1), checksum)?;
            sections.push((id, rest.split_to(length)));
        }
        Ok(sections)
    }

    /// What the payload is known by. Its checksum is that of the table of contents, which holds
    /// the checksums of all sections.
    pub(crate) fn identity(&self, published: UnixSeconds) -> Identity {
        Identity {
            bytes: self.bytes,
            checksum: self.checksum,
            published,
        }
    }

    pub(crate) fn section(&self, section: Section) -> Result<Bytes, SnapshotError> {
        let id = section as u32;
        let found = self.sections.iter().find(|(found, _)| *found == id);
        found.map(|(_, bytes)| bytes.clone()).ok_or_else(|| {
            SnapshotError::malformed(format!("section {section:?}"), "it is missing")
        })
    }

    /// A section of `u32`, which must be `count` long.
    pub(crate) fn ints(&self, section: Section, count: usize) -> Result<Ints, SnapshotError> {
        let bytes = self.section(section)?;
        expect_length(section, bytes.len(), count.checked_mul(4))?;
        Ok(Ints(bytes))
    }

    /// A section of `u64`, which must be `count` long.
    pub(crate) fn longs(&self, section: Section, count: usize) -> Result<Longs, SnapshotError> {
        let bytes = self.section(section)?;
        expect_length(section, bytes.len(), count.checked_mul(8))?;
        Ok(Longs(bytes))
    }

    /// Offsets that start at 0, never fall, and end at `end`; one more than there are parts.
    pub(crate) fn bounds(&self, section: Section, end: usize) -> Result<Longs, SnapshotError> {
        let bounds = Longs(self.section(section)?);
        let sound = bounds.0.len().is_multiple_of(8)
            && bounds.len() > 0
            && bounds.get(0) == 0
            && bounds.get(bounds.len() - 1) == end as u64
            && (1..bounds.len()).all(|at| {
                give_way(at);
                bounds.get(at - 1) <= bounds.get(at)
            });
        if sound {
            Ok(bounds)
        } else {
            Err(SnapshotError::malformed(
                format!("section {section:?}"),
                "its offsets are not in order",
            ))
        }
    }

    /// A section of positions, each below `limit`, of any length that is a multiple of `unit`.
    pub(crate) fn positions(
        &self,
        section: Section,
        unit: usize,
        limit: usize,
    ) -> Result<Ints, SnapshotError> {
        let ints = Ints(self.section(section)?);
        if !ints.0.len().is_multiple_of(4 * unit.max(1)) {
            return Err(SnapshotError::malformed(
                format!("section {section:?}"),
                "its length is no multiple",
            ));
        }
        let mut highest = None;
        for piece in pieces(&ints.0) {
            highest = highest.max(IntsView::of(piece).iter().max());
        }
        if highest.is_some_and(|highest| highest as usize >= limit) {
            return Err(SnapshotError::malformed(
                format!("section {section:?}"),
                "it points past the last row",
            ));
        }
        Ok(ints)
    }

    /// A section of `count` body records, each of which must lie among the bodies.
    pub(crate) fn bodies(&self, section: Section, count: usize) -> Result<BodyRefs, SnapshotError> {
        let bytes = self.section(section)?;
        expect_length(section, bytes.len(), count.checked_mul(BodyRef::BYTES))?;
        let refs = BodyRefs(bytes);
        for (at, body) in refs.iter().enumerate() {
            give_way(at);
            if !body.is_sound(self.bodies_end) {
                return Err(SnapshotError::malformed(
                    format!("section {section:?}"),
                    "a body lies outside the bodies, or has an impossible length",
                ));
            }
        }
        Ok(refs)
    }

    /// What bodies are read from.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The same, with the sections let go of.
    pub(crate) fn into_storage(self) -> Storage {
        self.storage
    }
}

/// The checksum of the table of contents and the trailer's first twenty bytes.
pub(crate) fn contents_checksum(table: &[u8], trailer: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(table);
    hasher.update(trailer);
    hasher.finalize()
}

pub(crate) fn expect_checksum(
    part: impl Display,
    written: u32,
    found: u32,
) -> Result<(), SnapshotError> {
    if written == found {
        return Ok(());
    }
    Err(SnapshotError::Checksum {
        part: part.to_string(),
        written,
        found,
    })
}

fn expect_length(section: Section, found: usize, want: Option<usize>) -> Result<(), SnapshotError> {
    if Some(found) == want {
        return Ok(());
    }
    Err(SnapshotError::malformed(
        format!("section {section:?}"),
        format!("it is {found} bytes long"),
    ))
}
