//! What each publish is made of, entered before it begins: whoever judges an answer knows its version
//! before any server can.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What stands in every row of one history and in no row of another.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// Every title ends with it.
    pub(crate) title_end: String,
    /// Every count of recommendations of the newest day is a multiple of it, a prime; so is every sum
    /// of them.
    pub(crate) factor: u64,
    pub(crate) newest_day: String,
    /// Days that the dataset holds.
    pub(crate) days: u64,
}

/// One publish.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// Its `generatedAt`, in Unix seconds and as it stands in answers.
    pub(crate) published: i64,
    pub(crate) stamp: String,
    /// The time of its newest live step, and all players at it.
    pub(crate) step: i64,
    pub(crate) players: u64,
    /// Of its history, which an earlier publish may have rendered.
    pub(crate) marks: Marks,
    /// Whether it is this publish that renders the history.
    pub(crate) has_history: bool,
}

/// All versions, by number, shared by who publishes and who judges.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Version>>>);

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Vec<Version>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the next version.
    pub(crate) fn enter(&self, version: Version) {
        self.lock().push(version);
    }

    /// The versions from a number on.
    pub(crate) fn since(&self, number: usize) -> Vec<Version> {
        self.lock()[number..].to_vec()
    }
}
