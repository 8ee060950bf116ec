//! What can be wrong with a dataset: each fault with its place, what was found and what is wanted.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Faults listed one by one; beyond them only their number is told.
const LISTED_MAX: usize = 100;

/// One fault of one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The file, as `daily/2026-11-20.csv`.
    pub file: String,
    /// The line on which the row begins, from 1.
    pub line: Option<u64>,
    /// The field, from 1.
    pub column: Option<usize>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

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

/// All faults of a dataset, in order of place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The first hundred.
    pub listed: Vec<Fault>,
    /// How many there are.
    pub total: usize,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.total += 1;
        // Files are read in order, so the first found are the first in place but for what is found
        // after a file's last row; a reserve keeps the list right and the memory bounded.
        if self.listed.len() < LISTED_MAX * 10 {
            self.listed.push(fault);
        }
    }

    pub(crate) fn sorted(mut self) -> Faults {
        self.listed.sort();
        self.listed.truncate(LISTED_MAX);
        self
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.listed.iter().enumerate() {
            let line_end = if at == 0 { "" } else { "\n" };
            write!(f, "{line_end}{fault}")?;
        }
        if self.total > self.listed.len() {
            write!(f, "\n… and {} more", self.total - self.listed.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Why a dataset could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// Its contents are wrong.
    Faults(Faults),
    /// It could not be read.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Faults(faults) => write!(f, "{faults}"),
            LoadError::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Faults(faults) => Some(faults),
            LoadError::Io { source, .. } => Some(source),
        }
    }
}
