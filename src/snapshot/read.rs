//! `Snapshot`: both payloads and the bodies made of the two together.

use std::sync::Arc;

use super::bodies::{plain, read_stored};
use super::body::{Body, Encoded, Packed};
use super::dumps::DumpDirectory;
use super::error::SnapshotError;
use super::file::{Section, SnapshotFile};
use super::history::{History, Stamp};
use super::identity::Identity;
use super::read_context::ReadContext;
use super::service_bodies::{self, Readiness};
use super::storage::Storage;
use super::views::BodyRef;
use crate::calendar::UnixSeconds;
use crate::model::IslandCode;
use crate::request::{DayRef, Route};
use crate::site::{self, HomeBodies};

/// The bodies of the live payload.
#[derive(Clone, Copy, Debug)]
pub(super) enum FixedLive {
    /// `/v1/live`
    Live,
    /// `/v1/live/intraday`
    Intraday,
}

/// The live payload. Its few bodies are held in memory.
#[derive(Debug)]
pub struct Live {
    identity: Identity,
    pub(super) bodies: [Option<Body>; 2],
}

impl Live {
    /// Opens the payload and reads its bodies.
    pub fn open(storage: Storage) -> Result<Live, SnapshotError> {
        let file = SnapshotFile::open(storage)?;
        let published = Stamp::open(&file)?.published;
        let refs = file.bodies(Section::FixedBodies, 2)?;
        let load = |body: BodyRef| -> Result<Option<Body>, SnapshotError> {
            if body.plain_bytes == 0 {
                return Ok(None);
            }
            let stored = read_stored(file.storage(), body)?;
            let plain = plain(body, stored.clone())?.into();
            let gzip = if body.has_gzip() {
                stored.into()
            } else {
                Vec::new()
            };
            Ok(Some(Body::new(Packed { plain, gzip }, published)))
        };
        Ok(Live {
            identity: file.identity(published),
            bodies: [load(refs.get(0))?, load(refs.get(1))?],
        })
    }

    fn published(&self) -> UnixSeconds {
        self.identity.published
    }
}

/// How much there is to answer from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Islands.
    pub islands: u64,
    /// Creators.
    pub creators: u64,
    /// Days that are held.
    pub days: u64,
    /// Answers that could not be sent, since their bytes in the history were damaged.
    pub damaged_answers: u64,
}

/// Everything the API can answer, from one publish of each payload.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) history: Option<Arc<History>>,
    pub(super) live: Option<Live>,
    pub(super) base_url: String,
    pub(super) index: Option<Body>,
    health: Body,
    pages: Vec<Body>,
    dumps: Option<Result<Arc<DumpDirectory>, SnapshotError>>,
}

impl Snapshot {
    /// Combines payloads and renders the bodies and pages that depend on both.
    pub fn new(history: Option<Arc<History>>, live: Option<Live>, base_url: &str) -> Snapshot {
        let stamp = history.as_ref().map(|history| history.stamp);
        let published = stamp
            .map(|stamp| stamp.published)
            .max(live.as_ref().map(Live::published));
        // The index describes the service: its time is that of the newest publish of any payload.
        let newest = stamp.map(|stamp| Stamp {
            published: published.unwrap_or(stamp.published),
            ..stamp
        });
        let index =
            newest.map(|stamp| Body::new(service_bodies::index(stamp, base_url), stamp.published));
        let readiness = Self::readiness_of(history.as_deref(), live.as_ref());
        let health = Body::new(
            service_bodies::health(readiness, published),
            published.unwrap_or(UnixSeconds(0)),
        );
        let mut snapshot = Snapshot {
            history,
            live,
            base_url: base_url.to_owned(),
            index,
            health,
            pages: Vec::new(),
            dumps: None,
        };
        snapshot.pages = snapshot.render_pages();
        snapshot
    }

    /// Renders the home page and the reference from API bodies.
    fn render_pages(&self) -> Vec<Body> {
        let body = |route: Route| {
            let found = self.get(&route, ReadContext::with_content(0, false));
            found.ok()?.body.content.into_bytes().ok()
        };
        let index = body(Route::Index);
        let ranking = body(Route::Ranking(DayRef::Latest));
        let intraday = body(Route::Intraday);
        let bodies = HomeBodies {
            index: index.as_deref(),
            ranking: ranking.as_deref(),
            intraday: intraday.as_deref(),
        };
        let home = site::home(bodies, &self.base_url);
        let docs = site::docs(&self.base_url, bodies.ranking);
        // Without a time, so that a page that is the same keeps its tag.
        [home, docs]
            .map(|page| Body::new(Packed::new(page.into_bytes()), UnixSeconds(0)))
            .into()
    }

    /// The same with dumps, or with what is wrong with them: they are outside the API, which answers
    /// without them too.
    #[must_use]
    pub fn with_dumps(mut self, dumps: Result<DumpDirectory, SnapshotError>) -> Snapshot {
        self.dumps = Some(dumps.map(Arc::new));
        self
    }

    /// The dumps, if there are any and they are sound.
    pub fn dumps(&self) -> Option<&Arc<DumpDirectory>> {
        self.dumps.as_ref()?.as_ref().ok()
    }

    /// What is wrong with the dumps that were published.
    pub fn dumps_fault(&self) -> Option<&SnapshotError> {
        self.dumps.as_ref()?.as_ref().err()
    }

    fn readiness_of(history: Option<&History>, live: Option<&Live>) -> Readiness {
        let days = history.is_some_and(|history| !history.days().is_empty());
        let fixed = |at: FixedLive| live.is_some_and(|live| live.bodies[at as usize].is_some());
        Readiness {
            islands: history.is_some(),
            creators: history.is_some(),
            ccu: days,
            rankings: days,
            new: days,
            live: fixed(FixedLive::Live),
            intraday: fixed(FixedLive::Intraday),
        }
    }

    /// The history payload, which another snapshot may share.
    pub fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }

    /// Which payloads are there.
    pub fn readiness(&self) -> Readiness {
        Self::readiness_of(self.history.as_deref(), self.live.as_ref())
    }

    /// The newest publish timestamp among the payloads.
    pub fn published(&self) -> Option<UnixSeconds> {
        let history = self.history.as_ref().map(|history| history.stamp.published);
        history.max(self.live.as_ref().map(Live::published))
    }

    /// How many islands, creators and days there are, and answers that could not be sent for damage.
    pub fn sizes(&self) -> Sizes {
        let history = self.history.as_deref();
        let count = |size: fn(&History) -> usize| history.map_or(0, size) as u64;
        Sizes {
            islands: count(History::island_rows),
            creators: count(History::creator_count),
            days: count(|history| history.days().len()),
            damaged_answers: history.map_or(0, |history| history.damage().count()),
        }
    }

    /// When the history and the live payload were published.
    pub fn publishes(&self) -> [Option<UnixSeconds>; 2] {
        [
            self.history.as_ref().map(|history| history.stamp.published),
            self.live.as_ref().map(Live::published),
        ]
    }

    /// What the history and the live payload are known by.
    pub fn identities(&self) -> [Option<Identity>; 2] {
        [
            self.history.as_deref().map(History::identity),
            self.live.as_ref().map(|live| live.identity),
        ]
    }

    /// Reads every body of the history and checks it against its checksum.
    pub fn verify_bodies(&self) -> Result<(), SnapshotError> {
        self.history
            .as_deref()
            .map_or(Ok(()), |history| history.bodies.verify())
    }

    /// The page at `/`.
    pub fn home_page(&self) -> &Body {
        &self.pages[0]
    }

    /// The page at `/docs`, with examples from the published data.
    pub fn docs_page(&self) -> &Body {
        &self.pages[1]
    }

    /// `/v1/health`
    pub fn health(&self, accepts_gzip: bool) -> Encoded {
        self.health.choose(accepts_gzip)
    }

    /// Whether an island of this code is published.
    pub fn tracks(&self, code: IslandCode) -> bool {
        self.history
            .as_ref()
            .is_some_and(|history| history.find_island(code).is_some())
    }
}
