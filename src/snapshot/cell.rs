//! The swap: a new snapshot for all workers, while each request keeps the one it began with.

use std::sync::{Arc, Mutex, PoisonError};

use super::read::Snapshot;
use crate::sync::{AtomicU64, Ordering};

/// The snapshot that is served now.
#[derive(Debug)]
pub struct SnapshotCell {
    generation: AtomicU64,
    current: Mutex<Arc<Snapshot>>,
}

impl SnapshotCell {
    /// Begins with a snapshot.
    pub fn new(snapshot: Snapshot) -> SnapshotCell {
        SnapshotCell {
            generation: AtomicU64::new(0),
            current: Mutex::new(Arc::new(snapshot)),
        }
    }

    /// Serves another snapshot from now on.
    pub fn replace(&self, snapshot: Snapshot) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(snapshot);
        // Raised under the lock, so that who sees the new number finds the new snapshot.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn load(&self) -> (u64, Arc<Snapshot>) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (
            self.generation.load(Ordering::Acquire),
            Arc::clone(&current),
        )
    }
}

/// One worker's handle: it takes the cell's lock only when the generation has changed.
#[derive(Debug)]
pub struct SnapshotReader {
    cell: Arc<SnapshotCell>,
    // Taken only by this worker's one thread, so never waited for.
    held: Mutex<(u64, Arc<Snapshot>)>,
}

impl SnapshotReader {
    /// A handle of the cell.
    pub fn new(cell: Arc<SnapshotCell>) -> SnapshotReader {
        let held = Mutex::new(cell.load());
        SnapshotReader { cell, held }
    }

    /// The snapshot served now.
    pub fn current(&self) -> Arc<Snapshot> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.0 != self.cell.generation.load(Ordering::Acquire) {
            *held = self.cell.load();
        }
        Arc::clone(&held.1)
    }
}
