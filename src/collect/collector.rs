//! The collector as a state machine: what to request next, and what a response changes.
//!
//! In: responses and the time. Out: requests, and files of the dataset. It knows no sockets and reads no
//! clock, so that tests drive simulated months.
//!
//! Order of requests: the platform's series; islands at risk; then the catalogue, the rankings and
//! live on the one hand, and the plan's other islands on the other, in turn. Until the first crawl has
//! ended, it comes before all islands.

use super::clean::Cleaned;
use super::coverage::Coverage;
use super::crawl::{Crawl, Rankings};
use super::dataset_files::Dataset;
use super::error::{CollectError, io_error};
use super::ledger::Ledger;
use super::live::{LivePass, Steps};
use super::plan::{Plan, WINDOW_DAYS, fresh_day};
use super::progress::Progress;
use super::request::Request;
use super::settings::CollectSettings;
use super::wire;
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::model::IslandCode;

/// Time after which a given-up crawl or reading of rankings begins again.
pub(super) const RETRY_SECONDS: i64 = 600;
const FULL_CRAWL_SECONDS: i64 = DAY_SECONDS;
const TOP_CRAWL_SECONDS: i64 = 3600;
pub(super) const RANKINGS_SECONDS: i64 = 3600;
/// Time for which the platform's points are requested after a start or an outage.
const PLATFORM_BACK_SECONDS: i64 = 6 * DAY_SECONDS;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Send(Request),
    /// Nothing is due now.
    Wait,
    /// Everything that was due is done; with `once` only.
    Done,
}

/// Numbers of what happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) usable: u64,
    pub(super) throttled: u64,
    pub(super) gone: u64,
    pub(super) rejected: u64,
    pub(super) broken: u64,
    /// Requests given up after several failures.
    pub(super) given_up: u64,
    /// Values that were left out because they are out of range.
    pub(super) refused: u64,
    /// Values that replaced others in `daily/`.
    pub(super) revised: u64,
    pub(super) cleaned: Cleaned,
    /// Time of the last usable response; 0 for none.
    pub(super) last_usable: i64,
    /// Time at which the last live step was written; 0 for none.
    pub(super) live_written: i64,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Collector {
    pub(super) settings: CollectSettings,
    pub(super) started: UnixSeconds,
    pub(super) dataset: Dataset,
    /// A crawl has ended, so islands.csv is written if the catalogue has changed.
    pub(super) is_catalogue_due: bool,
    /// Time at which reading the platform's series was given up.
    pub(super) platform_failed: UnixSeconds,
    /// Points of the platform that are not written yet.
    pub(super) platform_points: Vec<(UnixSeconds, u64)>,
    /// Live steps that are not written yet.
    pub(super) live_steps: Steps,
    pub(super) plan: Plan,
    pub(super) ledger: Ledger,
    pub(super) progress: Progress,
    pub(super) coverage: Coverage,
    pub(super) counts: Counts,
    pub(super) log: Vec<String>,
    pub(super) crawl: Option<Crawl>,
    pub(super) rankings: Option<Rankings>,
    pub(super) live: Option<LivePass>,
    /// Crawls and rankings do not begin before this time, after they failed.
    pub(super) not_before: UnixSeconds,
    /// The last request was of a task, not of the plan.
    was_task: bool,
    /// The request that failed last, and how often.
    pub(super) failed: Option<(Request, u32)>,
    /// With `once`: postponed islands were tried again.
    has_retried: bool,
    /// A live pass has ended since the start.
    pub(super) has_live: bool,
    pub(super) flushed: UnixSeconds,
    pub(super) synced: UnixSeconds,
    pub(super) ticked: UnixSeconds,
    /// Since when readers hold the lock of the dataset, and the last attempt to write.
    pub(super) busy: Option<(UnixSeconds, UnixSeconds)>,
    /// Number of refused values that were logged.
    pub(super) refused_logged: u64,
}

impl Collector {
    /// Opens a dataset and a state directory, both locked by the caller.
    pub(super) fn open(
        settings: CollectSettings,
        now: UnixSeconds,
    ) -> Result<Collector, CollectError> {
        let state = &*settings.state;
        let dataset = Dataset::open(&settings.dataset)?;
        let cleaned = dataset.remove_leftovers();
        cleaned.map_err(io_error("clean up", &settings.dataset))?;
        let read = Plan::read(state, now);
        let (mut plan, bytes_cut) = read.map_err(io_error("read the state directory", state))?;
        let mut log = Vec::new();
        if bytes_cut > 0 {
            log.push(format!("cut {bytes_cut} bytes, damaged or of another version, from the end of the ledger; their islands are requested again"));
        }
        let ledger = Ledger::open(state, bytes_cut);
        let ledger = ledger.map_err(io_error("write the ledger in", state))?;
        plan.forget_after(now);
        // Islands of a dataset that another program made, or of a lost ledger.
        plan.add(dataset.catalogue.keys().copied(), now);
        let read = Progress::read(state);
        let mut progress = read.map_err(io_error("read the state directory", state))?;
        progress.limit(now);
        if progress.began == 0 {
            progress.began = now.0;
        }
        let day = fresh_day(now);
        let coverage = Coverage::new(day, &dataset.day_before(day)?);
        Ok(Collector {
            settings,
            started: now,
            dataset,
            is_catalogue_due: false,
            platform_failed: UnixSeconds(0),
            platform_points: Vec::new(),
            live_steps: Steps::new(),
            plan,
            ledger,
            progress,
            coverage,
            counts: Counts::default(),
            log,
            crawl: None,
            rankings: None,
            live: None,
            not_before: UnixSeconds(0),
            was_task: false,
            failed: None,
            has_retried: false,
            has_live: false,
            flushed: now,
            synced: now,
            ticked: now,
            busy: None,
            refused_logged: 0,
        })
    }

    pub(super) fn next(&mut self, now: UnixSeconds) -> Next {
        if let Some((request, _)) = &self.failed {
            return Next::Send(request.clone());
        }
        if let Some(request) = self.platform(now) {
            return Next::Send(request);
        }
        let is_first_crawl = self.progress.full_crawl == 0;
        if is_first_crawl && let Some(request) = self.catalogue_task(now) {
            return Next::Send(request);
        }
        if let Some(code) = self.plan.next_at_risk(now) {
            return Next::Send(days_request(code, now));
        }
        // A task has at most every second request while islands are due.
        if !self.was_task
            && let Some(request) = self.task(now)
        {
            self.was_task = true;
            return Next::Send(request);
        }
        self.was_task = false;
        if let Some(code) = self.plan.next(now) {
            return Next::Send(days_request(code, now));
        }
        match self.task(now) {
            Some(request) => Next::Send(request),
            None => self.nothing_due(now),
        }
    }

    fn nothing_due(&mut self, now: UnixSeconds) -> Next {
        if !self.settings.once {
            return Next::Wait;
        }
        if !self.has_retried && self.plan.release_postponed(UnixSeconds(i64::MAX)) {
            self.has_retried = true;
            return self.next(now);
        }
        // One pass, however many steps become due meanwhile.
        let live = (!self.has_live).then(|| self.live(now)).flatten();
        live.map_or(Next::Done, Next::Send)
    }

    /// Returns the next request of the catalogue, the rankings, or live.
    fn task(&mut self, now: UnixSeconds) -> Option<Request> {
        self.catalogue_task(now).or_else(|| {
            // With `once`, live comes last: it needs the peaks of the days.
            let has_live = !self.settings.once;
            has_live.then(|| self.live(now)).flatten()
        })
    }

    fn catalogue_task(&mut self, now: UnixSeconds) -> Option<Request> {
        if let Some(crawl) = &self.crawl {
            return Some(crawl.request());
        }
        if let Some(rankings) = &self.rankings {
            return Some(rankings.request());
        }
        if now < self.not_before {
            return None;
        }
        let progress = &self.progress;
        let is_full = now.0 - progress.full_crawl >= FULL_CRAWL_SECONDS;
        if is_full || now.0 - progress.top_crawl >= TOP_CRAWL_SECONDS {
            let crawl = self.crawl.insert(Crawl::new(is_full));
            return Some(crawl.request());
        }
        if now.0 - progress.rankings >= RANKINGS_SECONDS {
            let rankings = self.rankings.insert(Rankings::default());
            return Some(rankings.request());
        }
        None
    }

    fn platform(&self, now: UnixSeconds) -> Option<Request> {
        let slot = |time: i64| time.div_euclid(wire::STEP_SECONDS);
        let last = self.progress.platform;
        let is_due = slot(now.0) > slot(last.max(self.platform_failed.0));
        // Values come up to 40 minutes late; one response holds up to a week, the rest of an outage.
        let from = (last - 2 * 3600).max(now.0 - PLATFORM_BACK_SECONDS);
        let start = |slot: i64| UnixSeconds(slot * wire::STEP_SECONDS);
        is_due.then(|| Request::Platform(start(slot(from))..start(slot(now.0) + 1)))
    }

    fn live(&mut self, now: UnixSeconds) -> Option<Request> {
        self.live.take_if(|pass| pass.is_stale(now));
        if self.live.is_none() && self.settings.live > 0 {
            let step = LivePass::due_step(now);
            if step.0 > self.progress.live_step {
                // None while no island has data.
                self.live = LivePass::new(step, self.settings.live, &self.plan);
            }
        }
        self.live.as_ref().and_then(|pass| pass.request(now))
    }

    /// Returns what a run with `--once` could not do, if anything.
    pub(super) fn missing(&self, now: UnixSeconds) -> Option<CollectError> {
        let is_old = now.0 - self.progress.full_crawl >= FULL_CRAWL_SECONDS;
        let problem = "the upstream's catalogue could not be read to the end";
        is_old.then(|| CollectError::Unavailable(problem.to_owned()))
    }
}

/// Returns the request of an island's metrics of the whole days that the upstream has.
fn days_request(code: IslandCode, now: UnixSeconds) -> Request {
    let today = UnixSeconds(now.day().end().0 - DAY_SECONDS);
    let from = UnixSeconds(today.0 - i64::from(WINDOW_DAYS) * DAY_SECONDS);
    Request::Days(code, from..today)
}
