//! What is wrong with a dataset: each fault with its place, and the sum of them.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Faults beyond this many are counted and no longer told.
const LISTED_MAX: usize = 100;

/// Letters of a field that a message quotes at most.
const QUOTED_MAX: usize = 40;

/// One thing wrong with one file. Sorts by file, line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The file relative to the dataset, such as `daily/2026-11-20.csv`.
    pub file: String,
    /// The line that the row starts on; the header is line 1.
    pub line: Option<u64>,
    /// The number of the field in its row, from 1.
    pub column: Option<usize>,
    /// What was found and what would be right.
    pub problem: String,
}

/// `daily/2026-11-20.csv:1042:3: uniquePlayers is "12k"; want …`
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

/// Everything wrong with a dataset.
#[derive(Debug, PartialEq, Eq)]
pub struct Faults {
    /// The first of them, at most 100, by file, line and column.
    pub listed: Vec<Fault>,
    /// How many there are in all.
    pub total: usize,
}

/// One fault a line; a closing line counts those not listed.
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

/// Why no dataset could be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The files were read and are wrong.
    Faults(Faults),
    /// A file or folder could not be read.
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system said.
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

// No `source`: the message already holds its words.
impl Error for LoadError {}

/// Collects faults in whatever order they are found, holding on to the first ones only: a file
/// exported wrongly may have one in each of millions of rows.
#[derive(Debug, Default)]
pub(super) struct FaultLog {
    kept: Vec<Fault>,
    total: usize,
}

impl FaultLog {
    /// Notes a fault.
    pub(super) fn push(&mut self, fault: Fault) {
        self.total += 1;
        self.kept.push(fault);
        // Cut now and then rather than on each push, so that sorting stays cheap.
        if self.kept.len() >= 16 * LISTED_MAX {
            self.cut();
        }
    }

    /// Notes a fault of a whole file.
    pub(super) fn push_file(&mut self, file: &str, problem: String) {
        self.push(Fault {
            file: file.to_owned(),
            line: None,
            column: None,
            problem,
        });
    }

    /// Notes all that another log has.
    pub(super) fn absorb(&mut self, other: FaultLog) {
        self.total += other.total;
        self.kept.extend(other.kept);
        self.cut();
    }

    /// Whether nothing was noted.
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// All that was noted; `None` if nothing was.
    pub(super) fn finish(mut self) -> Option<Faults> {
        self.cut();
        (self.total > 0).then_some(Faults {
            listed: self.kept,
            total: self.total,
        })
    }

    fn cut(&mut self) {
        self.kept.sort_unstable();
        self.kept.truncate(LISTED_MAX);
    }
}

/// The text as a message quotes it: escaped, and cut where it is long.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_absent_are_left_out() {
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
    fn long_values_are_cut_and_control_characters_escaped() {
        assert_eq!(quoted("a\u{7}\"b"), "\"a\\u{7}\\\"b\"");
        assert_eq!(quoted(&"é".repeat(40)), format!("\"{}\"", "é".repeat(40)));
        assert_eq!(quoted(&"é".repeat(41)), format!("\"{}\"…", "é".repeat(40)));
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
