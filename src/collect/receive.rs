//! Handling of responses: the changes that each makes in the database, and its outcome.

use std::ops::Range;
use std::rc::Rc;

use super::catalogue::{self, Crawl, Rankings};
use super::collector::{Collector, RANKINGS_SECONDS, RETRY_SECONDS};
use super::endpoints::{ATTEMPTS, Request};
use super::error::Result;
use super::readings;
use super::reply::{Outcome, Raw, Reply, classify};
use super::rules;
use super::store::Task;
use super::wire::{self, IslandDays, Page};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::Island;
use crate::model::IslandCode;

/// Failures, over at least five minutes, that end a run with `--once`.
const MAX_FAILURES: u32 = 10;
const MAX_FAILURE_SECONDS: i64 = 300;
/// Failures of the catalogue in a row, over eleven minutes, after which a crawl begins again: its cursor may be the
/// cause.
const STUCK_FAILURES: u32 = 16;
/// Share of the islands of the last believed crawl that the next one must list, in tenths.
const BELIEVED_TENTHS: i64 = 9;

impl Collector {
    /// Takes the response to a request, in one transaction. After an error of the database nothing has changed
    /// there, and the request is due again. With `once`, a run is over if the upstream has failed for too long.
    pub(super) fn receive(
        &mut self,
        request: &Request,
        raw: Raw,
        now: UnixSeconds,
    ) -> Result<Reply> {
        let store = Rc::clone(&self.store);
        let received = store.write(|| {
            let reply = self.record(request, raw, now)?;
            let (endpoint, outcome) = (request.endpoint(), reply.outcome);
            let breaker = &mut self.endpoints[endpoint as usize];
            let pause = breaker.record(outcome, now);
            let failures = breaker.failures;
            if failures == 0 {
                self.counts.last_usable = now.0;
            } else {
                let (target, reason) = (request.target(), &reply.reason);
                let line =
                    format!("{target}: {reason}; the next attempt is in {pause} s at the earliest");
                self.log_hourly(format!("{endpoint:?} {outcome:?}"), line, now);
                self.give_up(request, reply.outcome, failures, now)?;
            }
            Ok(reply)
        });
        if received.is_err() {
            // Their pages may be lost.
            (self.crawl, self.rankings) = (None, None);
        }
        let reply = received?;
        let failures: u32 = self.endpoints.iter().map(|breaker| breaker.failures).sum();
        let since = self.counts.last_usable.max(self.started.0);
        let is_over = failures >= MAX_FAILURES && now.0 - since >= MAX_FAILURE_SECONDS;
        if self.settings.once && is_over {
            self.unavailable = Some(format!(
                "the upstream gave no usable response to {failures} requests; the last one, {}: {}",
                request.target(),
                reply.reason
            ));
        }
        Ok(reply)
    }

    /// Postpones or abandons a failed request. Requests that are not listed here stay due. `failures` are those of the
    /// endpoint in a row.
    fn give_up(
        &mut self,
        request: &Request,
        outcome: Outcome,
        failures: u32,
        now: UnixSeconds,
    ) -> Result<()> {
        match request {
            Request::Days(code, _) => {
                self.suspect = (failures == 1).then_some(*code);
                self.postpone(*code, 0, now)
            }
            Request::Steps(code, _) => {
                let pass = self.live.as_mut();
                let left_out = pass.map_or(0, |pass| pass.postpone(*code, failures));
                self.counts.steps_given_up += left_out as u64;
                self.end_live()
            }
            // A crawl goes on where it failed, unless the cause is perhaps its cursor.
            Request::Catalogue { after: Some(_) }
                if outcome == Outcome::Rejected || failures.is_multiple_of(STUCK_FAILURES) =>
            {
                self.crawl = None;
                self.not_before = UnixSeconds(now.0 + RETRY_SECONDS);
                Ok(())
            }
            // Everything works without the rankings.
            Request::Genres | Request::Ranking { .. } if failures.is_multiple_of(ATTEMPTS) => {
                self.rankings = None;
                let since = now.0 - RANKINGS_SECONDS + RETRY_SECONDS;
                self.store.set_task(Task::RANKINGS, since)
            }
            // Due until it succeeds.
            _ => Ok(()),
        }
    }

    /// Postpones an island that failed, after `confirmed` failures more than before.
    fn postpone(&mut self, code: IslandCode, confirmed: u32, now: UnixSeconds) -> Result<()> {
        let count = self.failing_islands.entry(code).or_default();
        *count = count.saturating_add(confirmed);
        let until = if self.settings.once && *count >= ATTEMPTS {
            // Not again in this run.
            now.0 + rules::LONGEST_RETRY_SECONDS
        } else {
            rules::retry_at(*count, now)
        };
        readings::postpone(&self.store, code, until, now)
    }

    fn record(&mut self, request: &Request, raw: Raw, now: UnixSeconds) -> Result<Reply> {
        match request {
            Request::Catalogue { .. } => {
                let page = classify(raw, wire::catalogue_page);
                page.map_or_else(Ok, |page| self.record_catalogue(page, now))
            }
            Request::Genres => classify(raw, wire::genres).map_or_else(Ok, |genres| {
                self.rankings = genres.map(Rankings::new);
                if self.rankings.is_some() {
                    return Ok(Outcome::Usable.into());
                }
                // An upstream without genres.
                self.store.set_task(Task::RANKINGS, now.0)?;
                Ok(Outcome::Gone.into())
            }),
            Request::Ranking { .. } => classify(raw, wire::ranking_page).map_or_else(Ok, |page| {
                if let Some(rankings) = &mut self.rankings {
                    rankings.advance(page.unwrap_or(Page::EMPTY));
                }
                let read = |rankings: &mut Rankings| rankings.request().is_none();
                if let Some(rankings) = self.rankings.take_if(read) {
                    catalogue::set_ranks(&self.store, &rankings.ranks, now)?;
                }
                Ok(Outcome::Usable.into())
            }),
            Request::Platform(times) => {
                let series = self.settings.platform;
                let points = classify(raw, |body| wire::steps(body, series, times));
                points.map_or_else(Ok, |points| {
                    // If the upstream lacks the series, it is not requested again for this step either.
                    self.store.set_task(Task::PLATFORM, now.0)?;
                    let outcome = points.as_ref().map_or(Outcome::Gone, |_| Outcome::Usable);
                    self.platform_points.extend(points.into_iter().flatten());
                    Ok(outcome.into())
                })
            }
            Request::Days(code, window) => {
                let days = classify(raw, |body| wire::island_days(body, window));
                days.map_or_else(Ok, |days| self.record_days(*code, days, window, now))
            }
            Request::Steps(code, times) => {
                let steps = classify(raw, |body| wire::steps(body, "peakCCU", times));
                steps.map_or_else(Ok, |steps| {
                    let outcome = steps.as_ref().map_or(Outcome::Gone, |_| Outcome::Usable);
                    if let Some(pass) = &mut self.live {
                        pass.advance(*code, steps.unwrap_or_default());
                    }
                    self.end_live()?;
                    Ok(outcome.into())
                })
            }
        }
    }

    fn record_days(
        &mut self,
        code: IslandCode,
        days: Option<IslandDays>,
        window: &Range<UtcDay>,
        now: UnixSeconds,
    ) -> Result<Reply> {
        if let Some(suspect) = self.suspect.take().filter(|suspect| *suspect != code) {
            self.postpone(suspect, 1, now)?;
        }
        self.failing_islands.remove(&code);
        let outcome = if let Some(days) = days {
            self.counts.refused += days.refused;
            readings::record_days(&self.store, code, &days.rows, window, now)?
        } else {
            readings::record_missing(&self.store, code, now)?
        };
        Ok(outcome.into())
    }

    fn record_catalogue(&mut self, page: Option<Page<Island>>, now: UnixSeconds) -> Result<Reply> {
        let Some(page) = page else {
            let problem = "status 404 for the catalogue".to_owned();
            return Ok(Reply::new(Outcome::Broken, problem));
        };
        catalogue::record_page(&self.store, &page.rows, self.settings.codes.as_ref(), now)?;
        self.counts.skipped += page.skipped as u64;
        let mut crawl = self.crawl.take().unwrap_or_default();
        crawl.listed += page.rows.len();
        crawl.skipped += page.skipped;
        match crawl.advance(page.next) {
            Ok(true) => return self.end_crawl(&crawl, now),
            Ok(false) => self.crawl = Some(crawl),
            Err(problem) => {
                // The crawl begins again later.
                self.not_before = UnixSeconds(now.0 + RETRY_SECONDS);
                return Ok(Reply::new(Outcome::Broken, problem));
            }
        }
        Ok(Outcome::Usable.into())
    }

    fn end_crawl(&mut self, crawl: &Crawl, now: UnixSeconds) -> Result<Reply> {
        if crawl.skipped >= crawl.listed {
            self.not_before = UnixSeconds(now.0 + RETRY_SECONDS);
            let problem = format!(
                "the catalogue lists {} islands, and {} rows without a code, a title or a list of tags",
                crawl.listed, crawl.skipped
            );
            return Ok(Reply::new(Outcome::Broken, problem));
        }
        self.store.set_task(Task::TOP_CRAWL, now.0)?;
        if !crawl.is_full {
            return Ok(Outcome::Usable.into());
        }
        let listed = i64::try_from(crawl.listed).unwrap_or(i64::MAX);
        let believed = self.store.task(Task::BELIEVED_ISLANDS)?;
        let before = self.store.task(Task::LISTED_ISLANDS)?;
        self.store.set_task(Task::LISTED_ISLANDS, listed)?;
        let is_fewer = |count: i64, than: i64| count * 10 < than * BELIEVED_TENTHS;
        let is_confirmed =
            is_fewer(before, believed) && !is_fewer(listed, before) && !is_fewer(before, listed);
        if is_fewer(listed, believed) && !is_confirmed {
            self.not_before = UnixSeconds(now.0 + RETRY_SECONDS);
            self.log.push(format!(
                "the catalogue lists {listed} islands, and the one before {believed}; it is read again in ten minutes"
            ));
            return Ok(Outcome::Doubtful.into());
        }
        self.store.set_task(Task::BELIEVED_ISLANDS, listed)?;
        self.store.set_task(Task::FULL_CRAWL, now.0)?;
        let (islands, pages) = (catalogue::count(&self.store)?, crawl.pages);
        self.log.push(format!(
            "read the catalogue: {pages} pages; {listed} islands listed, {islands} ever seen"
        ));
        let chosen = self.settings.codes.iter().flatten().copied();
        let unlisted = catalogue::unknown(&self.store, chosen)?;
        if unlisted > 0 {
            self.log.push(format!(
                "the catalogue has never listed {unlisted} of the islands of --codes; they are not collected"
            ));
        }
        Ok(Outcome::Usable.into())
    }

    /// Ends the live pass if all its islands are read.
    fn end_live(&mut self) -> Result<()> {
        let Some(pass) = self.live.take_if(|pass| pass.is_done()) else {
            return Ok(());
        };
        self.store.set_task(Task::LIVE_STEP, pass.step.0)?;
        for (step, players) in pass.into_steps(self.settings.once) {
            self.live_steps.entry(step).or_default().extend(players);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
