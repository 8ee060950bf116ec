//! A cache bounded in bytes, shared by all workers, that no client can flush.
//!
//! Sixteen shards, each behind its own lock, each of two queues. What is new waits in the first, and
//! comes into the second only if *another* client asks for it before its turn to leave. One client,
//! whatever it asks for and however often, therefore pushes out only what no two have asked for. The
//! second queue is a ring in second-chance order: what anybody used since the hand passed stays.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::RandomState;

const SHARDS: usize = 16;
/// What an entry costs beside its value: the key twice, the map's slot and the queue's.
const ENTRY_BYTES: usize = 256;
/// The part of a shard that new entries may take from the others when it is full.
const NEW_SHARE: usize = 8;

#[derive(Debug)]
pub(crate) struct ByteCache<K, V> {
    shards: Vec<Mutex<Shard<K, V>>>,
    hasher: RandomState,
    shard_bytes_max: usize,
}

#[derive(Debug)]
struct Shard<K, V> {
    entries: HashMap<K, Entry<V>, RandomState>,
    new: Queue<K>,
    kept: Queue<K>,
}

#[derive(Debug)]
struct Queue<K> {
    keys: VecDeque<K>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    /// The client that asked for it first.
    first: u64,
    /// Whether another has since, or since the hand passed.
    used: bool,
}

impl<K: Hash + Eq + Clone, V: Clone> ByteCache<K, V> {
    /// A cache of at most `bytes_max` bytes in all.
    pub(crate) fn new(bytes_max: usize) -> ByteCache<K, V> {
        let hasher = RandomState::new();
        let shard = || Shard {
            entries: HashMap::with_hasher(hasher.clone()),
            new: Queue::new(),
            kept: Queue::new(),
        };
        let shards = (0..SHARDS).map(|_| Mutex::new(shard())).collect();
        ByteCache {
            shards,
            hasher,
            shard_bytes_max: bytes_max / SHARDS,
        }
    }

    /// A value, for a client: a number that is the same for all its requests.
    pub(crate) fn get(&self, key: &K, client: u64) -> Option<V> {
        let mut shard = self.shard(key);
        let entry = shard.entries.get_mut(key)?;
        entry.used |= entry.first != client;
        Some(entry.value.clone())
    }

    /// Keeps a value that takes `bytes`, unless there is one of this key; one larger than a shard is
    /// not kept.
    pub(crate) fn insert(&self, key: K, value: V, bytes: usize, client: u64) {
        let bytes = bytes + ENTRY_BYTES;
        if bytes > self.shard_bytes_max {
            return;
        }
        let mut shard = self.shard(&key);
        if shard.entries.contains_key(&key) {
            return;
        }
        let entry = Entry {
            value,
            bytes,
            first: client,
            used: false,
        };
        shard.new.push(key.clone(), bytes);
        shard.entries.insert(key, entry);
        let gone = shard.shrink_to(self.shard_bytes_max);
        // Values are freed when nobody waits for the lock.
        drop(shard);
        drop(gone);
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
        // The high bits, since the map inside uses the low ones of the same hash.
        let at = usize::try_from(self.hasher.hash_one(key) >> 60).expect("four bits are an index");
        self.shards[at]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Queue<K> {
    fn new() -> Queue<K> {
        Queue {
            keys: VecDeque::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, key: K, bytes: usize) {
        self.keys.push_back(key);
        self.bytes += bytes;
    }
}

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Forgets entries until the others take no more than `bytes_max`. Gives those back.
    fn shrink_to(&mut self, bytes_max: usize) -> Vec<V> {
        let mut gone = Vec::new();
        while self.new.bytes + self.kept.bytes > bytes_max {
            let from_new = self.new.bytes > bytes_max / NEW_SHARE || self.kept.keys.is_empty();
            let queue = if from_new {
                &mut self.new
            } else {
                &mut self.kept
            };
            let key = queue.keys.pop_front().expect("bytes are of entries");
            let entry = self
                .entries
                .get_mut(&key)
                .expect("queued keys have entries");
            queue.bytes -= entry.bytes;
            if entry.used {
                entry.used = false;
                self.kept.push(key, entry.bytes);
            } else {
                gone.extend(self.entries.remove(&key).map(|entry| entry.value));
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K, V> ByteCache<K, V> {
        /// Bytes held, by the queues and by the entries.
        fn held(&self) -> (usize, usize) {
            let shards = self.shards.iter().map(|shard| shard.lock().unwrap());
            shards.fold((0, 0), |(queued, held), shard| {
                let entries: usize = shard.entries.values().map(|entry| entry.bytes).sum();
                (queued + shard.new.bytes + shard.kept.bytes, held + entries)
            })
        }
    }

    #[test]
    fn it_never_holds_more_than_its_bytes() {
        arbtest::arbtest(|u| {
            let cache = ByteCache::new(SHARDS * 10_000);
            for _ in 0..u.int_in_range(0..=2000)? {
                let key: u16 = u.int_in_range(0..=300)?;
                let client = u.int_in_range(0..=2)?;
                if cache.get(&key, client).is_none() {
                    cache.insert(key, key, u.int_in_range(0..=11_000)?, client);
                }
                let (queued, held) = cache.held();
                assert_eq!(queued, held);
                assert!(held <= SHARDS * 10_000);
            }
            Ok(())
        });
    }

    /// Asks for a key as a request does. Whether it was there.
    fn ask(cache: &ByteCache<u32, u32>, key: u32, client: u64) -> bool {
        let there = cache.get(&key, client).is_some();
        if !there {
            cache.insert(key, key, 1_000, client);
        }
        there
    }

    /// How many times one of a thousand keys that two clients use is not there, while a third asks
    /// for other keys, for each of them `times` over, `sweep` of them between two uses of the same.
    fn lost(times: u32, sweep: u32) -> usize {
        const IN_USE: u32 = 1_000;
        // Room for twice as much as is in use: shards are not filled evenly.
        let cache = ByteCache::new(2_000 * (1_000 + ENTRY_BYTES));
        for client in [1, 2] {
            for key in 0..IN_USE {
                ask(&cache, key, client);
            }
        }
        let mut others = IN_USE..;
        let mut lost = 0;
        for round in 0..20_000_u32 {
            for key in others.by_ref().take((sweep / IN_USE) as usize) {
                for _ in 0..times {
                    ask(&cache, key, 3);
                }
            }
            lost += usize::from(!ask(
                &cache,
                round % IN_USE,
                1 + u64::from(round / IN_USE % 2),
            ));
        }
        lost
    }

    #[test]
    fn one_client_pushes_out_nothing_that_others_use() {
        for times in [1, 2, 10] {
            for sweep in [1_000, 10_000] {
                assert_eq!(lost(times, sweep), 0, "{times} times, {sweep} between");
            }
        }
    }
}
