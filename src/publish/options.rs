//! Options, events, result and errors of a publish.

use std::fmt;
use std::path::Path;

use crate::calendar::UnixSeconds;
use crate::dataset::LoadError;
use crate::snapshot::{Manifest, SnapshotError};

/// Default of [`PublishOptions::credit`].
pub const DEFAULT_CREDIT: &str = "Data: island-metrics, CC BY 4.0";

/// Options of a publish.
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions<'a> {
    /// Published directory; created if it does not exist.
    pub directory: &'a Path,
    /// Publish timestamp.
    pub published: UnixSeconds,
    /// Whether newer published data may be replaced.
    pub force: bool,
    /// Whether to render everything, including unchanged parts.
    pub full: bool,
    /// Attribution line for users of the data.
    pub credit: &'a str,
}

/// Event of a running publish.
#[derive(Clone, Copy, Debug)]
pub enum PublishEvent<'a> {
    /// Another publish has locked the directory.
    WaitingForLock,
    /// The publish is complete. The text lists what was rendered and kept, and why.
    Finished(&'a str),
    /// Progress of one phase.
    Progress {
        /// Name of the phase.
        what: &'static str,
        /// Number of finished items.
        done: usize,
        /// Number of all items.
        all: usize,
    },
    /// The publish is complete, but a stale file could not be removed, or the dumps link not be
    /// replaced.
    CleanupFailed(&'a PublishError),
}

/// Result of a publish.
#[derive(Debug)]
pub struct Published {
    /// Manifest that was written.
    pub manifest: Manifest,
    /// Number of islands in the dataset.
    pub islands: usize,
    /// Number of days that have a file.
    pub days: usize,
}

/// Receiver of events.
pub(super) type EventSink<'a> = &'a mut dyn FnMut(PublishEvent<'_>);

/// Error of publishing to a directory or of verifying it.
#[derive(Debug)]
pub enum PublishError {
    /// The dataset is invalid or unreadable.
    Dataset(LoadError),
    /// A published file is invalid, or cannot be read or written.
    Published(SnapshotError),
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

// `source` is not implemented: the message already contains the text of the inner error.
impl std::error::Error for PublishError {}

impl From<LoadError> for PublishError {
    fn from(error: LoadError) -> PublishError {
        PublishError::Dataset(error)
    }
}

impl From<SnapshotError> for PublishError {
    fn from(error: SnapshotError) -> PublishError {
        PublishError::Published(error)
    }
}

/// Adds the path to an error of a published file.
pub(super) fn at<E: Into<SnapshotError>>(path: &Path) -> impl FnOnce(E) -> PublishError + '_ {
    |error| PublishError::Published(error.into().in_file(path))
}
