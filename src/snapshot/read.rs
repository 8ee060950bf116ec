//! `Snapshot`: both payloads of a published directory, and the bodies and pages made of the two
//! together.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use memchr::memmem;

use super::body::Body;
use super::dumps::Dumps;
use super::error::{SnapshotError, catch_panics};
use super::file::{Identity, SnapshotFile};
use super::format::BodyRef;
use super::history::History;
use super::manifest::{Manifest, Payload};
use super::service_bodies;
use super::storage::Storage;
use super::stored_body::{SHORT_BYTES_MAX, StoredBody};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{IslandCode, SortField};
use crate::regular_file::Directory;
use crate::request::{self, Argument, DayRef, Endpoint, Route, Source};
use crate::site::{self, SiteSettings};

/// Bytes of the live bodies, in both forms: they are in memory. 300,000 islands have 30 MB.
const LIVE_BYTES_MAX: u64 = 256 << 20;
/// Tags that pages offer to choose from.
const TAGS_MAX: usize = 200;
/// Days that are looked through for new islands.
const NEW_DAYS_MAX: usize = 31;
/// Bytes at the start of a list of new islands, by which an empty one is recognized.
const NEW_START_BYTES: u32 = 64;
const NO_ISLANDS: &[u8] = b"\"islands\":[]";

/// The live payload. Its few bodies are in memory.
#[derive(Debug)]
pub struct Live {
    identity: Identity,
    pub(super) current: Option<Body>,
    pub(super) intraday: Option<Body>,
    players: HashMap<IslandCode, u64, RandomState>,
}

impl Live {
    /// Opens the payload and reads its bodies, which must have at most 256 MiB.
    pub fn open(storage: Storage) -> Result<Live, SnapshotError> {
        let file = SnapshotFile::open(storage)?;
        let published = file.identity.published;
        let records = file.bodies(2)?;
        let bodies = [0, 1].map(|at: usize| BodyRef::from_record(&records[at]));
        let forms = bodies.map(|body| u64::from(body.plain_bytes) + u64::from(body.gzip_bytes));
        let bytes: u64 = forms.iter().sum();
        if bytes > LIVE_BYTES_MAX {
            let problem =
                format!("they must have at most {LIVE_BYTES_MAX} bytes in memory, got {bytes}");
            return Err(SnapshotError::malformed("the live bodies", problem));
        }
        let mut players = HashMap::default();
        let mut read = |body: BodyRef| -> Result<Option<Body>, SnapshotError> {
            if body.plain_bytes == 0 {
                return Ok(None);
            }
            let form = |gzip| {
                let storage = file.storage.clone();
                let mut reader = StoredBody {
                    storage,
                    body,
                    gzip,
                }
                .reader();
                reader.fill_at_open(vec![0; body.bytes(gzip) as usize])
            };
            let plain = form(false)?;
            let gzip = body.has_gzip().then(|| form(true)).transpose()?;
            // The curve has none.
            players.extend(site::live_players(&plain));
            let due = next_due(&plain, published);
            Ok(Some(Body::of_forms(plain, gzip, published, due)))
        };
        let [current, intraday] = [read(bodies[0])?, read(bodies[1])?];
        Ok(Live {
            identity: file.identity,
            current,
            intraday,
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
    /// The tags of the most islands, by name.
    pub tags: Vec<String>,
    /// The dumps, or the reason why they cannot be used: everything else is served without them.
    pub dumps: Option<Result<Arc<Dumps>, SnapshotError>>,
    /// The settings of the server, with the notice of the dataset.
    pub service: Arc<SiteSettings>,
    /// The bodies in memory, by endpoint: those of the live payload, and all that is rendered when a snapshot is
    /// opened.
    bodies: Vec<Option<Body>>,
}

impl Snapshot {
    /// Opens what the manifest of a published directory names. If the manifest still names the history of the
    /// `current` snapshot, it is not opened again. Damaged dumps are no error: everything else is served without
    /// them.
    pub fn open(
        (directory, manifest): (&Directory, &Manifest),
        service: &SiteSettings,
        current: Option<&Snapshot>,
    ) -> Result<Snapshot, SnapshotError> {
        let in_use = current.and_then(|current| current.history.as_ref());
        let history = |payload: &Payload| match in_use {
            Some(current) if payload.names(current.identity) => Ok(Arc::clone(current)),
            _ => payload.open(directory, History::open).map(Arc::new),
        };
        let open_live = |payload: &Payload| payload.open(directory, Live::open);
        catch_panics(&directory.path().join(Manifest::FILE), || {
            let history = manifest.history.as_ref().map(history).transpose()?;
            let live = manifest.live.as_ref().map(open_live).transpose()?;
            let dumps = manifest.dumps.as_ref();
            let dumps = dumps.map(|dumps| Dumps::open(directory, dumps).map(Arc::new));
            Ok(Snapshot::new(history, live, dumps, service, current))
        })
    }

    /// Combines payloads and dumps, and renders the bodies and pages that depend on several of them. The fixed files
    /// are those of the `current` snapshot if they would be the same.
    pub fn new(
        history: Option<Arc<History>>,
        live: Option<Live>,
        dumps: Option<Result<Arc<Dumps>, SnapshotError>>,
        service: &SiteSettings,
        current: Option<&Snapshot>,
    ) -> Snapshot {
        let mut snapshot = Snapshot::unrendered(history, live, dumps, service);
        let same = current.filter(|current| current.service == snapshot.service);
        // In the order of the table, in which the API comes before the pages that show it.
        for endpoint in Endpoint::all() {
            let same = same.filter(|_| endpoint.source() == Some(Source::File));
            let body = match same {
                Some(same) => same.in_memory(endpoint).cloned(),
                None => snapshot.render(endpoint),
            };
            snapshot.bodies.push(body);
        }
        snapshot
    }

    /// Combines payloads and dumps, without any body in memory.
    pub fn unrendered(
        history: Option<Arc<History>>,
        live: Option<Live>,
        dumps: Option<Result<Arc<Dumps>, SnapshotError>>,
        service: &SiteSettings,
    ) -> Snapshot {
        let published = history.as_ref().map(|history| history.identity.published);
        let published = published.max(live.as_ref().map(|live| live.identity.published));
        let tags = history.as_ref();
        let notice = dumps
            .as_ref()
            .and_then(|dumps| dumps.as_ref().ok()?.notice.clone());
        let service = SiteSettings {
            notice,
            ..service.clone()
        };
        Snapshot {
            tags: tags.map_or_else(Vec::new, |history| history.largest_tags(TAGS_MAX)),
            history,
            live,
            published,
            dumps,
            service: Arc::new(service),
            bodies: Vec::new(),
        }
    }

    /// Returns the body in memory of an endpoint; `None` if it has none.
    fn render(&self, endpoint: Endpoint) -> Option<Body> {
        // The index describes the service: its time is that of the newest publish of any payload.
        let time = self.published.unwrap_or(UnixSeconds(0));
        let live = self.live.as_ref();
        let page = match endpoint {
            Endpoint::Index => {
                let history = self.history.as_ref()?;
                let index = service_bodies::index(time, history, &self.service.base_url);
                return Some(Body::new(index, time));
            }
            Endpoint::Health => {
                let health = service_bodies::health(|payload| self.has(payload), self.published);
                return Some(Body::new(health, time));
            }
            Endpoint::Live => return live?.current.clone(),
            Endpoint::Intraday => return live?.intraday.clone(),
            Endpoint::Home => site::home(&self.service, &|target| self.body_of(target)),
            Endpoint::Docs => {
                let new_day = self.newest_day_with_new_islands();
                let new_day = new_day.map(|day| day.to_string());
                site::docs(&self.service, new_day.as_deref(), &|target| {
                    self.body_of(target)
                })
            }
            _ if endpoint.source() == Some(Source::File) => {
                site::file(endpoint.label(), &self.service)
            }
            _ => return None,
        };
        // Without a time, so that an unchanged page keeps its tag.
        Some(Body::new(page.into_bytes(), UnixSeconds(0)))
    }

    /// Returns the start of the body of a target of the API.
    fn body_of(&self, target: &str) -> Option<Vec<u8>> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let route = request::parse(path, query).route.ok()?;
        let found = self.find(&route, false).ok()?;
        Some(found.start(SHORT_BYTES_MAX).ok()?.to_vec())
    }

    /// Returns the body in memory of an endpoint, if it has one.
    pub fn in_memory(&self, endpoint: Endpoint) -> Option<&Body> {
        self.bodies.get(endpoint as usize)?.as_ref()
    }

    /// Returns the dumps, if there are any and they are valid.
    pub fn dumps(&self) -> Option<&Arc<Dumps>> {
        self.dumps.as_ref()?.as_ref().ok()
    }

    /// Returns the dataset's own notice about the origin of the data.
    pub fn notice(&self) -> Option<&str> {
        self.service.notice.as_deref()
    }

    pub fn counts(&self) -> [(&'static str, usize); 3] {
        let count = |rows: fn(&History) -> usize| self.history.as_deref().map_or(0, rows);
        [
            ("islands", count(|history| history.rows.len())),
            ("creators", count(|history| history.creator_rows.len())),
            ("days", count(|history| history.days.len())),
        ]
    }

    pub fn identities(&self) -> [(&'static str, Option<Identity>); 2] {
        let (history, live) = (self.history.as_ref(), self.live.as_ref());
        [
            ("history", history.map(|history| history.identity)),
            ("live", live.map(|live| live.identity)),
        ]
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

    /// Returns the newest day on which an island was first seen, of a month of days.
    pub fn newest_day_with_new_islands(&self) -> Option<UtcDay> {
        let has_some = |day: &&UtcDay| {
            let route = Route::new(Endpoint::New, Argument::Day(DayRef::Day(**day)));
            let found = self.find(&route, false).ok();
            let body = found.and_then(|found| found.start(NEW_START_BYTES).ok());
            body.is_some_and(|body| memmem::find(&body, NO_ISLANDS).is_none())
        };
        let days = self.history.as_ref()?.days.iter().rev();
        days.take(NEW_DAYS_MAX).find(has_some).copied()
    }

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
