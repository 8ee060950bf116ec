//! A shared value that is replaced atomically, and a per-thread cache of it.
//!
//! Readers keep the value that they loaded until they drop it. Like the crate arc-swap, with a
//! generation number beside the value, by which readers also invalidate what they derived from it.

use std::sync::Arc;

use super::{AtomicU64, Mutex, Ordering, lock};

/// A value that can be swapped while others read it: the published snapshot, the key table.
#[derive(Debug)]
pub struct ArcSwap<T> {
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> ArcSwap<T> {
    /// Creates an instance with a first value, of generation 0.
    pub fn new(value: T) -> ArcSwap<T> {
        ArcSwap {
            generation: AtomicU64::new(0),
            current: Mutex::new(Arc::new(value)),
        }
    }

    /// Replaces the value and returns the previous one. Readers may still hold references to it: a
    /// caller that keeps it until they are gone prevents a reader from paying for its deallocation.
    pub fn swap(&self, value: T) -> Arc<T> {
        let mut current = lock(&self.current);
        let before = std::mem::replace(&mut *current, Arc::new(value));
        // Incremented under the lock, so that a thread that reads the new number loads the new
        // value.
        self.generation.fetch_add(1, Ordering::Release);
        before
    }

    /// Returns the number of swaps so far.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn load_full(&self) -> Arc<T> {
        self.load_with_generation().1
    }

    fn load_with_generation(&self) -> (u64, Arc<T>) {
        let current = lock(&self.current);
        (self.generation(), Arc::clone(&current))
    }
}

/// A per-thread cache of an [`ArcSwap`]'s value. Takes the shared lock only if the generation has
/// changed. A state of the thread that is used with the value is behind the same lock.
#[derive(Debug)]
pub struct ArcSwapCache<T, S = ()> {
    shared: Arc<ArcSwap<T>>,
    // Locked by one thread only, so never contended.
    cached: Mutex<Cached<T, S>>,
}

#[derive(Debug)]
struct Cached<T, S> {
    generation: u64,
    value: Arc<T>,
    state: S,
}

impl<T> ArcSwapCache<T> {
    pub fn new(shared: Arc<ArcSwap<T>>) -> ArcSwapCache<T> {
        ArcSwapCache::with_state(shared, ())
    }
}

impl<T, S> ArcSwapCache<T, S> {
    /// Creates a cache of the current value, with a state.
    pub fn with_state(shared: Arc<ArcSwap<T>>, state: S) -> ArcSwapCache<T, S> {
        let (generation, value) = shared.load_with_generation();
        let cached = Mutex::new(Cached {
            generation,
            value,
            state,
        });
        ArcSwapCache { shared, cached }
    }

    /// Returns the current generation, equal to or older than that of the next
    /// [`with`](Self::with).
    pub fn generation(&self) -> u64 {
        self.shared.generation()
    }

    /// Calls `read` with the current generation and value, and the state. Does not change the
    /// reference count, whose cache line is shared by all workers.
    pub fn with<R>(&self, read: impl FnOnce(u64, &T, &S) -> R) -> R {
        let mut cached = lock(&self.cached);
        if cached.generation != self.shared.generation() {
            (cached.generation, cached.value) = self.shared.load_with_generation();
        }
        read(cached.generation, &cached.value, &cached.state)
    }
}

#[cfg(all(test, island_metrics_loom))]
mod models {
    use super::*;

    #[test]
    fn a_reader_never_goes_back_nor_pairs_a_value_with_a_later_generation() {
        loom::model(|| {
            let shared = Arc::new(ArcSwap::new(0_u64));
            let writer = Arc::clone(&shared);
            let writing = loom::thread::spawn(move || {
                writer.swap(1);
                writer.swap(2);
            });
            let reader = ArcSwapCache::new(shared);
            let mut before = 0;
            for _ in 0..2 {
                let (generation, value) = reader.with(|generation, value, ()| (generation, *value));
                assert_eq!(generation, value);
                assert!(before <= value);
                before = value;
            }
            writing.join().unwrap();
            assert_eq!(reader.with(|_, value, ()| *value), 2);
        });
    }
}
