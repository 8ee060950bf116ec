//! `CorruptionLog`: the count of requested bodies that were damaged, and the last error.

use super::error::SnapshotError;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Errors of reading a payload's bodies since it was opened. Recording one writes no line to a log,
/// so that repeated requests for a damaged body do not fill it.
#[derive(Debug)]
pub struct CorruptionLog {
    count: AtomicU64,
    last: Mutex<String>,
}

impl CorruptionLog {
    pub(crate) fn new() -> CorruptionLog {
        CorruptionLog {
            count: AtomicU64::new(0),
            last: Mutex::new(String::new()),
        }
    }

    /// Counts a body that could not be sent.
    pub(crate) fn record(&self, error: &SnapshotError) {
        let text = error.to_string();
        *lock(&self.last) = text;
        // After the text, so that a thread that sees the count finds one.
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of bodies that could not be sent.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns the last error.
    pub fn last(&self) -> String {
        lock(&self.last).clone()
    }
}

#[cfg(all(test, island_metrics_loom))]
mod models {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thread_that_sees_a_count_finds_an_error() {
        loom::model(|| {
            let log = Arc::new(CorruptionLog::new());
            let worker = Arc::clone(&log);
            let working = loom::thread::spawn(move || {
                worker.record(&SnapshotError::malformed("a body", "it is damaged"));
            });
            log.record(&SnapshotError::malformed("a body", "it is damaged"));
            let seen = log.count();
            assert!((1..=2).contains(&seen));
            assert!(!log.last().is_empty());
            working.join().unwrap();
            assert_eq!(log.count(), 2);
        });
    }
}
