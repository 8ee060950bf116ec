//! A set of rows, one bit a row: what a condition selects, so that several meet in one pass and
//! the number of rows that match is a count of bits.
//!
//! In: rows, or the bits of a published set. Out: how many, which, and those of a page.

use std::ops::Range;

use super::views::IntsView;

/// Rows that are counted at a time on the way to a page.
const STRIDE: usize = 256;

/// Rows of the file, each below a limit known when the set was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSet {
    words: Vec<u64>,
}

impl RowSet {
    /// Words of a set of rows below `limit`.
    pub(crate) fn words(limit: usize) -> usize {
        limit.div_ceil(64)
    }

    /// The set of these rows, each below `limit`, perhaps repeated.
    pub(crate) fn of(limit: usize, rows: impl Iterator<Item = u32>) -> RowSet {
        let mut words = vec![0; RowSet::words(limit)];
        rows.for_each(|row| words[row as usize / 64] |= 1_u64 << (row % 64));
        RowSet { words }
    }

    /// The set whose words stand little-endian in a file.
    pub(crate) fn from_bytes(bytes: &[u8]) -> RowSet {
        let words = bytes.as_chunks().0.iter();
        RowSet {
            words: words.map(|word| u64::from_le_bytes(*word)).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        self.words[row as usize / 64] >> (row % 64) & 1 == 1
    }

    /// Leaves what is in `other` too.
    pub(crate) fn intersect(&mut self, other: &RowSet) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// The rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter_from(0)
    }

    /// The rows from those of word `at` on.
    fn iter_from(&self, mut at: usize) -> impl Iterator<Item = u32> + '_ {
        let mut rest = self.words.get(at).copied().unwrap_or(0);
        std::iter::from_fn(move || {
            while rest == 0 {
                at += 1;
                rest = *self.words.get(at)?;
            }
            let row = at * 64 + rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(u32::try_from(row).expect("rows are numbered in u32"))
        })
    }

    /// The members at the places `range` of the rows ascending.
    pub(crate) fn ascending(&self, range: Range<usize>) -> Vec<u32> {
        let mut skip = range.start;
        for (at, word) in self.words.iter().enumerate() {
            let held = word.count_ones() as usize;
            if held > skip {
                return self.iter_from(at).skip(skip).take(range.len()).collect();
            }
            skip -= held;
        }
        Vec::new()
    }

    /// The members at the places `range` of `order`, which holds every member once. Counts its way
    /// from the nearer end: `total` members are in the set.
    pub(crate) fn ordered(
        &self,
        order: IntsView<'_>,
        range: Range<usize>,
        total: usize,
    ) -> Vec<u32> {
        // Counting takes no branch on what a row holds, so it costs the same for any set.
        let count = |chunk: IntsView<'_>| -> usize {
            chunk
                .iter()
                .map(|row| usize::from(self.contains(row)))
                .sum()
        };
        let chunks = order.chunks(STRIDE);
        let (mut chunk, mut before) = (0, 0);
        if range.start <= total / 2 {
            for held in chunks.map(count) {
                if before + held > range.start {
                    break;
                }
                (chunk, before) = (chunk + 1, before + held);
            }
        } else {
            (chunk, before) = (chunks.len(), total);
            for held in chunks.rev().map(count) {
                if before <= range.start {
                    break;
                }
                (chunk, before) = (chunk - 1, before.saturating_sub(held));
            }
        }
        let rest = order.slice((chunk * STRIDE).min(order.len())..order.len());
        let members = rest.iter().filter(|row| self.contains(*row));
        members
            .skip(range.start.saturating_sub(before))
            .take(range.len())
            .collect()
    }
}

#[cfg(test)]
#[path = "row_set_tests.rs"]
mod tests;
