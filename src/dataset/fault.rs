//! Faults of a dataset: each with its place, and the selection that is reported.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Number of faults that are listed; more are only counted.
const LISTED_MAX: usize = 100;

/// Number of faults of islands.csv that are listed even if many other files have faults.
const ISLANDS_LISTED_MIN: usize = 10;

/// File whose faults are listed first, since faults of other files often follow from them.
const FIRST: &str = "islands.csv";

/// Characters of a field that a message quotes.
const QUOTED_MAX: usize = 40;

/// A fault of one file. Sorts by file (islands.csv first), line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Ord for Fault {
    fn cmp(&self, other: &Fault) -> Ordering {
        (
            self.file != FIRST,
            &self.file,
            self.line,
            self.column,
            &self.problem,
        )
            .cmp(&(
                other.file != FIRST,
                &other.file,
                other.line,
                other.column,
                &other.problem,
            ))
    }
}

impl PartialOrd for Fault {
    fn partial_cmp(&self, other: &Fault) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `daily/2026-11-20.csv:1042:3: uniquePlayers must be …, got "12k"`
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Faults of a dataset.
#[derive(Debug, PartialEq, Eq)]
pub struct Faults {
    /// At most 100 faults, sorted. A few of each file are preferred over many of one.
    pub listed: Vec<Fault>,
    /// Number of all faults.
    pub total: usize,
}

/// Writes one fault per line; a last line counts the faults that are not listed.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.listed.iter().enumerate() {
            let parting = if at == 0 { "" } else { "\n" };
            write!(f, "{parting}{fault}")?;
        }
        match self.total.saturating_sub(self.listed.len()) {
            0 => Ok(()),
            more => write!(f, "\n… and {more} more"),
        }
    }
}

impl Error for Faults {}

/// Error of reading a dataset.
#[derive(Debug)]
pub enum LoadError {
    /// The files were read and are invalid.
    Faults(Faults),
    /// A file or folder could not be read.
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Faults(faults) => faults.fmt(f),
            LoadError::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

// `source` is not implemented: the message already contains the text of the inner error.
impl Error for LoadError {}

/// Collector of faults in any order. Keeps only the first ones of each file, since a wrong export may
/// have a fault in each of millions of rows.
#[derive(Debug, Default)]
pub(super) struct FaultLog {
    files: BTreeMap<String, FileFaults>,
    total: usize,
}

/// Faults of one file.
#[derive(Debug, Default)]
struct FileFaults {
    kept: Vec<Fault>,
    /// A fault that is probably caused by faults of another file, and is listed last.
    following: Option<Fault>,
}

impl FaultLog {
    /// Records a fault.
    pub(super) fn push(&mut self, fault: Fault) {
        self.total += 1;
        let faults = self.of(&fault.file);
        faults.kept.push(fault);
        // Truncated in batches rather than on each push, to keep sorting cheap.
        if faults.kept.len() >= 16 * LISTED_MAX {
            faults.cut();
        }
    }

    /// Records a fault of a whole file.
    pub(super) fn push_file(&mut self, file: &str, problem: String) {
        self.push(Fault::of_file(file, problem));
    }

    /// Records a fault of a whole file that is probably caused by faults of another one.
    pub(super) fn push_consequent(&mut self, file: &str, problem: String) {
        self.total += 1;
        self.of(file).following = Some(Fault::of_file(file, problem));
    }

    /// Moves the faults of another log into this one.
    pub(super) fn absorb(&mut self, other: FaultLog) {
        self.total += other.total;
        for (file, found) in other.files {
            let faults = self.of(&file);
            faults.kept.extend(found.kept);
            faults.cut();
            faults.following = found.following.or(faults.following.take());
        }
    }

    /// Returns whether a file has a fault.
    pub(super) fn has(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Returns the faults, or `None` if there are none.
    pub(super) fn finish(self) -> Option<Faults> {
        let total = self.total;
        (total > 0).then(|| Faults {
            listed: self.listed(),
            total,
        })
    }

    fn of(&mut self, file: &str) -> &mut FileFaults {
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), FileFaults::default());
        }
        self.files.get_mut(file).expect("inserted if it was absent")
    }

    /// Selects the faults to list: those of islands.csv, then one per file in rounds up to the limit,
    /// then those caused by others.
    fn listed(self) -> Vec<Fault> {
        let mut following = Vec::new();
        let mut queues = Vec::with_capacity(self.files.len());
        for (_, mut faults) in self.files {
            faults.cut();
            following.extend(faults.following);
            queues.push(faults.kept.into_iter());
        }
        queues.sort_by(|one, other| one.as_slice().first().cmp(&other.as_slice().first()));
        let mut listed = Vec::with_capacity(LISTED_MAX);
        for queue in &mut queues {
            if queue
                .as_slice()
                .first()
                .is_some_and(|fault| fault.file == FIRST)
            {
                listed.extend(queue.take(ISLANDS_LISTED_MIN));
            }
        }
        while listed.len() < LISTED_MAX {
            let before = listed.len();
            let turn = queues.iter_mut().filter_map(Iterator::next);
            listed.extend(turn.take(LISTED_MAX - before));
            if listed.len() == before {
                break;
            }
        }
        listed.extend(following.into_iter().take(LISTED_MAX - listed.len()));
        listed.sort_unstable();
        listed
    }
}

impl FileFaults {
    fn cut(&mut self) {
        self.kept.sort_unstable();
        self.kept.truncate(LISTED_MAX);
    }
}

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

    fn log(faults: &[(&str, u64)]) -> FaultLog {
        let mut log = FaultLog::default();
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
    fn shares(log: FaultLog) -> Vec<(String, usize)> {
        let listed = log.finish().unwrap().listed;
        assert!(listed.is_sorted());
        listed
            .chunk_by(|one, next| one.file == next.file)
            .map(|faults| (faults[0].file.clone(), faults.len()))
            .collect()
    }

    #[test]
    fn a_few_of_each_file_are_listed_before_many_of_one() {
        let found = shares(log(&[
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
        let found = shares(log);
        assert_eq!(found[0], ("islands.csv".to_owned(), 11));
        assert_eq!(found.len(), 90);
    }

    #[test]
    fn consequent_faults_are_listed_last() {
        let mut log = log(&[("islands.csv", 98)]);
        for day in 0..5 {
            log.push_consequent(&format!("ccu/{day}.csv"), "follows".into());
        }
        let faults = log.finish().unwrap();
        assert_eq!((faults.listed.len(), faults.total), (100, 103));
        assert_eq!(faults.listed[98].file, "ccu/0.csv");
        assert!(faults.to_string().ends_with("follows\n… and 3 more"));
    }

    #[test]
    fn the_first_hundred_are_listed_however_late_they_were_found() {
        let mut log = FaultLog::default();
        for line in (1..=5000).rev() {
            log.push(Fault {
                file: "a.csv".into(),
                line: Some(line),
                column: None,
                problem: "bad".into(),
            });
        }
        let faults = log.finish().unwrap();
        assert_eq!((faults.listed.len(), faults.total), (100, 5000));
        assert_eq!(faults.listed[0].line, Some(1));
        let text = faults.to_string();
        assert!(text.ends_with("a.csv:100: bad\n… and 4900 more"), "{text}");
    }
}
