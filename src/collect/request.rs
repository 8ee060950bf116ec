//! Requests to the upstream, and their targets.

use std::ops::Range;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::calendar::UnixSeconds;
use crate::model::IslandCode;

/// Rows of a page of the catalogue or of a ranking: the most that the upstream gives.
const PAGE_SIZE: u32 = 1000;

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
    /// The daily metrics of an island.
    Days(IslandCode, Range<UnixSeconds>),
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
            Request::Days(code, times) => {
                format!("/islands/{code}/metrics/day?{}", between(times))
            }
            Request::Steps(code, times) => {
                let between = between(times);
                format!("/islands/{code}/metrics/minute?metrics=peakCCU&{between}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                Request::Days(code, times.clone()),
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
