//! Substring search over titles, by a sorted array of their suffixes.
//!
//! A text contains a needle if one of its suffixes begins with it, and in sorted order these
//! suffixes are adjacent: their texts are the result. The texts of a needle of up to three bytes
//! that begins very many suffixes are also published as a set.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use memchr::memmem::Finder;
use zerocopy::little_endian::U32;

use super::error::SnapshotError;
use super::file::{SnapshotFile, Texts, U32Slice, partition_point};
use super::format::Section;
use super::row_set::RowSet;

/// Number of first bytes by which suffixes are sorted. The texts of longer needles are scanned.
pub const SUFFIX_DEPTH: usize = 24;
/// The row of each suffix is stored, but the position of only one in `SUFFIX_STEP`. The ends of a run are known only up
/// to this number of suffixes, so the texts there are scanned.
pub const SUFFIX_STEP: usize = 16;

/// Returns the key of a needle that may have a set, its length and bytes; `None` for longer
/// needles.
pub fn common_key(needle: &[u8]) -> Option<u32> {
    match *needle {
        [a] => Some(u32::from_be_bytes([1, a, 0, 0])),
        [a, b] => Some(u32::from_be_bytes([2, a, b, 0])),
        [a, b, c] => Some(u32::from_be_bytes([3, a, b, c])),
        _ => None,
    }
}

/// The sections of the index: texts, the row of each suffix, samples, needles that have a set, and
/// those sets.
pub(crate) const TITLES: [Section; 5] = [
    Section::Titles,
    Section::TitleSuffixRows,
    Section::TitleSamples,
    Section::TitleCommon,
    Section::TitleCommonRows,
];

#[derive(Debug)]
pub(crate) struct TextIndex {
    texts: Texts,
    /// The row of each suffix, in the order of the suffixes.
    suffix_rows: U32Slice,
    /// Positions in the section of the texts, of one in [`SUFFIX_STEP`] suffixes.
    samples: U32Slice,
    /// The [`common_key`]s of the needles that have a set, ascending.
    common: U32Slice,
    common_rows: Bytes,
}

impl TextIndex {
    pub(crate) fn open(file: &SnapshotFile, count: usize) -> Result<TextIndex, SnapshotError> {
        let [texts, suffix_rows, samples, common, common_rows] = TITLES;
        let texts = file.lists(texts, Some(count))?;
        let rows: U32Slice = file.items(suffix_rows, None)?;
        suffix_rows.expect_below(&rows, count)?;
        let index = TextIndex {
            samples: file.items(samples, Some(rows.len().div_ceil(SUFFIX_STEP)))?,
            texts,
            suffix_rows: rows,
            common: file.items(common, None)?,
            common_rows: file.section(common_rows)?,
        };
        let all = 0..index.samples.len();
        let is_in_text = |(start, row): (usize, usize)| index.texts.range(row).contains(&start);
        if !all.clone().all(|at| is_in_text(index.sample_start(at))) {
            return Err(samples.malformed("a suffix begins outside its text"));
        }
        // Searches halve them, and expect the beginning of a run before its end.
        if !all.map(|at| index.sample(at, SUFFIX_DEPTH)).is_sorted() {
            return Err(samples.malformed("its suffixes are not in order"));
        }
        if !index.common_is_sound() {
            return Err(common_rows.malformed("it does not fit the number of texts"));
        }
        Ok(index)
    }

    /// Returns the start of a sampled suffix and the row of its text.
    fn sample_start(&self, at: usize) -> (usize, usize) {
        let row = self.suffix_rows[at * SUFFIX_STEP].get();
        (self.samples[at].get() as usize, row as usize)
    }

    /// Returns at most `length` bytes of a sampled suffix.
    fn sample(&self, at: usize, length: usize) -> &[u8] {
        let (start, row) = self.sample_start(at);
        let suffix = self.texts.bytes(start..self.texts.range(row).end);
        &suffix[..suffix.len().min(length)]
    }

    /// Returns whether each set is complete and contains no row past the last.
    fn common_is_sound(&self) -> bool {
        let set_bytes = RowSet::words(self.len()) * 8;
        let is_whole = self.common.len().checked_mul(set_bytes) == Some(self.common_rows.len());
        let is_past = |set: &[u8]| {
            let last = set.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            !self.len().is_multiple_of(64) && last >> (self.len() % 64) != 0
        };
        is_whole && (set_bytes == 0 || !self.common_rows.chunks_exact(set_bytes).any(is_past))
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Finds a needle, which is folded and not empty. Of these samples, the second and the third begin with it:
    ///
    /// ```text
    /// samples   0 . . . . . 1 . . . . . 2 . . . . . 3 . . . . . 4
    ///                       first_sample            end_sample
    /// run         [---------------------------------)
    /// certain               [-------------)
    /// ```
    pub(crate) fn find<'a>(&'a self, needle: &'a str) -> Matches<'a> {
        let prefix = &needle.as_bytes()[..needle.len().min(SUFFIX_DEPTH)];
        let samples_while = |is_before: fn(Ordering) -> bool| {
            partition_point(self.samples.len(), |at| {
                is_before(self.sample(at, prefix.len()).cmp(prefix))
            })
        };
        let first_sample = samples_while(Ordering::is_lt);
        let end_sample = samples_while(Ordering::is_le);
        // Behind the sample before the needle, if there is one.
        let start = (first_sample * SUFFIX_STEP + 1).saturating_sub(SUFFIX_STEP);
        let run = start..(end_sample * SUFFIX_STEP).min(self.suffix_rows.len());
        let certain = if first_sample < end_sample && needle.len() <= SUFFIX_DEPTH {
            first_sample * SUFFIX_STEP..(end_sample - 1) * SUFFIX_STEP + 1
        } else {
            run.end..run.end
        };
        Matches {
            index: self,
            needle,
            finder: Finder::new(needle),
            run,
            certain,
        }
    }
}

/// The texts that contain a needle, found but not scanned yet.
pub(crate) struct Matches<'a> {
    index: &'a TextIndex,
    needle: &'a str,
    finder: Finder<'a>,
    /// Suffixes that include all those that begin with the needle.
    run: Range<usize>,
    /// The part of the run in which every suffix begins with the needle.
    certain: Range<usize>,
}

impl Matches<'_> {
    /// Returns an upper bound of the number of matching texts.
    pub(crate) fn max_len(&self) -> usize {
        self.run.len()
    }

    /// Returns whether the text of a row contains the needle.
    pub(crate) fn contains(&self, row: u32) -> bool {
        let text = self.index.texts.get(row as usize);
        self.finder.find(text).is_some()
    }

    /// Returns the rows whose texts contain the needle, in no order, possibly repeated.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        let suffix_rows = &self.index.suffix_rows[..];
        let rows = move |range: Range<usize>| suffix_rows[range].iter().map(|row: &U32| row.get());
        let scanned = move |range| rows(range).filter(|row| self.contains(*row));
        scanned(self.run.start..self.certain.start)
            .chain(rows(self.certain.clone()))
            .chain(scanned(self.certain.end..self.run.end))
    }

    /// Returns the same rows as a set.
    pub(crate) fn set(&self) -> RowSet {
        let TextIndex {
            common,
            common_rows,
            ..
        } = self.index;
        let key = common_key(self.needle.as_bytes());
        let at = key.and_then(|key| common.binary_search_by_key(&key, |found| found.get()).ok());
        if let Some(at) = at {
            let bytes = RowSet::words(self.index.len()) * 8;
            return RowSet::from_bytes(&common_rows[at * bytes..(at + 1) * bytes]);
        }
        RowSet::new(self.index.len(), self.rows())
    }
}
