//! The table of endpoints. The path of an endpoint is also its label in metrics and the access log.
//!
//! The rows before `OpenApi` are the API, which `/v1` lists. A new row of the API is also in these places:
//!
//! - a `Route` in `route.rs`, and arms in `snapshot/lookup.rs`: `unpublished`, and `get` for a body in
//!   memory or `find_body` for one in the file. The last two and `route` end in `_`: an arm that is
//!   missing compiles, and the response is 503;
//! - its members in `publish/render`, and its body in a payload (`snapshot/format.rs`): the live one
//!   if it changes with each publish, else the history;
//! - with a parameter in its path, a `Missing` and messages in `server/pipeline.rs` and
//!   `server/web/rendered.rs`;
//! - with an entry of its own in `/v1/health`, `snapshot/service_bodies.rs` and `read.rs`, and
//!   `tests/it/answers.rs`;
//! - `site/openapi.json`, whose examples `tests/examples.py` rewrites where a sample stands,
//!   `site/changelog.md`, and the table in `README.md`;
//! - the tests `tests/it/naive.rs`, `ask`, `parsed_targets.rs` and `openapi.rs`,
//!   `tests/fuzz/src/plain.rs`, `targets.rs`, `snapshot.rs`, `tests/fuzz/query.dict` and `request.dict`,
//!   `tests/client.py`, and `benches/scenario/targets.rs`;
//! - the lists of endpoints that only tests have: `route_tests.rs`, `server/allocation_tests.rs`,
//!   `tests/it/answers.rs`, `messages.rs`, `callers_model.rs`, `publishing.rs`.

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
    Keys: "keys";
    Docs: "docs";
    Objects: "objects";
    Recipes: "recipes";
    Gotchas: "gotchas";
    Changelog: "changelog";
    Llms: "llms.txt";
    Robots: "robots.txt";
    Favicon: "favicon.ico";
    Asset: "assets" "{name}";
    Dump: "dumps" "{name}";
}

impl Endpoint {
    /// The paths of the API, in the order of SPEC section 4.
    pub const API_PATHS: &'static [&'static str] =
        Endpoint::LABELS.split_at(Endpoint::OpenApi as usize).0;

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
