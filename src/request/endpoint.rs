//! The table of endpoints. The row of an endpoint has all its facts except its content.
//!
//! The parser of targets, the document at `/v1`, the readiness of payloads, metrics, access log, fixed files and
//! tests follow the table. A body of a new row is rendered in `publish` and has its place in `snapshot/layout.rs`;
//! a page is made in `server/web/unmetered.rs`. `site/openapi.json` describes the API; a test compares it with the
//! table.

use super::argument::{
    CHART, CODE, CREATORS, CREATORS_FORM, DAY, DAY_IF_SENT, DUMP, ISLANDS, ISLANDS_FORM, NOTHING,
    SLUG, Takes,
};
use super::lists::Parameter;
use crate::model::named;

/// A part of the published data, by its name in `/v1/health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    Islands,
    Creators,
    Ccu,
    Rankings,
    New,
    Live,
    Intraday,
}

// In the order of `/v1/health`.
named!(
    Payload:
    Islands = "islands",
    Creators = "creators",
    Ccu = "ccu",
    Rankings = "rankings",
    New = "new",
    Live = "live",
    Intraday = "intraday",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A published payload. Until it is published, the response is 503.
    Published(Payload),
    /// The state of the service. It spends no quota, and a query with broken encoding is no error.
    Health,
    /// A text that is fixed until the program changes.
    File,
    /// A page or a dump.
    Page,
}

use Source::{File, Health, Page, Published};

struct Row {
    endpoint: Endpoint,
    /// The segments of the path. One in braces is a parameter, which stands for any one segment.
    path: &'static [&'static str],
    takes: Takes,
    source: Source,
}

/// Declares the endpoints, one per row: a name, the segments of the path, the argument and the source.
macro_rules! endpoints {
    ($($name:ident: $($segment:literal)+, $takes:expr, $source:expr;)+) => {
        /// An endpoint, without its parameters. Its number is its index in [`Endpoint::LABELS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Endpoint {
            $(#[doc = concat!("`" $(, "/", $segment)+, "`")] $name,)+
            /// Any other path.
            Unknown,
        }

        const TABLE: &[Row] = &[$(Row {
            endpoint: Endpoint::$name,
            path: &[$($segment),+],
            takes: $takes,
            source: $source,
        }),+];

        impl Endpoint {
            /// The labels of all endpoints in metrics and the access log: their paths, and `unknown`.
            pub const LABELS: &'static [&'static str] =
                &[$(concat!($("/", $segment),+),)+ "unknown"];
        }
    };
}

// The rows before `OpenApi` are the API, in the order of SPEC section 4.
endpoints! {
    Index: "v1", NOTHING, Published(Payload::Islands);
    Health: "v1" "health", NOTHING, Health;
    Islands: "v1" "islands", ISLANDS, Published(Payload::Islands);
    Island: "v1" "islands" "{code}", CODE, Published(Payload::Islands);
    IslandCcu: "v1" "islands" "{code}" "ccu", CODE, Published(Payload::Ccu);
    Creators: "v1" "creators", CREATORS, Published(Payload::Creators);
    Creator: "v1" "creators" "{slug}", SLUG, Published(Payload::Creators);
    Live: "v1" "live", NOTHING, Published(Payload::Live);
    Intraday: "v1" "live" "intraday", NOTHING, Published(Payload::Intraday);
    RankingDays: "v1" "rankings", NOTHING, Published(Payload::Rankings);
    Ranking: "v1" "rankings" "{date}", DAY, Published(Payload::Rankings);
    NewDays: "v1" "new", NOTHING, Published(Payload::New);
    New: "v1" "new" "{date}", DAY, Published(Payload::New);
    OpenApi: "openapi.json", NOTHING, File;
    Home: "", NOTHING, Page;
    IslandsPage: "islands", ISLANDS_FORM, Page;
    IslandPage: "islands" "{code}", CHART, Page;
    CreatorsPage: "creators", CREATORS_FORM, Page;
    CreatorPage: "creators" "{slug}", SLUG, Page;
    RankingsPage: "rankings", DAY_IF_SENT, Page;
    RankingPage: "rankings" "{date}", DAY, Page;
    NewDaysPage: "new", DAY_IF_SENT, Page;
    NewPage: "new" "{date}", DAY, Page;
    LivePage: "live", NOTHING, Page;
    Keys: "keys", NOTHING, Page;
    Docs: "docs", NOTHING, Page;
    Objects: "objects", NOTHING, File;
    Recipes: "recipes", NOTHING, File;
    Gotchas: "gotchas", NOTHING, File;
    Changelog: "changelog", NOTHING, File;
    Llms: "llms.txt", NOTHING, File;
    Robots: "robots.txt", NOTHING, File;
    Sitemap: "sitemap.xml", NOTHING, File;
    Favicon: "favicon.ico", NOTHING, File;
    Style: "assets" "style.css", NOTHING, File;
    DocsStyle: "assets" "docs.css", NOTHING, File;
    SiteScript: "assets" "site.js", NOTHING, File;
    DocsScript: "assets" "docs.js", NOTHING, File;
    ChartsScript: "assets" "charts.js", NOTHING, File;
    Icon: "assets" "icon.svg", NOTHING, File;
    Dump: "dumps" "{name}", DUMP, Page;
}

impl Endpoint {
    /// The paths of the API, in the order of SPEC section 4.
    pub const API_PATHS: &'static [&'static str] =
        Endpoint::LABELS.split_at(Endpoint::OpenApi as usize).0;

    /// One segment more than the longest path of the table has.
    pub(super) const SEGMENTS_MAX: usize = 5;

    pub fn all() -> impl Iterator<Item = Endpoint> {
        TABLE.iter().map(|row| row.endpoint)
    }

    /// Returns the endpoint of a path, given its decoded segments.
    pub(super) fn find(segments: &[&str]) -> Endpoint {
        // The name of a dump has any number of segments, or none for the index.
        if segments[0] == "dumps" {
            return Endpoint::Dump;
        }
        let fits = |row: &&Row| {
            let mut parts = row.path.iter().zip(segments);
            row.path.len() == segments.len()
                && parts.all(|(part, sent)| part == sent || part.starts_with('{'))
        };
        let found = TABLE.iter().find(fits);
        found.map_or(Endpoint::Unknown, |row| row.endpoint)
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.get(self as usize)
    }

    /// Returns the endpoint's label in metrics and the access log.
    pub const fn label(self) -> &'static str {
        Endpoint::LABELS[self as usize]
    }

    /// Returns the parser of its argument; `None` if the path is unknown.
    pub(super) fn takes(self) -> Option<&'static Takes> {
        self.row().map(|row| &row.takes)
    }

    pub fn query_parameters(self) -> &'static [Parameter] {
        self.takes().map_or(&[], |takes| takes.parameters)
    }

    pub fn declares(self, name: &str) -> bool {
        self.query_parameters().iter().any(|one| one.name == name)
    }

    /// Returns the source of its response; `None` if the path is unknown.
    pub fn source(self) -> Option<Source> {
        self.row().map(|row| row.source)
    }

    /// Returns the index of the parameter among the segments of its path.
    pub(super) fn parameter_index(self) -> Option<usize> {
        let is_parameter = |segment: &&str| segment.starts_with('{');
        self.row()?.path.iter().position(is_parameter)
    }

    /// Returns the number of folders above its path, of which a relative link has to climb out.
    pub fn depth(self) -> usize {
        self.row().map_or(0, |row| row.path.len() - 1)
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
