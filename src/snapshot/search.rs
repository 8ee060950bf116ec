//! Substring search over short texts: all their suffixes, sorted.
//!
//! What begins at one place of a text and goes to its end is a suffix of it. A needle is in a text if
//! it begins one of its suffixes, and in sorted order the suffixes that it begins stand side by side:
//! the texts of that run are the answer, however short, long or common the needle is. A needle of up
//! to three bytes that begins very many suffixes has its texts published as a set besides.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use memchr::memmem::Finder;

use super::error::SnapshotError;
use super::file::{Section, SnapshotFile};
use super::pace::give_way;
use super::row_set::RowSet;
use super::views::{Ints, Longs};

/// Suffixes are sorted by so many of their first bytes; longer needles are looked for in each text.
pub const SUFFIX_DEPTH: usize = 24;
/// Of each suffix its text is kept, but where it begins only of one in so many. Both ends of a run
/// are therefore known to within this, and texts there are looked at.
pub const SUFFIX_STEP: usize = 16;

/// How a needle that may have a set of its own is named in the file: its length and bytes.
pub fn common_key(needle: &[u8]) -> Option<u32> {
    match *needle {
        [a] => Some(u32::from_be_bytes([1, a, 0, 0])),
        [a, b] => Some(u32::from_be_bytes([2, a, b, 0])),
        [a, b, c] => Some(u32::from_be_bytes([3, a, b, c])),
        _ => None,
    }
}

/// The sections that an index is made of.
pub(crate) struct IndexSections {
    pub(crate) text: Section,
    pub(crate) ends: Section,
    pub(crate) suffix_rows: Section,
    pub(crate) samples: Section,
    pub(crate) common: Section,
    pub(crate) common_rows: Section,
}

/// The index over island titles.
pub(crate) const TITLES: IndexSections = IndexSections {
    text: Section::TitleText,
    ends: Section::TitleEnds,
    suffix_rows: Section::TitleSuffixRows,
    samples: Section::TitleSamples,
    common: Section::TitleCommon,
    common_rows: Section::TitleCommonRows,
};

/// The index over creator slugs.
pub(crate) const SLUGS: IndexSections = IndexSections {
    text: Section::SlugText,
    ends: Section::SlugEnds,
    suffix_rows: Section::SlugSuffixRows,
    samples: Section::SlugSamples,
    common: Section::SlugCommon,
    common_rows: Section::SlugCommonRows,
};

#[derive(Debug)]
pub(crate) struct TextIndex {
    /// The folded texts, one after the other.
    text: Bytes,
    ends: Longs,
    /// The row of each suffix, in the order of the suffixes.
    suffix_rows: Ints,
    /// Where in `text` one in [`SUFFIX_STEP`] of the suffixes begins.
    samples: Ints,
    /// The [`common_key`]s of the needles that have a set, ascending.
    common: Ints,
    common_rows: Bytes,
}

impl TextIndex {
    pub(crate) fn open(
        file: &SnapshotFile,
        parts: &IndexSections,
    ) -> Result<TextIndex, SnapshotError> {
        let text = file.section(parts.text)?;
        let ends = file.bounds(parts.ends, text.len())?;
        let suffix_rows = file.positions(parts.suffix_rows, 1, ends.len() - 1)?;
        let samples = file.ints(parts.samples, suffix_rows.len().div_ceil(SUFFIX_STEP))?;
        let common = file.positions(parts.common, 1, usize::MAX)?;
        let index = TextIndex {
            text,
            ends,
            suffix_rows,
            samples,
            common,
            common_rows: file.section(parts.common_rows)?,
        };
        let mut samples = (0..index.samples.len()).inspect(|at| give_way(*at));
        if !samples.all(|at| index.sample_is_sound(at)) {
            return Err(SnapshotError::malformed(
                format!("section {:?}", parts.samples),
                "a suffix begins outside its text",
            ));
        }
        // Searches halve them, and take the beginning of a run to come before its end.
        let samples = (0..index.samples.len()).inspect(|at| give_way(*at));
        let samples = samples.map(|at| index.sample(at, SUFFIX_DEPTH));
        if !samples.is_sorted() {
            return Err(SnapshotError::malformed(
                format!("section {:?}", parts.samples),
                "its suffixes are not in order",
            ));
        }
        if !index.common_is_sound() {
            return Err(SnapshotError::malformed(
                format!("section {:?}", parts.common_rows),
                "it does not fit the number of texts",
            ));
        }
        Ok(index)
    }

    fn sample_is_sound(&self, at: usize) -> bool {
        let begins = self.samples.get(at) as usize;
        let row = self.suffix_rows.get(at * SUFFIX_STEP) as usize;
        (self.ends.index(row)..self.ends.index(row + 1)).contains(&begins)
    }

    /// Whether each set is whole and names no row past the last.
    fn common_is_sound(&self) -> bool {
        let set_bytes = RowSet::words(self.len()) * 8;
        let whole = self.common.len().checked_mul(set_bytes) == Some(self.common_rows.len());
        let past = |set: &[u8]| {
            let last = set.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            !self.len().is_multiple_of(64) && last >> (self.len() % 64) != 0
        };
        whole && (set_bytes == 0 || !self.common_rows.chunks_exact(set_bytes).any(past))
    }

    /// The first bytes of a sampled suffix, `length` at most.
    fn sample(&self, at: usize, length: usize) -> &[u8] {
        let begins = self.samples.get(at) as usize;
        let row = self.suffix_rows.get(at * SUFFIX_STEP) as usize;
        let suffix = &self.text[begins..self.ends.index(row + 1)];
        &suffix[..suffix.len().min(length)]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// The folded text of a row.
    fn text(&self, row: u32) -> &[u8] {
        let row = row as usize;
        &self.text[self.ends.index(row)..self.ends.index(row + 1)]
    }

    /// Finds a needle, which is folded and not empty.
    pub(crate) fn find<'a>(&'a self, needle: &'a str) -> Matches<'a> {
        let sought = &needle.as_bytes()[..needle.len().min(SUFFIX_DEPTH)];
        let first = self.samples_until(sought, Ordering::is_ge);
        let end = self.samples_until(sought, Ordering::is_gt);
        // The run begins after the last sample before the needle, and ends before the first past it.
        let start = first.checked_sub(1).map_or(0, |at| at * SUFFIX_STEP + 1);
        let run = start..(end * SUFFIX_STEP).min(self.suffix_rows.len());
        let sure = if first < end && needle.len() <= SUFFIX_DEPTH {
            first * SUFFIX_STEP..(end - 1) * SUFFIX_STEP + 1
        } else {
            run.end..run.end
        };
        Matches {
            index: self,
            needle,
            finder: Finder::new(needle),
            run,
            sure,
        }
    }

    /// How many samples stand before the first whose beginning compares to `sought` as wanted.
    fn samples_until(&self, sought: &[u8], wanted: impl Fn(Ordering) -> bool) -> usize {
        first_where(self.samples.len(), |at| {
            wanted(self.sample(at, sought.len()).cmp(sought))
        })
    }
}

/// The first place below `count` for which `is_so`, which then stays so; `count` where there is none.
fn first_where(count: usize, is_so: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_so(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The texts that hold a needle, not yet looked at.
pub(crate) struct Matches<'a> {
    index: &'a TextIndex,
    needle: &'a str,
    finder: Finder<'a>,
    /// Suffixes among which are all that the needle begins.
    run: Range<usize>,
    /// Those of them that it begins for sure.
    sure: Range<usize>,
}

impl Matches<'_> {
    /// No more texts than this hold the needle.
    pub(crate) fn at_most(&self) -> usize {
        self.run.len()
    }

    /// Whether the text of a row holds the needle.
    pub(crate) fn is_in(&self, row: u32) -> bool {
        self.finder.find(self.index.text(row)).is_some()
    }

    /// The rows whose texts hold the needle, in no order, perhaps repeated.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        let rows = self.index.suffix_rows.view();
        let looked_at =
            move |range: Range<usize>| rows.slice(range).iter().filter(|row| self.is_in(*row));
        looked_at(self.run.start..self.sure.start)
            .chain(rows.slice(self.sure.clone()).iter())
            .chain(looked_at(self.sure.end..self.run.end))
    }

    /// The same as a set.
    pub(crate) fn set(&self) -> RowSet {
        let common = &self.index.common;
        if let Some(key) = common_key(self.needle.as_bytes()) {
            let at = first_where(common.len(), |at| common.get(at) >= key);
            if at < common.len() && common.get(at) == key {
                let bytes = RowSet::words(self.index.len()) * 8;
                return RowSet::from_bytes(&self.index.common_rows[at * bytes..(at + 1) * bytes]);
            }
        }
        RowSet::of(self.index.len(), self.rows())
    }
}
