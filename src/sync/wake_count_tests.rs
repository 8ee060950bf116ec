//! [`WakeCount`]: counts the wakes of a task, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;

/// A waker of nothing.
#[derive(Debug, Default)]
pub(crate) struct WakeCount(AtomicU64);

impl WakeCount {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
