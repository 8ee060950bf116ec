//! The one lookup of the snapshot: from a route to its response, found and then read.

use bytes::Bytes;

use super::body::{Content, Encoded, EntityTag};
use super::error::{Missing, SnapshotError};
use super::format::BodyRef;
use super::history::History;
use super::layout::Per;
use super::list_page::ListPage;
use super::read::Snapshot;
use super::stored_body::{SHORT_BYTES_MAX, StoredBody};
use crate::request::{Argument, DayRef, Payload, Route, Source};

/// The response to a route, which is not read yet.
#[derive(Debug)]
pub struct Found<'a> {
    pub etag: EntityTag,
    place: Place<'a>,
}

#[derive(Debug)]
enum Place<'a> {
    Memory(&'a Encoded),
    Stored(StoredBody),
    List(ListPage<'a>),
}

impl Snapshot {
    pub(super) fn has(&self, payload: Payload) -> bool {
        let (history, live) = (self.history.as_ref(), self.live.as_ref());
        match payload {
            Payload::Islands | Payload::Creators => history.is_some(),
            Payload::Ccu | Payload::Rankings | Payload::New => {
                history.is_some_and(|history| !history.days.is_empty())
            }
            Payload::Live => live.is_some_and(|live| live.current.is_some()),
            Payload::Intraday => live.is_some_and(|live| live.intraday.is_some()),
        }
    }

    /// Finds the response to a route under `/v1`, or to one of a page or file in memory, in the form that the client
    /// accepts.
    pub fn find<'a>(&'a self, route: &'a Route, accepts_gzip: bool) -> Result<Found<'a>, Missing> {
        if let Some(body) = self.in_memory(route.endpoint) {
            let body = body.choose(accepts_gzip);
            let (etag, place) = (body.etag, Place::Memory(body));
            return Ok(Found { etag, place });
        }
        let Some(Source::Published(payload)) = route.endpoint.source() else {
            return Err(Missing::NotFound);
        };
        if !self.has(payload) {
            return Err(match route.argument {
                // An island that is not tracked is 404 whether histories are published or not.
                Argument::Code(code) if self.history.is_some() && !self.tracks(code) => {
                    Missing::NotFound
                }
                _ => Missing::Payload(payload),
            });
        }
        let history = self.history.as_deref().ok_or(Missing::Payload(payload))?;
        let identity = history.identity;
        if let Argument::Islands(query) | Argument::Creators(query) = &route.argument {
            let etag = history.list_tags[usize::from(accepts_gzip)];
            let place = Place::List(ListPage {
                history,
                endpoint: route.endpoint,
                query,
                base_url: &self.service.base_url,
                accepts_gzip,
            });
            return Ok(Found { etag, place });
        }
        let body = history.find_body(route).ok_or(Missing::NotFound)?;
        let gzip = accepts_gzip && body.has_gzip();
        let etag = EntityTag::new(identity.published, body.plain_crc, gzip);
        let place = Place::Stored(history.stored(body, gzip));
        Ok(Found { etag, place })
    }
}

impl Found<'_> {
    /// Returns `true` if the body is so long that it is sent in pieces. All others are short, or in memory once for all
    /// clients.
    pub fn is_long(&self) -> bool {
        matches!(&self.place, Place::Stored(body) if body.bytes() > SHORT_BYTES_MAX.into())
    }

    /// Reads the response; if no content is needed, as for HEAD and 304, only its length, which is not known of a page
    /// that would be compressed. A damaged body is never cached, and read again when it is requested again.
    pub fn read(self, needs_content: bool) -> Result<Encoded, SnapshotError> {
        let is_long = self.is_long();
        let body = match self.place {
            Place::Memory(body) => return Ok(body.clone()),
            Place::List(list) => return Ok(list.read(self.etag, needs_content)),
            Place::Stored(body) => body,
        };
        let gzip = body.gzip;
        let content = if !needs_content {
            Content::Omitted(Some(body.bytes()))
        } else if is_long {
            Content::Long(Box::new(body))
        } else {
            Content::Whole(body.read()?)
        };
        Ok(Encoded {
            is_costly: true,
            ..Encoded::new(content, self.etag, gzip)
        })
    }

    /// Reads the first bytes of the body, at most `bytes_max`. The rest of a stored one is not verified.
    pub fn start(self, bytes_max: u32) -> Result<Bytes, SnapshotError> {
        if let Place::Stored(body) = self.place {
            let bytes = body.bytes().min(bytes_max.into());
            let bytes = usize::try_from(bytes).expect("at most u32");
            return body.reader().fill(vec![0; bytes]);
        }
        let Content::Whole(body) = self.read(true)?.content else {
            unreachable!("only stored bodies are long");
        };
        Ok(body.slice(..body.len().min(bytes_max as usize)))
    }
}

impl History {
    fn find_body(&self, route: &Route) -> Option<BodyRef> {
        let (per, first, distance) = self.body_counts.find(route.endpoint)?;
        let place = first + distance * self.number(per, &route.argument)?;
        Some(BodyRef::from_record(&self.bodies[place]))
    }

    /// Returns the number of the island, creator or day that an argument names, which is below its count. An argument of
    /// another kind names none.
    fn number(&self, per: Per, argument: &Argument) -> Option<usize> {
        match (per, argument) {
            (Per::Island, Argument::Code(code)) => self.find_island(*code),
            (Per::Creator, Argument::Slug(slug)) => self.find_creator(slug),
            (Per::Day, Argument::Day(DayRef::Latest)) => self.days.len().checked_sub(1),
            (Per::Day, Argument::Day(DayRef::Day(day))) => self.days.binary_search(day).ok(),
            (Per::File, Argument::None) => Some(0),
            _ => None,
        }
    }

    fn stored(&self, body: BodyRef, gzip: bool) -> StoredBody {
        StoredBody {
            storage: self.storage.clone(),
            body,
            gzip,
        }
    }

    /// Reads every body and verifies both its forms, in pieces: a body may be longer than the memory. `progress` receives
    /// the number of bodies done and the number of all.
    pub fn verify_bodies(
        &self,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), SnapshotError> {
        for (at, record) in self.bodies.iter().enumerate() {
            let body = BodyRef::from_record(record);
            let gzip = body.has_gzip().then_some(true);
            for gzip in gzip.into_iter().chain([false]) {
                let mut reader = self.stored(body, gzip).reader();
                while reader.left() > 0 {
                    let bytes = reader.left().min(SHORT_BYTES_MAX.into());
                    reader
                        .fill_at_open(vec![0; usize::try_from(bytes).expect("at most 512 KiB")])?;
                }
            }
            progress(at + 1, self.bodies.len());
        }
        Ok(())
    }
}
