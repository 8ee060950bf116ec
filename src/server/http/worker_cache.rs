//! `WorkerCache`: the responses that one worker sends most, found by route.
//!
//! The caches of a snapshot are shared by all workers: their entries are behind locks, and sending a
//! body changes its reference count. On many cores both move one cache line from core to core. The
//! entries of this cache have a reference count of their own, so nothing is written that another core
//! reads.

use ahash::RandomState;
use bytes::Bytes;

use crate::request::Route;
use crate::snapshot::{Content, Found};
use crate::sync::{Mutex, MutexGuard, lock};

/// Slots in the table, of which each route has one.
const SLOTS: usize = 256;
/// Longer bodies are not kept. They cost so much to send that counting references does not matter.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Routes with longer texts are not kept: they are searches that find nothing.
const ROUTE_BYTES_MAX: usize = 1024;
/// What an entry takes besides its body, its links and the texts of its route: blocks of the allocator.
const ENTRY_BYTES: usize = 512;

/// One worker's cache. It holds at most a given number of bytes.
#[derive(Debug)]
pub(crate) struct WorkerCache {
    // Locked only by this worker's one thread, so there is never contention.
    table: Mutex<Table>,
    hasher: RandomState,
    bytes_max: usize,
}

#[derive(Debug)]
struct Table {
    /// The snapshot that the responses are from.
    generation: u64,
    slots: Vec<Slot>,
    /// What the entries take together.
    bytes: usize,
    /// The slot at which the next search for an entry to remove begins.
    hand: usize,
}

#[derive(Debug, Default)]
struct Slot {
    entry: Option<Entry>,
    /// The hash of the last route that was requested and not found here. A route that is requested only
    /// once is never kept.
    requested: u64,
}

#[derive(Debug)]
struct Entry {
    route: Route,
    accepts_gzip: bool,
    found: Found,
    bytes: usize,
    /// Whether it was sent since another route was to have its slot.
    used: bool,
}

/// A route that is not in the cache.
#[derive(Debug)]
pub(crate) struct EmptySlot<'a> {
    cache: &'a WorkerCache,
    route: &'a Route,
    accepts_gzip: bool,
    generation: u64,
    slot: usize,
    /// Whether the route is to have the slot.
    is_wanted: bool,
}

impl WorkerCache {
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> WorkerCache {
        WorkerCache {
            table: Mutex::new(Table {
                generation: 0,
                slots: Vec::new(),
                bytes: 0,
                hand: 0,
            }),
            hasher: RandomState::new(),
            bytes_max,
        }
    }

    /// Returns the response to a route from the snapshot of a generation, or the place to put it.
    pub(crate) fn get<'a>(
        &'a self,
        (route, accepts_gzip): (&'a Route, bool),
        generation: u64,
    ) -> Result<Found, EmptySlot<'a>> {
        let hash = self.hasher.hash_one((route, accepts_gzip));
        let slot = usize::try_from(hash % SLOTS as u64).expect("below a usize");
        let mut table = self.table();
        table.turn_to(generation);
        let is_wanted = match &mut table.slots[slot].entry {
            Some(entry) if entry.accepts_gzip == accepts_gzip && entry.route == *route => {
                entry.used = true;
                return Ok(entry.found.clone());
            }
            _ => table.slots[slot].wants(hash),
        };
        Err(EmptySlot {
            cache: self,
            route,
            accepts_gzip,
            generation,
            slot,
            is_wanted,
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

impl EmptySlot<'_> {
    /// Keeps a response, if its route was requested twice in a row and its body is short.
    pub(crate) fn fill(self, found: &Found) {
        let Content::Whole(body) = &found.body.content else {
            return;
        };
        let text_bytes = self.route.text_bytes();
        if !self.is_wanted || body.len() > BODY_BYTES_MAX || text_bytes > ROUTE_BYTES_MAX {
            return;
        }
        let links = found.links.as_ref().map_or(0, Bytes::len);
        let bytes = body.len() + links + text_bytes + ENTRY_BYTES;
        if bytes > self.cache.bytes_max {
            return;
        }
        let mut table = self.cache.table();
        table.turn_to(self.generation);
        table.remove(self.slot);
        table.make_room(bytes, self.cache.bytes_max);
        table.bytes += bytes;
        table.slots[self.slot].entry = Some(Entry {
            route: self.route.clone(),
            accepts_gzip: self.accepts_gzip,
            found: Found {
                body: found.body.with_own_refcount(),
                links: found.links.clone().map(Bytes::from_owner),
            },
            bytes,
            used: false,
        });
    }
}

impl Table {
    /// Removes the responses of another snapshot.
    fn turn_to(&mut self, generation: u64) {
        if self.generation != generation || self.slots.is_empty() {
            self.generation = generation;
            self.slots.clear();
            self.slots.resize_with(SLOTS, Slot::default);
            self.bytes = 0;
        }
    }

    fn remove(&mut self, slot: usize) {
        if let Some(entry) = self.slots[slot].entry.take() {
            self.bytes -= entry.bytes;
        }
    }

    /// Removes entries, in second-chance order, until there is room for so many bytes, which an empty table
    /// has.
    fn make_room(&mut self, bytes: usize, bytes_max: usize) {
        while self.bytes + bytes > bytes_max {
            self.hand = (self.hand + 1) % SLOTS;
            let entry = self.slots[self.hand].entry.as_mut();
            let was_used = entry.is_some_and(|entry| std::mem::take(&mut entry.used));
            if !was_used {
                self.remove(self.hand);
            }
        }
    }
}

impl Slot {
    /// Whether the route with that hash is to have the slot: when it is requested twice in a row, and the
    /// slot's own route was not requested in between.
    fn wants(&mut self, hash: u64) -> bool {
        let again = std::mem::replace(&mut self.requested, hash) == hash;
        match &mut self.entry {
            Some(entry) if entry.used => {
                entry.used = false;
                false
            }
            _ => again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::request;
    use crate::snapshot::{Encoded, EntityTag};

    fn found(text: String) -> Found {
        Found {
            body: Encoded {
                content: Content::Whole(text.into()),
                etag: EntityTag::new(UnixSeconds(0), 0, false),
                gzip: false,
            },
            links: None,
        }
    }

    /// Requests a route; `text` is the response elsewhere. Returns whether the cache had it, and the text.
    fn request(
        cache: &WorkerCache,
        (route, gzip): (&Route, bool),
        generation: u64,
        text: &str,
    ) -> (bool, Bytes) {
        let (was_there, found) = match cache.get((route, gzip), generation) {
            Ok(found) => (true, found),
            Err(slot) => {
                let found = found(text.to_owned());
                slot.fill(&found);
                (false, found)
            }
        };
        (was_there, found.body.content.into_bytes().unwrap())
    }

    #[test]
    fn a_response_is_of_the_route_the_form_and_the_snapshot_requested() {
        arbtest::arbtest(|u| {
            let bytes_max = u.int_in_range(0..=SLOTS * (ENTRY_BYTES + 30))?;
            let cache = WorkerCache::new(bytes_max);
            let mut generation = 0;
            for _ in 0..u.int_in_range(0..=2000)? {
                generation += u64::from(u.ratio(1, 200)?);
                let path = format!("/v1/creators/{}", u.int_in_range(0..=600)?);
                let route = request::parse(&path, None).route.unwrap();
                let gzip = u.arbitrary()?;
                let text = format!("{path} {gzip} {generation}");
                let (_, body) = request(&cache, (&route, gzip), generation, &text);
                assert_eq!(body, text);
                let table = cache.table();
                let entries = table.slots.iter().filter_map(|slot| slot.entry.as_ref());
                assert_eq!(table.bytes, entries.map(|entry| entry.bytes).sum::<usize>());
                assert!(table.bytes <= bytes_max);
            }
            Ok(())
        });
    }

    #[test]
    fn a_route_that_is_requested_again_and_again_is_looked_up_twice() {
        let cache = WorkerCache::new(10_000);
        let hits: Vec<bool> = (0..100)
            .map(|_| request(&cache, (&Route::Index, false), 7, "x").0)
            .collect();
        assert_eq!(hits[..2], [false, false]);
        assert!(hits[2..].iter().all(|hit| *hit));
    }

    #[test]
    fn long_routes_and_long_bodies_are_not_kept() {
        let cache = WorkerCache::new(usize::MAX);
        let long_slug = Route::Creator("x".repeat(ROUTE_BYTES_MAX + 1));
        let long_body = "x".repeat(BODY_BYTES_MAX + 1);
        for (route, body) in [(&long_slug, "x"), (&Route::Index, long_body.as_str())] {
            for _ in 0..3 {
                assert!(!request(&cache, (route, false), 1, body).0);
            }
        }
    }

    #[test]
    fn a_sweep_does_not_remove_what_is_in_use() {
        for bytes_max in [usize::MAX, 20 * (ENTRY_BYTES + 10)] {
            let cache = WorkerCache::new(bytes_max);
            let mut misses = 0;
            for round in 0..20_000 {
                let hit = request(&cache, (&Route::Index, false), 1, "x").0;
                misses += usize::from(!hit);
                let route = Route::Creator(round.to_string());
                for _ in 0..2 {
                    request(&cache, (&route, false), 1, "y");
                }
            }
            // Only a route with the same slot takes it, one in 256, for two requests.
            assert!(misses < 600, "{misses}");
        }
    }
}
