//! Substring search over short texts through an index of three-byte grams.
//!
//! Each folded text is indexed as if two [`END`] bytes followed it, so that every byte of it starts
//! a gram; needles of one and two bytes are then ranges of the sorted grams. What the index finds
//! for longer needles is confirmed with `memmem`.

use memchr::memmem::Finder;

use super::error::SnapshotError;
use super::file::{Section, SnapshotFile};
use super::views::{Ints, Longs};
use bytes::Bytes;

/// Ends a text in the index. No UTF-8 text holds this byte.
const END: u8 = 0xFF;

/// The grams of a folded text, in order of place, perhaps repeated.
pub fn grams(folded: &str) -> impl Iterator<Item = u32> + '_ {
    let bytes = folded.as_bytes();
    let at = |place: usize| u32::from(bytes.get(place).copied().unwrap_or(END));
    (0..bytes.len()).map(move |place| at(place) << 16 | at(place + 1) << 8 | at(place + 2))
}

/// The sections that an index is made of.
pub(crate) struct IndexSections {
    pub(crate) text: Section,
    pub(crate) ends: Section,
    pub(crate) grams: Section,
    pub(crate) starts: Section,
    pub(crate) postings: Section,
}

/// The index over island titles.
pub(crate) const TITLES: IndexSections = IndexSections {
    text: Section::TitleText,
    ends: Section::TitleEnds,
    grams: Section::TitleGrams,
    starts: Section::TitleGramStarts,
    postings: Section::TitlePostings,
};

/// The index over creator slugs.
pub(crate) const SLUGS: IndexSections = IndexSections {
    text: Section::SlugText,
    ends: Section::SlugEnds,
    grams: Section::SlugGrams,
    starts: Section::SlugGramStarts,
    postings: Section::SlugPostings,
};

#[derive(Debug)]
pub(crate) struct TextIndex {
    text: Bytes,
    ends: Longs,
    grams: Ints,
    starts: Longs,
    postings: Ints,
}

impl TextIndex {
    pub(crate) fn open(
        file: &SnapshotFile,
        parts: &IndexSections,
    ) -> Result<TextIndex, SnapshotError> {
        let text = file.section(parts.text)?;
        let ends = file.bounds(parts.ends, text.len())?;
        let texts = ends.len() - 1;
        let postings = file.positions(parts.postings, 1, texts)?;
        let starts = file.bounds(parts.starts, postings.len())?;
        let grams = file.ints(parts.grams, starts.len() - 1)?;
        Ok(TextIndex {
            text,
            ends,
            grams,
            starts,
            postings,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Text `id`, folded.
    pub(crate) fn text(&self, id: u32) -> &[u8] {
        let id = id as usize;
        &self.text[self.ends.index(id)..self.ends.index(id + 1)]
    }

    /// The texts that hold `needle`, by id ascending. The needle is folded and not empty.
    pub(crate) fn matches(&self, needle: &str) -> Vec<u32> {
        let finder = Finder::new(needle);
        let holds = |id: &u32| finder.find(self.text(*id)).is_some();
        if needle.len() >= 3 {
            return self.rarest(needle).iter().filter(holds).collect();
        }
        let range = self.range(needle.as_bytes());
        let postings = self.starts.index(range.start)..self.starts.index(range.end);
        // Gathering and sorting postings costs more than looking at each text once there are many.
        if postings.len() > self.len() / 4 {
            let all = u32::try_from(self.len()).expect("ids are u32");
            return (0..all).filter(holds).collect();
        }
        let mut ids: Vec<u32> = self.postings.slice(postings).iter().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The shortest list of texts among those of the needle's grams; the needle is three bytes or more.
    fn rarest(&self, needle: &str) -> Ints {
        let whole = grams(needle).take(needle.len() - 2);
        let lists = whole.map(|gram| {
            let at = self.position(gram);
            if at < self.grams.len() && self.grams.get(at) == gram {
                self.starts.index(at)..self.starts.index(at + 1)
            } else {
                0..0
            }
        });
        let shortest = lists.min_by_key(ExactSizeIterator::len).unwrap_or(0..0);
        self.postings.slice(shortest)
    }

    /// The grams that begin with the one or two bytes of `prefix`.
    fn range(&self, prefix: &[u8]) -> std::ops::Range<usize> {
        let (first, last) = match *prefix {
            [a] => (u32::from(a) << 16, u32::from(a) << 16 | 0xFFFF),
            [a, b] => {
                let high = u32::from(a) << 16 | u32::from(b) << 8;
                (high, high | 0xFF)
            }
            _ => return 0..0,
        };
        self.position(first)..self.position(last + 1)
    }

    /// Where `gram` stands, or would stand, among the sorted grams.
    fn position(&self, gram: u32) -> usize {
        let (mut low, mut high) = (0, self.grams.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.grams.get(middle) < gram {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
