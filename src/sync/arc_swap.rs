//! The swap: a new value for all workers, while each request keeps the one it began with.

use std::sync::Arc;

use super::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// A value that is replaced whole: the published snapshot, the table of keys.
#[derive(Debug)]
pub struct ArcSwap<T> {
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

impl<T> ArcSwap<T> {
    /// Begins with a value.
    pub fn new(value: T) -> ArcSwap<T> {
        ArcSwap {
            generation: AtomicU64::new(0),
            current: Mutex::new(Arc::new(value)),
        }
    }

    /// Another value from now on. Gives the one before back, which readers may still hold: who keeps
    /// it until they do not, sees to it that none of them has to free it.
    pub fn swap(&self, value: T) -> Arc<T> {
        let mut current = lock(&self.current);
        let before = std::mem::replace(&mut *current, Arc::new(value));
        // Raised under the lock, so that who sees the new number finds the new value.
        self.generation.fetch_add(1, Ordering::Release);
        before
    }

    /// How often the value has been replaced.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The value now.
    pub fn load_full(&self) -> Arc<T> {
        self.load_with_generation().1
    }

    fn load_with_generation(&self) -> (u64, Arc<T>) {
        let current = lock(&self.current);
        (self.generation(), Arc::clone(&current))
    }
}

/// One worker's handle: it takes the shared lock only when the generation has changed.
#[derive(Debug)]
pub struct ArcSwapCache<T> {
    shared: Arc<ArcSwap<T>>,
    // Taken only by this worker's one thread, so never waited for.
    cached: Mutex<(u64, Arc<T>)>,
}

impl<T> ArcSwapCache<T> {
    /// A handle of the value.
    pub fn new(shared: Arc<ArcSwap<T>>) -> ArcSwapCache<T> {
        let cached = Mutex::new(shared.load_with_generation());
        ArcSwapCache { shared, cached }
    }

    /// The generation that [`with`](Self::with) would give, or an earlier one.
    pub fn generation(&self) -> u64 {
        self.shared.generation()
    }

    /// Reads the value now and its generation, without touching the count of its owners, which all
    /// workers share.
    pub fn with<R>(&self, read: impl FnOnce(u64, &T) -> R) -> R {
        let cached = self.cached();
        read(cached.0, &cached.1)
    }

    /// The value now, and its generation.
    pub fn load_full_with_generation(&self) -> (u64, Arc<T>) {
        let cached = self.cached();
        (cached.0, Arc::clone(&cached.1))
    }

    fn cached(&self) -> MutexGuard<'_, (u64, Arc<T>)> {
        let mut cached = lock(&self.cached);
        if cached.0 != self.shared.generation() {
            *cached = self.shared.load_with_generation();
        }
        cached
    }
}

#[cfg(all(test, island_metrics_loom))]
mod models {
    use super::*;

    #[test]
    fn a_reader_never_goes_back_nor_takes_a_value_for_a_later_generation() {
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
                let (generation, value) = reader.load_full_with_generation();
                assert_eq!(generation, *value);
                assert!(before <= *value);
                before = *value;
            }
            writing.join().unwrap();
            assert_eq!(*reader.load_full_with_generation().1, 2);
        });
    }
}
