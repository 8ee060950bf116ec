//! `WorkerCache`: the responses that one worker sends most, keyed by the request target as sent.
//!
//! A target that is found needs no parsing, which takes about 1,300 instructions for a list. Two
//! spellings of one target are two entries here, and one in the caches of a snapshot, which are
//! keyed by route.
//!
//! All workers share the caches of a snapshot: their entries are behind locks, and sending a body
//! changes its reference count. On many cores both move one cache line from core to core. The
//! entries of this cache have their own reference counts, so nothing is written that another core
//! reads.

use ahash::RandomState;
use bytes::Bytes;
use hyper::StatusCode;

use crate::calendar::UnixSeconds;
use crate::request::Endpoint;
use crate::server::conn::context::ResponseBody;
use crate::server::conn::send_buffer::put_buffer;
use crate::server::http::response::ApiResponse;
use crate::snapshot::{Content, Encoded, EntityTag};

/// Slots in the table, of which each target has one.
const SLOTS: usize = 256;
/// Longer bodies are not cached. They cost so much to send that counting references does not
/// matter.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longer targets are not cached: they are searches that find nothing.
const TARGET_BYTES_MAX: usize = 1024;
/// The size of an entry besides its body, its lines and its target: blocks of the allocator.
const ENTRY_BYTES: usize = 512;

/// A request target as sent: path and query; and whether the client accepts gzip.
pub(crate) type TargetForm<'a> = (&'a str, Option<&'a str>, bool);

/// One worker's cache of at most a given number of bytes, of the responses from one snapshot.
#[derive(Debug)]
pub(crate) struct WorkerCache {
    hasher: RandomState,
    bytes_max: usize,
    slots: Vec<Slot>,
    /// The size of all entries.
    bytes: usize,
    /// The slot to fill next: its last missed target was requested twice in a row, and its present entry
    /// was not used in between. A target that is requested only once is never cached.
    wanted: Option<usize>,
    /// The slot after which the next search for an entry to evict begins.
    hand: usize,
}

#[derive(Debug, Default)]
struct Slot {
    entry: Option<CachedEntry>,
    /// The hash of the last target that was requested and not found here.
    requested: u64,
}

/// The responses to one target.
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
    /// Whether that body is gzip.
    gzip: bool,
    bytes: usize,
    /// Whether it was sent since another target was requested twice in a row.
    used: bool,
}

impl WorkerCache {
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> WorkerCache {
        WorkerCache {
            hasher: RandomState::new(),
            bytes_max,
            slots: Vec::new(),
            bytes: 0,
            wanted: None,
            hand: 0,
        }
    }

    /// Returns the entry of a target, which has the response to a GET of it; and whether that is a 304. Most
    /// refused requests have a cached target too: nothing is built for them. `knows` returns whether the
    /// client has the body with an entity tag.
    pub(crate) fn get(
        &mut self,
        form: TargetForm<'_>,
        knows: impl FnOnce(&EntityTag) -> bool,
    ) -> Option<(&CachedEntry, bool)> {
        let hash = self.hasher.hash_one(form);
        let at = usize::try_from(hash % SLOTS as u64).expect("below a usize");
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::default);
        }
        let slot = &mut self.slots[at];
        let was_used = match &mut slot.entry {
            Some(entry) if entry.form() == form => {
                let is_known = knows(&entry.etag);
                if is_known || entry.whole.is_some() {
                    entry.used = true;
                    return self.slots[at].entry.as_ref().map(|entry| (entry, is_known));
                }
                false
            }
            Some(entry) => std::mem::take(&mut entry.used),
            None => false,
        };
        let again = std::mem::replace(&mut slot.requested, hash) == hash;
        self.wanted = (again && !was_used).then_some(at);
        None
    }

    /// Caches the response to the target that was not found last, if it is requested often and
    /// short. `ignored` are the parameters of the target that it names.
    pub(crate) fn put(
        &mut self,
        form: TargetForm<'_>,
        endpoint: Endpoint,
        (found, ignored): (&Encoded, Option<&str>),
    ) {
        let (path, query, accepts_gzip) = form;
        let Some(at) = self.wanted.take() else {
            return;
        };
        let body = match &found.content {
            Content::Whole(body) => Some(body),
            Content::Omitted(_) => None,
            Content::Long(_) => return,
        };
        let body_bytes = body.map_or(0, Bytes::len);
        let target_bytes = path.len() + query.map_or(0, str::len);
        if body_bytes > BODY_BYTES_MAX || target_bytes > TARGET_BYTES_MAX {
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
        let whole = body.map(|body| (lines(false), Bytes::from_owner(body.clone())));
        let line_bytes = not_modified.len() + whole.as_ref().map_or(0, |(lines, _)| lines.len());
        let bytes = body_bytes + line_bytes + target_bytes + ENTRY_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        self.remove(at);
        self.evict(self.bytes_max - bytes);
        self.bytes += bytes;
        self.slots[at].entry = Some(CachedEntry {
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
        });
    }

    fn remove(&mut self, at: usize) {
        if let Some(entry) = self.slots[at].entry.take() {
            self.bytes -= entry.bytes;
        }
    }

    /// Removes entries, in second-chance order, until the others take at most `bytes_max`.
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            self.hand = (self.hand + 1) % SLOTS;
            let entry = self.slots[self.hand].entry.as_mut();
            let was_used = entry.is_some_and(|entry| std::mem::take(&mut entry.used));
            if !was_used {
                self.remove(self.hand);
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
