//! Parsing of a request target: the path selects an endpoint of the table, whose argument is parsed.
//!
//! The path is split into segments first, and each is decoded once, so `%2F` separates nothing.
//! Endpoints without text of their own are parsed without an allocation.

use std::borrow::Cow;

use super::argument::{Argument, Sent};
use super::endpoint::{Endpoint, Source};
use super::error::{Quoted, RouteError};
use super::percent::decode_segment;
use super::query::Query;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    pub endpoint: Endpoint,
    pub argument: Argument,
}

impl Route {
    pub const fn new(endpoint: Endpoint, argument: Argument) -> Route {
        Route { endpoint, argument }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedTarget<'q> {
    /// Whether the target is under `/v1`, where requests are metered, valid or not.
    pub under_v1: bool,
    /// The endpoint, also if the path or its parameters are invalid.
    pub endpoint: Endpoint,
    pub query: Query<'q>,
    pub route: Result<Route, RouteError>,
}

/// Parses a path and a query string, both as sent.
pub fn parse<'q>(path: &str, query: Option<&'q str>) -> ParsedTarget<'q> {
    let query = Query::split(query);
    let Some(rest) = path.strip_prefix('/') else {
        let message = format!("the path must start with /, got {}", Quoted(path));
        return ParsedTarget {
            under_v1: false,
            endpoint: Endpoint::Unknown,
            query,
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
    } else if rest.ends_with('/') && (endpoint, count) != (Endpoint::Dump, 2) {
        Err(unknown(path))
    } else {
        let parameter = endpoint.parameter_index().and_then(|at| segments.get(at));
        let segment = parameter.copied().unwrap_or_default();
        let sent = Sent {
            path,
            segment,
            query: &query,
        };
        argument(endpoint, &sent).map(|argument| Route::new(endpoint, argument))
    };
    ParsedTarget {
        under_v1: segments[0] == "v1",
        endpoint,
        query,
        route,
    }
}

fn argument(endpoint: Endpoint, sent: &Sent<'_, '_>) -> Result<Argument, RouteError> {
    let takes = endpoint.takes().ok_or_else(|| unknown(sent.path))?;
    let argument = (takes.parse)(sent)?;
    if takes.parameters.is_empty() && matches!(endpoint.source(), Some(Source::Published(_))) {
        let [] = sent.query.values(&[])?;
    }
    Ok(argument)
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

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
