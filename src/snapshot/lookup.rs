//! The one lookup of the snapshot: from a route to its response.

use bytes::Bytes;

use super::body::{Content, Encoded, EntityTag, ReadContext};
use super::error::{Missing, SnapshotError};
use super::format::BodyRef;
use super::history::History;
use super::read::{Snapshot, has_days};
use super::response_cache::Admission;
use super::stored_body::{LongBody, SHORT_BYTES_MAX, read_stored, to_plain};
use crate::request::{DayRef, Endpoint, Route};

impl Snapshot {
    /// Returns the name of the payload that a route reads if it has not been published.
    pub fn unpublished(&self, route: &Route) -> Option<&'static str> {
        let (history, live) = (self.history.as_ref(), self.live.as_ref());
        let (is_ready, payload) = match route {
            Route::Index | Route::Islands(_) | Route::Island(_) => (history.is_some(), "islands"),
            // An island that is not tracked is 404 whether histories are published or not.
            Route::IslandCcu(code) => {
                let is_untracked = history.is_some() && !self.tracks(*code);
                (has_days(history) || is_untracked, "ccu")
            }
            Route::Creators(_) | Route::Creator(_) => (history.is_some(), "creators"),
            Route::Live => (live.is_some_and(|live| live.current.is_some()), "live"),
            Route::Intraday => (live.is_some_and(|live| live.intraday.is_some()), "intraday"),
            Route::RankingDays | Route::Ranking(_) => (has_days(history), "rankings"),
            Route::NewDays | Route::New(_) => (has_days(history), "new"),
            Route::Health | Route::Site(_) => return None,
        };
        (!is_ready).then_some(payload)
    }

    /// Returns the body of a route under `/v1`, except health.
    pub fn get(&self, route: &Route, context: ReadContext<'_>) -> Result<Encoded, Missing> {
        let live = self.live.as_ref();
        let body = match route {
            Route::Index => self.index.as_ref(),
            Route::Live => live.and_then(|live| live.current.as_ref()),
            Route::Intraday => live.and_then(|live| live.intraday.as_ref()),
            _ => return self.get_cached(route, context),
        };
        Ok(body.ok_or(Missing::Payload)?.choose(context.accepts_gzip))
    }

    /// Returns a response that is read or made when it is requested.
    fn get_cached(&self, route: &Route, context: ReadContext<'_>) -> Result<Encoded, Missing> {
        let history = self.history.as_deref().ok_or(Missing::Payload)?;
        let hash = match history.cache.get(route, context) {
            Ok(found) => return Ok(found),
            Err(hash) => hash,
        };
        let list = history.find_list(route, &self.service.base_url);
        let (found, admission) = if let Some(list) = list {
            history.list_page(&list, context)
        } else {
            (history.read(route, context)?, Admission::Immediate)
        };
        let cached = (route, &found);
        history.cache.insert(hash, cached, context, admission);
        Ok(found)
    }

    /// Returns the first bytes of a body of the history, at most `bytes_max`, without verifying the
    /// rest of it.
    pub fn body_start(&self, route: &Route, bytes_max: u64) -> Result<Bytes, Missing> {
        let history = self.history.as_deref().ok_or(Missing::Payload)?;
        let mut reader = history.long_body(history.find_body(route)?, false).reader();
        let bytes = usize::try_from(reader.left().min(bytes_max)).unwrap_or(usize::MAX);
        reader.fill(vec![0; bytes]).map_err(Missing::Damaged)
    }

    /// Returns what a page reads of a body: of one that is sent in pieces only the start.
    pub fn page_body(&self, route: &Route, client: u64) -> Result<Bytes, Missing> {
        let context = ReadContext::with_content(client, false);
        if self.is_long(route, context) {
            return self.body_start(route, SHORT_BYTES_MAX.into());
        }
        let found = self.get(route, context)?;
        let body = found.content.into_bytes().map_err(Missing::Damaged)?;
        // Those that are not sent in pieces may be long too: they are in memory.
        Ok(body.slice(..body.len().min(SHORT_BYTES_MAX as usize)))
    }

    /// Returns `true` if the response to a route has a body so long that it is sent in pieces. All
    /// others are short, or in memory once for all clients.
    pub fn is_long(&self, route: &Route, context: ReadContext<'_>) -> bool {
        self.history.as_ref().is_some_and(|history| {
            history.find_body(route).is_ok_and(|body| {
                let gzip = context.accepts_gzip && body.has_gzip();
                body.bytes(gzip) > SHORT_BYTES_MAX
                    && (context.needs_content)(&history.body_tag(body, gzip))
            })
        })
    }
}

impl History {
    fn find_body(&self, route: &Route) -> Result<BodyRef, Missing> {
        let island = |code| self.find_island(code).ok_or(Missing::NotFound);
        let day = |day: &DayRef| {
            let at = match day {
                DayRef::Latest => self.days.len().checked_sub(1),
                DayRef::Day(day) => self.days.binary_search(day).ok(),
                DayRef::NoSuchDay(_) => None,
            };
            at.ok_or(Missing::NotFound)
        };
        let creator = |slug: &str| self.find_creator(slug).ok_or(Missing::NotFound);
        let (endpoint, number) = match route {
            Route::Island(code) => (Endpoint::Island, island(*code)?),
            Route::IslandCcu(code) => (Endpoint::IslandCcu, island(*code)?),
            Route::Creator(slug) => (Endpoint::Creator, creator(slug)?),
            Route::Ranking(date) => (Endpoint::Ranking, day(date)?),
            Route::New(date) => (Endpoint::New, day(date)?),
            Route::RankingDays => (Endpoint::RankingDays, 0),
            Route::NewDays => (Endpoint::NewDays, 0),
            _ => return Err(Missing::Payload),
        };
        let place = self.body_counts.place(endpoint, number);
        let place = place.ok_or(Missing::Payload)?;
        Ok(BodyRef::from_record(&self.bodies[place]))
    }

    fn body_tag(&self, body: BodyRef, gzip: bool) -> EntityTag {
        EntityTag::new(self.identity.published, body.plain_crc, gzip)
    }

    fn long_body(&self, body: BodyRef, gzip: bool) -> LongBody {
        LongBody {
            storage: self.storage.clone(),
            body,
            gzip,
        }
    }

    /// Reads the body of a route in the form that the client accepts. A damaged body is never
    /// cached, and read again when it is requested again.
    fn read(&self, route: &Route, context: ReadContext<'_>) -> Result<Encoded, Missing> {
        let body = self.find_body(route)?;
        let gzip = context.accepts_gzip && body.has_gzip();
        let etag = self.body_tag(body, gzip);
        let sent = if !(context.needs_content)(&etag) {
            Content::Omitted(Some(body.bytes(gzip).into()))
        } else if body.bytes(gzip) > SHORT_BYTES_MAX {
            Content::Long(Box::new(self.long_body(body, gzip)))
        } else {
            let stored = read_stored(&self.storage, body);
            let form = if gzip {
                stored
            } else {
                stored.and_then(|stored| to_plain(body, stored))
            };
            Content::Whole(form.map_err(Missing::Damaged)?)
        };
        Ok(Encoded {
            content: sent,
            etag,
            gzip,
            links: None,
            next_due: None,
        })
    }

    /// Reads every body and verifies both its forms, in pieces: a body may be longer than the memory.
    pub(crate) fn verify_bodies(&self) -> Result<(), SnapshotError> {
        for record in self.bodies.iter() {
            let body = BodyRef::from_record(record);
            let mut reader = self.long_body(body, false).open()?;
            while reader.left() > 0 {
                let bytes = reader.left().min(SHORT_BYTES_MAX.into());
                reader.fill(vec![0; usize::try_from(bytes).expect("at most 512 KiB")])?;
            }
        }
        Ok(())
    }
}
