//! Faults and warnings of a dataset: each with its place, and the selection that is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::model::without_controls;

/// Number of faults that are listed; more are only counted.
const LISTED_MAX: usize = 100;

/// Number of faults of islands.csv that are listed even if many other files have faults.
const ISLANDS_LISTED_MIN: i32 = 10;

/// File whose faults are listed first, since faults of other files often follow from them.
const FIRST: &str = "islands.csv";

/// Characters of a field that a message quotes.
const QUOTED_MAX: usize = 40;

/// A fault of one file. Sorts by file, line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fault {
    /// Path relative to the dataset, such as `daily/2026-11-20.csv`.
    pub file: String,
    /// Line on which the row starts; the header is line 1.
    pub line: Option<u64>,
    /// Number of the field in its row, from 1.
    pub column: Option<usize>,
    /// The expected and the found value.
    pub problem: String,
}

impl Fault {
    fn of_file(file: &str, problem: String) -> Fault {
        Fault {
            file: file.to_owned(),
            line: None,
            column: None,
            problem,
        }
    }
}

/// `daily/2026-11-20.csv:1042:3: uniquePlayers must be …, got "12k"`
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names of files can contain escapes of a terminal.
        f.write_str(&without_controls(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Faults of a dataset, or its warnings, found in any order. Keeps the first ones of each file only, since a wrong
/// export may have a fault in each of millions of rows.
#[derive(Debug, Default)]
pub struct Faults {
    files: BTreeMap<String, BTreeSet<Fault>>,
    /// Faults that are probably caused by faults of another file, and are listed last.
    consequent: Vec<Fault>,
    pub total: usize,
    /// Number of files among them that cannot be read.
    pub unreadable: usize,
}

impl Faults {
    pub(super) fn push(&mut self, fault: Fault) {
        let kept = self.files.entry(fault.file.clone()).or_default();
        self.total += usize::from(kept.insert(fault));
        if kept.len() > LISTED_MAX {
            kept.pop_last();
        }
    }

    pub(super) fn push_file(&mut self, file: &str, problem: String) {
        self.push(Fault::of_file(file, problem));
    }

    pub(super) fn push_unreadable(&mut self, file: &str, error: &io::Error) {
        self.unreadable += 1;
        self.push_file(file, format!("the file must be readable, got: {error}"));
    }

    /// Records a fault of a whole file that is probably caused by faults of another one.
    pub(super) fn push_consequent(&mut self, file: &str, problem: String) {
        self.total += 1;
        self.consequent.push(Fault::of_file(file, problem));
    }

    /// Adds the warnings of a dataset, which are few in each file.
    pub(super) fn append(&mut self, warnings: Faults) {
        let warnings = warnings.files.into_values();
        warnings.flatten().for_each(|warning| self.push(warning));
    }

    /// Iterates over all that are kept, except those that are probably caused by faults of another file.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.files.values().flatten()
    }

    /// Returns whether a file has faults of its own.
    pub(super) fn has(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Returns at most 100 faults, sorted, those of islands.csv first. They are selected in rounds, in each of which
    /// every file lists one more; the first ones of islands.csv come before all rounds.
    pub fn listed(&self) -> Vec<&Fault> {
        let mut candidates: Vec<(i32, bool, &Fault)> = Vec::new();
        for (file, kept) in &self.files {
            let is_other = file != FIRST;
            let first_round = if is_other { 0 } else { -ISLANDS_LISTED_MIN };
            let rounds = (first_round..).zip(kept);
            candidates.extend(rounds.map(|(round, fault)| (round, is_other, fault)));
        }
        let last = self.consequent.iter();
        candidates.extend(last.map(|fault| (i32::MAX, true, fault)));
        candidates.sort_unstable();
        candidates.truncate(LISTED_MAX);
        let mut listed: Vec<&Fault> = candidates.into_iter().map(|(.., fault)| fault).collect();
        listed.sort_unstable_by_key(|fault| (fault.file != FIRST, *fault));
        listed
    }
}

/// Writes one fault per line; a last line counts the faults that are not listed.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = self.listed();
        for (at, fault) in listed.iter().enumerate() {
            let parting = if at == 0 { "" } else { "\n" };
            write!(f, "{parting}{fault}")?;
        }
        match self.total.saturating_sub(listed.len()) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

#[derive(Debug)]
pub enum LoadError {
    /// The files were read and are invalid.
    Faults(Faults),
    /// A file or folder could not be read. The error has the path.
    Io(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Faults(faults) => faults.fmt(f),
            LoadError::Io(error) => error.fmt(f),
        }
    }
}

// `source` is not implemented: the message already contains the text of the inner error.
impl Error for LoadError {}

/// Returns a text as messages quote it: escaped, and truncated if it is long.
pub(super) fn quoted(text: &str) -> String {
    quoted_up_to(QUOTED_MAX, text)
}

/// Same as [`quoted`], truncated after `letters` characters.
pub(super) fn quoted_up_to(letters: usize, text: &str) -> String {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_parts_of_a_place_are_omitted() {
        let mut fault = Fault {
            file: "a.csv".into(),
            line: Some(7),
            column: Some(3),
            problem: "bad".into(),
        };
        assert_eq!(fault.to_string(), "a.csv:7:3: bad");
        fault.column = None;
        assert_eq!(fault.to_string(), "a.csv:7: bad");
        fault.line = None;
        assert_eq!(fault.to_string(), "a.csv: bad");
    }

    #[test]
    fn long_values_are_truncated_and_control_characters_escaped() {
        assert_eq!(quoted("a\u{7}\"b"), "\"a\\u{7}\\\"b\"");
        assert_eq!(quoted(&"é".repeat(40)), format!("\"{}\"", "é".repeat(40)));
        assert_eq!(quoted(&"é".repeat(41)), format!("\"{}\"…", "é".repeat(40)));
    }

    fn log(faults: &[(&str, u64)]) -> Faults {
        let mut log = Faults::default();
        for (file, count) in faults {
            for line in 1..=*count {
                log.push(Fault {
                    line: Some(line),
                    ..Fault::of_file(file, "bad".into())
                });
            }
        }
        log
    }

    /// Number of listed faults per file, in the order of the files.
    fn shares(log: &Faults) -> Vec<(String, usize)> {
        let listed = log.listed();
        assert!(listed.is_sorted_by_key(|fault| (fault.file != FIRST, *fault)));
        listed
            .chunk_by(|one, next| one.file == next.file)
            .map(|faults| (faults[0].file.clone(), faults.len()))
            .collect()
    }

    #[test]
    fn a_few_of_each_file_are_listed_before_many_of_one() {
        let found = shares(&log(&[
            ("ccu/a.csv", 5000),
            ("daily/a.csv", 3),
            ("live/1.csv", 30),
        ]));
        let want = [("ccu/a.csv", 67), ("daily/a.csv", 3), ("live/1.csv", 30)];
        assert_eq!(found, want.map(|(file, count)| (file.to_owned(), count)));
    }

    #[test]
    fn faults_of_islands_are_listed_first_however_many_files_have_faults() {
        let files: Vec<String> = (0..1000).map(|day| format!("ccu/{day:04}.csv")).collect();
        let mut faults: Vec<(&str, u64)> = files.iter().map(|file| (&file[..], 2)).collect();
        faults.push(("islands.csv", 50));
        let mut log = log(&faults);
        for file in &files {
            log.push_consequent(file, "follows".into());
        }
        let found = shares(&log);
        assert_eq!(found[0], ("islands.csv".to_owned(), 11));
        assert_eq!(found.len(), 90);
    }

    #[test]
    fn a_fault_that_is_found_twice_is_counted_once() {
        let log = log(&[("daily/a.csv", 3), ("daily/a.csv", 2)]);
        assert_eq!((log.listed().len(), log.total), (3, 3));
    }

    #[test]
    fn consequent_faults_are_listed_last() {
        let mut log = log(&[("islands.csv", 98)]);
        for day in 0..5 {
            log.push_consequent(&format!("ccu/{day}.csv"), "follows".into());
        }
        assert_eq!((log.listed().len(), log.total), (100, 103));
        assert_eq!(log.listed()[98].file, "ccu/0.csv");
        assert!(log.to_string().ends_with("follows\n… and 3 more"));
    }

    #[test]
    fn the_first_hundred_are_listed_however_late_they_were_found() {
        let mut log = Faults::default();
        for line in (1..=5000).rev() {
            log.push(Fault {
                file: "a.csv".into(),
                line: Some(line),
                column: None,
                problem: "bad".into(),
            });
        }
        assert_eq!((log.listed().len(), log.total), (100, 5000));
        assert_eq!(log.listed()[0].line, Some(1));
        let text = log.to_string();
        assert!(text.ends_with("a.csv:100: bad\n… and 4900 more"), "{text}");
    }
}
