//! [`Replicated`]: a shared value of which each reader has a replica.
//!
//! The writer replaces every replica, so a reader compares no version, and frees nothing: the
//! previous value is dropped by the writer, unless a reader has cloned the `Arc`.

use std::mem;
use std::sync::Arc;

use super::{Mutex, lock};

/// A reader's copy. It is locked by its reader, and by the writer for the time of a replacement.
pub type Replica<V> = Arc<Mutex<V>>;

/// Replaces one replica by one of a new value.
type Replace<T> = Box<dyn Fn(&Arc<T>) + Send>;

/// A value that is replaced while others read it: the published snapshot, the key table.
pub struct Replicated<T> {
    current: Mutex<Arc<T>>,
    replicas: Mutex<Vec<Replace<T>>>,
}

impl<T: Send + Sync + 'static> Replicated<T> {
    pub fn new(value: T) -> Replicated<T> {
        Replicated {
            current: Mutex::new(Arc::new(value)),
            replicas: Mutex::default(),
        }
    }

    pub fn current(&self) -> Arc<T> {
        Arc::clone(&lock(&self.current))
    }

    pub fn replica(&self) -> Replica<Arc<T>> {
        self.replica_with(Arc::clone)
    }

    /// Adds a replica that `make` creates from each value, with state of the reader that belongs
    /// to the value.
    pub fn replica_with<V: Send + 'static>(
        &self,
        make: impl Fn(&Arc<T>) -> V + Send + 'static,
    ) -> Replica<V> {
        // Locked first: a replacement is before the replica is created or replaces it too.
        let mut replicas = lock(&self.replicas);
        let replica = Arc::new(Mutex::new(make(&self.current())));
        let replaced = Arc::clone(&replica);
        replicas.push(Box::new(move |value| {
            let value = make(value);
            // Dropped when the lock is released: the reader does not wait for it.
            let previous = mem::replace(&mut *lock(&replaced), value);
            drop(previous);
        }));
        replica
    }

    /// Replaces the value. Afterwards each reader finds the new one. Waits for readers that use
    /// their replica.
    pub fn replace(&self, value: T) {
        let value = Arc::new(value);
        let replicas = lock(&self.replicas);
        for replace in &*replicas {
            replace(&value);
        }
        // Last: a value that is reported as the current one is that of all readers.
        let previous = mem::replace(&mut *lock(&self.current), value);
        drop(previous);
    }
}

#[cfg(all(test, not(island_metrics_loom)))]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use super::*;

    #[test]
    fn a_replacement_reaches_all_replicas_and_their_state() {
        let shared = Replicated::new(1);
        let plain = shared.replica();
        let counted = shared.replica_with(|value| (**value, 0));
        lock(&counted).1 += 1;
        assert_eq!(*lock(&counted), (1, 1));
        shared.replace(2);
        assert_eq!((**lock(&plain), *lock(&counted)), (2, (2, 0)));
        assert_eq!((*shared.current(), **lock(&shared.replica())), (2, 2));
    }

    /// Sends the thread that drops it.
    struct Dropped(mpsc::Sender<ThreadId>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().id());
        }
    }

    #[test]
    fn the_previous_value_is_dropped_by_the_writer() {
        let (sender, dropped) = mpsc::channel();
        let shared = Replicated::new(Dropped(sender.clone()));
        let replica = shared.replica();
        thread::scope(|scope| {
            let reading = lock(&replica);
            let writer = scope.spawn(|| {
                shared.replace(Dropped(sender));
                thread::current().id()
            });
            thread::yield_now();
            assert!(dropped.try_recv().is_err(), "a reader uses it");
            drop(reading);
            assert_eq!(dropped.recv(), Ok(writer.join().unwrap()));
        });
    }
}
