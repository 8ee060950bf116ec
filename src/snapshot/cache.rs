//! A cache bounded in bytes, shared by all workers, that no client can flush.
//!
//! Sixteen shards, each behind its own lock, each of two queues. What is new waits in the first, and
//! comes into the second only if *another* client asks for it before its turn to leave. One client,
//! whatever it asks for and however often, therefore pushes out only what no two have asked for. The
//! second queue is a ring in second-chance order: what anybody used since the hand passed stays.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use ahash::RandomState;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

const SHARDS: usize = 16;
/// What the allocator adds to each block of memory, at the most: a header and rounding.
pub(crate) const ALLOCATION_BYTES: usize = 32;
/// The part of a shard that is for new entries only.
const NEW_SHARE: usize = 8;
/// For each so many bytes, one more key is remembered that was asked for lately: about as many as the
/// cache has room for. Who walks through more than that would find nothing kept when he comes again.
const BYTES_FOR_A_KEY: usize = 16 * 1024;
/// More keys than this are not remembered, however large the cache: half a megabyte of them.
const KEYS_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct ByteCache<K, V> {
    shards: Vec<Mutex<Shard<K, V>>>,
    lately: Vec<AtomicU64>,
    hasher: RandomState,
    shard_bytes_max: usize,
}

/// The hash of a key, by this cache's own seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KeyHash(u64);

/// Entries are found by the hash of their key, so that it is made once. Of two keys with one hash,
/// only the first is kept.
#[derive(Debug)]
struct Shard<K, V> {
    entries: HashMap<KeyHash, Entry<K, V>, BuildHasherDefault<Hashed>>,
    new: Queue,
    kept: Queue,
}

/// The place of a value that is not in the cache.
#[derive(Debug)]
pub(crate) struct Vacancy<'a, K, V> {
    cache: &'a ByteCache<K, V>,
    hash: KeyHash,
    key: &'a K,
    client: u64,
}

#[derive(Debug, Default)]
struct Queue {
    keys: VecDeque<KeyHash>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    bytes: usize,
    /// The client that asked for it first.
    first: u64,
    /// Whether another has since, or since the hand passed.
    used: bool,
}

/// Hashes what is a hash already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a KeyHash is one u64");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// When what was not found is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// At once: it costs much more to make than to keep.
    AtOnce,
    /// When it is asked for again: to keep it costs about as much as to make it.
    WhenAskedAgain,
}

impl<K: Hash + Eq + Clone, V: Clone> ByteCache<K, V> {
    /// A cache of at most `bytes_max` bytes in all.
    pub(crate) fn new(bytes_max: usize) -> ByteCache<K, V> {
        let shard = || Shard {
            entries: HashMap::default(),
            new: Queue::default(),
            kept: Queue::default(),
        };
        let lately = (bytes_max / BYTES_FOR_A_KEY)
            .min(KEYS_MAX)
            .next_power_of_two();
        ByteCache {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            lately: (0..lately).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            shard_bytes_max: bytes_max / SHARDS,
        }
    }

    /// The value of a key for a client, a number that is the same for all its requests; or the place to put
    /// it.
    pub(crate) fn get<'a>(&'a self, key: &'a K, client: u64) -> Result<V, Vacancy<'a, K, V>> {
        let hash = KeyHash(self.hasher.hash_one(key));
        self.find(hash, key, client).ok_or(Vacancy {
            cache: self,
            hash,
            key,
            client,
        })
    }

    fn find(&self, hash: KeyHash, key: &K, client: u64) -> Option<V> {
        let mut shard = self.shard(hash);
        let entry = shard.entries.get_mut(&hash)?;
        if entry.key != *key {
            return None;
        }
        entry.used |= entry.first != client;
        Some(entry.value.clone())
    }

    /// Whether the key was asked for lately. From now on it was.
    fn asked_again(&self, hash: KeyHash) -> bool {
        let place = &self.lately[hash.low_bits(self.lately.len())];
        place.swap(hash.0, Ordering::Relaxed) == hash.0
    }

    /// What an entry takes in the map and in its queue. Both double when they are full, so they are half
    /// empty at the worst.
    const fn entry_bytes() -> usize {
        2 * (size_of::<(KeyHash, Entry<K, V>)>() + 1 + size_of::<KeyHash>())
    }

    /// Keeps a value that takes `bytes`; one larger than a shard is not kept.
    fn insert(&self, hash: KeyHash, key: &K, value: V, bytes: usize, client: u64) {
        let bytes = bytes + Self::entry_bytes();
        if bytes > self.shard_bytes_max {
            return;
        }
        let mut shard = self.shard(hash);
        if shard.entries.contains_key(&hash) {
            return;
        }
        let entry = Entry {
            key: key.clone(),
            value,
            bytes,
            first: client,
            used: false,
        };
        shard.new.push(hash, bytes);
        shard.entries.insert(hash, entry);
        let gone = shard.shrink_to(self.shard_bytes_max);
        // Values are freed when nobody waits for the lock.
        drop(shard);
        drop(gone);
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard<K, V>> {
        // The middle bits, since the map inside uses both ends of the same hash.
        let shard = &self.shards[KeyHash(hash.0 >> 32).low_bits(SHARDS)];
        lock(shard)
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Vacancy<'_, K, V> {
    /// Keeps a value, at once or if its key is requested again. `bytes` is all that key and value take on
    /// the heap, [`ALLOCATION_BYTES`] for each block included.
    pub(crate) fn fill(self, value: &V, bytes: usize, keep: Keep) {
        if keep == Keep::AtOnce || self.cache.asked_again(self.hash) {
            let (key, client) = (self.key, self.client);
            self.cache
                .insert(self.hash, key, value.clone(), bytes, client);
        }
    }
}

impl KeyHash {
    /// An index below `count`, a power of two.
    fn low_bits(self, count: usize) -> usize {
        usize::try_from(self.0 & (count as u64 - 1)).expect("below a usize")
    }
}

impl Queue {
    fn push(&mut self, key: KeyHash, bytes: usize) {
        self.keys.push_back(key);
        self.bytes += bytes;
    }
}

impl<K, V> Shard<K, V> {
    /// Forgets entries until the others take no more than `bytes_max`. Gives those back. What is kept
    /// never takes the room of what is new, so nothing new pushes it out.
    fn shrink_to(&mut self, bytes_max: usize) -> Vec<Entry<K, V>> {
        let kept_bytes_max = bytes_max - bytes_max / NEW_SHARE;
        let mut gone = Vec::new();
        loop {
            let queue = if self.kept.bytes > kept_bytes_max {
                &mut self.kept
            } else if self.new.bytes + self.kept.bytes > bytes_max {
                &mut self.new
            } else {
                return gone;
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
                gone.extend(self.entries.remove(&key));
            }
        }
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
                let keep = *u.choose(&[Keep::AtOnce, Keep::WhenAskedAgain])?;
                let bytes = u.int_in_range(0..=11_000)?;
                match cache.get(&key, client) {
                    Ok(value) => assert_eq!(value, key),
                    Err(vacancy) => vacancy.fill(&key, bytes, keep),
                }
                let (queued, held) = cache.held();
                assert_eq!(queued, held);
                assert!(held <= SHARDS * 10_000);
                // Were there more, new entries would push out what is kept.
                for shard in &cache.shards {
                    let shard = shard.lock().unwrap();
                    assert!(shard.kept.bytes <= 10_000 - 10_000 / NEW_SHARE);
                }
            }
            Ok(())
        });
    }

    /// Asks for a key as a request does. Whether it was there.
    fn ask(cache: &ByteCache<u32, u32>, key: u32, client: u64) -> bool {
        match cache.get(&key, client) {
            Ok(value) => {
                assert_eq!(value, key);
                true
            }
            Err(vacancy) => {
                vacancy.fill(&key, 1_000, Keep::AtOnce);
                false
            }
        }
    }

    /// How many times one of a thousand keys that two clients use is not there, while a third asks
    /// for other keys, for each of them `times` over, `sweep` of them between two uses of the same.
    fn lost(times: u32, sweep: u32) -> usize {
        const IN_USE: u32 = 1_000;
        // Room for twice as much as is in use: shards are not filled evenly.
        let cache = ByteCache::new(2_000 * (1_000 + ByteCache::<u32, u32>::entry_bytes()));
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

    #[test]
    fn it_takes_little_before_it_holds_anything() {
        for bytes_max in [0, 1, 1 << 40, usize::MAX] {
            let cache: ByteCache<u32, u32> = ByteCache::new(bytes_max);
            assert!((1..=KEYS_MAX).contains(&cache.lately.len()));
        }
    }

    #[test]
    fn what_is_cheap_is_kept_when_it_is_asked_for_again() {
        let cache = ByteCache::new(SHARDS * 20_000);
        let mut count = 0;
        let mut ask = |key: u32| {
            if let Err(vacancy) = cache.get(&key, 1) {
                count += 1;
                vacancy.fill(&(), 100, Keep::WhenAskedAgain);
            }
            count
        };
        assert_eq!([ask(7), ask(7), ask(7), ask(8)], [1, 2, 2, 3]);
    }

    #[test]
    fn one_client_pushes_nothing_out_of_a_cache_that_others_fill() {
        let cache = ByteCache::new(1_000 * (1_000 + ByteCache::<u32, u32>::entry_bytes()));
        for client in [1, 2, 1, 2] {
            for key in 0..10_000 {
                ask(&cache, key, client);
                ask(&cache, key, 3 - client);
            }
        }
        let kept = || -> Vec<KeyHash> {
            let shards = cache.shards.iter();
            let mut kept: Vec<KeyHash> = shards
                .flat_map(|shard| Vec::from(shard.lock().unwrap().kept.keys.clone()))
                .collect();
            kept.sort_unstable_by_key(|hash| hash.0);
            kept
        };
        let sweep = |keys: std::ops::Range<u32>| {
            for key in keys {
                ask(&cache, key, 3);
                ask(&cache, key, 3);
            }
        };
        // What two have asked for and is still among the new comes to the kept first.
        sweep(10_000..20_000);
        let before = kept();
        assert!(before.len() > 700, "{}", before.len());
        sweep(20_000..60_000);
        assert_eq!(kept(), before);
    }
}
