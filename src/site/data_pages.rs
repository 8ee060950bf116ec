//! Pages of data: `/`, `/islands`, `/islands/{code}`, `/creators`, `/creators/{slug}`, `/rankings/{date}` and
//! `/new/{date}`. Their templates work on the members of the API's bodies.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;
use serde_json::from_slice;

use super::bodies::{BodyOf, CcuBody, IntradayBody, members, start_of, start_of_list};
use super::chart::Chart;
use super::metrics::{METRICS, Metric, Unit};
use super::settings::SiteSettings;
use super::templates::{filled, page};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

/// The list of days of an island, after another member.
const SERIES: &[u8] = b",\"series\":[";
/// Rows of the islands with the most players now.
const LIVE_ROWS: usize = 10;
/// Rows on a page of new islands, and of live players. The first day of a catalogue has all islands.
pub(super) const ROWS_MAX: usize = 100;

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
        is_sample => service.is_sample,
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
    pub tags: &'a [String],
}

/// Returns the page of islands, given the body of `/v1/islands` for the same query.
pub fn islands(body: &[u8], query: ListQuery<'_>) -> String {
    let values = context! {
        given => Serde(query.given),
        query => Value::from_pairs(query.given.iter().copied()),
        tags => Serde(query.tags),
        ..members(body)
    };
    filled("islands.html", values).unwrap_or_else(|_| unreadable_page(""))
}

/// Returns the page of creators, given the body of `/v1/creators` for the same search, and the newest day if there is one.
pub fn creators(body: &[u8], q: &str, date: Option<&str>) -> String {
    let values = context! { q, date, ..members(body) };
    filled("creators.html", values).unwrap_or_else(|_| unreadable_page(""))
}

/// Returns the page of a creator, given the start of its body and that of its list of islands.
pub fn creator(body: &[u8], islands: &[u8]) -> Option<String> {
    let creator = start_of(body, "}}", 0)?.get_attr("creator").ok()?;
    let values = context! { root => "../", creator, ..members(islands) };
    filled("creator.html", values).ok()
}

/// Contents of the page of an island. Each body may be cut off; a history that is cut off is not shown, since its newest
/// days are missing.
#[derive(Clone, Copy)]
pub struct IslandPage<'a> {
    /// The body of `/v1/islands/{code}`.
    pub detail: &'a [u8],
    /// The time of the publish.
    pub published: &'a str,
    /// The body of `/v1/islands/{code}/ccu` if histories are published.
    pub history: Option<&'a [u8]>,
    /// The body of `/v1/live` if it is published, with the island's players in it.
    pub live: Option<(&'a [u8], Option<u64>)>,
    /// Its place among all islands by the peak of the newest day, and their number.
    pub rank: Option<(u64, u64)>,
    /// The metric of the chart, by its index in [`metric_names`](super::metric_names).
    pub metric: usize,
}

/// Returns the page of an island: its newest figures, the history of a metric, and all metrics of the newest day.
pub fn island(page: IslandPage<'_>) -> String {
    let metric = &METRICS[page.metric];
    let history = page
        .history
        .and_then(|body| from_slice::<CcuBody>(body).ok());
    let html = start_of_list(page.detail, SERIES, "}}", usize::MAX);
    let html = html.and_then(|(body, series, is_cut_off)| {
        // The long-run history has more days than the series.
        let is_cut_off = is_cut_off && (history.is_none() || metric.name != METRICS[0].name);
        let peaks = match history {
            Some(history) => history.ccu,
            None if is_cut_off => Vec::new(),
            None => points(&series, &METRICS[0])?,
        };
        let shown = match metric.name {
            _ if is_cut_off => Vec::new(),
            name if name == METRICS[0].name => peaks.clone(),
            _ => points(&series, metric)?,
        };
        let live = page.live.and_then(|(body, players)| {
            let time = start_of(body, "}", 0)?.get_attr("time").ok()?.as_i64()?;
            Some(context! { time, players })
        });
        let newest_first = shown.iter().rev();
        let days: Value = newest_first
            .map(|(day, value)| (day, metric.unit.text(*value)))
            .collect();
        // The first of equal peaks.
        let highest = peaks.iter().rev().max_by_key(|(_, peak)| *peak);
        let values = context! {
            root => "../",
            published => page.published,
            metric => Serde(metric),
            live,
            days,
            charts => ranges(metric, &shown),
            is_cut_off,
            change => change(&peaks),
            highest => highest.map(|(day, peak)| (day, METRICS[0].unit.text(*peak))),
            rank => page.rank.map(|(rank, _)| rank),
            islands => page.rank.map(|(_, islands)| islands),
            ..body
        };
        filled("island.html", values).ok()
    });
    html.unwrap_or_else(|| unreadable_page("../"))
}

/// Returns the change of the newest known peak, with its day; `None` if the peak of the day before is not known.
fn change(peaks: &[(String, u64)]) -> Option<Value> {
    let [.., (before, old), (day, new)] = peaks else {
        return None;
    };
    let [first, second] = [before, day].map(|day| UtcDay::parse(day));
    (second?.0 == first?.0 + 1).then(|| {
        let by = new.abs_diff(*old);
        // In tenths of a percent.
        let share = u64::try_from(u128::from(by) * 1_000 / u128::from(*old).max(1));
        let percent = share.ok().filter(|_| *old > 0);
        context! {
            day,
            is_rise => new >= old,
            by,
            percent => percent.map(|tenths| Unit::tenths("%").text(tenths)),
        }
    })
}

/// Returns the days of an island's series with the known values of a metric, in parts of its unit.
fn points(series: &[Value], metric: &Metric) -> Option<Vec<(String, u64)>> {
    let mut points = Vec::new();
    for day in series {
        let value = day.get_attr(metric.name).ok()?;
        if let Some(parts) = metric.in_parts(&value).ok()? {
            points.push((day.get_attr("date").ok()?.as_str()?.to_owned(), parts));
        }
    }
    Some(points)
}

/// Returns the charts of a metric, `None` without known values.
fn ranges(metric: &Metric, days: &[(String, u64)]) -> Option<Value> {
    let points = days.iter();
    let points: Vec<(i64, u64)> = points
        .filter_map(|(day, value)| Some((i64::from(UtcDay::parse(day)?.0) * DAY_SECONDS, *value)))
        .collect();
    let name = |time: i64| UnixSeconds(time).day().to_string();
    let chart = Chart::new(metric.label, &points, DAY_SECONDS, name, metric.unit)?;
    Some(chart.ranges())
}

/// A day and its neighbours among the published days.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DayLinks<'a> {
    /// The day before.
    pub previous: Option<&'a str>,
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
    let body = start_of(body, "}", ROWS_MAX)?;
    let values = context! { root => links.root, links => Serde(links), published, ..body };
    filled("new.html", values).ok()
}

/// Returns the page of the islands with the most players, given the start of the body of `/v1/live`.
pub fn live(body: &[u8], published: &str) -> Option<String> {
    let body = start_of(body, "}", ROWS_MAX)?;
    filled("live.html", context! { published, ..body }).ok()
}
