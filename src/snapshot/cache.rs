//! A cache bounded in bytes, shared by all workers.
//!
//! Sixteen shards, each behind its own lock, each a ring in second-chance order: what was used since
//! the hand last passed stays, so one sweep through many keys cannot push out what others use.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use ahash::RandomState;

const SHARDS: usize = 16;
/// What an entry costs beside its value: the key twice, the map's slot and the ring's.
const ENTRY_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct ByteCache<K, V> {
    shards: Vec<Mutex<Shard<K, V>>>,
    hasher: RandomState,
    shard_bytes_max: usize,
}

#[derive(Debug)]
struct Shard<K, V> {
    entries: std::collections::HashMap<K, Entry<V>, RandomState>,
    ring: VecDeque<K>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    used: bool,
}

impl<K: Hash + Eq + Clone, V: Clone> ByteCache<K, V> {
    /// A cache of at most `bytes_max` bytes in all.
    pub(crate) fn new(bytes_max: usize) -> ByteCache<K, V> {
        let hasher = RandomState::new();
        let shard = || Shard {
            entries: std::collections::HashMap::with_hasher(hasher.clone()),
            ring: VecDeque::new(),
            bytes: 0,
        };
        let shards = (0..SHARDS).map(|_| Mutex::new(shard())).collect();
        ByteCache {
            shards,
            hasher,
            shard_bytes_max: bytes_max / SHARDS,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut shard = self.shard(key);
        let entry = shard.entries.get_mut(key)?;
        entry.used = true;
        Some(entry.value.clone())
    }

    /// Keeps a value that takes `bytes`; one larger than a shard is not kept.
    pub(crate) fn insert(&self, key: K, value: V, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        if bytes > self.shard_bytes_max {
            return;
        }
        let mut shard = self.shard(&key);
        let entry = Entry {
            value,
            bytes,
            used: false,
        };
        shard.bytes += bytes;
        match shard.entries.insert(key.clone(), entry) {
            Some(old) => shard.bytes -= old.bytes,
            None => shard.ring.push_back(key),
        }
        shard.shrink_to(self.shard_bytes_max);
    }

    fn shard(&self, key: &K) -> std::sync::MutexGuard<'_, Shard<K, V>> {
        // The high bits, since the map inside uses the low ones of the same hash.
        let at = usize::try_from(self.hasher.hash_one(key) >> 60).expect("four bits are an index");
        self.shards[at]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq, V> Shard<K, V> {
    fn shrink_to(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some(key) = self.ring.pop_front() else {
                return;
            };
            match self.entries.get_mut(&key) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.ring.push_back(key);
                }
                Some(entry) => {
                    self.bytes -= entry.bytes;
                    self.entries.remove(&key);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_holds_more_than_its_bytes() {
        let cache = ByteCache::new(SHARDS * 10_000);
        for key in 0..10_000_u32 {
            cache.insert(key, key, 1_000);
            let held: usize = cache
                .shards
                .iter()
                .map(|shard| shard.lock().unwrap().bytes)
                .sum();
            assert!(held <= SHARDS * 10_000);
        }
    }

    #[test]
    fn what_is_used_outlives_a_sweep_of_other_keys() {
        let cache = ByteCache::new(SHARDS * 20_000);
        cache.insert(u32::MAX, 7, 1_000);
        for key in 0..100_000_u32 {
            assert_eq!(cache.get(&u32::MAX), Some(7), "after {key} others");
            cache.insert(key, key, 1_000);
        }
    }
}
