//! What a publisher asks for, and is told.

use std::path::Path;

use super::error::PublishError;
use crate::calendar::UnixSeconds;
use crate::snapshot::Manifest;

/// How to publish.
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions<'a> {
    /// The published directory, which is made if need be.
    pub directory: &'a Path,
    /// The publish timestamp.
    pub published: UnixSeconds,
    /// Whether what is published may be newer.
    pub force: bool,
    /// Whether to render everything again, whatever has changed.
    pub full: bool,
    /// The line that users of the data show.
    pub credit: &'a str,
}

/// What happens while a dataset is published.
#[derive(Clone, Copy, Debug)]
pub enum PublishEvent<'a> {
    /// Another publish holds the directory.
    WaitingForLock,
    /// All is published: what was rendered and what was kept, and why.
    Finished(&'a str),
    /// How far a part of the work is.
    Progress {
        /// What is being done.
        what: &'static str,
        /// Pieces done.
        done: usize,
        /// Pieces in all.
        all: usize,
    },
    /// All is published, but something old could not be removed or linked anew.
    CleanupFailed(&'a PublishError),
}

/// What was published.
#[derive(Debug)]
pub struct Published {
    /// The manifest now.
    pub manifest: Manifest,
    /// Islands in the dataset.
    pub islands: usize,
    /// HistoryInput days.
    pub days: usize,
}

/// Who is told of events.
pub(super) type EventSink<'a> = &'a mut dyn FnMut(PublishEvent<'_>);
