//! The one lookup of the snapshot: from a route to its response.

use std::sync::Arc;

use bytes::Bytes;

use super::body::{Content, Encoded, EntityTag, Found, ReadContext};
use super::error::SnapshotError;
use super::format::{BodyRef, Section};
use super::history::History;
use super::long_body::{LONG_BYTES_MIN, LongBody};
use super::read::Snapshot;
use super::response_cache::Admission;
use super::stored_body::{read_stored, to_plain};
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

impl Snapshot {
    /// Returns the body of a route under `/v1`, except health.
    pub fn get(&self, route: &Route, context: ReadContext<'_>) -> Result<Found, Missing> {
        let live = self.live.as_ref();
        let body = match route {
            Route::Index => self.index.as_ref(),
            Route::Live => live.and_then(|live| live.current.as_ref()),
            Route::Intraday => live.and_then(|live| live.intraday.as_ref()),
            _ => return self.get_cached(route, context),
        };
        let body = body.ok_or(Missing::Payload)?.choose(context.accepts_gzip);
        Ok(Found { body, links: None })
    }

    /// Returns a response that is read or made when it is requested.
    fn get_cached(&self, route: &Route, context: ReadContext<'_>) -> Result<Found, Missing> {
        let history = self.history.as_deref().ok_or(Missing::Payload)?;
        let hash = match history.cache.get(route, context) {
            Ok(found) => return Ok(found),
            Err(hash) => hash,
        };
        let (found, admission) = match route {
            Route::Islands(query) => history.island_page(query, &self.service.base_url, context),
            Route::Creators(query) => history.creator_page(query, &self.service.base_url, context),
            _ => {
                let read = history.read_body(history.find_body(route)?, context);
                let read = read.inspect_err(|error| history.corruption.record(error));
                let body = read.map_err(Missing::Damaged)?;
                (Found { body, links: None }, Admission::Immediate)
            }
        };
        let cached = (route, &found);
        history.cache.insert(hash, cached, context, admission);
        Ok(found)
    }

    /// Returns the first bytes of a body of the history, at most `bytes_max`, without verifying the
    /// rest of it.
    pub fn body_start(&self, route: &Route, bytes_max: u64) -> Result<Bytes, Missing> {
        let history = self.history.as_deref().ok_or(Missing::Payload)?;
        let body = LongBody {
            storage: history.storage.clone(),
            body: history.find_body(route)?,
            gzip: false,
            corruption: Arc::clone(&history.corruption),
        };
        let mut reader = body.reader();
        let bytes = usize::try_from(reader.left().min(bytes_max)).unwrap_or(usize::MAX);
        reader.fill(vec![0; bytes]).map_err(Missing::Damaged)
    }

    /// Returns `true` if the response to a route has a body so long that it is sent in pieces. All
    /// others are short, or in memory once for all clients.
    pub fn is_long(&self, route: &Route, context: ReadContext<'_>) -> bool {
        self.history.as_ref().is_some_and(|history| {
            history.find_body(route).is_ok_and(|body| {
                let gzip = context.accepts_gzip && body.has_gzip();
                body.bytes(gzip) >= LONG_BYTES_MIN
                    && (context.needs_content)(&history.body_tag(body, gzip))
            })
        })
    }
}

impl History {
    fn find_body(&self, route: &Route) -> Result<BodyRef, Missing> {
        let island = |code| self.find_island(code).ok_or(Missing::Island);
        let day = |day: &DayRef| {
            let at = match day {
                DayRef::Latest => self.days.len().checked_sub(1),
                DayRef::Day(day) => self.days.binary_search(day).ok(),
                DayRef::NoSuchDay(_) => None,
            };
            at.ok_or(Missing::Day)
        };
        let (section, at) = match route {
            Route::Island(code) => (Section::IslandBodies, island(*code)?),
            Route::IslandCcu(code) => (Section::CcuBodies, island(*code)?),
            Route::Creator(slug) => {
                let creator = self.find_creator(slug).ok_or(Missing::Creator)?;
                (Section::CreatorBodies, creator)
            }
            Route::Ranking(date) => (Section::RankingBodies, day(date)?),
            Route::New(date) => (Section::NewBodies, day(date)?),
            Route::RankingDays => (Section::FixedBodies, 0),
            Route::NewDays => (Section::FixedBodies, 1),
            Route::Index
            | Route::Health
            | Route::Islands(_)
            | Route::Creators(_)
            | Route::Live
            | Route::Intraday
            | Route::Site(_) => return Err(Missing::Payload),
        };
        let records = &self.bodies[section as usize - Section::IslandBodies as usize];
        Ok(BodyRef::from_record(&records[at]))
    }

    fn body_tag(&self, body: BodyRef, gzip: bool) -> EntityTag {
        EntityTag::new(self.stamp.published, body.plain_crc, gzip)
    }

    /// Reads a body in the form that the client accepts. A damaged body is never cached, and read
    /// again when it is requested again.
    fn read_body(&self, body: BodyRef, context: ReadContext<'_>) -> Result<Encoded, SnapshotError> {
        let gzip = context.accepts_gzip && body.has_gzip();
        let etag = self.body_tag(body, gzip);
        let sent = if !(context.needs_content)(&etag) {
            Content::Omitted(Some(body.bytes(gzip).into()))
        } else if body.bytes(gzip) >= LONG_BYTES_MIN {
            Content::Long(LongBody {
                storage: self.storage.clone(),
                body,
                gzip,
                corruption: Arc::clone(&self.corruption),
            })
        } else {
            let stored = read_stored(&self.storage, body)?;
            Content::Whole(if gzip {
                stored
            } else {
                to_plain(body, stored)?
            })
        };
        Ok(Encoded {
            content: sent,
            etag,
            gzip,
        })
    }

    /// Reads every body and verifies both its forms.
    pub(crate) fn verify_bodies(&self) -> Result<(), SnapshotError> {
        for record in self.bodies.iter().flat_map(|records| records.iter()) {
            let body = BodyRef::from_record(record);
            to_plain(body, read_stored(&self.storage, body)?)?;
        }
        Ok(())
    }
}
