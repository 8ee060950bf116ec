//! The table of endpoints. A path is also the label in metrics and the access log. The rows before
//! `OpenApi` are the API.
//!
//! Places of a new row of the API:
//!
//! - `route.rs`: a `Route`, made in `route`; its free texts in `text_bytes`;
//! - `snapshot/lookup.rs`: `unpublished` (the compiler reports it), and `find_body` (history) or `get` (live),
//!   else a 503; `ApiError::missing` (`server/http/api_error.rs`), else a vague 404;
//! - its body: `publish/render`, and the head of `snapshot/format.rs`;
//! - `ENDPOINT_CASES` in `tests/it/endpoint_cases.rs`, whose test compares it with the table;
//! - `site/changelog.md`, `server/allocation_tests.rs`, `tests/fuzz/src/snapshot.rs`,
//!   `benches/scenario/targets.rs`;
//! - `ENDPOINT_FILES` in `tests/it/places_to_change.rs`: a test names those without the last fixed segment
//!   of the path. Files with this word in another sense have to be found in the list.
//!
//! Only some need: an entry in `/v1/health` or a count in `/v1` (`snapshot/service_bodies.rs`,
//! `snapshot/read.rs`); a page (`server/web/rendered.rs`, `site/bodies.rs`, `site/data_pages.rs`); with a
//! new path parameter or list, `tests/examples.py` and `tests/it/openapi.rs`; with a member beside
//! `generatedAt` that each publish changes, `benches/scenario/body.rs`.

use super::lists::{CreatorQuery, IslandQuery};

/// Declares the endpoints, one per row: a name and the segments of the path. A segment in braces is
/// a parameter, which stands for any one segment.
macro_rules! endpoints {
    ($($name:ident: $($segment:literal)+;)+) => {
        /// An endpoint, without its parameters. Its number is its index in [`Endpoint::LABELS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Endpoint {
            $(#[doc = concat!("`" $(, "/", $segment)+, "`")] $name,)+
            /// Any other path.
            Unknown,
        }

        const TABLE: &[(Endpoint, &[&str])] = &[$((Endpoint::$name, &[$($segment),+])),+];

        impl Endpoint {
            /// The labels of all endpoints: their paths, and `unknown`.
            pub const LABELS: &'static [&'static str] =
                &[$(concat!($("/", $segment),+),)+ "unknown"];
        }
    };
}

endpoints! {
    Index: "v1";
    Health: "v1" "health";
    Islands: "v1" "islands";
    Island: "v1" "islands" "{code}";
    IslandCcu: "v1" "islands" "{code}" "ccu";
    Creators: "v1" "creators";
    Creator: "v1" "creators" "{slug}";
    Live: "v1" "live";
    Intraday: "v1" "live" "intraday";
    RankingDays: "v1" "rankings";
    Ranking: "v1" "rankings" "{date}";
    NewDays: "v1" "new";
    New: "v1" "new" "{date}";
    OpenApi: "openapi.json";
    Home: "";
    IslandsPage: "islands";
    IslandPage: "islands" "{code}";
    CreatorsPage: "creators";
    CreatorPage: "creators" "{slug}";
    RankingsPage: "rankings";
    RankingPage: "rankings" "{date}";
    NewDaysPage: "new";
    NewPage: "new" "{date}";
    LivePage: "live";
    Keys: "keys";
    Docs: "docs";
    Objects: "objects";
    Recipes: "recipes";
    Gotchas: "gotchas";
    Changelog: "changelog";
    Llms: "llms.txt";
    Robots: "robots.txt";
    Sitemap: "sitemap.xml";
    Favicon: "favicon.ico";
    Asset: "assets" "{name}";
    Dump: "dumps" "{name}";
}

impl Endpoint {
    /// The paths of the API, in the order of SPEC section 4.
    pub const API_PATHS: &'static [&'static str] =
        Endpoint::LABELS.split_at(Endpoint::OpenApi as usize).0;

    /// One segment more than the longest path of the table has.
    pub(super) const SEGMENTS_MAX: usize = {
        let (mut longest, mut row) = (0, 0);
        while row < TABLE.len() {
            let length = TABLE[row].1.len();
            if length > longest {
                longest = length;
            }
            row += 1;
        }
        longest + 1
    };

    /// Returns the endpoint of a path, given its decoded segments.
    pub(super) fn find(segments: &[&str]) -> Endpoint {
        // The name of a dump has any number of segments, or none for the index.
        if segments[0] == "dumps" {
            return Endpoint::Dump;
        }
        let fits = |(_, path): &&(Endpoint, &[&str])| {
            let mut parts = path.iter().zip(segments);
            path.len() == segments.len()
                && parts.all(|(part, sent)| part == sent || part.starts_with('{'))
        };
        let found = TABLE.iter().find(fits);
        found.map_or(Endpoint::Unknown, |(endpoint, _)| *endpoint)
    }

    /// Returns the endpoint's label in metrics and the access log.
    pub const fn label(self) -> &'static str {
        Endpoint::LABELS[self as usize]
    }

    /// Returns the names of its query parameters.
    pub const fn query_parameters(self) -> &'static [&'static str] {
        match self {
            Endpoint::Islands | Endpoint::Home | Endpoint::IslandsPage => &IslandQuery::PARAMETERS,
            Endpoint::Creators | Endpoint::CreatorsPage => &CreatorQuery::PARAMETERS,
            Endpoint::IslandPage => &["metric"],
            Endpoint::RankingsPage | Endpoint::NewDaysPage => &["date"],
            _ => &[],
        }
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
