//! Pages of data: `/`, `/islands`, `/islands/{code}`, `/creators`, `/creators/{slug}`, `/rankings/{date}` and
//! `/new/{date}`. Their templates work on the members of the API's bodies.

use minijinja::value::{Serde, ValueKind};
use minijinja::{Value, context};
use serde::Serialize;
use serde_json::from_slice;

use super::bodies::{BodyOf, CcuBody, IntradayBody, members, start_of};
use super::chart::Chart;
use super::metrics::{METRICS, Metric, Unit};
use super::settings::SiteSettings;
use super::templates::{filled, page};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::model::IslandCode;

/// Rows of the islands with the most players now.
const LIVE_ROWS: usize = 10;
/// Rows on a page of new islands. The first day of a catalogue has all islands.
pub(super) const NEW_ROWS_MAX: usize = 100;

/// Returns the page of an error, with a search and links to other pages.
pub fn message_page(title: &str, message: &str, root: &str) -> String {
    page("message.html", context! { title, message, root })
}

/// Returns the page for a body that cannot be read, which would be a fault of the service.
fn unreadable_page(root: &str) -> String {
    let message = "This page cannot be shown. The API has the same data.";
    message_page("Nothing to show", message, root)
}

/// Returns `/`: the newest figures, the players of the last day, the ten highest peaks, and a search.
pub fn home(service: &SiteSettings, body_of: BodyOf<'_>) -> String {
    let body = |target| Some(members(&body_of(target)?));
    let live = body_of("/v1/live").and_then(|body| start_of(&body, "}", LIVE_ROWS));
    let intraday = body_of("/v1/live/intraday").and_then(|body| from_slice(&body).ok());
    let intraday: Option<IntradayBody> = intraday;
    let newest = intraday.as_ref().and_then(|body| body.points.last());
    let values = context! {
        index => body("/v1"),
        ranking => body("/v1/rankings/latest"),
        live,
        newest,
        players => intraday.as_ref().and_then(players),
        base_url => &service.base_url,
    };
    filled("home.html", values).unwrap_or_else(|_| unreadable_page(""))
}

/// Returns the chart of players with its first and last time, `None` without points.
fn players(intraday: &IntradayBody) -> Option<Value> {
    let points = &intraday.points;
    // Any time has a text: a platform's file may have one outside of the calendar.
    let name = |time: i64| {
        let minutes = time.rem_euclid(DAY_SECONDS) / 60;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    let step = intraday.resolution_seconds;
    let chart = Chart::new("Players", points, step, name, Unit::COUNT)?.values();
    let span = [points.first()?, points.last()?].map(|point| UnixSeconds(point.0));
    let span = Some(span).filter(|span| span.iter().all(|time| time.has_text()));
    let span = span.map(|span| span.map(|time| format!("{} {}", time.day(), name(time.0))));
    Some(context! { chart, span })
}

/// A query of a list, as its page needs it.
#[derive(Clone, Copy)]
pub struct ListQuery<'a> {
    /// The parameters that differ from their defaults, except those of the page.
    pub given: &'a [(&'static str, &'a str)],
    /// The island whose code is the searched text.
    pub island: Option<IslandCode>,
    /// The tags to choose from.
    pub tags: &'a [String],
}

/// Returns the page of islands, given the body of `/v1/islands` for the same query.
pub fn islands(body: &[u8], query: ListQuery<'_>) -> String {
    let values = context! {
        given => Serde(query.given),
        query => Value::from_pairs(query.given.iter().copied()),
        code => query.island.map(|code| code.to_string()),
        tags => Serde(query.tags),
        ..members(body)
    };
    filled("islands.html", values).unwrap_or_else(|_| unreadable_page(""))
}

/// Returns the page of creators, given the body of `/v1/creators` for the same search.
pub fn creators(body: &[u8], q: &str) -> String {
    let values = context! { q, ..members(body) };
    filled("creators.html", values).unwrap_or_else(|_| unreadable_page(""))
}

/// Returns the page of a creator, given the start of its body and that of its list of islands.
pub fn creator(body: &[u8], islands: &[u8]) -> Option<String> {
    let creator = start_of(body, "}}", 0)?.get_attr("creator").ok()?;
    let values = context! { root => "../", creator, ..members(islands) };
    filled("creator.html", values).ok()
}

/// Returns the page of an island: its newest day, its live players, and the history of a metric, one of
/// [`metric_names`](super::metric_names) by its index. Given are the bodies of `/v1/islands/{code}`, of
/// `/v1/islands/{code}/ccu` if histories are published, and of `/v1/live` if it is published, with the
/// island's players in it.
pub fn island(
    detail: &[u8],
    history: Option<&[u8]>,
    live: Option<(&[u8], Option<u64>)>,
    metric: usize,
) -> String {
    let metric = &METRICS[metric];
    let body = members(detail);
    // The long-run history has more days than the series.
    let history = history.filter(|_| metric.name == METRICS[0].name);
    let history = history.and_then(|body| from_slice::<CcuBody>(body).ok());
    let points = history.map_or_else(|| series(&body, metric), |history| Some(history.ccu));
    let page = points.and_then(|points| {
        let live = live.and_then(|(body, players)| {
            let time = start_of(body, "}", 0)?.get_attr("time").ok()?.as_i64()?;
            Some(context! { time, players })
        });
        let newest_first = points.iter().rev();
        let days: Value = newest_first
            .map(|(day, value)| (day, metric.unit.text(*value)))
            .collect();
        let chart = chart(metric, &points);
        let values = context! { root => "../", metric => Serde(metric), live, days, chart, ..body };
        filled("island.html", values).ok()
    });
    page.unwrap_or_else(|| unreadable_page("../"))
}

/// Returns the days of an island's series with the known values of a metric, in parts of its unit.
fn series(body: &Value, metric: &Metric) -> Option<Vec<(String, u64)>> {
    let series = body.get_attr("island").ok()?.get_attr("series").ok()?;
    // Nothing can be iterated too.
    let series = Some(series).filter(|series| series.kind() == ValueKind::Seq)?;
    let mut points = Vec::new();
    for day in series.try_iter().ok()? {
        let value = day.get_attr(metric.name).ok()?;
        if let Some(parts) = metric.in_parts(&value).ok()? {
            points.push((day.get_attr("date").ok()?.as_str()?.to_owned(), parts));
        }
    }
    Some(points)
}

/// Returns the chart of a metric, `None` without known values.
fn chart(metric: &Metric, days: &[(String, u64)]) -> Option<Value> {
    let points = days.iter();
    let points: Vec<(i64, u64)> = points
        .filter_map(|(day, value)| Some((i64::from(UtcDay::parse(day)?.0) * DAY_SECONDS, *value)))
        .collect();
    let name = |time: i64| UnixSeconds(time).day().to_string();
    let chart = Chart::new(metric.label, &points, DAY_SECONDS, name, metric.unit)?;
    Some(chart.values())
}

/// A day and its neighbours among the published days.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DayLinks<'a> {
    /// The day before.
    pub previous: Option<&'a str>,
    /// The day after.
    pub next: Option<&'a str>,
    /// The first and the last day.
    pub range: [&'a str; 2],
    /// The relative path from the page to the root of the service.
    pub root: &'a str,
}

/// Returns the page of a ranking, given the body of `/v1/rankings/{date}`.
pub fn ranking(body: &[u8], links: DayLinks<'_>) -> Option<String> {
    let values = context! { root => links.root, links => Serde(links), ..members(body) };
    filled("ranking.html", values).ok()
}

/// Returns the page of new islands, given the start of the body of `/v1/new/{date}`.
pub fn new_islands(body: &[u8], published: &str, links: DayLinks<'_>) -> Option<String> {
    let body = start_of(body, "}", NEW_ROWS_MAX)?;
    let values = context! { root => links.root, links => Serde(links), published, ..body };
    filled("new.html", values).ok()
}
