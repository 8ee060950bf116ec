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

use std::cell::{RefCell, RefMut};

use ahash::RandomState;
use bytes::Bytes;
use hyper::StatusCode;

use crate::request::Endpoint;
use crate::server::conn::context::ResponseBody;
use crate::server::http::response::{ApiResponse, CACHED_A_MINUTE, JSON};
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

/// One worker's cache of at most a given number of bytes.
#[derive(Debug)]
pub(crate) struct WorkerCache {
    table: RefCell<CacheTable>,
    hasher: RandomState,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct CacheTable {
    /// The snapshot that the responses are from.
    generation: u64,
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

#[derive(Debug)]
struct CachedEntry {
    path: Box<str>,
    query: Option<Box<str>>,
    accepts_gzip: bool,
    endpoint: Endpoint,
    etag: EntityTag,
    /// The header lines of a 304, to a client that knows the entity tag.
    not_modified: Box<[u8]>,
    /// The response to all others, if one of them has asked.
    whole: Option<WholeResponse>,
    bytes: usize,
    /// Whether it was sent since another target was requested twice in a row.
    used: bool,
}

/// A 200.
#[derive(Debug)]
struct WholeResponse {
    gzip: bool,
    lines: Box<[u8]>,
    body: Bytes,
}

impl WorkerCache {
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> WorkerCache {
        WorkerCache {
            table: RefCell::default(),
            hasher: RandomState::new(),
            bytes_max,
        }
    }

    /// Returns the response to a GET of a target, from the snapshot of a generation. `knows` tells
    /// whether the client has the body with an entity tag.
    pub(crate) fn get(
        &self,
        form: TargetForm<'_>,
        generation: u64,
        knows: impl FnOnce(&EntityTag) -> bool,
    ) -> Option<(Endpoint, ApiResponse)> {
        let hash = self.hasher.hash_one(form);
        let at = usize::try_from(hash % SLOTS as u64).expect("below a usize");
        let mut table = self.table(generation);
        let slot = &mut table.slots[at];
        let was_used = match &mut slot.entry {
            Some(entry) if entry.form() == form => {
                if let Some(response) = entry.response(knows(&entry.etag)) {
                    entry.used = true;
                    return Some((entry.endpoint, response));
                }
                false
            }
            Some(entry) => std::mem::take(&mut entry.used),
            None => false,
        };
        let again = std::mem::replace(&mut slot.requested, hash) == hash;
        table.wanted = (again && !was_used).then_some(at);
        None
    }

    /// Caches the response to the target that was not found last, if it is requested often and
    /// short.
    pub(crate) fn put(
        &self,
        form: TargetForm<'_>,
        generation: u64,
        endpoint: Endpoint,
        found: &Encoded,
    ) {
        let (path, query, accepts_gzip) = form;
        let mut table = self.table(generation);
        let Some(at) = table.wanted.take() else {
            return;
        };
        let lines = |is_known| -> Box<[u8]> {
            let found = found.clone();
            let response = ApiResponse::cacheable(is_known, found, &[CACHED_A_MINUTE], JSON);
            Box::from(response.lines.as_slice())
        };
        let not_modified = lines(true);
        let whole = match &found.content {
            Content::Whole(body) => Some(WholeResponse {
                gzip: found.gzip,
                lines: lines(false),
                body: Bytes::from_owner(body.clone()),
            }),
            Content::Omitted(_) => None,
            Content::Long(_) => return,
        };
        let sizes = |whole: &WholeResponse| (whole.body.len(), whole.lines.len());
        let (body_bytes, line_bytes) = whole.as_ref().map_or((0, 0), sizes);
        let target_bytes = path.len() + query.map_or(0, str::len);
        if body_bytes > BODY_BYTES_MAX || target_bytes > TARGET_BYTES_MAX {
            return;
        }
        let bytes = body_bytes + line_bytes + not_modified.len() + target_bytes + ENTRY_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        table.remove(at);
        table.evict(self.bytes_max - bytes);
        table.bytes += bytes;
        table.slots[at].entry = Some(CachedEntry {
            path: path.into(),
            query: query.map(Box::from),
            accepts_gzip,
            endpoint,
            etag: found.etag,
            not_modified,
            whole,
            bytes,
            used: false,
        });
    }

    /// The table, without the responses of another snapshot.
    fn table(&self, generation: u64) -> RefMut<'_, CacheTable> {
        let mut table = self.table.borrow_mut();
        if table.generation != generation || table.slots.is_empty() {
            *table = CacheTable {
                generation,
                ..CacheTable::default()
            };
            table.slots.resize_with(SLOTS, Slot::default);
        }
        table
    }
}

impl CachedEntry {
    fn form(&self) -> TargetForm<'_> {
        (&self.path, self.query.as_deref(), self.accepts_gzip)
    }

    fn response(&self, is_known: bool) -> Option<ApiResponse> {
        if is_known {
            let status = StatusCode::NOT_MODIFIED;
            return Some(ApiResponse::with_lines(status, &self.not_modified));
        }
        let WholeResponse { gzip, lines, body } = self.whole.as_ref()?;
        let mut response = ApiResponse::with_lines(StatusCode::OK, lines);
        response.gzip = *gzip;
        response.body = ResponseBody::Whole(body.clone());
        Some(response)
    }
}

impl CacheTable {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::UnixSeconds;

    fn found(text: String) -> Encoded {
        Encoded {
            content: Content::Whole(text.into()),
            etag: EntityTag::new(UnixSeconds(0), 0, false),
            gzip: false,
            links: None,
        }
    }

    /// Requests a path; `text` is the response elsewhere. Returns whether the cache had it, and
    /// the text.
    fn request(
        cache: &WorkerCache,
        (path, gzip): (&str, bool),
        generation: u64,
        text: &str,
    ) -> (bool, Bytes) {
        let form = (path, Some("limit=2"), gzip);
        let Some((endpoint, response)) = cache.get(form, generation, |_| false) else {
            let found = found(text.to_owned());
            cache.put(form, generation, Endpoint::Creator, &found);
            return (false, text.to_owned().into());
        };
        assert_eq!(endpoint, Endpoint::Creator);
        (true, body(response))
    }

    /// The body of a 200.
    fn body(response: ApiResponse) -> Bytes {
        assert_eq!(response.status, StatusCode::OK);
        let ResponseBody::Whole(body) = response.body else {
            panic!("no body");
        };
        body
    }

    #[test]
    fn a_cached_response_is_of_the_target_the_form_and_the_snapshot_requested() {
        arbtest::arbtest(|u| {
            let bytes_max = u.int_in_range(0..=SLOTS * (ENTRY_BYTES + 60))?;
            let cache = WorkerCache::new(bytes_max);
            let mut generation = 0;
            for _ in 0..u.int_in_range(0..=2000)? {
                generation += u64::from(u.ratio(1, 200)?);
                let path = format!("/v1/creators/{}", u.int_in_range(0..=600)?);
                let gzip = u.arbitrary()?;
                let text = format!("{path} {gzip} {generation}");
                let (_, body) = request(&cache, (&path, gzip), generation, &text);
                assert_eq!(body, text);
                let table = cache.table(generation);
                let entries = table.slots.iter().filter_map(|slot| slot.entry.as_ref());
                assert_eq!(table.bytes, entries.map(|entry| entry.bytes).sum::<usize>());
                assert!(table.bytes <= bytes_max);
            }
            Ok(())
        });
    }

    #[test]
    fn targets_that_differ_in_their_query_are_different() {
        let cache = WorkerCache::new(10_000);
        let forms = [
            ("/v1", None, false),
            ("/v1", Some(""), false),
            ("/v", Some("1"), false),
        ];
        for form in forms {
            for _ in 0..2 {
                assert!(cache.get(form, 1, |_| false).is_none(), "{form:?}");
                let text = found(format!("{form:?}"));
                cache.put(form, 1, Endpoint::Index, &text);
            }
        }
        let mut hits = 0;
        for form in forms {
            // Two of them may have one slot.
            let Some((_, response)) = cache.get(form, 1, |_| false) else {
                continue;
            };
            assert_eq!(body(response), format!("{form:?}"));
            hits += 1;
        }
        assert!(hits > 0);
    }

    #[test]
    fn a_target_that_is_requested_again_and_again_is_looked_up_twice() {
        let cache = WorkerCache::new(10_000);
        let hits: Vec<bool> = (0..100)
            .map(|_| request(&cache, ("/v1", false), 7, "x").0)
            .collect();
        assert_eq!(hits[..2], [false, false]);
        assert!(hits[2..].iter().all(|hit| *hit));
    }

    #[test]
    fn a_response_without_content_is_for_clients_that_know_it_until_another_asks() {
        let cache = WorkerCache::new(10_000);
        let form = ("/v1", None, false);
        let whole = found("x".to_owned());
        let bare = Encoded {
            content: Content::Omitted(None),
            ..whole.clone()
        };
        let get = |knows: bool| {
            let response = cache.get(form, 1, |etag| knows && *etag == whole.etag);
            response.map(|(_, response)| response.status.as_u16())
        };
        for _ in 0..2 {
            assert_eq!(get(true), None);
            cache.put(form, 1, Endpoint::Index, &bare);
        }
        assert_eq!(get(true), Some(304));
        assert_eq!(get(false), None);
        cache.put(form, 1, Endpoint::Index, &whole);
        assert_eq!((get(false), get(true)), (Some(200), Some(304)));
    }

    #[test]
    fn long_targets_and_long_bodies_are_not_cached() {
        let cache = WorkerCache::new(usize::MAX);
        let long_path = "x".repeat(TARGET_BYTES_MAX + 1);
        let long_body = "x".repeat(BODY_BYTES_MAX + 1);
        for (path, body) in [(long_path.as_str(), "x"), ("/v1", long_body.as_str())] {
            for _ in 0..3 {
                assert!(!request(&cache, (path, false), 1, body).0);
            }
        }
    }

    #[test]
    fn a_sweep_does_not_evict_what_is_in_use() {
        for bytes_max in [usize::MAX, 20 * (ENTRY_BYTES + 10)] {
            let cache = WorkerCache::new(bytes_max);
            let mut misses = 0;
            for round in 0..20_000 {
                let hit = request(&cache, ("/v1", false), 1, "x").0;
                misses += usize::from(!hit);
                let path = format!("/v1/creators/{round}");
                for _ in 0..2 {
                    request(&cache, (&path, false), 1, "y");
                }
            }
            // Only a path with the same slot takes it, one in 256, for two requests.
            assert!(misses < 600, "{misses}");
        }
    }
}
