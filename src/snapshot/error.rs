//! Errors of published files.

use std::fmt::{self, Display};
use std::io;

/// A published file that cannot be used, or a body in it that must not be sent.
#[derive(Debug)]
pub enum SnapshotError {
    /// The file cannot be read.
    Io(io::Error),
    /// A part of the file is damaged, missing or of another version. The text names the part.
    Damaged(String),
}

impl SnapshotError {
    /// A part is missing, has the wrong length or points outside the file.
    pub(crate) fn malformed(part: impl Display, problem: impl Display) -> SnapshotError {
        SnapshotError::Damaged(format!("{part}: {problem}; publish again with --full"))
    }

    /// Compares the checksum of a part with the one written with the data.
    pub(crate) fn expect_checksum(
        part: impl Display,
        written: u32,
        found: u32,
    ) -> Result<(), SnapshotError> {
        if written == found {
            return Ok(());
        }
        Err(SnapshotError::Damaged(format!(
            "{part} is damaged: checksum {found:08x}, written as {written:08x}; publish again with --full"
        )))
    }
}

impl Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(error) => error.fmt(f),
            SnapshotError::Damaged(problem) => f.write_str(problem),
        }
    }
}

// `source` is not implemented: the message already contains the text of the inner error.
impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        SnapshotError::Io(error)
    }
}
