//! `ResponseCache`: the second level of the response cache, shared by all workers and bounded in bytes. No
//! client can flush it.
//!
//! Its key is that of the first level, which each worker has for itself: the route and the encoding. The
//! cache has sixteen shards, each behind its own lock, each with two queues. A new entry waits in the first
//! queue. It moves to the second only if *another* client requests it before its turn to leave. One client,
//! whatever it requests and however often, therefore removes only entries that no two clients have
//! requested. The second queue is a ring in second-chance order: an entry that was used since the hand
//! passed stays.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use ahash::RandomState;
use bytes::Bytes;

use super::body::{Content, Found};
use super::read_context::ReadContext;
use crate::request::Route;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

const SHARDS: usize = 16;
/// What the allocator adds to each block of memory at the most: a header and rounding.
const ALLOCATION_BYTES: usize = 32;
/// Blocks of an entry: the body with its reference count, the links with theirs, and the texts of its route.
const BLOCKS: usize = 8;
/// A response is kept only if the texts of its route are no longer than this together. Longer ones find
/// nothing, since titles, tags and slugs are shorter; they would fill the cache with themselves.
const TEXT_BYTES_MAX: usize = 1024;
/// The part of a shard that is for new entries only.
const NEW_SHARE: usize = 8;
/// For each so many bytes, one recently requested key is remembered: about as many as the cache has room
/// for. A client that walks through more would find nothing kept on its second walk.
const BYTES_FOR_A_KEY: usize = 16 * 1024;
/// More keys than this are not remembered, however large the cache: half a megabyte of them.
const KEYS_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct ResponseCache {
    shards: Vec<Mutex<Shard>>,
    recent: Vec<AtomicU64>,
    hasher: RandomState,
    shard_bytes_max: usize,
}

/// The hash of a key, by this cache's own seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KeyHash(u64);

/// Entries are found by the hash of their key, so that it is made once. Of two keys with one hash,
/// only the first is kept.
#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<KeyHash, Entry, BuildHasherDefault<Hashed>>,
    new: Queue,
    kept: Queue,
}

/// The place of a response that is not in the cache.
#[derive(Debug)]
pub(crate) struct Vacancy<'a> {
    cache: &'a ResponseCache,
    hash: KeyHash,
    route: &'a Route,
    accepts_gzip: bool,
    client: u64,
}

#[derive(Debug, Default)]
struct Queue {
    keys: VecDeque<KeyHash>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    route: Route,
    accepts_gzip: bool,
    found: Found,
    bytes: usize,
    /// The client that requested it first.
    first: u64,
    /// Whether another client has requested it since, or since the hand passed.
    used: bool,
}

/// A hasher of what is a hash already.
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

/// When a response that was not in the cache is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Immediately: it costs much more to make than to keep.
    Always,
    /// When it is requested again: to keep it costs about as much as to make it.
    OnSecondRequest,
}

impl ResponseCache {
    /// A cache of at most `bytes_max` bytes in all.
    pub(crate) fn new(bytes_max: usize) -> ResponseCache {
        let recent = (bytes_max / BYTES_FOR_A_KEY)
            .min(KEYS_MAX)
            .next_power_of_two();
        ResponseCache {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            recent: (0..recent).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            shard_bytes_max: bytes_max / SHARDS,
        }
    }

    /// Returns the response to a route in the form that the client accepts, or the place to put it.
    pub(crate) fn get<'a>(
        &'a self,
        route: &'a Route,
        context: ReadContext<'_>,
    ) -> Result<Found, Vacancy<'a>> {
        let (accepts_gzip, client) = (context.accepts_gzip, context.client);
        let hash = KeyHash(self.hasher.hash_one((route, accepts_gzip)));
        let vacancy = Vacancy {
            cache: self,
            hash,
            route,
            accepts_gzip,
            client,
        };
        let mut shard = self.shard(hash);
        match shard.entries.get_mut(&hash) {
            Some(entry) if entry.accepts_gzip == accepts_gzip && entry.route == *route => {
                entry.used |= entry.first != client;
                Ok(entry.found.clone())
            }
            _ => Err(vacancy),
        }
    }

    /// Whether the key was requested recently. From now on it was.
    fn requested_again(&self, hash: KeyHash) -> bool {
        let place = &self.recent[hash.low_bits(self.recent.len())];
        place.swap(hash.0, Ordering::Relaxed) == hash.0
    }

    /// What an entry takes in the map and in its queue. Both double when they are full, so they are half
    /// empty at the worst.
    const fn entry_bytes() -> usize {
        2 * (size_of::<(KeyHash, Entry)>() + 1 + size_of::<KeyHash>())
    }

    /// Keeps an entry, unless it is larger than a shard.
    fn insert(&self, hash: KeyHash, entry: Entry) {
        if entry.bytes > self.shard_bytes_max {
            return;
        }
        let mut shard = self.shard(hash);
        if shard.entries.contains_key(&hash) {
            return;
        }
        shard.new.push(hash, entry.bytes);
        shard.entries.insert(hash, entry);
        let removed = shard.shrink_to(self.shard_bytes_max);
        // Responses are freed when the lock is not held.
        drop(shard);
        drop(removed);
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard> {
        // The middle bits, since the map inside uses both ends of the same hash.
        let shard = &self.shards[KeyHash(hash.0 >> 32).low_bits(SHARDS)];
        lock(shard)
    }
}

impl Vacancy<'_> {
    /// Keeps a response, if its content is in memory and its route is short. What is charged is all that the
    /// entry takes.
    pub(crate) fn fill(self, found: &Found, keep: Keep) {
        let text_bytes = self.route.text_bytes();
        let Content::Whole(content) = &found.body.content else {
            return;
        };
        let is_kept = keep == Keep::Always || self.cache.requested_again(self.hash);
        if !is_kept || text_bytes > TEXT_BYTES_MAX {
            return;
        }
        let links = found.links.as_ref().map_or(0, Bytes::len);
        let heap_bytes = content.len() + links + text_bytes + BLOCKS * ALLOCATION_BYTES;
        let entry = Entry {
            route: self.route.clone(),
            accepts_gzip: self.accepts_gzip,
            found: found.clone(),
            bytes: heap_bytes + ResponseCache::entry_bytes(),
            first: self.client,
            used: false,
        };
        self.cache.insert(self.hash, entry);
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

impl Shard {
    /// Removes entries until the others take no more than `bytes_max`, and returns them. Kept entries never
    /// take the room of new ones, so no new entry removes them.
    fn shrink_to(&mut self, bytes_max: usize) -> Vec<Entry> {
        let kept_bytes_max = bytes_max - bytes_max / NEW_SHARE;
        let mut removed = Vec::new();
        loop {
            let queue = if self.kept.bytes > kept_bytes_max {
                &mut self.kept
            } else if self.new.bytes + self.kept.bytes > bytes_max {
                &mut self.new
            } else {
                return removed;
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
                removed.extend(self.entries.remove(&key));
            }
        }
    }
}

#[cfg(test)]
#[path = "response_cache_tests.rs"]
mod tests;
