//! Endpoints of the upstream: a breaker and counts of outcomes for each.
//!
//! Failures of one endpoint slow down requests to that one: 2, 4 … 60 s, until one succeeds. Failures are logged
//! once an hour for each endpoint and outcome.

use super::reply::{Outcome, Reply};
use super::request::{Endpoint, Request};
use crate::calendar::UnixSeconds;

/// First and longest pause of an endpoint.
const PAUSE_SECONDS: (i64, i64) = (2, 60);
/// Time between log lines about one kind of failure of an endpoint.
const LOG_SECONDS: i64 = 3600;

#[derive(Debug, Default)]
struct Breaker {
    /// Failures in a row, and the time of the first.
    failures: u32,
    failing_since: i64,
    /// They were logged.
    is_logged: bool,
    not_before: i64,
    /// Requests by outcome, since the start and at the last summary.
    counts: [u64; Outcome::ALL.len()],
    summarized: [u64; Outcome::ALL.len()],
    /// Time of the last log line by outcome.
    logged_at: [i64; Outcome::ALL.len()],
}

#[derive(Debug, Default)]
pub(super) struct Endpoints([Breaker; Endpoint::ALL.len()]);

impl Endpoints {
    pub(super) fn is_ready(&self, endpoint: Endpoint, now: UnixSeconds) -> bool {
        now.0 >= self.0[endpoint as usize].not_before
    }

    /// Returns whether no endpoint pauses.
    pub(super) fn are_ready(&self, now: UnixSeconds) -> bool {
        self.0.iter().all(|breaker| now.0 >= breaker.not_before)
    }

    /// Records what became of a request. Returns the number of failures in a row of its endpoint, and a line for
    /// the log if one is due.
    pub(super) fn record(
        &mut self,
        request: &Request,
        reply: &Reply,
        now: UnixSeconds,
    ) -> (u32, Option<String>) {
        let (endpoint, outcome) = (request.endpoint() as usize, reply.outcome as usize);
        let breaker = &mut self.0[endpoint];
        breaker.counts[outcome] += 1;
        if !reply.outcome.is_failure() {
            breaker.not_before = 0;
            let failures = std::mem::take(&mut breaker.failures);
            let seconds = now.0 - breaker.failing_since;
            let (_, name) = Endpoint::ALL[endpoint];
            let line = format!(
                "the upstream responds again after {failures} failures of {name} in {seconds} s"
            );
            return (0, std::mem::take(&mut breaker.is_logged).then_some(line));
        }
        if breaker.failures == 0 {
            breaker.failing_since = now.0;
        }
        let (first, longest) = PAUSE_SECONDS;
        let pause = longest.min(first << breaker.failures.min(16));
        breaker.failures = breaker.failures.saturating_add(1);
        // The clock shows whole seconds.
        breaker.not_before = now.0 + pause + 1;
        let is_due = now.0 - breaker.logged_at[outcome] >= LOG_SECONDS;
        if is_due {
            breaker.logged_at[outcome] = now.0;
            breaker.is_logged = true;
        }
        let (target, reason) = (request.target(), &reply.reason);
        let line = format!("{target}: {reason}; the next attempt is in {pause} s");
        (breaker.failures, is_due.then_some(line))
    }

    /// Allows all requests now: after the clock was set back, their times lie in the future.
    pub(super) fn release(&mut self) {
        for breaker in &mut self.0 {
            breaker.not_before = 0;
            breaker.logged_at = Default::default();
        }
    }

    pub(super) fn count(&self, endpoint: Endpoint, outcome: Outcome) -> u64 {
        self.0[endpoint as usize].counts[outcome as usize]
    }

    /// Returns the number of requests by endpoint and outcome since the last call, as text.
    pub(super) fn summarize(&mut self) -> String {
        let mut parts = Vec::new();
        for (breaker, (_, name)) in self.0.iter_mut().zip(Endpoint::ALL) {
            let new = breaker.counts.iter().zip(breaker.summarized);
            let new = Outcome::ALL
                .iter()
                .zip(new.map(|(count, before)| count - before));
            let new = new.filter(|(_, count)| *count > 0);
            let new: Vec<String> = new
                .map(|((_, outcome), count)| format!("{count} {outcome}"))
                .collect();
            breaker.summarized = breaker.counts;
            if !new.is_empty() {
                parts.push(format!("{name}: {}", new.join(", ")));
            }
        }
        if parts.is_empty() {
            parts.push("no request".to_owned());
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_790_000_000);

    fn later(seconds: i64) -> UnixSeconds {
        UnixSeconds(NOW.0 + seconds)
    }

    #[test]
    fn an_endpoint_that_fails_slows_down_alone() {
        let mut endpoints = Endpoints::default();
        let reply = |outcome| Reply::new(outcome, "x".to_owned());
        let mut now = NOW;
        for (number, pause) in (1..).zip([2, 4, 8, 16, 32, 60, 60]) {
            let fault = reply(Outcome::Broken);
            let (failures, line) = endpoints.record(&Request::Genres, &fault, now);
            assert_eq!((failures, line.is_some()), (number, number == 1));
            assert!(!endpoints.is_ready(Endpoint::Genres, UnixSeconds(now.0 + pause)));
            assert!(endpoints.is_ready(Endpoint::Days, now));
            now.0 += pause + 1;
            assert!(endpoints.is_ready(Endpoint::Genres, now) && endpoints.are_ready(now));
        }
        let (failures, line) = endpoints.record(&Request::Genres, &reply(Outcome::Usable), now);
        assert_eq!(failures, 0);
        assert!(line.unwrap().contains("after 7 failures of genres"));
        assert!(endpoints.is_ready(Endpoint::Genres, now));
        assert_eq!(endpoints.summarize(), "genres: 1 usable, 7 broken");
        assert_eq!(endpoints.summarize(), "no request");
    }

    #[test]
    fn each_kind_of_failure_is_logged_once_an_hour() {
        let mut endpoints = Endpoints::default();
        let mut is_logged = |outcome, now| {
            let fault = Reply::new(outcome, "x".to_owned());
            let (_, line) = endpoints.record(&Request::Genres, &fault, now);
            line.is_some()
        };
        assert!(is_logged(Outcome::Broken, NOW));
        assert!(!is_logged(Outcome::Broken, later(3_599)));
        assert!(is_logged(Outcome::Rejected, later(3_599)));
        assert!(is_logged(Outcome::Broken, later(3_600)));
    }
}
