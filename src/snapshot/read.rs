//! `Snapshot`: both payloads of a published directory, and the bodies and pages made of the two
//! together.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ahash::RandomState;

use super::body::{Body, Content};
use super::dumps::DumpDirectory;
use super::error::{Missing, SnapshotError, catch_panics};
use super::file::{Identity, SnapshotFile};
use super::format::BodyRef;
use super::history::History;
use super::manifest::{Manifest, Payload};
use super::service_bodies;
use super::storage::Storage;
use super::stored_body::{SHORT_BYTES_MAX, read_stored, to_plain};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{IslandCode, SortField};
use crate::regular_file::Directory;
use crate::request::{self, DayRef};
use crate::site::{self, SiteSettings};

/// Bytes of the live bodies, in both forms: they are in memory. 300,000 islands have 30 MB.
const LIVE_BYTES_MAX: usize = 256 << 20;
/// Tags that pages offer to choose from.
const TAGS_MAX: usize = 200;

/// The live payload. Its few bodies are in memory.
#[derive(Debug)]
pub struct Live {
    identity: Identity,
    pub(super) current: Option<Body>,
    pub(super) intraday: Option<Body>,
    players: HashMap<IslandCode, u64, RandomState>,
}

impl Live {
    /// Opens the payload and reads its bodies, which may be as long as `memory_bytes`, and in any case as
    /// `LIVE_BYTES_MAX`.
    pub fn open(storage: Storage, memory_bytes: usize) -> Result<Live, SnapshotError> {
        let file = SnapshotFile::open(storage)?;
        let published = file.identity.published;
        let records = file.bodies(2)?;
        let bodies = [0, 1].map(|at: usize| BodyRef::from_record(&records[at]));
        let forms = bodies.map(|body| u64::from(body.plain_bytes) + u64::from(body.gzip_bytes));
        let (bytes, max) = (forms.iter().sum::<u64>(), memory_bytes.max(LIVE_BYTES_MAX));
        if bytes > max as u64 {
            let problem = format!("they must have at most {max} bytes in memory, got {bytes}");
            return Err(SnapshotError::malformed("the live bodies", problem));
        }
        let read = |body: BodyRef| -> Result<Option<Body>, SnapshotError> {
            if body.plain_bytes == 0 {
                return Ok(None);
            }
            let stored = read_stored(&file.storage, body)?;
            let plain = to_plain(body, stored.clone())?;
            let gzip = body.has_gzip().then_some(stored);
            let due = next_due(&plain, published);
            let body = Body::of_forms(plain, gzip, published);
            Ok(Some(match due {
                Some(due) => body.with_next_due(due),
                None => body,
            }))
        };
        let current = read(bodies[0])?;
        let body = current.as_ref().map(|body| body.choose(false).content);
        let body = body.map(Content::into_bytes).transpose()?;
        let players = site::live_players(body.as_deref().unwrap_or_default()).collect();
        Ok(Live {
            identity: file.identity,
            current,
            intraday: read(bodies[1])?,
            players,
        })
    }
}

/// All data that the API serves, from one publish of each payload.
#[derive(Debug)]
pub struct Snapshot {
    /// The history payload, which another snapshot may share.
    pub history: Option<Arc<History>>,
    pub(super) live: Option<Live>,
    /// The newest publish timestamp among the payloads.
    pub published: Option<UnixSeconds>,
    /// The body of `/v1/health`.
    pub health: Body,
    /// The tags of the most islands, by name.
    pub tags: Vec<String>,
    /// The dumps, or the reason why they cannot be used: everything else is served without them.
    pub dumps: Option<Result<Arc<DumpDirectory>, SnapshotError>>,
    pub(super) service: SiteSettings,
    pub(super) index: Option<Body>,
    pages: Vec<Body>,
}

impl Snapshot {
    /// Opens a published directory; a directory without a manifest gives an empty snapshot.
    pub fn open(
        directory: &Directory,
        memory_bytes: usize,
        service: &SiteSettings,
        current: Option<&Arc<History>>,
    ) -> Result<Snapshot, SnapshotError> {
        let manifest = Manifest::read(directory).map_err(SnapshotError::Io);
        let manifest = manifest.map_err(|error| error.in_file(&manifest_path(directory)))?;
        let manifest = manifest.unwrap_or_default();
        Snapshot::open_named((directory, &manifest), memory_bytes, service, current)
    }

    /// Opens what the manifest of a published directory names. `current` is the history in use: if the
    /// manifest still names it, it is reused with its caches, so that they survive the publish of a live
    /// payload. Damaged dumps are no error: everything else is served without them.
    pub fn open_named(
        (directory, manifest): (&Directory, &Manifest),
        memory_bytes: usize,
        service: &SiteSettings,
        current: Option<&Arc<History>>,
    ) -> Result<Snapshot, SnapshotError> {
        let history = |payload: &Payload| match current {
            Some(current) if payload.names(current.identity) => Ok(Arc::clone(current)),
            _ => {
                let open = |storage| History::open(storage, memory_bytes).map(Arc::new);
                open_payload(directory, payload, open)
            }
        };
        let open_live = |payload| {
            let open = |storage| Live::open(storage, memory_bytes);
            open_payload(directory, payload, open)
        };
        catch_panics(&manifest_path(directory), || {
            let history = manifest.history.as_ref().map(history).transpose()?;
            let live = manifest.live.as_ref().map(open_live).transpose()?;
            let mut snapshot = Snapshot::new(history, live, service);
            let dumps = manifest.dumps.as_ref();
            snapshot.dumps = dumps.map(|dumps| DumpDirectory::open(directory, dumps).map(Arc::new));
            Ok(snapshot)
        })
    }

    /// Combines payloads and renders the bodies and pages that depend on both.
    pub fn new(
        history: Option<Arc<History>>,
        live: Option<Live>,
        service: &SiteSettings,
    ) -> Snapshot {
        let flags = [
            history.is_some(),
            has_days(history.as_ref()),
            live.as_ref().is_some_and(|live| live.current.is_some()),
            live.as_ref().is_some_and(|live| live.intraday.is_some()),
        ];
        let published = history.as_ref().map(|history| history.identity.published);
        let published = published.max(live.as_ref().map(|live| live.identity.published));
        let time = published.unwrap_or(UnixSeconds(0));
        // The index describes the service: its time is that of the newest publish of any payload.
        let index = history.as_ref();
        let index = index.map(|history| service_bodies::index(time, history, &service.base_url));
        let tags = history.as_ref();
        let mut snapshot = Snapshot {
            tags: tags.map_or_else(Vec::new, |history| history.largest_tags(TAGS_MAX)),
            history,
            live,
            published,
            health: Body::new(service_bodies::health(flags, published), time),
            dumps: None,
            service: service.clone(),
            index: index.map(|index| Body::new(index, time)),
            pages: Vec::new(),
        };
        snapshot.pages = snapshot.render_pages();
        snapshot
    }

    /// Renders the home page and the reference from API bodies.
    fn render_pages(&self) -> Vec<Body> {
        let body_of = |target: &str| {
            if target == "/v1/health" {
                let health = self.health.choose(false).content.into_bytes();
                return health.ok().map(|body| body.to_vec());
            }
            let (path, query) = match target.split_once('?') {
                Some((path, query)) => (path, Some(query)),
                None => (target, None),
            };
            let route = request::parse(path, query).route.ok()?;
            // Not through the cache, which is for requests.
            let body = match self.body_start(&route, SHORT_BYTES_MAX.into()) {
                Err(Missing::Payload) => self.page_body(&route, 0),
                body => body,
            };
            Some(body.ok()?.to_vec())
        };
        let home = site::home(&self.service, &body_of);
        let docs = site::docs(&self.service, &body_of);
        // Without a time, so that an unchanged page keeps its tag.
        let page = |html: String| Body::new(html.into_bytes(), UnixSeconds(0));
        vec![page(home), page(docs)]
    }

    /// Returns the dumps, if there are any and they are valid.
    pub fn dumps(&self) -> Option<&Arc<DumpDirectory>> {
        self.dumps.as_ref()?.as_ref().ok()
    }

    /// Returns the number of rows of each kind.
    pub fn counts(&self) -> [(&'static str, usize); 3] {
        let count = |rows: fn(&History) -> usize| self.history.as_deref().map_or(0, rows);
        [
            ("islands", count(|history| history.rows.len())),
            ("creators", count(|history| history.creator_rows.len())),
            ("days", count(|history| history.days.len())),
        ]
    }

    /// Returns the identity of each payload by its name.
    pub fn identities(&self) -> [(&'static str, Option<Identity>); 2] {
        let (history, live) = (self.history.as_ref(), self.live.as_ref());
        [
            ("history", history.map(|history| history.identity)),
            ("live", live.map(|live| live.identity)),
        ]
    }

    /// Reads every body of the history and verifies both its forms.
    pub fn verify_bodies(&self) -> Result<(), SnapshotError> {
        let history = self.history.as_ref();
        history.map_or(Ok(()), |history| history.verify_bodies())
    }

    pub fn home_page(&self) -> &Body {
        &self.pages[0]
    }

    /// Returns the page at `/docs`, with examples from the published data.
    pub fn docs_page(&self) -> &Body {
        &self.pages[1]
    }

    /// Returns the players of an island in the live snapshot.
    pub fn live_players(&self, code: IslandCode) -> Option<u64> {
        self.live.as_ref()?.players.get(&code).copied()
    }

    /// Returns the place of an island in the list by peak, from 1, and the number of islands; `None` if its peak is not
    /// known.
    pub fn rank_by_peak(&self, code: IslandCode) -> Option<(u64, u64)> {
        let history = self.history.as_ref()?;
        history.rank(history.find_island(code)?, SortField::PeakCcu)
    }

    /// Returns the days before and after a day, and the first and the last day; `None` without days.
    pub fn days_around(&self, day: &DayRef) -> Option<[Option<UtcDay>; 4]> {
        let days = &self.history.as_ref()?.days;
        let [first, last] = [*days.first()?, *days.last()?];
        let day = match day {
            DayRef::Day(day) => *day,
            DayRef::Latest | DayRef::NoSuchDay(_) => last,
        };
        let before = days.partition_point(|other| *other < day);
        let after = days.partition_point(|other| *other <= day);
        let previous = before.checked_sub(1).map(|at| days[at]);
        Some([previous, days.get(after).copied(), Some(first), Some(last)])
    }

    /// Returns whether an island is published.
    pub fn tracks(&self, code: IslandCode) -> bool {
        let history = self.history.as_ref();
        history.is_some_and(|history| history.find_island(code).is_some())
    }
}

/// Returns when the step after the newest one in a live body is due: one interval after the newest step;
/// but one interval after the publish, if the newest step itself came later than that.
fn next_due(body: &[u8], published: UnixSeconds) -> Option<UnixSeconds> {
    let (step, interval) = site::newest_step(body)?;
    let after = |time: i64| UnixSeconds(time.saturating_add(interval));
    let due = after(step);
    Some(if due > published {
        due
    } else {
        after(published.0)
    })
}

/// Opens the file of a payload. It must be the one in the manifest, by its trailer: nothing else of
/// another file is read.
fn open_payload<T>(
    directory: &Directory,
    payload: &Payload,
    open: impl FnOnce(Storage) -> Result<T, SnapshotError>,
) -> Result<T, SnapshotError> {
    let opened = || {
        let storage = Storage::File(Arc::new(directory.file(&payload.file)?));
        payload.expect(Identity::read(&storage)?)?;
        open(storage)
    };
    opened().map_err(|error| error.in_file(&directory.path().join(&payload.file)))
}

fn manifest_path(directory: &Directory) -> PathBuf {
    directory.path().join(Manifest::FILE)
}

pub(super) fn has_days(history: Option<&Arc<History>>) -> bool {
    history.is_some_and(|history| !history.days.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_due_an_interval_after_the_newest_or_after_a_late_publish() {
        let live = |time: i64| {
            format!(
                r#"{{"time":{time},"resolutionSeconds":600,"players":0,"islands":[],"meta":{{}}}}"#
            )
        };
        let curve =
            |time: i64| format!(r#"{{"resolutionSeconds":600,"points":[[0,1],[{time},2]]}}"#);
        for (step, published, due) in [
            (6000, 6000, 6600),
            (6000, 6599, 6600),
            // Steps that come late, each as late as the one before it.
            (6000, 6600, 7200),
            (6000, 9000, 9600),
            // A publish with an earlier time than the step, which `--generated-at` allows.
            (6000, 0, 6600),
            (i64::MAX, 0, i64::MAX),
        ] {
            for body in [live(step), curve(step)] {
                let found = next_due(body.as_bytes(), UnixSeconds(published));
                assert_eq!(found, Some(UnixSeconds(due)), "{body} {published}");
            }
        }
        assert_eq!(next_due(b"{\"points\":[]}", UnixSeconds(5)), None);
    }
}
