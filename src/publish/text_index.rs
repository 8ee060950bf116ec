//! Writer of the search index over titles: sorted suffixes, and row sets of common needles.
//! `snapshot/search.rs` reads it.

use std::io::{self, Write};

use zerocopy::little_endian::{U32, U64};

use super::packed_day::to_u32;
use crate::model::fold;
use crate::snapshot::{SUFFIX_DEPTH, SUFFIX_STEP, SnapshotWriter, TITLES, common_key};

/// A row set is written for a needle that begins more suffixes than one per this many texts.
const COMMON_SHARE: usize = 8;

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

/// In the order of the index. Suffixes with the same start are in the order of the texts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Suffix {
    /// Its first bytes, in numbers, which compare as they do but faster. Each is incremented, which cannot overflow since
    /// no byte of UTF-8 is 255; 0 then marks the end of the text.
    start: [u64; SUFFIX_DEPTH / 8],
    row: u32,
    /// Offset in the text.
    at: u32,
}

/// Returns the suffixes of all texts that begin at a character boundary, sorted by their first
/// [`SUFFIX_DEPTH`] bytes.
fn sorted_suffixes(texts: &[String]) -> Vec<Suffix> {
    let mut suffixes = Vec::with_capacity(texts.iter().map(String::len).sum());
    for (row, text) in texts.iter().enumerate() {
        suffixes.extend(text.char_indices().map(|(at, _)| {
            let mut start = [[0; 8]; SUFFIX_DEPTH / 8];
            for (to, byte) in start.as_flattened_mut().iter_mut().zip(text[at..].bytes()) {
                *to = byte + 1;
            }
            Suffix {
                start: start.map(u64::from_be_bytes),
                row: to_u32(row),
                at: to_u32(at),
            }
        }));
    }
    suffixes.sort_unstable();
    suffixes
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
