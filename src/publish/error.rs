//! Why a dataset could not be published, or a published directory not be opened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::dataset::LoadError;
use crate::snapshot::SnapshotError;

/// Why a directory could not be published to or opened.
#[derive(Debug)]
pub enum PublishError {
    /// The dataset is faulty or cannot be read.
    Dataset(LoadError),
    /// The system refused.
    Io {
        /// What was being read or written.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// A published file is unusable.
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SnapshotError,
    },
    /// What is published already is newer.
    Older {
        /// The timestamp there.
        published: String,
        /// The timestamp of this publish.
        offered: String,
    },
}

impl PublishError {
    /// Whether the publish was refused for what it was given, before anything was put in place.
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

/// Names what was being read or written.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> PublishError + '_ {
    move |source| PublishError::Io {
        path: path.to_owned(),
        source,
    }
}
