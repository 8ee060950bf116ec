//! The path: which endpoint is asked for, with which parameters.
//!
//! Segments are split first and decoded once each, so `%2F` separates nothing. Endpoints without
//! text of their own are told apart without an allocation.

use std::borrow::Cow;
use std::fmt;

use super::dumps::name_of_dump;
use super::lists::{CreatorQuery, IslandQuery};
use super::outside::{Outside, SiteFile};
use super::percent::{BrokenEncoding, decode_segment};
use super::query;
use super::route_error::RouteError;
use super::shown::Shown;
use crate::calendar::UtcDay;
use crate::model::IslandCode;

/// Segments of the longest path there is, `/v1/islands/{code}/ccu`.
const SEGMENTS_MAX: usize = 4;

/// An endpoint, its parameters parsed.
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
    /// `/v1/creators/{slug}`: any text that is not empty, since what is no slug names no creator.
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
    /// What is outside the API.
    Outside(Outside),
}

impl Route {
    /// Returns the length of the texts of the route in bytes.
    pub fn text_bytes(&self) -> usize {
        match self {
            Route::Islands(query) => query.text_bytes(),
            Route::Creators(query) => query.text_bytes(),
            Route::Creator(slug) => slug.len(),
            _ => 0,
        }
    }
}

/// The day that a path asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DayRef {
    /// `latest`
    Latest,
    /// A day of the calendar.
    Day(UtcDay),
    /// Shaped like a day but not in the calendar, as `2023-02-29`; the ten characters sent.
    NoSuchDay(String),
}

/// The text that was sent.
impl fmt::Display for DayRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DayRef::Latest => f.write_str("latest"),
            DayRef::Day(day) => day.fmt(f),
            DayRef::NoSuchDay(text) => f.write_str(text),
        }
    }
}

/// A request target, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Whether the target lies under `/v1`, where requests are metered, sound or not.
    pub under_v1: bool,
    /// The endpoint, or what is wrong.
    pub route: Result<Route, RouteError>,
}

/// Judges a path and a query string, both as sent.
pub fn parse(path: &str, query: Option<&str>) -> Parsed {
    let Some(rest) = path.strip_prefix('/') else {
        let message = format!("the path is {}; want one that starts with /", Shown(path));
        return Parsed {
            under_v1: false,
            route: Err(RouteError::BadRequest(message)),
        };
    };
    let first = rest.split_once('/').map_or(rest, |(first, _)| first);
    let under_v1 = decode_segment(first).is_ok_and(|first| first == "v1");
    Parsed {
        under_v1,
        route: route(path, rest, query),
    }
}

/// `rest` is the path without its leading slash.
fn route(path: &str, rest: &str, query: Option<&str>) -> Result<Route, RouteError> {
    let (segments, count) = split(rest).map_err(|broken| {
        RouteError::BadRequest(format!(
            "the path {} is not percent-encoded UTF-8; {broken}",
            Shown(path)
        ))
    })?;
    let segments = segments.each_ref().map(|segment| &**segment);
    if segments[0] == "dumps" {
        let name = rest.split_once('/').map_or("", |(_, name)| name);
        let dump = name_of_dump(name).map(Outside::Dump);
        return dump.map(Route::Outside);
    }
    if count > SEGMENTS_MAX || rest.ends_with('/') {
        return Err(unknown(path));
    }
    let route = match &segments[..count] {
        ["v1", ..] => api(&segments[..count], path, query)?,
        other => Route::Outside(outside(other, path, query)?),
    };
    Ok(route)
}

/// What a path under `/v1` names.
fn api(segments: &[&str], path: &str, query: Option<&str>) -> Result<Route, RouteError> {
    let route = match segments {
        ["v1", "islands"] => return Ok(Route::Islands(IslandQuery::parse(query)?)),
        ["v1", "creators"] => return Ok(Route::Creators(CreatorQuery::parse(query)?)),
        ["v1"] => Route::Index,
        // Whoever probes it is told the state of the service, and spends nothing, whatever else is
        // in the request.
        ["v1", "health"] => return Ok(Route::Health),
        ["v1", "islands", code] => Route::Island(island_code(code)?),
        ["v1", "islands", code, "ccu"] => Route::IslandCcu(island_code(code)?),
        ["v1", "creators", slug] => Route::Creator((*slug).to_owned()),
        ["v1", "live"] => Route::Live,
        ["v1", "live", "intraday"] => Route::Intraday,
        ["v1", "rankings"] => Route::RankingDays,
        ["v1", "rankings", date] => Route::Ranking(day_ref(date)?),
        ["v1", "new"] => Route::NewDays,
        ["v1", "new", date] => Route::New(day_ref(date)?),
        _ => return Err(unknown(path)),
    };
    query::check(query)?;
    Ok(route)
}

/// What any other path names. Queries of pages are for whoever led people there.
fn outside(segments: &[&str], path: &str, query: Option<&str>) -> Result<Outside, RouteError> {
    match segments {
        ["openapi.json"] => Ok(Outside::OpenApi),
        ["docs"] => Ok(Outside::Docs),
        [""] if IslandQuery::is_in(query) => Ok(Outside::Search(IslandQuery::parse(query)?)),
        [""] => Ok(Outside::Home),
        ["islands", code] => Ok(Outside::Island(island_code(code)?)),
        ["keys"] => Ok(Outside::Keys),
        other => {
            let file = SiteFile::find(other).map(Outside::Site);
            file.ok_or_else(|| unknown(path))
        }
    }
}

/// The decoded segments, and how many the path has, which may be more than are kept.
fn split(rest: &str) -> Result<([Cow<'_, str>; SEGMENTS_MAX], usize), BrokenEncoding> {
    let mut segments = [const { Cow::Borrowed("") }; SEGMENTS_MAX];
    let mut count = 0;
    for segment in rest.split('/') {
        let decoded = decode_segment(segment)?;
        if let Some(place) = segments.get_mut(count) {
            *place = decoded;
        }
        count += 1;
    }
    Ok((segments, count))
}

fn unknown(path: &str) -> RouteError {
    let bare = path.trim_end_matches('/');
    RouteError::NotFound(if bare.is_empty() || bare.len() == path.len() {
        format!(
            "unknown path {}; the endpoints are listed at /v1",
            Shown(path)
        )
    } else {
        format!(
            "unknown path with a trailing slash; without it: {}",
            Shown(bare)
        )
    })
}

fn island_code(text: &str) -> Result<IslandCode, RouteError> {
    text.parse().map_err(|_| {
        let want = "want three groups of four digits, as 1234-5678-9012";
        RouteError::BadRequest(format!("the island code is {}; {want}", Shown(text)))
    })
}

fn day_ref(text: &str) -> Result<DayRef, RouteError> {
    if text == "latest" {
        return Ok(DayRef::Latest);
    }
    if !UtcDay::looks_like(text) {
        let message = format!(
            "the date is {}; want a day as YYYY-MM-DD, or latest",
            Shown(text)
        );
        return Err(RouteError::BadRequest(message));
    }
    Ok(UtcDay::parse(text).map_or_else(|| DayRef::NoSuchDay(text.to_owned()), DayRef::Day))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound(path: &str) -> Route {
        parse(path, Some("key=k")).route.unwrap()
    }

    /// 400 or 404, and the message.
    fn refused(path: &str) -> (u16, String) {
        match parse(path, None).route.unwrap_err() {
            RouteError::BadRequest(message) => (400, message),
            RouteError::NotFound(message) => (404, message),
        }
    }

    #[test]
    fn every_endpoint_has_its_path() {
        let code: IslandCode = "0034-5678-9012".parse().unwrap();
        let day = DayRef::Day(UtcDay::parse("2024-02-29").unwrap());
        for (path, route) in [
            ("/v1", Route::Index),
            ("/%76%31", Route::Index),
            ("/v1/health", Route::Health),
            (
                "/v1/islands",
                Route::Islands(IslandQuery::parse(None).unwrap()),
            ),
            ("/v1/islands/0034-5678-9012", Route::Island(code)),
            ("/v1/islands/0034%2D5678-9012/ccu", Route::IslandCcu(code)),
            (
                "/v1/creators",
                Route::Creators(CreatorQuery::parse(None).unwrap()),
            ),
            (
                "/v1/creators/a%2Fb+%C3%A9",
                Route::Creator("a/b+é".to_owned()),
            ),
            ("/v1/live", Route::Live),
            ("/v1/live/intraday", Route::Intraday),
            ("/v1/rankings", Route::RankingDays),
            ("/v1/rankings/latest", Route::Ranking(DayRef::Latest)),
            ("/v1/rankings/2024-02-29", Route::Ranking(day.clone())),
            ("/v1/new", Route::NewDays),
            ("/v1/new/2024-02-29", Route::New(day)),
            (
                "/v1/new/2023-02-29",
                Route::New(DayRef::NoSuchDay("2023-02-29".to_owned())),
            ),
            ("/openapi.json", Route::Outside(Outside::OpenApi)),
            ("/docs", Route::Outside(Outside::Docs)),
            (
                "/assets/style.css",
                Route::Outside(Outside::Site(SiteFile::Style)),
            ),
            ("/", Route::Outside(Outside::Home)),
            (
                "/islands/0034-5678-9012",
                Route::Outside(Outside::Island("0034-5678-9012".parse().unwrap())),
            ),
            ("/keys", Route::Outside(Outside::Keys)),
        ] {
            assert_eq!(sound(path), route, "{path}");
            assert_eq!(
                parse(path, None).under_v1,
                path.starts_with("/v1") || path.starts_with("/%76"),
                "{path}"
            );
        }
    }

    #[test]
    fn unknown_paths_are_404() {
        for path in [
            "//",
            "/assets",
            "/assets/style.css/x",
            "/islands",
            "//v1",
            "/V1",
            "/v1%2Flive",
            "/v1/x",
            "/v1/live/x",
            "/v1/islands/1234/x",
            "/v1/islands/0034-5678-9012/ccu/x",
            "/v1/creators/a/b",
            "/v1//islands",
            "/openapi.json/v1",
        ] {
            let message = format!("unknown path \"{path}\"; the endpoints are listed at /v1");
            assert_eq!(refused(path), (404, message));
        }
    }

    #[test]
    fn a_trailing_slash_is_404_and_the_message_names_the_path_without_it() {
        for path in [
            "/v1",
            "/v1/islands",
            "/v1/islands/bad",
            "/openapi.json",
            "/v1/creators",
        ] {
            let message = format!("unknown path with a trailing slash; without it: \"{path}\"");
            assert_eq!(refused(&format!("{path}/")), (404, message.clone()));
            assert_eq!(refused(&format!("{path}//")), (404, message));
        }
    }

    #[test]
    fn malformed_segments_are_400() {
        for (path, part) in [
            ("/v1/islands/12", "island code is \"12\""),
            ("/v1/islands//ccu", "island code is \"\""),
            (
                "/v1/rankings/today",
                "date is \"today\"; want a day as YYYY-MM-DD, or latest",
            ),
            ("/v1/new/2024-1-01", "date is \"2024-1-01\""),
            ("/v1/creators/%ff", "not percent-encoded UTF-8"),
            ("/v1/a/b/c/d/e/%2", "not percent-encoded UTF-8"),
            ("v1/islands", "starts with /"),
            ("", "starts with /"),
            ("/%zz/v1", "not percent-encoded UTF-8"),
        ] {
            let (status, message) = refused(path);
            assert_eq!(status, 400, "{path}");
            assert!(message.contains(part), "{message}");
            assert_eq!(
                parse(path, None).under_v1,
                path.starts_with("/v1"),
                "{path}"
            );
        }
    }

    #[test]
    fn a_broken_query_is_400_on_endpoints_of_the_api_only() {
        for path in ["/v1", "/v1/islands", "/v1/creators/a", "/v1/new/2023-02-29"] {
            let parsed = parse(path, Some("x=%zz"));
            assert!(
                matches!(parsed.route, Err(RouteError::BadRequest(_))),
                "{path}"
            );
            let ignored = parse(path, Some("limits=0&x=1&x=2"));
            assert!(ignored.route.is_ok(), "{path}");
        }
        assert_eq!(
            parse("/openapi.json", Some("x=%zz")).route,
            Ok(Route::Outside(Outside::OpenApi))
        );
        assert!(parse("/v1/live", Some("limit=0")).route.is_ok());
        assert!(parse("/v1/creators", Some("limit=0")).route.is_err());
    }

    #[test]
    fn health_is_told_whatever_the_query() {
        for query in [None, Some("x=%zz"), Some("%"), Some("limit=0")] {
            assert_eq!(
                parse("/v1/health", query).route,
                Ok(Route::Health),
                "{query:?}"
            );
        }
    }
}

#[cfg(test)]
#[path = "dump_route_tests.rs"]
mod dump_tests;
