//! The one lookup of the snapshot: from a route to its response.

use super::bodies::{Bodies, Family};
use super::body::{Encoded, Found};
use super::error::SnapshotError;
use super::history::FixedHistory;
use super::read::{FixedLive, Snapshot};
use super::read_context::ReadContext;
use super::response_cache::Keep;
use crate::request::{DayRef, Route};

/// The reason why a route has no body.
#[derive(Debug)]
pub enum Missing {
    /// The payload is not published.
    Payload,
    /// The island is not tracked.
    Island,
    /// No creator has this slug.
    Creator,
    /// The day is not published.
    Day,
    /// The body is damaged.
    Damaged(SnapshotError),
}

/// A body of the history payload.
struct Stored<'a> {
    bodies: &'a Bodies,
    family: Family,
    at: usize,
}

impl Snapshot {
    /// Returns the body of a route under `/v1`, except health.
    pub fn get(&self, route: &Route, context: ReadContext<'_>) -> Result<Found, Missing> {
        let body = match route {
            Route::Index => {
                let index = self.index.as_ref().ok_or(Missing::Payload)?;
                index.choose(context.accepts_gzip)
            }
            Route::Live => self.live_body(FixedLive::Live, context)?,
            Route::Intraday => self.live_body(FixedLive::Intraday, context)?,
            _ => return self.get_cached(route, context),
        };
        Ok(Found { body, links: None })
    }

    /// Returns a response that is read or made when it is requested.
    fn get_cached(&self, route: &Route, context: ReadContext<'_>) -> Result<Found, Missing> {
        let history = self.history.as_deref().ok_or(Missing::Payload)?;
        let vacancy = match history.cache.get(route, context) {
            Ok(found) => return Ok(found),
            Err(vacancy) => vacancy,
        };
        let (found, keep) = match route {
            Route::Islands(query) => history.island_page(query, &self.base_url, context),
            Route::Creators(query) => history.creator_page(query, &self.base_url, context),
            _ => {
                let Stored { bodies, family, at } = self.stored(route)?;
                let found = bodies.get(family, at, context);
                let body = found.map_err(Missing::Damaged)?;
                (Found { body, links: None }, Keep::Always)
            }
        };
        vacancy.fill(&found, keep);
        Ok(found)
    }

    /// Whether the response to a route carries a body so long that it is sent in pieces.
    pub fn is_long(&self, route: &Route, context: ReadContext<'_>) -> bool {
        // All others are short, or in memory once for all clients.
        let stored = self.stored(route);
        stored.is_ok_and(|Stored { bodies, family, at }| bodies.is_long(family, at, context))
    }

    fn live_body(&self, which: FixedLive, context: ReadContext<'_>) -> Result<Encoded, Missing> {
        let live = self.live.as_ref().ok_or(Missing::Payload)?;
        let body = live.bodies[which as usize].as_ref();
        Ok(body.ok_or(Missing::Payload)?.choose(context.accepts_gzip))
    }

    /// Finds a body of the history payload by its route.
    fn stored(&self, route: &Route) -> Result<Stored<'_>, Missing> {
        let history = self.history.as_deref().ok_or(Missing::Payload)?;
        let island = |code| history.find_island(code).ok_or(Missing::Island);
        let day = |day: &DayRef| {
            let at = match day {
                DayRef::Latest => history.days().len().checked_sub(1),
                DayRef::Day(day) => history.find_day(*day),
                DayRef::NoSuchDay(_) => None,
            };
            at.ok_or(Missing::Day)
        };
        let (family, at) = match route {
            Route::Island(code) => (Family::Island, island(*code)?),
            Route::IslandCcu(code) => (Family::Ccu, island(*code)?),
            Route::Creator(slug) => {
                let creator = history.find_creator(slug);
                (Family::Creator, creator.ok_or(Missing::Creator)?)
            }
            Route::Ranking(date) => (Family::Ranking, day(date)?),
            Route::New(date) => (Family::New, day(date)?),
            Route::RankingDays => (Family::Fixed, FixedHistory::RankingDays as usize),
            Route::NewDays => (Family::Fixed, FixedHistory::NewDays as usize),
            Route::Index
            | Route::Health
            | Route::Islands(_)
            | Route::Creators(_)
            | Route::Live
            | Route::Intraday
            | Route::Site(_) => return Err(Missing::Payload),
        };
        let bodies = &history.bodies;
        Ok(Stored { bodies, family, at })
    }
}
