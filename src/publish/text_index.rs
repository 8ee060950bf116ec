//! Writer of the search index over titles: sorted suffixes, and row sets of common needles.
//! `snapshot/search.rs` reads it.

use std::io::{self, Write};

use zerocopy::little_endian::{U32, U64};

use super::packed_day::to_u32;
use crate::model::fold;
use crate::snapshot::{SUFFIX_DEPTH, SUFFIX_STEP, SnapshotWriter, TITLES, common_key};

/// A row set is written for a needle that begins more suffixes than one per this many texts.
const COMMON_SHARE: usize = 8;
/// Bytes of a suffix that are compared at a time.
const KEY_BYTES: usize = 8;

/// Folds the texts and writes the search index over them.
pub(crate) fn write_index<'a, W: Write>(
    out: &mut SnapshotWriter<W>,
    texts: impl Iterator<Item = &'a str>,
) -> io::Result<()> {
    let folded: Vec<String> = texts.map(fold).collect();
    let [texts, suffix_rows, samples, common_keys, common_rows] = TITLES;
    let bounds = out.lists::<u8>(texts, folded.iter())?;
    let suffixes = sorted_suffixes(&folded);
    out.array::<U32>(suffix_rows, suffixes.iter().map(|suffix| suffix.row))?;
    let sample = |suffix: &Suffix| bounds[suffix.row as usize].get() + suffix.at;
    out.array::<U32>(samples, suffixes.iter().step_by(SUFFIX_STEP).map(sample))?;
    let (keys, sets): (Vec<u32>, Vec<_>) = common(&folded, &suffixes).into_iter().unzip();
    out.array::<U32>(common_keys, keys)?;
    out.array::<U64>(common_rows, sets.into_iter().flatten())
}

#[derive(Clone, Copy)]
struct Suffix {
    /// Bytes of the suffix at the current sorting depth.
    key: u64,
    row: u32,
    /// Offset in the text.
    at: u32,
}

impl Suffix {
    /// Returns eight bytes from `depth` on as one comparable number. Each byte is incremented,
    /// which cannot overflow since no byte of UTF-8 is 255; 0 then marks the end of the text.
    fn key_at(&self, depth: usize, texts: &[String]) -> u64 {
        let mut key = [0; KEY_BYTES];
        let text = texts[self.row as usize].as_bytes();
        let rest = text.get(self.at as usize + depth..).unwrap_or_default();
        for (to, byte) in key.iter_mut().zip(rest) {
            *to = byte + 1;
        }
        u64::from_be_bytes(key)
    }
}

/// Returns the suffixes of all texts that begin at a character boundary, sorted by their first
/// [`SUFFIX_DEPTH`] bytes.
fn sorted_suffixes(texts: &[String]) -> Vec<Suffix> {
    let mut suffixes = Vec::with_capacity(texts.iter().map(String::len).sum());
    for (row, text) in texts.iter().enumerate() {
        let begins = text.char_indices().map(|(at, _)| at);
        suffixes.extend(begins.map(|at| Suffix {
            key: 0,
            row: to_u32(row),
            at: to_u32(at),
        }));
    }
    sort(&mut suffixes, 0, texts);
    suffixes
}

/// Sorts suffixes with equal first `depth` bytes.
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

/// Returns the key and the row set of each common needle, sorted by length, then in suffix order,
/// which is the order of the keys.
fn common(texts: &[String], suffixes: &[Suffix]) -> Vec<(u32, Vec<u64>)> {
    let mut found = Vec::new();
    for length in 1..=3 {
        // `None` if it would end within a character or after the text.
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
