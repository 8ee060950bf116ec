//! Options, events, result and errors of a publish.

use std::fmt;
use std::path::Path;

use crate::calendar::UnixSeconds;
use crate::dataset::{Faults, LoadError};
use crate::snapshot::{Manifest, SnapshotError};

pub const DEFAULT_CREDIT: &str = "Data: island-metrics, CC BY 4.0";

#[derive(Clone, Copy, Debug)]
pub struct PublishOptions<'a> {
    /// Published directory; created if it does not exist.
    pub directory: &'a Path,
    /// The time at which it begins, after any wait for another publish, if `None`.
    pub published: Option<UnixSeconds>,
    /// Ignores refusals, such as that of an older timestamp, and renders everything.
    pub force: bool,
    /// Whether to render everything, including unchanged parts.
    pub full: bool,
    /// Treats warnings of the dataset as faults.
    pub strict: bool,
    /// Attribution line for users of the data.
    pub credit: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub enum PublishEvent<'a> {
    /// The warnings of the dataset, perhaps none.
    Warnings(&'a Faults),
    Progress {
        what: &'static str,
        done: usize,
        all: usize,
    },
    /// The publish is complete, but a stale file could not be removed.
    CleanupFailed(&'a PublishError),
}

#[derive(Debug)]
pub struct Published {
    pub time: UnixSeconds,
    pub manifest: Manifest,
    pub islands: usize,
    pub days: usize,
    /// The rendered and the kept parts, with reasons.
    pub summary: String,
}

pub(super) type EventSink<'a> = &'a mut dyn FnMut(PublishEvent<'_>);

/// Error of a publish.
#[derive(Debug)]
pub enum PublishError {
    /// The dataset is invalid or unreadable.
    Dataset(LoadError),
    /// A published file is invalid, or cannot be read or written.
    Published(SnapshotError),
    /// The manifest was replaced, but not made durable: a crash may bring back the previous one. Or it could not
    /// be read again to find that out.
    Uncertain(SnapshotError),
    /// The publish needs `--force`.
    Refused(String),
}

impl PublishError {
    /// Returns whether the previous publish is certainly still the current one.
    pub fn is_unpublished(&self) -> bool {
        !matches!(self, PublishError::Uncertain(_))
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Dataset(error) => error.fmt(f),
            PublishError::Published(error) => error.fmt(f),
            PublishError::Uncertain(error) => write!(
                f,
                "{error}; the new data may be published, and may be lost in a crash; publish again"
            ),
            PublishError::Refused(problem) => f.write_str(problem),
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

/// Adds the path to an error of a published file.
pub(super) fn in_file<E: Into<SnapshotError>>(path: &Path) -> impl FnOnce(E) -> PublishError {
    |error| PublishError::Published(error.into().in_file(path))
}
