//! Options, events and result of a publish.

use std::path::Path;

use super::error::PublishError;
use crate::calendar::UnixSeconds;
use crate::snapshot::Manifest;

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
