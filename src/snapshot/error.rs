//! What can be wrong with a published file.

use std::fmt;
use std::io;

/// A published file that cannot be used, or a body in it that must not be sent.
#[derive(Debug)]
pub enum SnapshotError {
    /// The file could not be read.
    Io(io::Error),
    /// A part of it could not be.
    Unreadable {
        /// The part.
        part: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The file does not begin and end as this version of the format does.
    Foreign {
        /// What was expected at that place.
        expected: &'static str,
    },
    /// A checksum is not the one written with the data.
    Checksum {
        /// The part that is damaged.
        part: String,
        /// The checksum in the file.
        written: u32,
        /// The checksum of what is there.
        found: u32,
    },
    /// A part is missing, has the wrong length or points outside the file.
    Malformed {
        /// The part.
        part: String,
        /// What is wrong with it.
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

    /// The same, with the part that could not be read.
    pub(crate) fn of(self, part: impl fmt::Display) -> SnapshotError {
        match self {
            SnapshotError::Io(source) => SnapshotError::Unreadable {
                part: part.to_string(),
                source,
            },
            other => other,
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(error) => error.fmt(f),
            SnapshotError::Unreadable { part, source } => {
                write!(f, "{part} cannot be read: {source}")
            }
            SnapshotError::Foreign { expected } => {
                write!(
                    f,
                    "not a published file of this version: want {expected}; publish again with this program"
                )
            }
            SnapshotError::Checksum {
                part,
                written,
                found,
            } => {
                write!(
                    f,
                    "{part} is damaged: checksum {found:08x}, written as {written:08x}; publish again with --full"
                )
            }
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
