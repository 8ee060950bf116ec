//! Writing the search index over texts: their suffixes, sorted, and the sets of common needles.
//!
//! How the index is read stands in `snapshot/search.rs`.

use std::io::{self, Write};

use super::row_orders::{row_number, write_texts};
use crate::model::fold;
use crate::snapshot::{IndexSections, SUFFIX_DEPTH, SUFFIX_STEP, SnapshotWriter, common_key};

/// A needle that begins more suffixes than one to so many texts has its set written.
const COMMON_SHARE: usize = 8;
/// Suffixes are compared by so many bytes at a time.
const KEY_BYTES: usize = 8;

/// Writes the search index over texts, which it folds.
pub(crate) fn write_index<'a, W: Write>(
    out: &mut SnapshotWriter<W>,
    sections: &IndexSections,
    texts: impl Iterator<Item = &'a str>,
) -> io::Result<()> {
    let folded: Vec<String> = texts.map(fold).collect();
    write_texts(out, (sections.text, sections.ends), folded.iter())?;
    let suffixes = sorted_suffixes(&folded);
    let rows: Vec<u32> = suffixes.iter().map(|suffix| suffix.row).collect();
    out.ints(sections.suffix_rows, &rows)?;
    let mut starts = vec![0];
    for text in &folded {
        starts.push(starts[starts.len() - 1] + text.len());
    }
    let sample = |suffix: &Suffix| {
        u32::try_from(starts[suffix.row as usize] + suffix.at as usize)
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "texts are longer than 4 GiB"))
    };
    let samples: io::Result<Vec<u32>> = suffixes.iter().step_by(SUFFIX_STEP).map(sample).collect();
    out.ints(sections.samples, &samples?)?;
    let common = common(&folded, &suffixes);
    let keys: Vec<u32> = common.iter().map(|(key, _)| *key).collect();
    out.ints(sections.common, &keys)?;
    let sets: Vec<u64> = common.into_iter().flat_map(|(_, set)| set).collect();
    out.longs(sections.common_rows, &sets)
}

/// A suffix of a row's text.
#[derive(Clone, Copy)]
struct Suffix {
    /// Some of its bytes, which ones depends on how far it is sorted.
    key: u64,
    row: u32,
    /// The byte of the text at which it begins.
    at: u32,
}

impl Suffix {
    fn bytes<'t>(&self, texts: &'t [String]) -> &'t [u8] {
        &texts[self.row as usize].as_bytes()[self.at as usize..]
    }

    /// Eight bytes from `depth` on, to be compared as one number. No byte of UTF-8 is 255, so each is
    /// raised by one: a 0 is then what stands after the end.
    fn key_at(&self, depth: usize, texts: &[String]) -> u64 {
        let mut key = [0; KEY_BYTES];
        let rest = self.bytes(texts).get(depth..).unwrap_or_default();
        for (to, byte) in key.iter_mut().zip(rest) {
            *to = byte + 1;
        }
        u64::from_be_bytes(key)
    }
}

/// The suffixes of all texts that begin where a character does, by their first [`SUFFIX_DEPTH`] bytes.
fn sorted_suffixes(texts: &[String]) -> Vec<Suffix> {
    let mut suffixes = Vec::with_capacity(texts.iter().map(String::len).sum());
    for (row, text) in texts.iter().enumerate() {
        let begins = text.char_indices().map(|(at, _)| at);
        suffixes.extend(begins.map(|at| Suffix {
            key: 0,
            row: row_number(row),
            at: row_number(at),
        }));
    }
    sort(&mut suffixes, 0, texts);
    suffixes
}

/// Sorts suffixes that are alike in their first `depth` bytes.
fn sort(suffixes: &mut [Suffix], depth: usize, texts: &[String]) {
    for suffix in suffixes.iter_mut() {
        suffix.key = suffix.key_at(depth, texts);
    }
    suffixes.sort_unstable_by_key(|suffix| suffix.key);
    let next = depth + KEY_BYTES;
    if next >= SUFFIX_DEPTH {
        return;
    }
    for alike in suffixes.chunk_by_mut(|one, other| one.key == other.key) {
        let ended = alike[0].key.to_be_bytes()[KEY_BYTES - 1] == 0;
        if alike.len() > 1 && !ended {
            sort(alike, next, texts);
        }
    }
}

/// The needles that begin very many suffixes, each with the words of the set of its rows. Shorter ones
/// come first, and those of one length in the order of the suffixes: that is by key.
fn common(texts: &[String], suffixes: &[Suffix]) -> Vec<(u32, Vec<u64>)> {
    let mut found = Vec::new();
    for length in 1..=3 {
        // None where it would end within a character or past the text.
        let needle = |suffix: &Suffix| {
            let at = suffix.at as usize;
            texts[suffix.row as usize].get(at..at + length)
        };
        for alike in suffixes.chunk_by(|one, other| needle(one) == needle(other)) {
            let key = needle(&alike[0]).and_then(|needle| common_key(needle.as_bytes()));
            if let Some(key) = key.filter(|_| alike.len() > texts.len() / COMMON_SHARE) {
                let mut set = vec![0_u64; texts.len().div_ceil(64)];
                for suffix in alike {
                    set[suffix.row as usize / 64] |= 1 << (suffix.row % 64);
                }
                found.push((key, set));
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "text_index_tests.rs"]
mod tests;
