//! Integers and records of a payload file, read in place.

use std::fmt::{self, Display};

use bytes::Bytes;

use super::inflate::GROWTH_MAX;

/// Where a body lies and what it must check to. An absent body has length 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyRef {
    /// Where in the file it is stored: as gzip, or plain where it has no gzip form.
    pub offset: u64,
    /// Length of the identity form in bytes; 0 where there is no such body.
    pub plain_bytes: u32,
    /// Length of the gzip form; 0 where gzip would not be smaller.
    pub gzip_bytes: u32,
    /// CRC-32 of the identity form.
    pub plain_crc: u32,
    /// CRC-32 of the gzip form.
    pub gzip_crc: u32,
}

impl BodyRef {
    /// Length of the record in a file.
    pub const BYTES: usize = 24;

    /// The record as it stands in a file.
    pub fn to_bytes(self) -> [u8; BodyRef::BYTES] {
        let mut record = [0; BodyRef::BYTES];
        record[..8].copy_from_slice(&self.offset.to_le_bytes());
        let words = [
            self.plain_bytes,
            self.gzip_bytes,
            self.plain_crc,
            self.gzip_crc,
        ];
        for (at, word) in words.into_iter().enumerate() {
            record[8 + 4 * at..12 + 4 * at].copy_from_slice(&word.to_le_bytes());
        }
        record
    }

    /// The name of the body in messages.
    pub(crate) fn place(self) -> impl Display {
        fmt::from_fn(move |f| write!(f, "a body at byte {}", self.offset))
    }

    pub(crate) fn has_gzip(self) -> bool {
        self.gzip_bytes > 0
    }

    /// Length and checksum of the form that is stored.
    pub(crate) fn stored(self) -> (u32, u32) {
        if self.has_gzip() {
            (self.gzip_bytes, self.gzip_crc)
        } else {
            (self.plain_bytes, self.plain_crc)
        }
    }

    /// Whether it ends before `bodies_end`, and its identity form is none that gzip cannot become: who
    /// makes room for it by its length makes no more than a fixed multiple of what is there.
    pub(crate) fn is_sound(self, bodies_end: u64) -> bool {
        let end = self.offset.checked_add(self.stored().0.into());
        let plain_max = u64::from(self.gzip_bytes) * GROWTH_MAX;
        end.is_some_and(|end| end <= bodies_end)
            && (!self.has_gzip() || u64::from(self.plain_bytes) <= plain_max)
    }

    pub(crate) fn from_bytes(record: &[u8; BodyRef::BYTES]) -> BodyRef {
        let word = |at: usize| u32_at(record, 2 + at);
        BodyRef {
            offset: u64_at(record, 0),
            plain_bytes: word(0),
            gzip_bytes: word(1),
            plain_crc: word(2),
            gzip_crc: word(3),
        }
    }
}

/// Records of bodies, read in place.
#[derive(Debug)]
pub(crate) struct BodyRefs(pub(crate) Bytes);

impl BodyRefs {
    pub(crate) const EMPTY: BodyRefs = BodyRefs(Bytes::new());

    pub(crate) fn get(&self, at: usize) -> BodyRef {
        BodyRef::from_bytes(&self.0.as_chunks().0[at])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = BodyRef> + '_ {
        self.0.as_chunks().0.iter().map(BodyRef::from_bytes)
    }
}

/// A vector of `u32` read in place. It counts references to the file's bytes, so requests use its
/// [`view`](Ints::view): a count that all cores write to is a cache line that they wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ints(pub(crate) Bytes);

impl Ints {
    pub(crate) fn view(&self) -> IntsView<'_> {
        IntsView::of(&self.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.view().len()
    }

    pub(crate) fn get(&self, at: usize) -> u32 {
        self.view().get(at)
    }
}

/// A vector of `u32`, or a slice of one, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntsView<'a>(&'a [[u8; 4]]);

impl<'a> IntsView<'a> {
    /// The whole words of some bytes.
    pub(crate) fn of(bytes: &'a [u8]) -> IntsView<'a> {
        IntsView(bytes.as_chunks().0)
    }

    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at])
    }

    pub(crate) fn slice(self, range: std::ops::Range<usize>) -> IntsView<'a> {
        IntsView(&self.0[range])
    }

    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + 'a {
        self.0.iter().map(|word| u32::from_le_bytes(*word))
    }

    /// Slices of `length`, the last one perhaps shorter.
    pub(crate) fn chunks(
        self,
        length: usize,
    ) -> impl DoubleEndedIterator<Item = IntsView<'a>> + ExactSizeIterator {
        self.0.chunks(length).map(IntsView)
    }
}

/// A vector of `u64` read in place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Longs(pub(crate) Bytes);

impl Longs {
    pub(crate) fn len(&self) -> usize {
        self.0.len() / 8
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        u64_at(&self.0, at)
    }

    /// Entry `at` as an index. Never cut: an entry is checked against a length in memory at open.
    pub(crate) fn index(&self, at: usize) -> usize {
        usize::try_from(self.get(at)).unwrap_or(usize::MAX)
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes[4 * at..4 * at + 4]
        .try_into()
        .expect("a range of four is four long");
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[8 * at..8 * at + 8]
        .try_into()
        .expect("a range of eight is eight long");
    u64::from_le_bytes(word)
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
        assert_eq!(BodyRef::from_bytes(&body.to_bytes()), body);
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
