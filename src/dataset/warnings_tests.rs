//! Entries that look like data and are not read, and other signs of a mistake in a valid dataset.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::calendar::UtcDay;
use crate::dataset::{FileKind, validate};
use crate::durable;

/// A valid dataset without warnings.
const SOUND: [(&str, &str); 6] = [
    (
        "islands.csv",
        "code,title,creator,createdIn,tags\n1000-0000-0000,A,eve,uefn,\n1000-0000-0001,B,,,\n",
    ),
    ("creators.csv", "slug,lifetimePlays,rank\neve,5,1\n"),
    ("ccu/2026-11-19.csv", "code,peakCCU\n1000-0000-0000,\n"),
    ("ccu/2026-11-20.csv", "code,peakCCU\r\n1000-0000-0000,7\r\n"),
    ("live/1795262400.csv", "code,players\n"),
    ("platform.csv", "time,players\n"),
];

/// A dataset in a directory, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("im-warnings-{}-{number}", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(name));
        for (name, text) in SOUND {
            scratch.write(name, text);
        }
        scratch
    }

    /// Writes a file, or creates a folder if the name ends with a slash.
    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        let folder = if name.ends_with('/') {
            &path
        } else {
            path.parent().unwrap()
        };
        fs::create_dir_all(folder).unwrap();
        if !name.ends_with('/') {
            durable::replace(&path, text.as_bytes()).unwrap();
        }
    }

    /// The warnings as text. If they are strict, they are the faults. A dataset with faults has none.
    fn warnings(&self) -> Vec<String> {
        let files = Files::Directory(self.0.clone());
        let mut source = DatasetReader::open(&files, UtcDay(20_778)).unwrap();
        let is_valid = validate(&source, &mut |_, _| ()).is_ok();
        let warnings = source.take_warnings();
        source.strict = true;
        match validate(&source, &mut |_, _| ()) {
            Ok(_) => assert_eq!(warnings.total, 0, "{warnings}"),
            Err(LoadError::Faults(faults)) if is_valid => {
                assert_eq!(faults.listed(), warnings.listed());
            }
            Err(error) => assert!(!is_valid, "{error}"),
        }
        let listed = warnings.listed().into_iter();
        listed.map(ToString::to_string).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_sound_dataset_and_what_is_no_data_give_no_warning() {
    let scratch = Scratch::new();
    for name in [
        ".DS_Store",
        ".git/daily/2026-11-20.csv",
        "._islands.csv",
        "Islands.csv~",
        "creators.csv.bak",
        "daily.bak/2026-11-20.csv",
        "daily/._2026-11-20.csv.gz",
        "daily/.DS_Store",
        "daily/2026-11-20.csv.gz.tmp",
        "daily/2026-11-20.CSV~",
        "daily/2026-11-20.csv.orig",
        "daily/2026-11-20.csv.OLD",
        "daily/2026-11-20.csv.sha256",
        "~$islands.xlsx",
        "ccu/README.md",
        "README.md",
        "daily.sh",
        "2026-11-20.md",
        "notes/2026.txt",
        "images/logo.png",
        "lost+found/",
        // The dumps of a table that is read.
        "islands.csv.gz",
        "islands.json",
        "platform.json.gz",
        "ccu/2026-11-20.csv.gz",
        "ccu/2026-11-20.json",
        "history.csv.gz",
        "last30days.csv.gz",
        "ccu.csv.gz",
        "index.json",
    ] {
        scratch.write(name, "x");
    }
    assert!(scratch.warnings().is_empty(), "{:?}", scratch.warnings());
}

#[test]
fn each_entry_that_looks_like_data_and_is_not_read_is_named() {
    for (name, want) in [
        (
            "daily/2026-11-20.csv.gz",
            "daily/2026-11-20.csv.gz: is not read; daily has files named YYYY-MM-DD.csv only",
        ),
        ("daily/2026-11-20.json", "daily/2026-11-20.json: is"),
        ("daily/2026-11-21.csv ", "daily/2026-11-21.csv : is"),
        ("daily/2026-11-21", "daily/2026-11-21: is"),
        ("daily/2026-11-20.parquet", "daily/2026-11-20.parquet: is"),
        ("daily/export.tsv", "daily/export.tsv: is"),
        ("ccu/2026-11-20.CSV", "ccu/2026-11-20.CSV: is"),
        ("ccu/2026-11-20.csv.zst", "ccu/2026-11-20.csv.zst: is"),
        (
            "live/1795263000.Csv",
            "live/1795263000.Csv: is not read; live has files named UNIXSECONDS.csv only",
        ),
        ("live/1795263000.json.gz", "live/1795263000.json.gz: is"),
        (
            "Islands.csv",
            "Islands.csv: is not read; a dataset has the files islands.csv, ",
        ),
        ("2026-11-20.csv", "2026-11-20.csv: is"),
        ("creators.json.zip", "creators.json.zip: is"),
        ("daily.zip", "daily.zip: is"),
        ("last.csv.gz", "last.csv.gz: is"),
        ("Daily/", "Daily/: is not read; a dataset has"),
        (
            "Daily/2026-11-20.csv",
            "Daily/2026-11-20.csv: is not read; a dataset has",
        ),
        ("days/", "days/: is"),
        ("old/2026-11-20.csv", "old/2026-11-20.csv: is"),
        (
            "old/daily/2026-11-20.csv",
            "old/daily/2026-11-20.csv: is not read; a dataset has",
        ),
        (
            "daily/2026/2026-11-20.csv",
            "daily/2026/2026-11-20.csv: is not read; daily has",
        ),
        ("live/old/Live.json", "live/old/Live.json: is"),
    ] {
        let scratch = Scratch::new();
        scratch.write(name, "x");
        let found = scratch.warnings();
        assert!(
            found.len() == 1 && found[0].starts_with(want),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn dumps_of_a_table_that_is_not_read_are_named() {
    let scratch = Scratch::new();
    fs::remove_file(scratch.0.join("creators.csv")).unwrap();
    for name in ["creators.csv.gz", "creators.json", "ccu/2026-11-18.csv.gz"] {
        scratch.write(name, "x");
    }
    assert_eq!(scratch.warnings().len(), 3, "{:?}", scratch.warnings());
    // Without a day, the files of all days are data that is not read.
    fs::remove_dir_all(scratch.0.join("ccu")).unwrap();
    scratch.write("history.csv.gz", "x");
    let found = scratch.warnings();
    let want = "daily/: there is no day, here or in ccu/; a day is a file named YYYY-MM-DD.csv";
    assert!(found.iter().any(|line| line == want), "{found:?}");
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("history.csv.gz: ")),
        "{found:?}"
    );
}

#[test]
fn columns_of_creators_that_differ_in_case_or_separators_are_named() {
    for (header, want) in [
        ("slug,Name", Some((2, "name, got \"Name\""))),
        ("slug,name,display_name", None),
        ("FOLLOWERS,slug", Some((1, "followers, got \"FOLLOWERS\""))),
        (
            "slug,life_time-plays",
            Some((2, "lifetimePlays, got \"life_time-plays\"")),
        ),
        (
            "slug,followers, followers",
            Some((3, "followers, got \" followers\"")),
        ),
        (
            "\u{feff}slug,\"lifetime Plays\"",
            Some((2, "lifetimePlays, got \"lifetime Plays\"")),
        ),
    ] {
        let scratch = Scratch::new();
        scratch.write("creators.csv", &format!("{header}\n"));
        let want = want.map(|(column, rest)| {
            format!("creators.csv:1:{column}: the column is not read; its name must be {rest}")
        });
        assert_eq!(scratch.warnings(), Vec::from_iter(want), "{header:?}");
    }
}

#[test]
fn a_last_line_without_a_newline_is_named_in_every_file() {
    for (name, text) in SOUND {
        let scratch = Scratch::new();
        scratch.write(name, text.trim_end());
        let found = scratch.warnings();
        let want = format!("{name}: the last line must end with a newline, got none");
        assert!(
            found.len() == 1 && found[0].starts_with(&want),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn only_the_newest_day_needs_a_peak() {
    let scratch = Scratch::new();
    let daily = |figures: &str| {
        let header = FileKind::Daily.columns().0.join(",");
        format!("{header}\n1000-0000-0000,{figures},,,,,,,\n")
    };
    for (name, text, has_peak) in [
        ("ccu/2026-11-20.csv", "code,peakCCU\n", false),
        (
            "ccu/2026-11-20.csv",
            "peakCCU,code\n,1000-0000-0000\n0,1000-0000-0001\n",
            true,
        ),
        (
            "ccu/2026-11-20.csv",
            "code,peakCCU\n1000-0000-0000,\n",
            false,
        ),
        // A fault is reported as such only.
        ("ccu/2026-11-20.csv", "code,peak\n1000-0000-0000,\n", true),
        ("ccu/2026-11-20.csv", "code,peakCCU\n1000-0000-0000\n", true),
        ("ccu/2026-11-20.csv", "", true),
        ("ccu/2026-11-20.csv", "code,peakCCU\n", false),
        // Both files of a day count.
        ("daily/2026-11-20.csv", &daily("2,1"), true),
        ("daily/2026-11-20.csv", &daily(",1"), false),
    ] {
        scratch.write(name, text);
        let found = scratch.warnings();
        assert_eq!(found.is_empty(), has_peak, "{name} {text:?}: {found:?}");
        let is_newest =
            |line: &String| line.contains("/2026-11-20.csv: at least one row of the newest day");
        assert!(found.iter().all(is_newest), "{found:?}");
    }
}
