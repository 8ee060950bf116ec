//! Handling of responses: changes of the plan, the catalogue and the ledger.

use std::ops::Range;

use super::collector::{Collector, RANKINGS_SECONDS, RETRY_SECONDS};
use super::ledger::Record;
use super::plan::fresh_day;
use super::reply::{RawReply, Reply, ReplyError, classify, is_answered};
use super::request::Request;
use super::wire;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{IslandCode, SortField};

/// Failures in a row after which a request is given up for now.
const ATTEMPTS: u32 = 3;

impl Collector {
    /// Takes the response to a request. Returns its class, for the pace.
    pub(super) fn receive(
        &mut self,
        request: &Request,
        raw: Result<RawReply, String>,
        now: UnixSeconds,
    ) -> Reply<()> {
        let reply = match request {
            Request::Catalogue { .. } => self.receive_catalogue(raw, now),
            Request::Genres => self.receive_genres(raw, now),
            Request::Ranking { .. } => self.receive_ranking(raw, now),
            Request::Platform(_) => self.receive_platform(raw, now),
            Request::Days(code, times) => self.receive_days(raw, *code, times, now),
            Request::Steps(code, _) => self.receive_steps(raw, *code),
        };
        let counts = &mut self.counts;
        *match &reply {
            Ok(()) => &mut counts.usable,
            Err(ReplyError::Gone) => &mut counts.gone,
            Err(ReplyError::Throttled { .. }) => &mut counts.throttled,
            Err(ReplyError::Rejected(_)) => &mut counts.rejected,
            Err(ReplyError::Broken(_)) => &mut counts.broken,
        } += 1;
        if is_answered(&reply) {
            counts.last_usable = now.0;
        }
        let is_catalogue = matches!(request, Request::Catalogue { .. });
        if is_answered(&reply) || (is_catalogue && self.crawl.is_none()) {
            self.failed = None;
        } else {
            let before = self.failed.take().map_or(0, |(_, failures)| failures);
            // With `once`, nothing can be done without the catalogue.
            if before + 1 < ATTEMPTS || (is_catalogue && self.settings.once) {
                self.failed = Some((request.clone(), before + 1));
            } else {
                self.give_up(request, now);
            }
        }
        reply
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
            Request::Platform(_) => self.platform_failed = now,
            Request::Days(code, _) => self.plan.postpone(*code, now),
            // Without its values.
            Request::Steps(code, _) => self.advance_live(*code, &[]),
        }
    }

    fn receive_catalogue(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        let page = classify(raw, wire::catalogue_page).map_err(|error| match error {
            ReplyError::Gone => ReplyError::Broken("status 404 for the catalogue".to_owned()),
            error => error,
        })?;
        self.counts.cleaned.add(page.cleaned);
        for listed in page.islands {
            if let Some(state) = self.plan.seen(listed.code, now) {
                self.ledger.push(&Record::State(state));
            }
            self.dataset.insert(listed);
        }
        let Some(mut crawl) = self.crawl.take() else {
            return Ok(());
        };
        crawl.cleaned.add(page.cleaned);
        match crawl.advance(page.next) {
            Ok(true) => {
                self.progress.top_crawl = now.0;
                if crawl.is_full {
                    self.progress.full_crawl = now.0;
                    let (islands, pages) = (self.dataset.catalogue.len(), crawl.pages);
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
                return Err(ReplyError::Broken(problem));
            }
        }
        Ok(())
    }

    fn receive_genres(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        let reply = classify(raw, wire::genres);
        if reply == Err(ReplyError::Gone) {
            // An upstream without genres.
            self.rankings = None;
            self.progress.rankings = now.0;
        }
        let slugs = reply?;
        if let Some(rankings) = &mut self.rankings {
            rankings.set_genres(slugs);
        }
        self.finish_rankings(now);
        Ok(())
    }

    fn receive_ranking(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        let page = empty_if_gone(classify(raw, wire::ranking_page))?;
        if let Some(rankings) = &mut self.rankings {
            rankings.advance(page);
        }
        self.finish_rankings(now);
        Ok(())
    }

    fn finish_rankings(&mut self, now: UnixSeconds) {
        if let Some(rankings) = self.rankings.take_if(|rankings| rankings.is_done()) {
            self.plan.set_ranks(rankings.ranks.into_iter());
            self.progress.rankings = now.0;
        }
    }

    fn receive_platform(&mut self, raw: Result<RawReply, String>, now: UnixSeconds) -> Reply<()> {
        let series = self.settings.platform;
        let reply = classify(raw, |body| wire::platform_steps(body, series));
        // If the upstream lacks the series, it is not requested again for this step either.
        if is_answered(&reply) {
            self.progress.platform = now.0;
        }
        self.platform_points.extend(reply?);
        Ok(())
    }

    fn receive_days(
        &mut self,
        raw: Result<RawReply, String>,
        code: IslandCode,
        times: &Range<UnixSeconds>,
        now: UnixSeconds,
    ) -> Reply<()> {
        let Some(mut state) = self.plan.state(code).copied() else {
            return Ok(());
        };
        let reply = classify(raw, wire::island_days);
        match &reply {
            Ok(answer) => {
                self.counts.refused += answer.refused;
                let range = times.start.day()..times.end.day();
                state.empty_responses = state.empty_responses.saturating_add(1);
                for (day, metrics) in answer.rows.range(range.clone()) {
                    self.ledger.push(&Record::Metrics(code, *day, *metrics));
                    if state.data_day.is_none_or(|newest| *day >= newest) {
                        state.data_day = Some(*day);
                        let peak = metrics.count(SortField::PeakCcu).unwrap_or(0);
                        state.peak = u32::try_from(peak).unwrap_or(u32::MAX);
                    }
                    state.empty_responses = 0;
                }
                // The last day of the request; also yesterday, until it is requested.
                let newest = UtcDay(fresh_day(now).0.min(range.end.0 - 1));
                state.covered = state.covered.max(Some(newest));
                state.requested_at = now;
            }
            Err(ReplyError::Gone) => state.is_gone = true,
            Err(_) => {}
        }
        if is_answered(&reply) {
            self.plan.record(state);
            self.ledger.push(&Record::State(state));
        }
        reply.map(drop)
    }

    fn receive_steps(&mut self, raw: Result<RawReply, String>, code: IslandCode) -> Reply<()> {
        let steps = empty_if_gone(classify(raw, wire::island_steps))?;
        self.advance_live(code, &steps);
        Ok(())
    }

    fn advance_live(&mut self, code: IslandCode, steps: &[(UnixSeconds, u64)]) {
        if let Some(pass) = &mut self.live {
            pass.advance(code, steps);
        }
        let Some(pass) = self.live.take_if(|pass| pass.is_done()) else {
            return;
        };
        self.progress.live_step = pass.step.0;
        self.has_live = true;
        for (step, players) in pass.into_steps(self.settings.once) {
            self.live_steps.entry(step).or_default().extend(players);
        }
    }
}

/// Converts a 404 to empty content.
fn empty_if_gone<T: Default>(reply: Reply<T>) -> Reply<T> {
    match reply {
        Err(ReplyError::Gone) => Ok(T::default()),
        reply => reply,
    }
}
