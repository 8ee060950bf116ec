//! Synchronization: atomics and mutexes, replicated values, parallel work, and polling.
//!
//! The atomics and mutexes are those of std, or of loom under `--cfg island_metrics_loom`, where
//! loom explores all interleavings of models of the lock-free code. All other modules import them
//! from here.
//!
//! `replicated` is a value with a copy for each reader, `ordered_work` a queue of parallel work whose results
//! come in order, `poller` a thread that polls.

mod ordered_work;
mod poller;
mod replicated;
#[cfg(test)]
#[path = "wake_count_tests.rs"]
mod wake_count;

pub use ordered_work::{cores, in_order};
pub(crate) use poller::{PollTrigger, lower_priority};
pub use replicated::{Replica, Replicated};
#[cfg(test)]
pub(crate) use wake_count::WakeCount;

#[cfg(island_metrics_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(island_metrics_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// Locks a mutex, whether or not a thread has panicked while it held the lock: a panic in one
/// request must not fail all later ones.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
