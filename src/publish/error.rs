//! Errors of publishing a dataset and of verifying a published directory.

use std::fmt;
use std::path::Path;

use crate::dataset::LoadError;
use crate::snapshot::{OpenError, SnapshotError};

/// Error of publishing to a directory or of verifying it.
#[derive(Debug)]
pub enum PublishError {
    /// The dataset is invalid or unreadable.
    Dataset(LoadError),
    /// A published file is invalid, or cannot be read or written.
    Published(OpenError),
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
            PublishError::Published(error) => error.fmt(f),
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
            PublishError::Dataset(error) => Some(error),
            PublishError::Published(error) => Some(error),
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
    fn from(error: OpenError) -> PublishError {
        PublishError::Published(error)
    }
}

/// Adds the path to an error of a published file.
pub(super) fn at<E: Into<SnapshotError>>(path: &Path) -> impl FnOnce(E) -> PublishError + '_ {
    |source| {
        PublishError::Published(OpenError {
            path: path.to_owned(),
            source: source.into(),
        })
    }
}
