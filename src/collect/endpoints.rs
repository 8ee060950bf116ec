//! Endpoints of the upstream: the requests to each, a breaker, and counts of outcomes.
//!
//! Failures of one endpoint slow down requests to that one: 2, 4 … 60 s, until one succeeds.

use std::ops::Range;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::reply::Outcome;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::IslandCode;

/// Rows of a page of the catalogue or of a ranking: the most that the upstream gives.
pub(super) const PAGE_SIZE: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A page of the catalogue, behind a cursor.
    Catalogue {
        after: Option<String>,
    },
    Genres,
    /// A page of a genre's ranking, behind a cursor.
    Ranking {
        slug: String,
        after: Option<String>,
    },
    Platform(Range<UnixSeconds>),
    /// The metrics of an island on whole days.
    Days(IslandCode, Range<UtcDay>),
    /// The 10-minute peaks of an island.
    Steps(IslandCode, Range<UnixSeconds>),
}

/// The endpoints that are requested, by the kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Platform,
    Catalogue,
    Genres,
    Rankings,
    Days,
    Steps,
}

impl Endpoint {
    /// All endpoints with their names.
    pub(super) const ALL: [(Endpoint, &str); 6] = [
        (Endpoint::Platform, "platform"),
        (Endpoint::Catalogue, "catalogue"),
        (Endpoint::Genres, "genres"),
        (Endpoint::Rankings, "rankings"),
        (Endpoint::Days, "days"),
        (Endpoint::Steps, "steps"),
    ];
}

impl Request {
    pub(super) fn endpoint(&self) -> Endpoint {
        match self {
            Request::Catalogue { .. } => Endpoint::Catalogue,
            Request::Genres => Endpoint::Genres,
            Request::Ranking { .. } => Endpoint::Rankings,
            Request::Platform(_) => Endpoint::Platform,
            Request::Days(..) => Endpoint::Days,
            Request::Steps(..) => Endpoint::Steps,
        }
    }

    /// Returns path and query below the upstream's base URL.
    pub(super) fn target(&self) -> String {
        let behind = |cursor: &Option<String>| match cursor {
            Some(cursor) => format!("&after={}", utf8_percent_encode(cursor, NON_ALPHANUMERIC)),
            None => String::new(),
        };
        let between = |times: &Range<UnixSeconds>| {
            // As the upstream writes times, with milliseconds.
            format!("from={}&to={}", times.start, times.end).replace('Z', ".000Z")
        };
        match self {
            Request::Catalogue { after } => format!("/islands?size={PAGE_SIZE}{}", behind(after)),
            Request::Genres => "/genres".to_owned(),
            Request::Ranking { slug, after } => {
                format!("/genres/{slug}/rankings?size={PAGE_SIZE}{}", behind(after))
            }
            Request::Platform(times) => format!("/metrics/minute?{}", between(times)),
            Request::Days(code, days) => {
                let times = days.start.start()..days.end.start();
                format!("/islands/{code}/metrics/day?{}", between(&times))
            }
            Request::Steps(code, times) => {
                let between = between(times);
                format!("/islands/{code}/metrics/minute?metrics=peakCCU&{between}")
            }
        }
    }
}

/// First and longest pause of an endpoint.
const PAUSE_SECONDS: (i64, i64) = (2, 60);
/// Failures in a row of an endpoint, or failures of an island, after which a request is given up for now.
pub(super) const ATTEMPTS: u32 = 3;

#[derive(Debug, Default)]
struct Breaker {
    /// Failures in a row.
    failures: u32,
    not_before: i64,
    /// Requests by outcome, since the start and at the last summary.
    counts: [u64; Outcome::ALL.len()],
    summarized: [u64; Outcome::ALL.len()],
}

#[derive(Debug, Default)]
pub(super) struct Endpoints([Breaker; Endpoint::ALL.len()]);

impl Endpoints {
    pub(super) fn is_ready(&self, endpoint: Endpoint, now: UnixSeconds) -> bool {
        now.0 >= self.0[endpoint as usize].not_before
    }

    /// Returns the failures in a row of an endpoint.
    pub(super) fn failures(&self, endpoint: Endpoint) -> u32 {
        self.0[endpoint as usize].failures
    }

    /// Returns the number of requests to an endpoint so far.
    pub(super) fn requests(&self, endpoint: Endpoint) -> u64 {
        self.0[endpoint as usize].counts.iter().sum()
    }

    /// Returns whether no endpoint pauses after its first failures: one that has failed several times is not waited
    /// for by the others.
    pub(super) fn are_tried(&self, now: UnixSeconds) -> bool {
        let is_tried =
            |breaker: &Breaker| now.0 >= breaker.not_before || breaker.failures >= ATTEMPTS;
        self.0.iter().all(is_tried)
    }

    /// Returns whether no endpoint pauses.
    pub(super) fn are_ready(&self, now: UnixSeconds) -> bool {
        self.0.iter().all(|breaker| now.0 >= breaker.not_before)
    }

    /// Records what became of a request. Returns the number of failures in a row of its endpoint, and the seconds of its
    /// pause.
    pub(super) fn record(
        &mut self,
        endpoint: Endpoint,
        outcome: Outcome,
        now: UnixSeconds,
    ) -> (u32, i64) {
        let breaker = &mut self.0[endpoint as usize];
        breaker.counts[outcome as usize] += 1;
        if !outcome.is_failure() {
            (breaker.failures, breaker.not_before) = (0, 0);
            return (0, 0);
        }
        let (first, longest) = PAUSE_SECONDS;
        let pause = longest.min(first << breaker.failures.min(16));
        breaker.failures = breaker.failures.saturating_add(1);
        // The clock shows whole seconds.
        breaker.not_before = now.0 + pause + 1;
        (breaker.failures, pause)
    }

    pub(super) fn count(&self, endpoint: Endpoint, outcome: Outcome) -> u64 {
        self.0[endpoint as usize].counts[outcome as usize]
    }

    /// Returns the number of requests by endpoint and outcome since the last call, as text.
    pub(super) fn summarize(&mut self) -> String {
        let mut parts = Vec::new();
        for (breaker, (_, name)) in self.0.iter_mut().zip(Endpoint::ALL) {
            let before = std::mem::replace(&mut breaker.summarized, breaker.counts);
            let mut new = Vec::new();
            for (outcome, text) in Outcome::ALL {
                match breaker.counts[outcome as usize] - before[outcome as usize] {
                    0 => {}
                    count => new.push(format!("{count} {text}")),
                }
            }
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

    #[test]
    fn an_endpoint_that_fails_slows_down_alone() {
        let mut endpoints = Endpoints::default();
        let mut now = NOW;
        for (number, pause) in (1..).zip([2, 4, 8, 16, 32, 60, 60]) {
            let recorded = endpoints.record(Endpoint::Genres, Outcome::Broken, now);
            assert_eq!(recorded, (number, pause));
            assert!(!endpoints.is_ready(Endpoint::Genres, UnixSeconds(now.0 + pause)));
            assert!(endpoints.is_ready(Endpoint::Days, now));
            now.0 += pause + 1;
            assert!(endpoints.is_ready(Endpoint::Genres, now) && endpoints.are_ready(now));
            assert_eq!(endpoints.failures(Endpoint::Genres), number);
        }
        let recorded = endpoints.record(Endpoint::Genres, Outcome::Usable, now);
        assert_eq!(recorded, (0, 0));
        assert!(endpoints.is_ready(Endpoint::Genres, now));
        assert_eq!(endpoints.summarize(), "genres: 1 usable, 7 broken");
        assert_eq!(endpoints.summarize(), "no request");
    }

    #[test]
    fn targets_are_those_of_the_upstream() {
        let code = IslandCode::from_number(92_548_224_538).unwrap();
        let times = UnixSeconds(1_790_035_200)..UnixSeconds(1_790_640_000);
        for (request, want) in [
            (Request::Catalogue { after: None }, "/islands?size=1000"),
            (
                Request::Catalogue {
                    after: Some("OTc1Mi0=".to_owned()),
                },
                "/islands?size=1000&after=OTc1Mi0%3D",
            ),
            (Request::Genres, "/genres"),
            (
                Request::Ranking {
                    slug: "party".to_owned(),
                    after: None,
                },
                "/genres/party/rankings?size=1000",
            ),
            (
                Request::Days(code, times.start.day()..times.end.day()),
                "/islands/0925-4822-4538/metrics/day?from=2026-09-22T00:00:00.000Z&to=2026-09-29T00:00:00.000Z",
            ),
            (
                Request::Steps(code, times.clone()),
                "/islands/0925-4822-4538/metrics/minute?metrics=peakCCU\
                 &from=2026-09-22T00:00:00.000Z&to=2026-09-29T00:00:00.000Z",
            ),
            (
                Request::Platform(times),
                "/metrics/minute?from=2026-09-22T00:00:00.000Z&to=2026-09-29T00:00:00.000Z",
            ),
        ] {
            assert_eq!(request.target(), want);
        }
    }
}
