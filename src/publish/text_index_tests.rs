use std::collections::BTreeSet;

use arbtest::arbitrary::{Result, Unstructured};
use bytes::Bytes;

use super::*;
use crate::calendar::UnixSeconds;
use crate::snapshot::{Section, SnapshotFile, Storage, TextIndex, Texts};

fn opened(
    bytes: Vec<u8>,
    count: usize,
) -> std::result::Result<TextIndex, crate::snapshot::SnapshotError> {
    let file = SnapshotFile::open(Storage::Memory(Bytes::from(bytes)))?;
    TextIndex::open(&file, count)
}

/// Returns a file with the sections that `write` writes.
fn written(write: impl FnOnce(&mut SnapshotWriter<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = SnapshotWriter::new(&mut bytes).unwrap();
    write(&mut out);
    out.finish(UnixSeconds(0)).unwrap();
    bytes
}

/// Returns a file with an index over `texts` of these parts.
fn parts(texts: &[&str], rows: &[u32], starts: &[u32], keys: &[u32], sets: &[u64]) -> Vec<u8> {
    let [folded, suffix_rows, samples, common, common_rows] = TITLES;
    written(|out| {
        let bounds = out.lists::<u8>(folded, texts.iter()).unwrap();
        let starts = starts.iter().map(|at| bounds[0].get() + at);
        out.array::<U32>(suffix_rows, rows.iter().copied()).unwrap();
        out.array::<U32>(samples, starts).unwrap();
        out.array::<U32>(common, keys.iter().copied()).unwrap();
        out.array::<U64>(common_rows, sets.iter().copied()).unwrap();
    })
}

fn index(texts: &[String]) -> TextIndex {
    let texts_of = || texts.iter().map(String::as_str);
    let bytes = written(|out| write_index(out, texts_of()).unwrap());
    opened(bytes, texts.len()).unwrap()
}

/// Returns the folded texts without an index.
fn list(texts: &[String]) -> Texts {
    let folded = texts.iter().map(|text| fold(text));
    let bytes = written(|out| drop(out.lists::<u8>(Section::Slugs, folded).unwrap()));
    let file = SnapshotFile::open(Storage::Memory(Bytes::from(bytes))).unwrap();
    file.lists(Section::Slugs, Some(texts.len())).unwrap()
}

/// Parts of texts and needles: few, so that they match often, with the lowest and the highest bytes
/// of UTF-8, and characters that fold to other lengths or to nothing.
const PIECES: [&str; 19] = [
    "a",
    "a",
    "aa",
    "ab",
    "b",
    " ",
    "É",
    "İ",
    "\u{307}",
    "ΔΥΣ",
    "ς",
    "ß",
    "ẞ",
    "e\u{301}",
    "🔥",
    "死",
    "\0",
    "\u{10FFFF}",
    "part of a longer title",
];

fn text(u: &mut Unstructured<'_>, pieces_max: usize) -> Result<String> {
    let count = u.int_in_range(0..=pieces_max)?;
    (0..count).map(|_| Ok(*u.choose(&PIECES)?)).collect()
}

/// Asserts that every search strategy finds what a scan of each text finds.
fn agrees((index, list): (&TextIndex, &Texts), texts: &[String], needle: &str) {
    let rows = (0..).zip(texts);
    let holding: Vec<u32> = rows
        .filter(|(_, text)| fold(text).contains(needle))
        .map(|(row, _)| row)
        .collect();
    let found = index.find(needle);
    let distinct: BTreeSet<u32> = found.rows().collect();
    assert!(distinct.iter().eq(&holding), "{needle:?} among {texts:?}");
    assert!(
        found.set().iter().eq(holding.iter().copied()),
        "{needle:?} as a set, among {texts:?}"
    );
    let listed = list.containing(needle).map(to_u32);
    assert!(
        listed.eq(holding.iter().copied()),
        "{needle:?} in a list, among {texts:?}"
    );
    assert!(found.max_len() >= found.rows().count());
    assert!((0..to_u32(texts.len())).all(|row| found.contains(row) == holding.contains(&row)));
}

#[test]
fn a_search_finds_what_a_scan_finds() {
    arbtest::arbtest(|u| {
        let count = u.int_in_range(0..=60)?;
        let texts: Vec<String> = (0..count).map(|_| text(u, 12)).collect::<Result<_>>()?;
        let (index, list) = (index(&texts), list(&texts));
        assert_eq!(index.len(), texts.len());
        let folded: Vec<String> = texts.iter().map(|text| fold(text)).collect();
        let suffixes = sorted_suffixes(&folded);
        let beginning = |suffix: &Suffix| {
            let bytes = &folded[suffix.row as usize].as_bytes()[suffix.at as usize..];
            &bytes[..bytes.len().min(SUFFIX_DEPTH)]
        };
        assert!(suffixes.iter().map(beginning).is_sorted());
        for _ in 0..10 {
            let mut needle = fold(&text(u, 6)?);
            // Half of them are substrings of a text, cut anywhere.
            if u.arbitrary()? && !texts.is_empty() {
                let whole = fold(u.choose(&texts)?);
                let at = u.int_in_range(0..=whole.chars().count())?;
                let length = u.int_in_range(1..=40)?;
                needle = whole.chars().skip(at).take(length).collect();
            }
            if !needle.is_empty() {
                agrees((&index, &list), &texts, &needle);
            }
        }
        Ok(())
    });
}

#[test]
fn every_part_of_a_text_is_found_in_either_case() {
    let parts = |text: &str| {
        let begins = text.char_indices().map(|(at, _)| at);
        let mut bounds: Vec<usize> = begins.collect();
        bounds.push(text.len());
        let mut all = Vec::new();
        for (at, from) in bounds.iter().enumerate() {
            all.extend(
                bounds[at + 1..]
                    .iter()
                    .map(|to| text[*from..*to].to_owned()),
            );
        }
        all
    };
    let check = |texts: &[String]| {
        let index = index(texts);
        for (row, text) in (0..).zip(texts) {
            for part in parts(text) {
                for sent in [&part.to_uppercase(), &part.to_lowercase(), &part] {
                    let needle = fold(sent);
                    let found = needle.is_empty() || index.find(&needle).rows().any(|at| at == row);
                    assert!(found, "{sent:?} of {text:?}");
                }
            }
        }
    };
    check(&[
        "ΟΔΥΣΣΕΑΣ ΚΟΣΜΟΣ".to_owned(),
        "Straße, STRAẞE".to_owned(),
        "İzmir ısı".to_owned(),
    ]);
    arbtest::arbtest(|u| {
        let count = u.int_in_range(1..=4)?;
        let texts: Vec<String> = (0..count).map(|_| text(u, 5)).collect::<Result<_>>()?;
        check(&texts);
        Ok(())
    });
}

#[test]
fn needles_of_every_length_are_found() {
    // Each begins at several places of each text and differs late.
    let texts: Vec<String> = (0..90)
        .map(|row| "ab".repeat(row) + "c" + &"ab".repeat(90 - row))
        .collect();
    let (index, list) = (index(&texts), list(&texts));
    for length in 1..=200 {
        let needle: String = "ab".chars().cycle().take(length).collect();
        for needle in [format!("{needle}c"), format!("c{needle}"), needle] {
            agrees((&index, &list), &texts, &needle);
        }
    }
}

#[test]
fn common_needles_are_whole_characters_by_key() {
    // All have the four bytes of the fire emoji, and half of them a letter after it.
    let texts: Vec<String> = (0..40)
        .map(|row| if row % 2 == 0 { "🔥éa" } else { "🔥é" }.to_owned())
        .collect();
    let common = common(&texts, &sorted_suffixes(&texts));
    let keys: Vec<u32> = common.iter().map(|(key, _)| *key).collect();
    let expected = ["a", "é", "éa"].map(|needle| common_key(needle.as_bytes()).unwrap());
    assert_eq!(keys, expected);
    let evens = (0..40).step_by(2).fold(0, |set, row| set | 1_u64 << row);
    let sets: Vec<Vec<u64>> = common.into_iter().map(|(_, set)| set).collect();
    assert_eq!(sets, [[evens], [(1 << 40) - 1], [evens]]);
}

#[test]
fn an_index_that_points_outside_is_refused() {
    let write = |rows: &[u32], samples: &[u32], keys: &[u32], sets: &[u64]| {
        opened(parts(&["ab", "c"], rows, samples, keys, sets), 2)
    };
    assert!(write(&[0, 0, 1], &[0], &[7], &[0b11]).is_ok());
    for (name, refused) in [
        (
            "a row past the last",
            write(&[0, 2, 1], &[0], &[7], &[0b11]),
        ),
        ("no sample", write(&[0, 0, 1], &[], &[7], &[0b11])),
        (
            "a sample too many",
            write(&[0, 0, 1], &[0, 0], &[7], &[0b11]),
        ),
        (
            "a sample in another row",
            write(&[0, 0, 1], &[2], &[7], &[0b11]),
        ),
        (
            "a sample before its row",
            write(&[1, 0, 0], &[1], &[7], &[0b11]),
        ),
        ("a set missing", write(&[0, 0, 1], &[0], &[7, 8], &[0b11])),
        ("a set too many", write(&[0, 0, 1], &[0], &[], &[0b11])),
        (
            "a set past the last row",
            write(&[0, 0, 1], &[0], &[7], &[0b100]),
        ),
    ] {
        assert!(refused.is_err(), "{name}");
    }
    let write = |samples: &[u32]| {
        opened(
            parts(&["babbbbbbbbbbbbbbbb"], &[0; 18], samples, &[], &[]),
            1,
        )
    };
    assert!(write(&[1, 0]).is_ok());
    assert!(write(&[0, 1]).is_err(), "samples out of order");
}
