//! The format of a payload file, described at [`MAGIC`].
//!
//! Other content is another [`CONTENT_VERSION`]: another section, another body, and another rendering of the same input.
//! A test finds content that has changed. The order of bodies is in `layout.rs`. A section is written in
//! `publish/list_sections.rs` or `publish/history_payload.rs`; `History::open` checks its lengths and numbers, so that
//! no request panics.

use std::fmt::{self, Display};

use super::error::SnapshotError;
use super::layout::CONTENT_VERSION;
use crate::request::Grouping;

/// First and last eight bytes of a payload file.
///
/// ```text
/// magic 8      "IMSN" and the version of the content, u32
/// bodies       each as gzip, or plain where gzip would not be smaller
/// sections     the resident part: read whole at open
/// contents     12 bytes a section, in their order: length u64, id u32
/// trailer 32   sections' offset u64, publish timestamp i64, section count u32, crc32 u32 of all
///              from the sections up to here, magic 8
/// ```
///
/// If the format changes and the content does not, `IMSN` must change.
///
/// All integers are little-endian. A section is an array, or lists: the start of each list and the end of the
/// last one, u32, then the items of all of them. These positions count items from the start of the section.
///
/// The identity form of a body that has a gzip form is not stored: it was four fifths of all bodies, and of
/// the memory in which the system caches them.
pub(crate) const MAGIC: [u8; 8] = {
    let [first, second, third, last] = CONTENT_VERSION.to_le_bytes();
    [b'I', b'M', b'S', b'N', first, second, third, last]
};
pub(crate) const ENTRY_BYTES: usize = 12;
pub(crate) const TRAILER_BYTES: usize = 32;
/// Bytes at the end of the trailer that its checksum does not cover: the checksum and the magic.
pub(crate) const UNCHECKED_BYTES: usize = 12;
/// The most that one byte of deflate expands to: two bits can encode a match of 258 bytes.
pub(crate) const EXPANSION_MAX: u64 = 258 * 4;

/// A part of the resident region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
// Each is described where it is written: `publish::{history_payload, list_sections}`; the index of titles in search.rs.
pub enum Section {
    /// All bodies, in the order of the file.
    Bodies = 1,
    CcuHistories,
    RowEnd,
    Days,
    Rows,
    Codes,
    Ranks,
    Orders,
    TagNames,
    TagOrders,
    RowTags,
    CreatorOrders,
    RowCreators,
    ToolOrders,
    RowTools,
    Titles,
    TitleSuffixRows,
    TitleSamples,
    TitleCommon,
    TitleCommonRows,
    CreatorRows,
    CreatorSlugs,
    CreatorsBySlug,
    Slugs,
    CreatorNames,
    ToolNames,
    Values,
}

impl Section {
    /// Returns the sections of a grouping: the names of its groups in ascending order, the rows of each group in all
    /// orderings, and the groups of each row.
    pub(crate) fn of_grouping(grouping: Grouping) -> [Section; 3] {
        match grouping {
            Grouping::Tag => [Section::TagNames, Section::TagOrders, Section::RowTags],
            Grouping::Creator => [
                Section::CreatorNames,
                Section::CreatorOrders,
                Section::RowCreators,
            ],
            Grouping::CreatedIn => [Section::ToolNames, Section::ToolOrders, Section::RowTools],
        }
    }

    pub(crate) fn malformed(self, problem: &str) -> SnapshotError {
        SnapshotError::malformed(format_args!("section {self:?}"), problem)
    }

    pub(crate) fn expect_items(
        self,
        found: usize,
        wanted: Option<usize>,
    ) -> Result<(), SnapshotError> {
        match wanted.filter(|wanted| *wanted != found) {
            Some(wanted) => Err(self.malformed(&format!("it has {found} items, not {wanted}"))),
            None => Ok(()),
        }
    }
}

/// A [`BodyRef`] in a file: offset u64, then four u32.
pub(crate) type BodyRecord = [u8; 24];

/// The location of a body and its checksums. An absent body has length 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyRef {
    /// Offset of the stored form in the file: gzip, or plain if there is no gzip form.
    pub(crate) offset: u64,
    /// Length of the identity form in bytes; 0 if there is no such body.
    pub(crate) plain_bytes: u32,
    /// Length of the gzip form; 0 if gzip would not be smaller.
    pub(crate) gzip_bytes: u32,
    pub(crate) plain_crc: u32,
    pub(crate) gzip_crc: u32,
}

impl BodyRef {
    pub(crate) fn to_record(self) -> BodyRecord {
        let mut record = [0; 24];
        record[..8].copy_from_slice(&self.offset.to_le_bytes());
        record[8..12].copy_from_slice(&self.plain_bytes.to_le_bytes());
        record[12..16].copy_from_slice(&self.gzip_bytes.to_le_bytes());
        record[16..20].copy_from_slice(&self.plain_crc.to_le_bytes());
        record[20..].copy_from_slice(&self.gzip_crc.to_le_bytes());
        record
    }

    pub(crate) fn from_record(record: &BodyRecord) -> BodyRef {
        let word = |at: usize| u32_at(record, 2 + at);
        BodyRef {
            offset: u64_at(record, 0),
            plain_bytes: word(0),
            gzip_bytes: word(1),
            plain_crc: word(2),
            gzip_crc: word(3),
        }
    }

    /// The name of the body in messages.
    pub(crate) fn place(self) -> impl Display {
        fmt::from_fn(move |f| write!(f, "a body at byte {}", self.offset))
    }

    pub(crate) fn has_gzip(self) -> bool {
        self.gzip_bytes > 0
    }

    pub(crate) fn bytes(self, gzip: bool) -> u32 {
        if gzip {
            self.gzip_bytes
        } else {
            self.plain_bytes
        }
    }

    pub(crate) fn crc(self, gzip: bool) -> u32 {
        if gzip { self.gzip_crc } else { self.plain_crc }
    }

    /// Returns `true` if the body ends before `bodies_end`, and gzip can expand to its identity
    /// form: a buffer of that length is never larger than a fixed multiple of the stored bytes.
    pub(crate) fn is_sound(self, bodies_end: u64) -> bool {
        let stored_bytes = self.bytes(self.has_gzip());
        let end = self.offset.checked_add(stored_bytes.into());
        let plain_max = u64::from(self.gzip_bytes) * EXPANSION_MAX;
        end.is_some_and(|end| end <= bodies_end)
            && (!self.has_gzip() || u64::from(self.plain_bytes) <= plain_max)
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes.as_chunks().0[at])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks().0[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_claims_more_than_can_be_there_is_unsound() {
        let body = BodyRef {
            offset: 8,
            plain_bytes: 5000,
            gzip_bytes: 100,
            plain_crc: 1,
            gzip_crc: 2,
        };
        assert_eq!(BodyRef::from_record(&body.to_record()), body);
        assert!(body.is_sound(108) && !body.is_sound(107));
        let plain = |plain_bytes, gzip_bytes| BodyRef {
            plain_bytes,
            gzip_bytes,
            ..body
        };
        assert!(plain(103_200, 100).is_sound(108) && !plain(103_201, 100).is_sound(108));
        assert!(!plain(u32::MAX, 100).is_sound(u64::MAX));
        assert!(plain(100, 0).is_sound(108) && !plain(101, 0).is_sound(108));
        let beyond = BodyRef {
            offset: u64::MAX,
            ..body
        };
        assert!(!beyond.is_sound(u64::MAX));
    }
}
