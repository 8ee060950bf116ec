//! Errors of a collector.

use std::fmt;
use std::io;
use std::path::Path;

use crate::dataset::LoadError;

/// Why a collector ended or could not begin.
#[derive(Debug)]
pub enum CollectError {
    /// A setting that cannot work; exit code 78.
    Setting(String),
    /// A file that could not be read or written; exit code 74. The error has the purpose and the path.
    Io(io::Error),
    /// The database is damaged; exit code 74. The next start sets it aside.
    Damaged(String),
    /// A file of the dataset has faults, or could not be read. Ends the command with exit code 65 or 74 if it occurs at
    /// the start or in the last write; otherwise it is logged.
    Dataset(LoadError),
    /// The admin address could not be bound; exit code 69. With `--once` also: the upstream gave no usable
    /// response for several minutes, or no complete catalogue.
    Unavailable(String),
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectError::Setting(problem)
            | CollectError::Damaged(problem)
            | CollectError::Unavailable(problem) => f.write_str(problem),
            CollectError::Io(error) => error.fmt(f),
            CollectError::Dataset(error) => error.fmt(f),
        }
    }
}

impl CollectError {
    /// Returns whether readers of the dataset have held its lock for too long. A later attempt may succeed.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, CollectError::Io(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

pub(super) type Result<T, E = CollectError> = std::result::Result<T, E>;

/// Returns a conversion of I/O errors for one purpose and path.
pub(super) fn io_error(purpose: &str, path: &Path) -> impl Fn(io::Error) -> CollectError {
    move |error| {
        let problem = format!("cannot {purpose} {}: {error}", path.display());
        CollectError::Io(io::Error::new(error.kind(), problem))
    }
}
