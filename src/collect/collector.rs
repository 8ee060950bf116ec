//! The collector as a state machine: what to request next, and what a response changes.
//!
//! In: responses and the time. Out: requests, and files of the dataset. It knows no sockets and reads no
//! clock, so that tests drive simulated months.
//!
//! Order of requests: the platform's series; islands at risk; then the catalogue, the rankings and
//! live on the one hand, and the plan's other islands on the other, in turn. Until the first crawl has
//! ended, it comes before all islands.

use std::path::{Path, PathBuf};

use super::clean::Cleaned;
use super::coverage::Coverage;
use super::crawl::{Crawl, Rankings};
use super::dataset_files::{Catalogue, Dataset};
use super::day_log::DayLogs;
use super::error::{CollectError, io_error};
use super::ledger::{IslandState, Ledger};
use super::live::LivePass;
use super::plan::{Plan, PlanSizes, fresh_day};
use super::progress::Progress;
use super::reply::{RawReply, Reply, classify};
use super::request::Request;
use super::settings::PlatformSeries;
use super::wire;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::model::{IslandCode, SortField};

/// Failures in a row after which a request is given up for now.
const ATTEMPTS: u32 = 3;
/// Time after which a given-up crawl or reading of rankings begins again.
const RETRY_SECONDS: i64 = 600;
const FULL_CRAWL_SECONDS: i64 = DAY_SECONDS;
const TOP_CRAWL_SECONDS: i64 = 3600;
const RANKINGS_SECONDS: i64 = 3600;

/// What a collector is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Islands of the live snapshot.
    pub(super) live: usize,
    /// Series of the platform.
    pub(super) platform: PlatformSeries,
    /// Ends when nothing is due.
    pub(super) once: bool,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send a request.
    Send(Request),
    /// Nothing is due before this time.
    Sleep(UnixSeconds),
    /// Everything that was due is done; with `once` only.
    Done,
}

/// What a response means for the pace.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Usable,
    Throttled {
        reason: String,
        retry_after_seconds: Option<u64>,
    },
    Failed(String),
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
    /// Values out of range, left out.
    pub(super) refused: u64,
    /// Values that replaced others in `daily/`.
    pub(super) revised: u64,
    pub(super) cleaned: Cleaned,
    /// Time of the last usable response.
    pub(super) last_usable: i64,
}

/// The state of collecting.
pub(super) struct Collector {
    pub(super) options: Options,
    pub(super) state: PathBuf,
    pub(super) dataset: Dataset,
    pub(super) catalogue: Catalogue,
    /// The catalogue has changes that islands.csv lacks.
    pub(super) is_catalogue_changed: bool,
    pub(super) plan: Plan,
    pub(super) ledger: Ledger,
    pub(super) logs: DayLogs,
    pub(super) progress: Progress,
    pub(super) coverage: Coverage,
    pub(super) counts: Counts,
    pub(super) log: Vec<String>,
    crawl: Option<Crawl>,
    rankings: Option<Rankings>,
    live: Option<LivePass>,
    /// Crawls and rankings do not begin before this time, after they failed.
    not_before: UnixSeconds,
    /// The last request was of a task, not of the plan.
    was_task: bool,
    /// The request that failed last, and how often.
    failed: Option<(Request, u32)>,
    /// With `once`: postponed islands were tried again.
    has_retried: bool,
    pub(super) flushed: UnixSeconds,
    pub(super) synced: UnixSeconds,
}

impl Collector {
    /// Opens a dataset and a state directory, both locked by the caller.
    pub(super) fn open(
        dataset: &Path,
        state: &Path,
        options: Options,
        now: UnixSeconds,
    ) -> Result<Collector, CollectError> {
        let directory = dataset;
        let dataset = Dataset::open(directory).map_err(io_error("create", directory))?;
        dataset
            .remove_leftovers()
            .map_err(io_error("clean up", directory))?;
        let catalogue = dataset.catalogue()?;
        let state_error = || io_error("read the state directory", state);
        let contents = Ledger::read(state).map_err(state_error())?;
        let mut log = Vec::new();
        if contents.bytes_cut > 0 {
            let bytes = contents.bytes_cut;
            log.push(format!("cut {bytes} damaged bytes from the end of the ledger; their islands are asked again"));
        }
        let ledger = Ledger::open(state, &contents.islands)
            .map_err(io_error("write the ledger in", state))?;
        let mut plan = Plan::new(contents.islands, now);
        // Islands of a dataset that another program made, or of a lost ledger.
        for code in catalogue.keys() {
            plan.seen_before(*code, now);
        }
        let mut progress = Progress::read(state).map_err(state_error())?;
        if progress.began == 0 {
            progress.began = now.0;
        }
        let logs = DayLogs::open(state).map_err(io_error("open the state directory", state))?;
        let day = fresh_day(now);
        let coverage = Coverage::new(day, &dataset.day(UtcDay(day.0 - 1))?, &plan);
        Ok(Collector {
            options,
            state: state.to_owned(),
            dataset,
            catalogue,
            is_catalogue_changed: false,
            plan,
            ledger,
            logs,
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
            flushed: now,
            synced: now,
        })
    }

    /// Returns the next request, or when there is one.
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
        if self.options.once {
            if !self.has_retried && self.plan.release_postponed() {
                self.has_retried = true;
                return self.next(now);
            }
            if let Some(request) = self.live(now) {
                return Next::Send(request);
            }
            return Next::Done;
        }
        let after = |last: i64, seconds: i64| UnixSeconds((last + seconds).max(self.not_before.0));
        let progress = &self.progress;
        let due = [
            self.plan.next_due(now),
            after(progress.top_crawl, TOP_CRAWL_SECONDS),
            after(progress.full_crawl, FULL_CRAWL_SECONDS),
            after(progress.rankings, RANKINGS_SECONDS),
            UnixSeconds((now.0 / wire::STEP_SECONDS + 1) * wire::STEP_SECONDS),
        ];
        let first = due.into_iter().min().unwrap_or(now);
        Next::Sleep(first.max(UnixSeconds(now.0 + 1)))
    }

    /// Returns the next request of the catalogue, the rankings, or live.
    fn task(&mut self, now: UnixSeconds) -> Option<Request> {
        if let Some(request) = self.catalogue_task(now) {
            return Some(request);
        }
        // With `once`, live comes last: it needs the peaks of the days.
        if self.options.once {
            None
        } else {
            self.live(now)
        }
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
        if now.0 - progress.full_crawl >= FULL_CRAWL_SECONDS {
            let crawl = self.crawl.insert(Crawl::full());
            return Some(crawl.request());
        }
        if now.0 - progress.top_crawl >= TOP_CRAWL_SECONDS {
            let crawl = self.crawl.insert(Crawl::top());
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
        let is_due = slot(now.0) > slot(last);
        // Values come up to 40 minutes late; one response holds up to a week.
        let from = (last - 2 * 3600).max(now.0 - DAY_SECONDS);
        is_due.then(|| Request::Platform {
            from: UnixSeconds(slot(from) * wire::STEP_SECONDS),
            to: UnixSeconds((slot(now.0) + 1) * wire::STEP_SECONDS),
        })
    }

    fn live(&mut self, now: UnixSeconds) -> Option<Request> {
        if self.live.is_none() && self.options.live > 0 {
            let step = LivePass::due_step(now);
            if step.0 > self.progress.live_step {
                // None while no island has data.
                self.live = LivePass::new(step, self.options.live, &self.plan);
            }
        }
        self.live.as_ref().and_then(|pass| pass.request(now))
    }

    /// Takes the response to a request.
    pub(super) fn receive(
        &mut self,
        request: &Request,
        raw: Result<RawReply, String>,
        now: UnixSeconds,
    ) -> Result<Signal, CollectError> {
        let reply = match request {
            Request::Catalogue { .. } => self.receive_catalogue(raw, now)?,
            Request::Genres => self.receive_genres(raw, now),
            Request::Ranking { .. } => self.receive_ranking(raw, now),
            Request::Platform { .. } => self.receive_platform(raw, now)?,
            Request::Days { code, from, to } => self.receive_days(raw, *code, (*from, *to), now)?,
            Request::Steps { code, .. } => self.receive_steps(raw, *code, now)?,
        };
        let signal = match reply {
            Reply::Usable(()) => {
                self.counts.usable += 1;
                self.counts.last_usable = now.0;
                Signal::Usable
            }
            // A usable response, of an island.
            Reply::Gone => {
                self.counts.gone += 1;
                self.counts.last_usable = now.0;
                Signal::Usable
            }
            Reply::Throttled {
                reason,
                retry_after_seconds,
            } => {
                self.counts.throttled += 1;
                Signal::Throttled {
                    reason,
                    retry_after_seconds,
                }
            }
            Reply::Rejected(problem) => {
                self.counts.rejected += 1;
                Signal::Failed(problem)
            }
            Reply::Broken(problem) => {
                self.counts.broken += 1;
                Signal::Failed(problem)
            }
        };
        if signal == Signal::Usable {
            self.failed = None;
        } else {
            let before = self.failed.take().map_or(0, |(_, failures)| failures);
            if before + 1 < ATTEMPTS {
                self.failed = Some((request.clone(), before + 1));
            } else {
                self.give_up(request, now);
            }
        }
        Ok(signal)
    }

    /// Goes on without a request that failed several times in a row. It is tried again later.
    fn give_up(&mut self, request: &Request, now: UnixSeconds) {
        self.counts.given_up += 1;
        match request {
            Request::Catalogue { .. } => {
                self.crawl = None;
                self.not_before = UnixSeconds(now.0 + RETRY_SECONDS);
            }
            Request::Genres | Request::Ranking { .. } => {
                self.rankings = None;
                // Everything works without the rankings.
                self.progress.rankings = now.0 - RANKINGS_SECONDS + RETRY_SECONDS;
            }
            Request::Platform { .. } => self.progress.platform = now.0,
            Request::Days { code, .. } => self.plan.postpone(*code, now),
            Request::Steps { .. } => {
                if let Some(pass) = &mut self.live {
                    pass.skip();
                }
            }
        }
    }

    fn receive_catalogue(
        &mut self,
        raw: Result<RawReply, String>,
        now: UnixSeconds,
    ) -> Result<Reply<()>, CollectError> {
        let page = match classify(raw, wire::catalogue_page) {
            Reply::Usable(page) => page,
            other => return Ok(without_content(other)),
        };
        self.counts.cleaned.add(page.cleaned);
        for listed in page.islands {
            if let Some(state) = self.plan.seen(listed.code, now) {
                self.ledger.push(&state);
            }
            let code = listed.code;
            let old = self.catalogue.insert(code, listed);
            self.is_catalogue_changed |= old.as_ref() != self.catalogue.get(&code);
        }
        let Some(mut crawl) = self.crawl.take() else {
            return Ok(Reply::Usable(()));
        };
        match crawl.advance(page.next) {
            Ok(true) => {
                self.progress.top_crawl = now.0;
                if crawl.is_full {
                    self.progress.full_crawl = now.0;
                    let (islands, pages) = (self.catalogue.len(), crawl.pages());
                    self.log.push(format!(
                        "read the catalogue: {pages} pages; {islands} islands ever seen"
                    ));
                }
                self.save_catalogue()?;
            }
            Ok(false) => self.crawl = Some(crawl),
            Err(problem) => {
                // The crawl begins again later.
                self.not_before = UnixSeconds(now.0 + RETRY_SECONDS);
                return Ok(Reply::Broken(problem));
            }
        }
        Ok(Reply::Usable(()))
    }

    fn receive_genres(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        match classify(raw, wire::genres) {
            Reply::Usable(slugs) => {
                if let Some(rankings) = &mut self.rankings {
                    rankings.set_genres(slugs);
                }
                self.finish_rankings(now);
                Reply::Usable(())
            }
            Reply::Gone => {
                // An upstream without genres.
                self.rankings = None;
                self.progress.rankings = now.0;
                Reply::Gone
            }
            other => without_content(other),
        }
    }

    fn receive_ranking(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        let page = match classify(raw, wire::ranking_page) {
            Reply::Usable(page) => page,
            Reply::Gone => wire::RankingPage::default(),
            other => return without_content(other),
        };
        if let Some(rankings) = &mut self.rankings {
            rankings.advance(page);
        }
        self.finish_rankings(now);
        Reply::Usable(())
    }

    fn finish_rankings(&mut self, now: UnixSeconds) {
        if let Some(rankings) = self.rankings.take_if(|rankings| rankings.is_done()) {
            self.plan.set_ranks(rankings.ranks());
            self.progress.rankings = now.0;
        }
    }

    fn receive_platform(
        &mut self,
        raw: Result<RawReply, String>,
        now: UnixSeconds,
    ) -> Result<Reply<()>, CollectError> {
        let series = self.options.platform;
        let points = match classify(raw, |body| wire::platform_steps(body, series)) {
            Reply::Usable(points) => points,
            Reply::Gone => {
                self.progress.platform = now.0;
                return Ok(Reply::Gone);
            }
            other => return Ok(without_content(other)),
        };
        self.progress.platform = now.0;
        self.save_platform(&points)?;
        Ok(Reply::Usable(()))
    }

    fn receive_days(
        &mut self,
        raw: Result<RawReply, String>,
        code: IslandCode,
        (from, to): (UnixSeconds, UnixSeconds),
        now: UnixSeconds,
    ) -> Result<Reply<()>, CollectError> {
        let Some(mut state) = self.plan.state(code).copied() else {
            return Ok(Reply::Usable(()));
        };
        let reply = match classify(raw, wire::island_days) {
            Reply::Usable(answer) => {
                self.counts.refused += answer.refused;
                let range = from.day()..to.day();
                let error = || io_error("write the collected days in", &self.state);
                state.empty_responses = state.empty_responses.saturating_add(1);
                for (day, metrics) in answer.days.iter().filter(|(day, _)| range.contains(day)) {
                    self.logs.push(*day, code, metrics).map_err(error())?;
                    if state.data_day.is_none_or(|newest| *day >= newest) {
                        state.data_day = Some(*day);
                        let peak = metrics.count(SortField::PeakCcu).unwrap_or(0);
                        state.peak = u32::try_from(peak).unwrap_or(u32::MAX);
                    }
                    state.empty_responses = 0;
                }
                // The last day asked for; also yesterday, until it is asked for.
                let newest = UtcDay(fresh_day(now).0.min(to.day().0 - 1));
                state.covered = state.covered.max(Some(newest));
                state.asked_at = now;
                Reply::Usable(())
            }
            Reply::Gone => {
                state.is_gone = true;
                Reply::Gone
            }
            other => return Ok(without_content(other)),
        };
        self.record(state);
        Ok(reply)
    }

    fn record(&mut self, state: IslandState) {
        self.plan.record(state);
        self.ledger.push(&state);
        self.coverage.record(&state);
    }

    fn receive_steps(
        &mut self,
        raw: Result<RawReply, String>,
        code: IslandCode,
        now: UnixSeconds,
    ) -> Result<Reply<()>, CollectError> {
        let steps = match classify(raw, wire::island_steps) {
            Reply::Usable(steps) => steps,
            Reply::Gone => Vec::new(),
            other => return Ok(without_content(other)),
        };
        if let Some(pass) = &mut self.live {
            pass.advance(code, &steps);
        }
        if let Some(pass) = self.live.take_if(|pass| pass.is_done()) {
            self.save_live(&pass, now)?;
        }
        Ok(Reply::Usable(()))
    }

    /// Counts what is due.
    pub(super) fn sizes(&mut self, now: UnixSeconds) -> PlanSizes {
        self.plan.sizes(now)
    }
}

/// Returns the request of an island's metrics of the whole days that the upstream has.
fn days_request(code: IslandCode, now: UnixSeconds) -> Request {
    let today = UnixSeconds(now.day().end().0 - DAY_SECONDS);
    Request::Days {
        code,
        from: UnixSeconds(today.0 - i64::from(super::plan::WINDOW_DAYS) * DAY_SECONDS),
        to: today,
    }
}

/// Converts a response that is not usable.
fn without_content<T>(reply: Reply<T>) -> Reply<()> {
    match reply {
        Reply::Usable(_) => Reply::Usable(()),
        Reply::Throttled {
            reason,
            retry_after_seconds,
        } => Reply::Throttled {
            reason,
            retry_after_seconds,
        },
        Reply::Gone => Reply::Gone,
        Reply::Rejected(problem) => Reply::Rejected(problem),
        Reply::Broken(problem) => Reply::Broken(problem),
    }
}
