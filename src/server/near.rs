//! What a worker answers again and again, found by the route alone and counted by itself.
//!
//! The caches of a snapshot are shared by all workers: what is in them is behind a lock, and whoever
//! sends a body writes to the count of its owners. On many cores that sends one cache line round
//! and round. Here each worker keeps the bodies it sends most with a count of its own, so that nothing
//! is written that another core reads.

use std::sync::PoisonError;

use ahash::RandomState;
use bytes::Bytes;

use crate::request::Route;
use crate::snapshot::Encoded;
use crate::sync::{Mutex, MutexGuard};

/// Places in the table, of which each route has one.
const PLACES: usize = 256;
/// A longer body costs so much to send that counting it does not matter; with this the table keeps
/// no more than 16 MiB from being freed.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A route's answer: a body, and the links of a list page.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) body: Encoded,
    pub(crate) links: Option<Bytes>,
}

/// One worker's table.
#[derive(Debug)]
pub(crate) struct Near {
    // Taken only by this worker's one thread, so never waited for.
    table: Mutex<Table>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Table {
    /// The snapshot that the answers are of.
    generation: u64,
    places: Vec<Place>,
}

#[derive(Debug, Default)]
struct Place {
    held: Option<Held>,
    /// The hash of the route that was asked for last and is not held: what is asked for once only is
    /// never put here.
    asked: u64,
}

#[derive(Debug)]
struct Held {
    route: Route,
    accepts_gzip: bool,
    found: Found,
    /// Whether it was sent since another wanted its place.
    used: bool,
}

impl Near {
    pub(crate) fn new() -> Near {
        Near {
            table: Mutex::new(Table {
                generation: 0,
                places: Vec::new(),
            }),
            hasher: RandomState::new(),
        }
    }

    /// The answer to a route from the snapshot of a generation; `find` finds it elsewhere.
    pub(crate) fn get_or_find<E>(
        &self,
        (route, accepts_gzip): (&Route, bool),
        generation: u64,
        find: impl FnOnce() -> Result<Found, E>,
    ) -> Result<Found, E> {
        let hash = self.hasher.hash_one((route, accepts_gzip));
        let place = usize::try_from(hash % PLACES as u64).expect("below a usize");
        let is_wanted = {
            let mut table = self.table();
            table.turn_to(generation);
            let place = &mut table.places[place];
            match &mut place.held {
                Some(held) if held.accepts_gzip == accepts_gzip && held.route == *route => {
                    held.used = true;
                    return Ok(held.found.clone());
                }
                _ => place.wants(hash),
            }
        };
        let found = find()?;
        if is_wanted && found.body.bytes.len() <= BODY_BYTES_MAX {
            let mut table = self.table();
            table.turn_to(generation);
            table.places[place].held = Some(Held {
                route: route.clone(),
                accepts_gzip,
                found: Found {
                    body: found.body.counted_apart(),
                    links: found.links.clone().map(Bytes::from_owner),
                },
                used: false,
            });
        }
        Ok(found)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Forgets the answers of another snapshot.
    fn turn_to(&mut self, generation: u64) {
        if self.generation != generation || self.places.is_empty() {
            self.generation = generation;
            self.places.clear();
            self.places.resize_with(PLACES, Place::default);
        }
    }
}

impl Place {
    /// Whether the route with that hash is to have the place: when it is asked for twice in a row, and
    /// who has the place was not asked for in between.
    fn wants(&mut self, hash: u64) -> bool {
        let again = std::mem::replace(&mut self.asked, hash) == hash;
        match &mut self.held {
            Some(held) if held.used => {
                held.used = false;
                false
            }
            _ => again,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::request;
    use crate::snapshot::EntityTag;

    fn found(text: &str) -> Found {
        Found {
            body: Encoded {
                bytes: text.to_owned().into(),
                etag: EntityTag::new(UnixSeconds(0), 0, false),
                gzip: false,
            },
            links: None,
        }
    }

    /// Asks for random routes of random snapshots: the answer is always the one of the snapshot.
    #[test]
    fn an_answer_is_of_the_route_the_form_and_the_snapshot_asked_for() {
        arbtest::arbtest(|u| {
            let near = Near::new();
            let mut generation = 0;
            for _ in 0..u.int_in_range(0..=2000)? {
                generation += u64::from(u.ratio(1, 200)?);
                let path = format!("/v1/creators/{}", u.int_in_range(0..=600)?);
                let route = request::parse(&path, None).route.unwrap();
                let gzip = u.arbitrary()?;
                let text = format!("{path} {gzip} {generation}");
                let find = || Ok::<_, Infallible>(found(&text));
                let Ok(answer) = near.get_or_find((&route, gzip), generation, find);
                assert_eq!(answer.body.bytes, text);
            }
            Ok(())
        });
    }

    #[test]
    fn what_is_asked_for_again_and_again_is_found_once_more_and_then_no_more() {
        let near = Near::new();
        let mut finds = 0;
        for _ in 0..100 {
            let find = || {
                finds += 1;
                Ok::<_, Infallible>(found("x"))
            };
            let Ok(answer) = near.get_or_find((&Route::Index, false), 7, find);
            assert_eq!(answer.body.bytes, "x");
        }
        assert_eq!(finds, 2);
    }

    #[test]
    fn a_sweep_does_not_take_the_place_of_what_is_in_use() {
        let near = Near::new();
        let mut finds = 0;
        for round in 0..20_000 {
            let find = || {
                finds += 1;
                Ok::<_, Infallible>(found("x"))
            };
            let Ok(_) = near.get_or_find((&Route::Index, false), 1, find);
            let route = Route::Creator(round.to_string());
            for _ in 0..2 {
                let other = || Ok::<_, Infallible>(found("y"));
                let Ok(_) = near.get_or_find((&route, false), 1, other);
            }
        }
        // Only a route that hashes to the same place takes it, one in 256, for two requests.
        assert!(finds < 600, "{finds}");
    }
}
