//! The collector as a state machine: what to request next, and what a response changes.
//!
//! In: responses and the time. Out: requests, and files of the dataset. Knows no sockets, and takes the time as an
//! argument, except to read a `Retry-After` date or the dataset, so that tests drive simulated months.
//!
//! Order of requests: the platform's series; islands at risk; then the catalogue, the rankings and
//! live on the one hand, and the plan's other islands on the other, in turn. Until the first crawl has
//! ended, it comes before all islands. An endpoint that fails leaves its turn to the others.
//!
//! An island that fails is postponed. The next request is for another one: the one that was read last, which shows
//! whether the island failed or the endpoint, or the one that has waited for longest. The pause of an island grows only
//! if the requests before and after its own were answered, so that an outage postpones no island for long.

use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;

use super::catalogue::{self, Crawl, Rankings};
use super::dataset_files::{Dataset, DayRows};
use super::endpoints::{ATTEMPTS, Breaker, Breakers, Endpoint, Request};
use super::error::{CollectError, Result};
use super::live::{LivePass, Steps};
use super::plan::{self, PlanSizes};
use super::readings;
use super::rules;
use super::settings::CollectSettings;
use super::store::{self, Store, Task};
use super::wire;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::DatasetReader;
use crate::model::IslandCode;

/// Time after which a crawl or reading of rankings that was given up begins again.
pub(super) const RETRY_SECONDS: i64 = 600;
const FULL_CRAWL_SECONDS: i64 = DAY_SECONDS;
const TOP_CRAWL_SECONDS: i64 = 3600;
pub(super) const RANKINGS_SECONDS: i64 = 3600;
/// Time for which the platform's points are requested after a start or an outage.
const PLATFORM_BACK_SECONDS: i64 = 6 * DAY_SECONDS;

/// Time between log lines about one kind of fault.
const LOG_SECONDS: i64 = 3600;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Send(Request),
    /// Nothing is due now.
    Wait,
    /// Everything that was due is done; with `once` only.
    Done,
}

/// Returns the next request of a queue, if it has one. It is left out while its endpoint pauses.
type Queue = fn(&mut Collector, UnixSeconds) -> Result<Option<Request>>;

/// Numbers of what happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Islands that were left out of live steps.
    pub(super) steps_given_up: u64,
    /// Values that were left out because they are out of range.
    pub(super) refused: u64,
    /// Rows of `daily/` with values that replaced others.
    pub(super) revised: u64,
    /// Rows of the catalogue without an island's code, a title and tags.
    pub(super) skipped: u64,
    /// Time of the last usable response; 0 for none.
    pub(super) last_usable: i64,
    /// Time at which the last live step was written; 0 for none.
    pub(super) live_written: i64,
    /// Time of the newest point of platform.csv that was written; 0 for none.
    pub(super) platform_point: i64,
}

pub(super) struct Collector {
    pub(super) settings: CollectSettings,
    pub(super) started: UnixSeconds,
    pub(super) dataset: Dataset,
    pub(super) store: Rc<Store>,
    /// The state was damaged or did not belong to the dataset at the start, or since then the dataset lacked a day that
    /// this collector wrote.
    pub(super) is_state_replaced: bool,
    pub(super) endpoints: Breakers,
    /// Points of the platform that are not written yet.
    pub(super) platform_points: BTreeMap<UnixSeconds, u64>,
    /// Live steps that are not written yet.
    pub(super) live_steps: Steps,
    /// The newest whole day, and the rows of the newest file before it, read once when that day began: a file that an
    /// outage delays is written in parts. Still an older day while that file cannot be read.
    pub(super) before: (UtcDay, DayRows),
    pub(super) counts: Counts,
    pub(super) log: Vec<String>,
    /// Kinds of faults that were logged within an hour, with the times.
    pub(super) logged: BTreeMap<String, UnixSeconds>,
    pub(super) crawl: Option<Crawl>,
    pub(super) rankings: Option<Rankings>,
    pub(super) live: Option<LivePass>,
    /// Crawls do not begin before this time, after one failed.
    pub(super) not_before: UnixSeconds,
    /// Islands whose days failed since they were last read, with the failures before and after which another island was
    /// read.
    pub(super) failing_islands: BTreeMap<IslandCode, u32>,
    /// The island of the last request for days, if it failed and the request before did not.
    pub(super) suspect: Option<IslandCode>,
    /// Times of the last tick, of the last look at days and files, and of the last summary.
    pub(super) ticked: UnixSeconds,
    pub(super) looked: UnixSeconds,
    pub(super) summarized: UnixSeconds,
    /// Sizes of the plan's queues when they were last counted, and the limit of the pace, for the metrics.
    pub(super) sizes: PlanSizes,
    /// The islands with a value on the newest complete day, by metric, counted then; with `--admin` only.
    pub(super) complete_day_values: Vec<i64>,
    pub(super) rate: f64,
    /// With `once`: the upstream failed for too long, in the words of the error.
    pub(super) unavailable: Option<String>,
}

/// Opens the database, and adds the islands of the dataset. Returns whether an earlier database was set aside.
fn open_store(
    settings: &CollectSettings,
    now: UnixSeconds,
    log: &mut Vec<String>,
) -> Result<(Store, bool)> {
    let state = &*settings.state;
    let (mut store, problem) = Store::open(state)?;
    let mut is_replaced = problem.is_some();
    log.extend(problem);
    let listed = Dataset::islands(&settings.dataset)?;
    let adopt = |store: &Store| store.write(|| catalogue::adopt(store, &listed, now));
    if !adopt(&store)? {
        drop(store);
        let aside = store::set_aside(state)?.display().to_string();
        log.push(format!(
            "the state directory belongs to another dataset: {} lacks most of the islands that it wrote; the \
             database is now {aside}, and all days that the upstream has are requested again",
            settings.dataset.display()
        ));
        is_replaced = true;
        store = Store::open(state)?.0;
        adopt(&store)?;
    }
    if !listed.is_empty() && store.task(Task::FULL_CRAWL)? == 0 {
        log.push(format!(
            "the state directory has nothing about the dataset: each of {} islands is requested once, which takes \
             {:.1} hours",
            listed.len(),
            settings.hours(listed.len())
        ));
    }
    store.write(|| {
        catalogue::restrict(&store, settings.codes.as_ref(), now)?;
        if settings.once {
            readings::release_postponed(&store)?;
        }
        store.forget_after(now)
    })?;
    Ok((store, is_replaced))
}

impl Collector {
    /// Opens a dataset and a state directory, both locked by the caller.
    pub(super) fn open(settings: CollectSettings, now: UnixSeconds) -> Result<Collector> {
        let dataset = Dataset::open(&settings.dataset)?;
        // Before it is read.
        let listed = DatasetReader::ISLANDS;
        dataset.set_unchanged(listed.to_owned(), dataset.stamp(listed)?);
        let mut log = Vec::new();
        let (store, is_state_replaced) = open_store(&settings, now, &mut log)?;
        let mut collector = Collector {
            settings,
            started: now,
            store: Rc::new(store),
            is_state_replaced,
            endpoints: Breakers::default(),
            platform_points: BTreeMap::new(),
            live_steps: Steps::new(),
            before: (UtcDay(i32::MIN), DayRows::new()),
            dataset,
            counts: Counts::default(),
            log,
            logged: BTreeMap::new(),
            crawl: None,
            rankings: None,
            live: None,
            not_before: UnixSeconds(0),
            failing_islands: BTreeMap::new(),
            suspect: None,
            ticked: now,
            looked: UnixSeconds(0),
            summarized: now,
            sizes: PlanSizes::default(),
            complete_day_values: Vec::new(),
            rate: 0.0,
            unavailable: None,
        };
        collector.check_days(now)?;
        collector.count(now)?;
        Ok(collector)
    }

    /// Counts the plan's queues. The newest complete day stays where it is while an island that returned lacks days.
    pub(super) fn count(&mut self, now: UnixSeconds) -> Result<()> {
        let before = self.sizes.complete_day;
        self.sizes = plan::sizes(&self.store, now)?;
        self.sizes.complete_day = self.sizes.complete_day.max(before);
        if self.settings.admin.is_some() {
            let day = self.sizes.complete_day;
            self.complete_day_values = readings::value_counts(&self.store, day)?;
        }
        Ok(())
    }

    /// Returns what to do next: the request of the first queue whose endpoint is ready.
    pub(super) fn next(&mut self, now: UnixSeconds) -> Result<Next> {
        if self.unavailable.is_some() {
            return Ok(Next::Done);
        }
        let [catalogue, rankings, live, island]: [Queue; 4] = [
            Collector::catalogue,
            Collector::rankings,
            Collector::live,
            Collector::island,
        ];
        // While islands are due, the others have about every second request. A failed request for an island is followed
        // by an urgent one, so with a period these two could take all turns.
        let requests = self.endpoints.iter().map(Breaker::requests).sum();
        let in_turn = if plan::is_chosen(requests, 2) {
            [island, catalogue, rankings, live]
        } else if self.settings.once {
            // Live needs the peaks of the days.
            [catalogue, rankings, island, live]
        } else {
            [catalogue, rankings, live, island]
        };
        let first_crawl: Queue = |it, now| match it.store.task(Task::FULL_CRAWL)? {
            0 => it.catalogue(now),
            _ => Ok(None),
        };
        let first = [Collector::platform, first_crawl, Collector::urgent_island];
        for queue in first.into_iter().chain(in_turn) {
            let request = queue(self, now)?;
            let is_ready = |request: &Request| self.breaker(request.endpoint()).is_ready(now);
            if let Some(request) = request.filter(is_ready) {
                return Ok(Next::Send(request));
            }
        }
        let are_ready = self.endpoints.iter().all(|breaker| breaker.is_ready(now));
        let is_done = self.settings.once && !self.is_waiting(now) && are_ready;
        Ok(if is_done { Next::Done } else { Next::Wait })
    }

    pub(super) fn breaker(&self, endpoint: Endpoint) -> &Breaker {
        &self.endpoints[endpoint as usize]
    }

    /// Returns whether more may become due soon: the endpoint for days pauses, another one pauses after its first
    /// failures, or an island has attempts left.
    fn is_waiting(&self, now: UnixSeconds) -> bool {
        !self.breaker(Endpoint::Days).is_ready(now)
            || !self.endpoints.iter().all(|breaker| breaker.is_tried(now))
            || self.failing_islands.values().any(|count| *count < ATTEMPTS)
    }

    /// Opens everything again, which forgets all times in the future: nothing would be due before them. As after a
    /// start, but for live steps that are not written yet, which are not requested again.
    pub(super) fn open_again(&mut self, now: UnixSeconds) -> Result<()> {
        let mut opened = Collector::open(self.settings.clone(), now)?;
        mem::swap(&mut self.log, &mut opened.log);
        opened.log.push("the clock was set back".to_owned());
        opened.log.append(&mut self.log);
        opened.is_state_replaced |= self.is_state_replaced;
        opened.live_steps = mem::take(&mut self.live_steps);
        opened.counts.last_usable = self.counts.last_usable.min(now.0);
        *self = opened;
        Ok(())
    }

    /// Returns the request of an island that comes first: one at risk, or after a failure another one.
    fn urgent_island(&mut self, now: UnixSeconds) -> Result<Option<Request>> {
        let days = self.breaker(Endpoint::Days);
        let code = match days.failures {
            0 => plan::next_at_risk(&self.store, now)?,
            // This query reads all islands.
            _ if days.is_ready(now) => plan::next_after_failure(&self.store, days.requests(), now)?,
            _ => None,
        };
        Ok(code.map(|code| Request::Days(code, rules::window(now))))
    }

    /// Returns the request of another island that is due.
    fn island(&mut self, now: UnixSeconds) -> Result<Option<Request>> {
        let turn = self.breaker(Endpoint::Days).requests();
        let code = plan::next(&self.store, turn, now)?;
        Ok(code.map(|code| Request::Days(code, rules::window(now))))
    }

    /// Returns the next request of the catalogue.
    fn catalogue(&mut self, now: UnixSeconds) -> Result<Option<Request>> {
        if self.crawl.is_none() && now >= self.not_before {
            let since = |task| Ok::<_, CollectError>(now.0 - self.store.task(task)?);
            let is_full = since(Task::FULL_CRAWL)? >= FULL_CRAWL_SECONDS;
            let is_due = is_full || since(Task::TOP_CRAWL)? >= TOP_CRAWL_SECONDS;
            self.crawl = is_due.then(|| Crawl::new(is_full));
        }
        Ok(self.crawl.as_ref().map(Crawl::request))
    }

    /// Returns the next request of the rankings, which tell nothing about islands that no crawl has listed.
    fn rankings(&mut self, now: UnixSeconds) -> Result<Option<Request>> {
        let next = self.rankings.as_ref().and_then(Rankings::request);
        let is_due = now.0 - self.store.task(Task::RANKINGS)? >= RANKINGS_SECONDS;
        let is_first = is_due && self.store.task(Task::FULL_CRAWL)? > 0;
        Ok(next.or(is_first.then_some(Request::Genres)))
    }

    fn platform(&mut self, now: UnixSeconds) -> Result<Option<Request>> {
        let last = self.store.task(Task::PLATFORM)?;
        let to = wire::step(now.0);
        if to <= wire::step(last) || !self.breaker(Endpoint::Platform).is_ready(now) {
            return Ok(None);
        }
        // From the newest point that is written: later ones may be lost by the end of this process. Values come up to
        // 40 minutes late; one response holds up to a week, the rest of an outage.
        let written = self.dataset.platform().unwrap_or_default();
        let newest = written.last_key_value().map_or(0, |(time, _)| time.0);
        let from = (newest.min(now.0) - 2 * 3600).max(now.0 - PLATFORM_BACK_SECONDS);
        Ok(Some(Request::Platform(wire::step(from)..to)))
    }

    fn live(&mut self, now: UnixSeconds) -> Result<Option<Request>> {
        let last = self.store.task(Task::LIVE_STEP)?;
        // One pass, however many steps become due meanwhile.
        let has_live = last >= LivePass::due_step(self.started).0;
        if self.settings.once && (has_live || self.is_waiting(now)) {
            return Ok(None);
        }
        self.live.take_if(|pass| pass.is_stale(now));
        if self.live.is_none() && self.settings.live > 0 {
            let step = LivePass::due_step(now);
            if step.0 > last {
                // None while no island has data.
                let islands = plan::most_played(&self.store, self.settings.live)?;
                self.live = LivePass::new(step, islands);
            }
        }
        Ok(self.live.as_ref().and_then(|pass| pass.request(now)))
    }

    /// Logs a fault, once an hour for each kind.
    pub(super) fn log_hourly(&mut self, kind: String, line: String, now: UnixSeconds) {
        self.logged.retain(|_, at| now.0 - at.0 < LOG_SECONDS);
        self.logged.entry(kind).or_insert_with(|| {
            self.log.push(line);
            now
        });
    }

    /// Returns an error if a run with `--once` could not do something.
    pub(super) fn missing(&self, now: UnixSeconds) -> Result<()> {
        let is_old = now.0 - self.store.task(Task::FULL_CRAWL)? >= FULL_CRAWL_SECONDS;
        let islands = plan::sizes(&self.store, now)?.postponed;
        let steps = self.counts.steps_given_up;
        let problem = if let Some(problem) = &self.unavailable {
            problem.clone()
        } else if is_old {
            "the upstream's catalogue could not be read to the end, or lists far fewer islands than the last one".to_owned()
        } else if islands > 0 {
            format!("the days of {islands} islands could not be read")
        } else if steps > 0 {
            format!("the live step lacks {steps} islands, which could not be read")
        } else if self.breaker(Endpoint::Steps).is_gone() {
            "the upstream has no values for any island of the live step".to_owned()
        } else if self.breaker(Endpoint::Platform).is_gone() {
            "the upstream has no values of the platform".to_owned()
        } else {
            return Ok(());
        };
        Err(CollectError::Unavailable(problem))
    }
}

#[cfg(test)]
#[path = "collector_tests.rs"]
mod tests;
