//! `ResponseCache`: the second level of the response cache, shared by all workers and bounded in
//! bytes.
//!
//! Its key is the route and the encoding; that of the first level, which each worker has for itself,
//! is the target as sent. It has sixteen shards, each behind its own lock, each with two queues as in a
//! segmented LRU. A new entry enters the probation queue. It moves to the protected queue only if
//! *another* client requests it before it is evicted: a single client can evict only entries that
//! no two clients have requested. The protected queue is a clock: an entry that was used since the
//! hand passed stays.

use std::collections::{HashMap, VecDeque};

use ahash::RandomState;
use bytes::Bytes;

use super::body::{Content, Encoded, ReadContext};
use crate::request::Route;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

const SHARDS: usize = 16;
/// The most that the allocator adds to each block of memory: a header and rounding.
const ALLOCATION_BYTES: usize = 32;
/// Blocks of an entry: the body and the links with their reference counts, and the texts of its
/// route.
const BLOCKS: usize = 8;
/// Responses to routes with longer texts are not cached. Titles, tags and slugs are shorter, so
/// such routes find nothing, and could only fill the cache.
const TEXT_BYTES_MAX: usize = 1024;
/// The probation queue has at least one part in so many of a shard.
const PROBATION_SHARE: usize = 8;
/// One recently requested key is remembered for each so many bytes: about as many keys as the cache
/// has space for entries. A client that requests more in turn would find nothing cached on its
/// second pass.
const BYTES_PER_KEY: usize = 16 * 1024;
/// The most keys that are remembered: half a megabyte of them.
const KEYS_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct ResponseCache {
    shards: Vec<Mutex<Shard>>,
    recent: Vec<AtomicU64>,
    hasher: RandomState,
    shard_bytes_max: usize,
}

/// Entries by the hash of their key. Of two keys with one hash, only the first is cached.
#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<u64, CacheEntry, RandomState>,
    probation: Queue,
    protected: Queue,
}

#[derive(Debug, Default)]
struct Queue {
    hashes: VecDeque<u64>,
    bytes: usize,
}

#[derive(Debug)]
struct CacheEntry {
    route: Route,
    accepts_gzip: bool,
    found: Encoded,
    bytes: usize,
    /// The client that requested it first.
    first_client: u64,
    /// Whether another client has requested it since, or since the hand passed.
    used: bool,
}

/// When a response is admitted to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Immediately: it costs much more to make than to cache.
    Immediate,
    /// When it is requested again: caching costs about as much as making it.
    OnSecondRequest,
}

impl ResponseCache {
    /// Creates a cache of at most `bytes_max` bytes in all.
    pub(crate) fn new(bytes_max: usize) -> ResponseCache {
        let keys = (bytes_max / BYTES_PER_KEY).min(KEYS_MAX);
        ResponseCache {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            recent: (0..keys.next_power_of_two())
                .map(|_| AtomicU64::new(0))
                .collect(),
            hasher: RandomState::new(),
            shard_bytes_max: bytes_max / SHARDS,
        }
    }

    /// Returns the response to a route in the form that the client accepts; the hash of the key if
    /// it is not cached.
    pub(crate) fn get(&self, route: &Route, context: ReadContext<'_>) -> Result<Encoded, u64> {
        let hash = self.hasher.hash_one((route, context.accepts_gzip));
        match self.shard(hash).entries.get_mut(&hash) {
            Some(entry) if entry.accepts_gzip == context.accepts_gzip && entry.route == *route => {
                entry.used |= entry.first_client != context.client;
                Ok(entry.found.clone())
            }
            _ => Err(hash),
        }
    }

    /// Caches a response that [`get`](Self::get) has not found, if its content is in memory, its
    /// route is short and it is not larger than a shard. All memory that the entry takes is
    /// charged.
    pub(crate) fn insert(
        &self,
        hash: u64,
        (route, found): (&Route, &Encoded),
        context: ReadContext<'_>,
        admission: Admission,
    ) {
        let Content::Whole(bytes) = &found.content else {
            return;
        };
        let text_bytes = route.text_bytes();
        let links = found.links.as_ref().map_or(0, Bytes::len);
        let heap_bytes = bytes.len() + links + text_bytes + BLOCKS * ALLOCATION_BYTES;
        let bytes = heap_bytes + ResponseCache::entry_bytes();
        let recent = &self.recent[low_bits(hash, self.recent.len())];
        // A key that is admitted on its second request is remembered on the first.
        let is_admitted =
            admission == Admission::Immediate || recent.swap(hash, Ordering::Relaxed) == hash;
        if !is_admitted || text_bytes > TEXT_BYTES_MAX || bytes > self.shard_bytes_max {
            return;
        }
        let entry = CacheEntry {
            route: route.clone(),
            accepts_gzip: context.accepts_gzip,
            found: found.clone(),
            bytes,
            first_client: context.client,
            used: false,
        };
        let mut shard = self.shard(hash);
        if shard.entries.contains_key(&hash) {
            return;
        }
        shard.probation.push(hash, entry.bytes);
        shard.entries.insert(hash, entry);
        let evicted = shard.shrink_to(self.shard_bytes_max);
        // Responses are freed after the lock is released.
        drop(shard);
        drop(evicted);
    }

    /// Returns the bytes of an entry in the map and in its queue. Both double when they are full,
    /// so they are half empty at worst.
    const fn entry_bytes() -> usize {
        2 * (size_of::<(u64, CacheEntry)>() + 1 + size_of::<u64>())
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Other bits than those by which keys are remembered.
        lock(&self.shards[low_bits(hash >> 32, SHARDS)])
    }
}

/// Returns an index below `count`, a power of two.
fn low_bits(hash: u64, count: usize) -> usize {
    usize::try_from(hash & (count as u64 - 1)).expect("below a usize")
}

impl Queue {
    fn push(&mut self, hash: u64, bytes: usize) {
        self.hashes.push_back(hash);
        self.bytes += bytes;
    }
}

impl Shard {
    /// Evicts entries until the others take no more than `bytes_max`, and returns them. Protected
    /// entries never take the space of the probation queue, so no new entry evicts them.
    fn shrink_to(&mut self, bytes_max: usize) -> Vec<CacheEntry> {
        let protected_bytes_max = bytes_max - bytes_max / PROBATION_SHARE;
        let mut evicted = Vec::new();
        loop {
            let queue = if self.protected.bytes > protected_bytes_max {
                &mut self.protected
            } else if self.probation.bytes + self.protected.bytes > bytes_max {
                &mut self.probation
            } else {
                return evicted;
            };
            let hash = queue.hashes.pop_front().expect("bytes are of entries");
            let entry = self.entries.get_mut(&hash);
            let entry = entry.expect("queued hashes have entries");
            queue.bytes -= entry.bytes;
            if entry.used {
                entry.used = false;
                self.protected.push(hash, entry.bytes);
            } else {
                evicted.extend(self.entries.remove(&hash));
            }
        }
    }
}

#[cfg(test)]
#[path = "response_cache_tests.rs"]
mod tests;
