//! Errors of publishing a dataset and of opening a published directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::dataset::LoadError;
use crate::snapshot::{OpenError, SnapshotError};

/// Error of publishing to a directory or of verifying it.
#[derive(Debug)]
pub enum PublishError {
    /// The dataset is invalid or unreadable.
    Dataset(LoadError),
    /// An operation of the file system failed.
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A published file is invalid.
    Snapshot {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: SnapshotError,
    },
    /// The published data is newer than this publish.
    Older {
        /// Timestamp of the published data.
        published: String,
        /// Timestamp of this publish.
        offered: String,
    },
}

impl PublishError {
    /// Returns whether the publish was rejected because of its input, before anything was changed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, PublishError::Dataset(_) | PublishError::Older { .. })
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Dataset(error) => error.fmt(f),
            PublishError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            PublishError::Snapshot { path, source } => write!(f, "{}: {source}", path.display()),
            PublishError::Older { published, offered } => write!(
                f,
                "--generated-at must be at least {published}, the time of the published data, got {offered}; \
                 --force replaces newer data"
            ),
        }
    }
}

impl std::error::Error for PublishError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PublishError::Dataset(source) => Some(source),
            PublishError::Io { source, .. } => Some(source),
            PublishError::Snapshot { source, .. } => Some(source),
            PublishError::Older { .. } => None,
        }
    }
}

impl From<LoadError> for PublishError {
    fn from(error: LoadError) -> PublishError {
        PublishError::Dataset(error)
    }
}

impl From<OpenError> for PublishError {
    fn from(OpenError { path, source }: OpenError) -> PublishError {
        match source {
            SnapshotError::Io(source) => PublishError::Io { path, source },
            source => PublishError::Snapshot { path, source },
        }
    }
}

/// Adds the path to an I/O error.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> PublishError + '_ {
    move |source| PublishError::Io {
        path: path.to_owned(),
        source,
    }
}
