//! Vectors of a payload file, read in place.

use std::marker::PhantomData;
use std::ops::Deref;

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::error::SnapshotError;
use super::format::{BodyRecord, Section};

/// A vector of `T` in a section. Requests borrow it: the reference count of its bytes is a cache
/// line that all cores share.
#[derive(Debug)]
pub(crate) struct SectionSlice<T>(Bytes, PhantomData<T>);

pub(crate) type U32Slice = SectionSlice<U32>;
pub(crate) type U64Slice = SectionSlice<U64>;
pub(crate) type BodySlice = SectionSlice<BodyRecord>;

impl<T> SectionSlice<T> {
    /// Checks that the length of a section is a multiple of the size of `T`.
    pub(crate) fn new(section: Section, bytes: Bytes) -> Result<SectionSlice<T>, SnapshotError> {
        if !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(section.malformed("its length is not a multiple of its items'"));
        }
        Ok(SectionSlice(bytes, PhantomData))
    }
}

impl<T: FromBytes + Immutable + KnownLayout + Unaligned> Deref for SectionSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        <[T]>::ref_from_bytes(&self.0).expect("`new` has checked the length")
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
