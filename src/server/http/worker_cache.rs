//! `WorkerCache`: the responses that one worker has sent, keyed by the request target as sent.
//!
//! A target that is found needs no parsing, which takes about 3,000 instructions for a list. Two
//! spellings of one target are two entries.
//!
//! Workers share no entry: on many cores a lock, or the reference count of a body, would move a cache
//! line from core to core. A response that several workers send is made and stored by each of them.
//!
//! There are two queues, as in a segmented LRU. A new entry enters the probation queue, and moves to the
//! protected queue only if it is requested again before it is evicted: a sweep over many targets evicts
//! only entries that were requested once. Both queues are clocks: an entry that was used since the hand
//! passed stays.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use ahash::RandomState;
use bytes::Bytes;
use hyper::StatusCode;

use crate::calendar::UnixSeconds;
use crate::request::Endpoint;
use crate::server::conn::context::ResponseBody;
use crate::server::conn::send_buffer::put_buffer;
use crate::server::http::response::ApiResponse;
use crate::snapshot::{Content, Encoded, EntityTag, Snapshot};
use crate::sync::{Replica, Replicated};

/// Longer targets are not cached: they are searches that find nothing.
const TARGET_BYTES_MAX: usize = 1024;
/// The most that the allocator adds to each block of memory: a header and rounding.
const ALLOCATION_BYTES: usize = 32;
/// Blocks of an entry: the target, the lines of both responses, the body and its reference counts.
const BLOCKS: usize = 6;
/// At least an eighth of the cache belongs to the probation queue. No entry is larger than that.
const PROBATION_SHARE: usize = 8;
/// One recently requested target is remembered for each so many bytes: about as many as the cache has
/// space for entries. A client that requests more in turn would find nothing cached on its second pass.
const BYTES_PER_TARGET: usize = 16 * 1024;
/// The most targets that are remembered: half a megabyte of them.
const TARGETS_MAX: usize = 1 << 16;

/// A request target as sent: path and query; and whether the client accepts gzip.
pub(crate) type TargetForm<'a> = (&'a str, Option<&'a str>, bool);

/// One worker's cache of at most a given number of bytes, of the responses from one snapshot.
#[derive(Debug)]
pub(crate) struct WorkerCache {
    hasher: RandomState,
    bytes_max: usize,
    /// Entries by the hash of their key. Of two keys with one hash, only the last is cached.
    entries: HashMap<u64, CachedEntry, RandomState>,
    probation: Queue,
    protected: Queue,
    /// Hashes of targets that were requested and not cached, in a place of each; empty until the first.
    recent: Vec<u64>,
}

/// The snapshot that a worker serves, and the responses that it has cached of it.
#[derive(Debug)]
pub(crate) struct ServedSnapshot {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cache: WorkerCache,
}

impl ServedSnapshot {
    /// Adds a replica of the snapshot. Each new snapshot comes with an empty cache of at most
    /// `cache_bytes`.
    pub(crate) fn replica(
        snapshot: &Replicated<Snapshot>,
        cache_bytes: usize,
    ) -> Replica<ServedSnapshot> {
        snapshot.replica_with(move |snapshot| ServedSnapshot {
            snapshot: Arc::clone(snapshot),
            cache: WorkerCache::new(cache_bytes),
        })
    }
}

#[derive(Debug, Default)]
struct Queue {
    hashes: VecDeque<u64>,
    bytes: usize,
}

impl Queue {
    fn push(&mut self, hash: u64, bytes: usize) {
        self.hashes.push_back(hash);
        self.bytes += bytes;
    }
}

#[derive(Debug)]
pub(crate) struct CachedEntry {
    path: Box<str>,
    query: Option<Box<str>>,
    accepts_gzip: bool,
    pub(crate) endpoint: Endpoint,
    etag: EntityTag,
    next_due: Option<UnixSeconds>,
    /// The header lines of a 304, to a client that knows the entity tag.
    not_modified: Box<[u8]>,
    /// The header lines and the body of a 200 to all others, if one of them has requested it.
    whole: Option<(Box<[u8]>, Bytes)>,
    gzip: bool,
    bytes: usize,
    /// Whether it was sent since it was cached, or since the hand passed.
    used: bool,
}

impl WorkerCache {
    pub(crate) fn new(bytes_max: usize) -> WorkerCache {
        WorkerCache {
            hasher: RandomState::new(),
            bytes_max,
            entries: HashMap::default(),
            probation: Queue::default(),
            protected: Queue::default(),
            recent: Vec::new(),
        }
    }

    /// Returns the entry of a target, which has the response to a GET of it; and whether that is a 304. Most
    /// refused requests have a cached target too: nothing is built for them. `knows` returns whether the
    /// client has the body with an entity tag.
    #[inline]
    pub(crate) fn get(
        &mut self,
        form: TargetForm<'_>,
        knows: impl FnOnce(&EntityTag) -> bool,
    ) -> Option<(&CachedEntry, bool)> {
        let hash = self.hasher.hash_one(form);
        let entry = self.entries.get_mut(&hash)?;
        if entry.form() != form {
            return None;
        }
        let is_known = knows(&entry.etag);
        if !is_known && entry.whole.is_none() {
            return None;
        }
        entry.used = true;
        Some((entry, is_known))
    }

    /// Caches the response to a target that was not found: immediately if it is costly, otherwise when it is
    /// requested again, since caching costs about as much as making it. `ignored` are the parameters of the
    /// target that the response names.
    pub(crate) fn put(
        &mut self,
        form: TargetForm<'_>,
        endpoint: Endpoint,
        (found, ignored): (&Encoded, Option<&str>),
    ) {
        let (path, query, accepts_gzip) = form;
        let body = match &found.content {
            Content::Whole(body) => Some(body),
            Content::Omitted(_) => None,
            Content::Long(_) => return,
        };
        let target_bytes = path.len() + query.map_or(0, str::len);
        let body_bytes = body.map_or(0, Bytes::len);
        let hash = self.hasher.hash_one(form);
        let is_admitted = found.is_costly && body.is_some() || self.is_requested_again(hash);
        if !is_admitted || target_bytes > TARGET_BYTES_MAX || body_bytes > self.entry_bytes_max() {
            return;
        }
        let lines = |is_known| -> Box<[u8]> {
            let mut response = ApiResponse::without_next_due(is_known, found.clone());
            response.add_ignored(ignored);
            let lines = response.lines;
            let copy = Box::from(lines.as_slice());
            put_buffer(lines);
            copy
        };
        let not_modified = lines(true);
        // The body of a snapshot gets a reference count of its own, which no other core writes.
        let whole = body.map(|body| (lines(false), Bytes::from_owner(body.clone())));
        let line_bytes = not_modified.len() + whole.as_ref().map_or(0, |(lines, _)| lines.len());
        let bytes = WorkerCache::entry_bytes() + target_bytes + line_bytes + body_bytes;
        if bytes > self.entry_bytes_max() {
            return;
        }
        let entry = CachedEntry {
            path: path.into(),
            query: query.map(Box::from),
            accepts_gzip,
            endpoint,
            etag: found.etag,
            next_due: found.next_due,
            not_modified,
            whole,
            gzip: found.gzip,
            bytes,
            used: false,
        };
        self.probation.push(hash, bytes);
        if let Some(replaced) = self.entries.insert(hash, entry) {
            self.forget(hash, replaced.bytes);
        }
        self.shrink();
    }

    /// Remembers a target; returns `true` if it has been remembered already.
    fn is_requested_again(&mut self, hash: u64) -> bool {
        if self.recent.is_empty() {
            let targets = (self.bytes_max / BYTES_PER_TARGET).min(TARGETS_MAX);
            self.recent.resize(targets.next_power_of_two(), 0);
        }
        let at = hash & (self.recent.len() as u64 - 1);
        let at = usize::try_from(at).expect("below a usize");
        mem::replace(&mut self.recent[at], hash) == hash
    }

    fn entry_bytes_max(&self) -> usize {
        self.bytes_max / PROBATION_SHARE
    }

    /// Returns the size of an entry besides its target, its lines and its body. The map and the queues double
    /// when they are full, so they are half empty at worst.
    const fn entry_bytes() -> usize {
        2 * (size_of::<(u64, CachedEntry)>() + 1 + size_of::<u64>()) + BLOCKS * ALLOCATION_BYTES
    }

    /// Removes an entry that has been replaced from its queue, where it comes before the new one. Rare: a 304 was
    /// cached before a 200, or two targets have one hash.
    #[cold]
    fn forget(&mut self, hash: u64, bytes: usize) {
        for queue in [&mut self.protected, &mut self.probation] {
            if let Some(at) = queue.hashes.iter().position(|other| *other == hash) {
                queue.hashes.remove(at);
                queue.bytes -= bytes;
                return;
            }
        }
    }

    /// Evicts entries until the others take no more than the cache may. Protected entries never take the space
    /// of the probation queue, so no new entry evicts them.
    fn shrink(&mut self) {
        let protected_bytes_max = self.bytes_max - self.bytes_max / PROBATION_SHARE;
        loop {
            let queue = if self.protected.bytes > protected_bytes_max {
                &mut self.protected
            } else if self.probation.bytes + self.protected.bytes > self.bytes_max {
                &mut self.probation
            } else {
                return;
            };
            let hash = queue.hashes.pop_front().expect("bytes are of entries");
            let entry = self.entries.get_mut(&hash);
            let entry = entry.expect("queued hashes have entries");
            queue.bytes -= entry.bytes;
            if mem::take(&mut entry.used) {
                self.protected.push(hash, entry.bytes);
            } else {
                self.entries.remove(&hash);
            }
        }
    }
}

impl CachedEntry {
    fn form(&self) -> TargetForm<'_> {
        (&self.path, self.query.as_deref(), self.accepts_gzip)
    }

    /// The response to a client that has the body, or to one for which the entry has it.
    pub(crate) fn response(&self, is_known: bool, now: UnixSeconds) -> ApiResponse {
        let mut response = match &self.whole {
            Some((lines, body)) if !is_known => {
                let mut response = ApiResponse::with_lines(StatusCode::OK, lines);
                response.gzip = self.gzip;
                response.body = ResponseBody::Whole(body.clone());
                response
            }
            _ => ApiResponse::with_lines(StatusCode::NOT_MODIFIED, &self.not_modified),
        };
        response.add_next_due(self.next_due, now);
        response
    }
}

#[cfg(test)]
#[path = "worker_cache_tests.rs"]
mod tests;
