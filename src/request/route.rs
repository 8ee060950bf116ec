//! Parsing of a request target: the path selects an endpoint of the table, whose parameters are
//! parsed.
//!
//! The path is split into segments first, and each is decoded once, so `%2F` separates nothing.
//! Endpoints without text of their own are parsed without an allocation.

use std::borrow::Cow;
use std::fmt;

use super::endpoint::Endpoint;
use super::error::{Quoted, RouteError};
use super::lists::{CreatorQuery, IslandQuery};
use super::percent::decode_segment;
use super::query;
use crate::calendar::UtcDay;
use crate::model::IslandCode;

/// An endpoint with its parameters, parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// `/v1`
    Index,
    /// `/v1/health`
    Health,
    /// `/v1/islands`
    Islands(IslandQuery),
    /// `/v1/islands/{code}`
    Island(IslandCode),
    /// `/v1/islands/{code}/ccu`
    IslandCcu(IslandCode),
    /// `/v1/creators`
    Creators(CreatorQuery),
    /// `/v1/creators/{slug}`: any text that is not empty. One that is not a slug names no creator.
    Creator(String),
    /// `/v1/live`
    Live,
    /// `/v1/live/intraday`
    Intraday,
    /// `/v1/rankings`
    RankingDays,
    /// `/v1/rankings/{date}`
    Ranking(DayRef),
    /// `/v1/new`
    NewDays,
    /// `/v1/new/{date}`
    New(DayRef),
    /// A resource outside the API.
    Site(SiteRoute),
}

impl Route {
    /// Returns the length of the texts of the route in bytes.
    pub fn text_bytes(&self) -> usize {
        let texts = match self {
            Route::Islands(query) => [&query.tag, &query.creator, &query.q, &query.folded],
            Route::Creators(query) => [&query.q, &query.folded, &None, &None],
            Route::Creator(slug) => return slug.len(),
            _ => return 0,
        };
        texts.into_iter().flatten().map(String::len).sum()
    }
}

/// A resource outside the API. Requests for it are unmetered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteRoute {
    /// `/openapi.json`
    OpenApi,
    Docs,
    File(usize),
    Home,
    /// `/` with a query of `/v1/islands`
    Search(IslandQuery),
    /// `/islands` with a query of `/v1/islands`
    Islands(IslandQuery),
    /// `/islands/{code}` with the metric of its chart, as sent
    Island(IslandCode, Option<String>),
    /// `/creators` with a query of `/v1/creators`
    Creators(CreatorQuery),
    Creator(String),
    /// `/rankings`, with or without a date as parameter, and `/rankings/{date}`; with the depth of the
    /// path
    Ranking(DayRef, usize),
    /// `/new` and `/new/{date}`, likewise
    New(DayRef, usize),
    /// `/live`, the islands with the most players
    Live,
    /// `/keys`, the sign-up
    Keys,
    /// `/dumps/{name}`: a name of segments with slashes between them
    Dump(String),
}

/// The paths of the texts outside the API that are fixed until the program changes.
pub const SITE_FILES: [&str; 14] = [
    "/objects",
    "/recipes",
    "/gotchas",
    "/changelog",
    "/llms.txt",
    "/robots.txt",
    "/sitemap.xml",
    "/favicon.ico",
    "/assets/style.css",
    "/assets/docs.css",
    "/assets/site.js",
    "/assets/docs.js",
    "/assets/charts.js",
    "/assets/icon.svg",
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DayRef {
    Latest,
    Day(UtcDay),
    /// Ten characters of the form of a day that is not in the calendar, such as `2023-02-29`.
    NoSuchDay(String),
}

/// Displays the text that was sent.
impl fmt::Display for DayRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DayRef::Latest => f.write_str("latest"),
            DayRef::Day(day) => day.fmt(f),
            DayRef::NoSuchDay(text) => f.write_str(text),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedTarget {
    /// Whether the target is under `/v1`, where requests are metered, valid or not.
    pub under_v1: bool,
    /// The endpoint, also if the path or its parameters are invalid.
    pub endpoint: Endpoint,
    /// The endpoint with its parameters, or the error.
    pub route: Result<Route, RouteError>,
}

/// Parses a path and a query string, both as sent.
pub fn parse(path: &str, query: Option<&str>) -> ParsedTarget {
    let Some(rest) = path.strip_prefix('/') else {
        let message = format!("the path must start with /, got {}", Quoted(path));
        return ParsedTarget {
            under_v1: false,
            endpoint: Endpoint::Unknown,
            route: Err(RouteError::BadRequest(message)),
        };
    };
    let mut decoded = [const { Cow::Borrowed("") }; Endpoint::SEGMENTS_MAX];
    let (mut count, mut is_broken) = (0, false);
    for segment in rest.split('/') {
        let text = decode_segment(segment);
        is_broken |= text.is_none();
        if let Some(place) = decoded.get_mut(count) {
            *place = text.unwrap_or(Cow::Borrowed(segment));
            count += 1;
        }
    }
    let segments = decoded.each_ref().map(|segment| &**segment);
    let segments = &segments[..count];
    let endpoint = Endpoint::find(segments);
    let route = if is_broken {
        let wanted = "percent-encoded UTF-8";
        Err(RouteError::invalid("the path", wanted, path))
    } else if endpoint == Endpoint::Dump {
        dump_name(rest).map(|name| Route::Site(SiteRoute::Dump(name)))
    } else if rest.ends_with('/') {
        Err(unknown(path))
    } else {
        route(endpoint, segments, path, query)
    };
    ParsedTarget {
        under_v1: segments[0] == "v1",
        endpoint,
        route,
    }
}

fn route(
    endpoint: Endpoint,
    segments: &[&str],
    path: &str,
    query: Option<&str>,
) -> Result<Route, RouteError> {
    let route = match endpoint {
        Endpoint::Islands => return Ok(Route::Islands(IslandQuery::parse(query)?)),
        Endpoint::Creators => return Ok(Route::Creators(CreatorQuery::parse(query)?)),
        // Probes get the state of the service whatever else is in the request.
        Endpoint::Health => return Ok(Route::Health),
        Endpoint::Index => Route::Index,
        Endpoint::Island => Route::Island(island_code(segments[2])?),
        Endpoint::IslandCcu => Route::IslandCcu(island_code(segments[2])?),
        Endpoint::Creator => Route::Creator(segments[2].to_owned()),
        Endpoint::Live => Route::Live,
        Endpoint::Intraday => Route::Intraday,
        Endpoint::RankingDays => Route::RankingDays,
        Endpoint::Ranking => Route::Ranking(day_ref(segments[2])?),
        Endpoint::NewDays => Route::NewDays,
        Endpoint::New => Route::New(day_ref(segments[2])?),
        _ => return site_route(endpoint, segments, path, query).map(Route::Site),
    };
    query::declared(query, [])?;
    Ok(route)
}

/// Parses the parameters of an endpoint outside the API. Other sites add parameters to links, so
/// undeclared ones are not even decoded.
fn site_route(
    endpoint: Endpoint,
    segments: &[&str],
    path: &str,
    query: Option<&str>,
) -> Result<SiteRoute, RouteError> {
    Ok(match endpoint {
        Endpoint::OpenApi => SiteRoute::OpenApi,
        Endpoint::Docs => SiteRoute::Docs,
        Endpoint::Home => {
            // A broken pair might be one of them.
            let is_declared = |name: &str| endpoint.query_parameters().contains(&name);
            let mut pairs = query::pairs(query);
            if !pairs.any(|pair| pair.is_none_or(|(name, _)| is_declared(&name))) {
                return Ok(SiteRoute::Home);
            }
            SiteRoute::Search(IslandQuery::parse(query)?)
        }
        Endpoint::IslandsPage => {
            SiteRoute::Islands(IslandQuery::parse(without_empty(query).as_deref())?)
        }
        Endpoint::IslandPage => {
            let metric = parameter(query, "metric").map(Cow::into_owned);
            SiteRoute::Island(island_code(segments[1])?, metric)
        }
        Endpoint::CreatorsPage => {
            SiteRoute::Creators(CreatorQuery::parse(without_empty(query).as_deref())?)
        }
        Endpoint::CreatorPage => SiteRoute::Creator(segments[1].to_owned()),
        Endpoint::RankingsPage => SiteRoute::Ranking(date_parameter(query)?, 0),
        Endpoint::RankingPage => SiteRoute::Ranking(day_ref(segments[1])?, 1),
        Endpoint::NewDaysPage => SiteRoute::New(date_parameter(query)?, 0),
        Endpoint::NewPage => SiteRoute::New(day_ref(segments[1])?, 1),
        Endpoint::LivePage => SiteRoute::Live,
        Endpoint::Keys => SiteRoute::Keys,
        _ => {
            let segments = segments.iter().copied();
            let is_file = |file: &&str| file[1..].split('/').eq(segments.clone());
            let index = SITE_FILES.iter().position(is_file);
            SiteRoute::File(index.ok_or_else(|| unknown(path))?)
        }
    })
}

/// Returns a query without its empty fields, which forms of pages send for filters that are not
/// used.
fn without_empty(query: Option<&str>) -> Option<String> {
    let pairs = query?.split('&').filter(|pair| !pair.ends_with('='));
    let pairs: Vec<&str> = pairs.collect();
    Some(pairs.join("&"))
}

/// Returns the first value of a parameter of a page.
fn parameter<'q>(query: Option<&'q str>, name: &str) -> Option<Cow<'q, str>> {
    let mut pairs = query::pairs(query).flatten();
    pairs
        .find(|(other, _)| other == name)
        .map(|(_, value)| value)
}

/// Returns the day of the parameter `date`, by default the newest.
fn date_parameter(query: Option<&str>) -> Result<DayRef, RouteError> {
    parameter(query, "date").map_or(Ok(DayRef::Latest), |date| day_ref(&date))
}

/// Returns the name of the dump at a path without its leading slash. Segments are decoded one by
/// one: no name has an encoded slash. Whether there is such a dump is checked later.
fn dump_name(path: &str) -> Result<String, RouteError> {
    let name = path.split_once('/').map_or("", |(_, name)| name);
    if name.is_empty() {
        return Ok("index.json".to_owned());
    }
    let segments: Option<Vec<_>> = name.split('/').map(decode_segment).collect();
    let segments = segments.filter(|all| all.iter().all(|segment| !segment.contains('/')));
    segments.map_or_else(|| Err(no_dump(name)), |segments| Ok(segments.join("/")))
}

/// Returns the error for a name that no dump has.
pub fn no_dump(name: &str) -> RouteError {
    let name = Quoted(name);
    RouteError::NotFound(format!(
        "no dump is named {name}; the names are listed at /dumps/index.json"
    ))
}

fn unknown(path: &str) -> RouteError {
    let bare = path.trim_end_matches('/');
    RouteError::NotFound(if bare.is_empty() || bare.len() == path.len() {
        let path = Quoted(path);
        format!("unknown path {path}; the endpoints are listed at /v1")
    } else {
        let bare = Quoted(bare);
        format!("unknown path: paths do not end with a slash; use {bare}")
    })
}

fn island_code(text: &str) -> Result<IslandCode, RouteError> {
    let wanted = "three groups of four digits with hyphens, such as 1234-5678-9012";
    let invalid = |()| RouteError::invalid("the island code", wanted, text);
    text.parse().map_err(invalid)
}

fn day_ref(text: &str) -> Result<DayRef, RouteError> {
    if text == "latest" {
        return Ok(DayRef::Latest);
    }
    if !UtcDay::looks_like(text) {
        let wanted = "latest or a day in the form YYYY-MM-DD";
        return Err(RouteError::invalid("the date", wanted, text));
    }
    Ok(UtcDay::parse(text).map_or_else(|| DayRef::NoSuchDay(text.to_owned()), DayRef::Day))
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
