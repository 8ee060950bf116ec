//! The arguments of endpoints, each parsed from one parameter of the path or from the query.

use std::fmt;

use super::error::{Quoted, RouteError};
use super::lists::{ListQuery, Parameter, one_of};
use super::parameters::{CREATOR_PARAMETERS, ISLAND_PARAMETERS};
use super::percent::decode_segment;
use super::query::Query;
use crate::calendar::UtcDay;
use crate::model::{self, IslandCode, METRIC_NAMES};

/// The numbers of newest days that a chart of days can be limited to.
pub const CHART_DAYS: [&str; 2] = ["30", "90"];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    None,
    Code(IslandCode),
    /// Any text that is not empty. One that is not a slug names no creator.
    Slug(String),
    Day(DayRef),
    Islands(ListQuery),
    Creators(ListQuery),
    /// An island, and of its chart the metric, and the newest days to which it is limited.
    Chart(IslandCode, &'static str, Option<usize>),
    /// The name of a dump: segments with slashes between them.
    Dump(String),
}

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

/// The parts of a target that an argument is parsed from.
pub(super) struct Sent<'a, 'q> {
    /// The path as sent.
    pub(super) path: &'a str,
    /// The decoded segment of the path's parameter; empty if the path has none.
    pub(super) segment: &'a str,
    pub(super) query: &'a Query<'q>,
}

/// The query parameters that an endpoint declares, which lists do, and the parser of its argument. Other sites add
/// parameters to links, so pages that take none do not even decode them.
pub(super) struct Takes {
    pub(super) parameters: &'static [Parameter],
    pub(super) parse: fn(&Sent<'_, '_>) -> Result<Argument, RouteError>,
}

pub(super) const NOTHING: Takes = Takes::new(|_| Ok(Argument::None));
pub(super) const CODE: Takes = Takes::new(|sent| island_code(sent).map(Argument::Code));
pub(super) const SLUG: Takes = Takes::new(|sent| Ok(Argument::Slug(sent.segment.to_owned())));
pub(super) const DAY: Takes = Takes::new(|sent| day_ref(sent.segment).map(Argument::Day));
pub(super) const DUMP: Takes = Takes::new(|sent| dump_name(sent.path).map(Argument::Dump));
pub(super) const ISLANDS: Takes = Takes {
    parameters: ISLAND_PARAMETERS,
    parse: |sent| ListQuery::parse(sent.query, ISLAND_PARAMETERS).map(Argument::Islands),
};
/// Like [`ISLANDS`], without the empty fields that a form sends.
pub(super) const ISLANDS_FORM: Takes = Takes {
    parse: |sent| parse_form(sent, &ISLANDS),
    ..ISLANDS
};
pub(super) const CREATORS: Takes = Takes {
    parameters: CREATOR_PARAMETERS,
    parse: |sent| ListQuery::parse(sent.query, CREATOR_PARAMETERS).map(Argument::Creators),
};
/// Like [`CREATORS`], without the empty fields that a form sends.
pub(super) const CREATORS_FORM: Takes = Takes {
    parse: |sent| parse_form(sent, &CREATORS),
    ..CREATORS
};
pub(super) const CHART: Takes = Takes::new(|sent| {
    let code = island_code(sent)?;
    let [metric, days] = sent.query.values(&["metric", "days"])?;
    let metric = metric.map(|metric| one_of("metric", &metric, &METRIC_NAMES));
    let days = days.map(|days| one_of("days", &days, &CHART_DAYS));
    let metric = metric.transpose()?.unwrap_or(METRIC_NAMES[0]);
    let days = days.transpose()?.and_then(model::digits);
    Ok(Argument::Chart(code, metric, days))
});
/// A day as parameter of the query, by default the newest.
pub(super) const DAY_IF_SENT: Takes = Takes::new(|sent| {
    let [date] = sent.query.values(&["date"])?;
    let day = date.map_or(Ok(DayRef::Latest), |date| day_ref(&date));
    day.map(Argument::Day)
});

impl Takes {
    const fn new(parse: fn(&Sent<'_, '_>) -> Result<Argument, RouteError>) -> Takes {
        Takes {
            parameters: &[],
            parse,
        }
    }
}

/// Parses a query without its empty fields, which forms of pages send for filters that are not used.
fn parse_form(sent: &Sent<'_, '_>, takes: &Takes) -> Result<Argument, RouteError> {
    let query = &sent.query.without_empty();
    (takes.parse)(&Sent { query, ..*sent })
}

/// Returns the name of the dump at a path. Segments are decoded one by one: no name has an encoded slash. Whether
/// there is such a dump is checked later.
fn dump_name(path: &str) -> Result<String, RouteError> {
    let name = path[1..].split_once('/').map_or("", |(_, name)| name);
    if name.is_empty() {
        return Ok("index.json".to_owned());
    }
    // Generated clients encode the slash of a name, which is a character of it like any other.
    let segments: Option<Vec<_>> = name.split('/').map(decode_segment).collect();
    segments.map_or_else(|| Err(no_dump(name)), |segments| Ok(segments.join("/")))
}

/// Returns the error for a name that no dump has.
pub fn no_dump(name: &str) -> RouteError {
    let name = Quoted(name);
    RouteError::NotFound(format!(
        "no dump is named {name}; the names are listed at /dumps/index.json"
    ))
}

fn island_code(sent: &Sent<'_, '_>) -> Result<IslandCode, RouteError> {
    let wanted = "three groups of four digits with hyphens, such as 1234-5678-9012";
    let invalid = |()| RouteError::invalid("the island code", wanted, sent.segment);
    sent.segment.parse().map_err(invalid)
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
