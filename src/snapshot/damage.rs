//! `Damage`: bodies that were asked for and could not be sent, counted, and what was wrong.

use super::error::SnapshotError;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// What was wrong with a payload's bodies since it was opened.
#[derive(Debug)]
pub struct Damage {
    count: AtomicU64,
    last: Mutex<String>,
}

impl Damage {
    pub(crate) fn none() -> Damage {
        Damage {
            count: AtomicU64::new(0),
            last: Mutex::new(String::new()),
        }
    }

    /// Counts a body that could not be sent. Who asks for one again and again makes one text each time,
    /// and no line in a log: that is for whoever looks at the count.
    pub(crate) fn note(&self, error: &SnapshotError) {
        let text = error.to_string();
        *lock(&self.last) = text;
        // After the text, so that who sees the count finds one.
        self.count.fetch_add(1, Ordering::Release);
    }

    /// How many bodies could not be sent.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// What was wrong with the last of them.
    pub fn last(&self) -> String {
        let last = lock(&self.last);
        last.clone()
    }
}

#[cfg(all(test, island_metrics_loom))]
mod models {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_sees_a_count_finds_a_reason() {
        loom::model(|| {
            let damage = Arc::new(Damage::none());
            let worker = Arc::clone(&damage);
            let working = loom::thread::spawn(move || {
                worker.note(&SnapshotError::malformed("a body", "it is damaged"));
            });
            damage.note(&SnapshotError::malformed("a body", "it is damaged"));
            let seen = damage.count();
            assert!((1..=2).contains(&seen));
            assert!(!damage.last().is_empty());
            working.join().unwrap();
            assert_eq!(damage.count(), 2);
        });
    }
}
