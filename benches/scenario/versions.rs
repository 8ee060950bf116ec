//! Versions of the dataset. Each is recorded before its publish begins, so that the validator
//! knows it before any server can.

use std::sync::{Arc, Mutex};

/// Marks of one history, present in each of its rows and in no row of another.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    pub(crate) title_end: String,
    /// A prime: all recommendations of the newest day, and so all their sums, are multiples of it.
    pub(crate) factor: u64,
    pub(crate) newest_day: String,
    /// Number of days in the dataset.
    pub(crate) days: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// Its `generatedAt` in Unix seconds, and as text.
    pub(crate) published: i64,
    pub(crate) stamp: String,
    /// Time of its newest live step, and the sum of its players.
    pub(crate) step: i64,
    pub(crate) players: u64,
    /// Marks of its history, which an earlier publish may have rendered.
    pub(crate) marks: Marks,
    /// Whether this publish renders the history.
    pub(crate) has_history: bool,
}

/// All versions in order, shared by the publisher and the validator.
pub(crate) type Versions = Arc<Mutex<Vec<Version>>>;
