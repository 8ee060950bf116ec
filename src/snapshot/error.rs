//! Errors of published files.

use std::fmt;
use std::io;

/// A published file that cannot be used, or a body in it that must not be sent.
#[derive(Debug)]
pub enum SnapshotError {
    /// The file cannot be read.
    Io(io::Error),
    /// A part of the file cannot be read.
    Unreadable {
        /// The part.
        part: String,
        /// Error of the operating system, or of the decompressor.
        source: io::Error,
    },
    /// The file does not begin or end as this version of the format does.
    Foreign,
    /// A checksum differs from the one written with the data.
    Checksum {
        /// The damaged part.
        part: String,
        /// The checksum in the file.
        written: u32,
        /// The checksum of the bytes read.
        found: u32,
    },
    /// A part is missing, has the wrong length or points outside the file.
    Malformed {
        /// The part.
        part: String,
        /// The problem.
        problem: String,
    },
}

impl SnapshotError {
    pub(crate) fn malformed(part: impl fmt::Display, problem: impl fmt::Display) -> SnapshotError {
        SnapshotError::Malformed {
            part: part.to_string(),
            problem: problem.to_string(),
        }
    }

    /// Compares the checksum of a part with the written one.
    pub(crate) fn expect_checksum(
        part: impl fmt::Display,
        written: u32,
        found: u32,
    ) -> Result<(), SnapshotError> {
        if written == found {
            return Ok(());
        }
        Err(SnapshotError::Checksum {
            part: part.to_string(),
            written,
            found,
        })
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(error) => error.fmt(f),
            SnapshotError::Unreadable { part, source } => {
                write!(f, "{part} cannot be read: {source}")
            }
            SnapshotError::Foreign => write!(
                f,
                "not a published file of this version; publish again with this program"
            ),
            SnapshotError::Checksum {
                part,
                written,
                found,
            } => write!(
                f,
                "{part} is damaged: checksum {found:08x}, written as {written:08x}; publish again with --full"
            ),
            SnapshotError::Malformed { part, problem } => {
                write!(f, "{part}: {problem}; publish again with --full")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Io(source) | SnapshotError::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> SnapshotError {
        SnapshotError::Io(error)
    }
}
