//! Handling of responses: changes of the plan, the catalogue, the day logs and the ledger.

use super::collector::{Collector, RANKINGS_SECONDS, RETRY_SECONDS};
use super::error::{CollectError, io_error};
use super::ledger::IslandState;
use super::reply::{RawReply, Reply, classify};
use super::request::Request;
use super::window::fresh_day;
use super::wire;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{IslandCode, SortField};

/// Failures in a row after which a request is given up for now.
const ATTEMPTS: u32 = 3;

/// Meaning of a response for the pace.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Usable,
    Throttled {
        reason: String,
        retry_after_seconds: Option<u64>,
    },
    Failed(String),
}

impl Collector {
    /// Takes the response to a request.
    pub(super) fn receive(
        &mut self,
        request: &Request,
        raw: Result<RawReply, String>,
        now: UnixSeconds,
    ) -> Result<Signal, CollectError> {
        let reply = match request {
            Request::Catalogue { .. } => self.receive_catalogue(raw, now),
            Request::Genres => self.receive_genres(raw, now),
            Request::Ranking { .. } => self.receive_ranking(raw, now),
            Request::Platform { .. } => self.receive_platform(raw, now),
            Request::Days { code, from, to } => self.receive_days(raw, *code, (*from, *to), now)?,
            Request::Steps { code, .. } => self.receive_steps(raw, *code),
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
        let is_catalogue = matches!(request, Request::Catalogue { .. });
        if signal == Signal::Usable || (is_catalogue && self.crawl.is_none()) {
            self.failed = None;
        } else {
            let before = self.failed.take().map_or(0, |(_, failures)| failures);
            // With `once`, nothing can be done without the catalogue.
            if before + 1 < ATTEMPTS || (is_catalogue && self.options.once) {
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
            Request::Platform { .. } => self.platform_failed = now,
            Request::Days { code, .. } => self.plan.postpone(*code, now),
            Request::Steps { .. } => {
                if let Some(pass) = &mut self.live {
                    pass.skip();
                }
                self.finish_live();
            }
        }
    }

    fn receive_catalogue(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        let page = match classify(raw, wire::catalogue_page) {
            Reply::Usable(page) => page,
            Reply::Gone => return Reply::Broken("status 404 for the catalogue".to_owned()),
            other => return without_content(other),
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
            return Reply::Usable(());
        };
        crawl.cleaned.add(page.cleaned);
        match crawl.advance(page.next) {
            Ok(true) => {
                self.progress.top_crawl = now.0;
                if crawl.is_full {
                    self.progress.full_crawl = now.0;
                    let (islands, pages) = (self.catalogue.len(), crawl.pages());
                    let cleaned = crawl.cleaned;
                    self.log.push(format!(
                        "read the catalogue: {pages} pages; {islands} islands ever seen{cleaned}"
                    ));
                }
                self.is_catalogue_due = true;
            }
            Ok(false) => self.crawl = Some(crawl),
            Err(problem) => {
                // The crawl begins again later.
                self.not_before = UnixSeconds(now.0 + RETRY_SECONDS);
                self.is_catalogue_due = true;
                return Reply::Broken(problem);
            }
        }
        Reply::Usable(())
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

    fn receive_platform(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        let series = self.options.platform;
        let reply = match classify(raw, |body| wire::platform_steps(body, series)) {
            Reply::Usable(points) => {
                self.platform_points.extend(points);
                Reply::Usable(())
            }
            // An upstream without the series.
            Reply::Gone => Reply::Gone,
            other => return without_content(other),
        };
        self.progress.platform = now.0;
        reply
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

    fn receive_steps(&mut self, raw: Result<RawReply, String>, code: IslandCode) -> Reply<()> {
        let steps = match classify(raw, wire::island_steps) {
            Reply::Usable(steps) => steps,
            Reply::Gone => Vec::new(),
            other => return without_content(other),
        };
        if let Some(pass) = &mut self.live {
            pass.advance(code, &steps);
        }
        self.finish_live();
        Reply::Usable(())
    }

    fn finish_live(&mut self) {
        let Some(pass) = self.live.take_if(|pass| pass.is_done()) else {
            return;
        };
        self.progress.live_step = pass.step.0;
        self.has_live = true;
        for (step, players) in pass.into_steps(self.options.once) {
            self.live_steps.entry(step).or_default().extend(players);
        }
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
