//! A bit set of rows. Conditions are combined in one pass over it, and matches are counted by their
//! bits.

use std::ops::Range;

use zerocopy::little_endian::U32;

/// Rows of an order that are counted together.
const STRIDE: usize = 256;

/// A set of rows, each below a limit known when the set was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSet {
    words: Vec<u64>,
}

impl RowSet {
    /// Returns the number of words in a set of rows below `limit`.
    pub(crate) fn words(limit: usize) -> usize {
        limit.div_ceil(64)
    }

    /// Creates a set of rows below `limit`, which may be repeated.
    pub(crate) fn new(limit: usize, rows: impl Iterator<Item = u32>) -> RowSet {
        let mut words = vec![0; RowSet::words(limit)];
        rows.for_each(|row| words[row as usize / 64] |= 1_u64 << (row % 64));
        RowSet { words }
    }

    /// Decodes a set from little-endian words.
    pub(crate) fn from_bytes(bytes: &[u8]) -> RowSet {
        let words = bytes.as_chunks().0.iter();
        RowSet {
            words: words.map(|word| u64::from_le_bytes(*word)).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        let counts = self.words.iter().map(|word| word.count_ones() as usize);
        counts.sum()
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        self.words[row as usize / 64] >> (row % 64) & 1 == 1
    }

    pub(crate) fn intersect(&mut self, other: &RowSet) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Returns the rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = 0;
        let mut rest = self.words.first().copied().unwrap_or(0);
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

    /// Returns the members at the positions `range` of the `total` members, in the order of
    /// `order`, which contains every member once. Counts from the nearer end.
    pub(crate) fn ordered(&self, order: &[U32], range: Range<usize>, total: usize) -> Vec<u32> {
        let contains = |row: &U32| self.contains(row.get());
        // Without a branch on each row, so that it costs the same for any set.
        let count =
            |chunk: &[U32]| -> usize { chunk.iter().map(|row| usize::from(contains(row))).sum() };
        let chunks = order.chunks(STRIDE);
        // The chunk of the first member of the range, and the members in front of that chunk.
        let (mut chunk, mut before) = (0, 0);
        if range.start <= total / 2 {
            for members in chunks.map(count) {
                if before + members > range.start {
                    break;
                }
                (chunk, before) = (chunk + 1, before + members);
            }
        } else {
            (chunk, before) = (chunks.len(), total);
            for members in chunks.rev().map(count) {
                if before <= range.start {
                    break;
                }
                (chunk, before) = (chunk - 1, before.saturating_sub(members));
            }
        }
        let rest = order[(chunk * STRIDE).min(order.len())..].iter();
        rest.filter(|row| contains(row))
            .skip(range.start.saturating_sub(before))
            .take(range.len())
            .map(|row| row.get())
            .collect()
    }
}

#[cfg(test)]
#[path = "row_set_tests.rs"]
mod tests;
