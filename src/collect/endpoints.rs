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

/// The state of an endpoint. Failures slow down requests to it alone.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Failures in a row.
    pub(super) failures: u32,
    not_before: i64,
    /// Requests by outcome, since the start and at the last summary.
    pub(super) counts: [u64; Outcome::ALL.len()],
    summarized: [u64; Outcome::ALL.len()],
}

impl Breaker {
    pub(super) fn is_ready(&self, now: UnixSeconds) -> bool {
        now.0 >= self.not_before
    }

    /// Returns `false` while the endpoint pauses after its first failures. Others do not wait for one that has failed
    /// [`ATTEMPTS`] times.
    pub(super) fn is_tried(&self, now: UnixSeconds) -> bool {
        self.is_ready(now) || self.failures >= ATTEMPTS
    }

    /// Returns the number of requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether the upstream knew nothing of what was requested so far.
    pub(super) fn is_gone(&self) -> bool {
        let count = |outcome| self.counts[outcome as usize];
        count(Outcome::Gone) > 0 && count(Outcome::Usable) == 0
    }

    /// Records what became of a request. Returns the seconds of the pause after it.
    pub(super) fn record(&mut self, outcome: Outcome, now: UnixSeconds) -> i64 {
        self.counts[outcome as usize] += 1;
        if !outcome.is_failure() {
            (self.failures, self.not_before) = (0, 0);
            return 0;
        }
        let (first, longest) = PAUSE_SECONDS;
        let pause = longest.min(first << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        // The clock shows whole seconds.
        self.not_before = now.0 + pause + 1;
        pause
    }
}

/// The breakers of all endpoints, by `endpoint as usize`.
pub(super) type Breakers = [Breaker; Endpoint::ALL.len()];

/// Returns the number of requests by endpoint and outcome since the last call, as text.
pub(super) fn summarize(endpoints: &mut Breakers) -> String {
    let mut parts = Vec::new();
    for (breaker, (_, name)) in endpoints.iter_mut().zip(Endpoint::ALL) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_790_000_000);

    #[test]
    fn an_endpoint_that_fails_slows_down_alone() {
        let mut endpoints = Breakers::default();
        let genres = &mut endpoints[Endpoint::Genres as usize];
        let mut now = NOW;
        for (number, pause) in (1..).zip([2, 4, 8, 16, 32, 60, 60]) {
            assert_eq!(genres.record(Outcome::Broken, now), pause);
            assert!(!genres.is_ready(UnixSeconds(now.0 + pause)));
            now.0 += pause + 1;
            assert!(genres.is_ready(now));
            assert_eq!(genres.failures, number);
            assert_eq!(genres.is_tried(UnixSeconds(now.0 - 1)), number >= 3);
        }
        assert_eq!(genres.record(Outcome::Usable, now), 0);
        assert!(genres.is_ready(now) && genres.failures == 0);
        assert_eq!(summarize(&mut endpoints), "genres: 1 usable, 7 broken");
        assert_eq!(summarize(&mut endpoints), "no request");
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
