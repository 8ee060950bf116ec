//! Pages of data: `/`, `/islands`, `/islands/{code}`, `/live`, `/creators`, `/creators/{slug}`, `/rankings/{date}`
//! and `/new/{date}`. Their templates work on the members of the API's bodies.

use std::borrow::Cow;

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;
use serde_json::from_slice;

use super::bodies::{BodyOf, CcuBody, LiveSteps, members, start_of, start_of_list};
use super::chart::Chart;
use super::metrics::{METRICS, Metric, Unit, average};
use super::settings::SiteSettings;
use super::templates::{filled, page};
use crate::calendar::{DAY_SECONDS, UtcDay};
use crate::request::{Filter, Kind, LIMIT_DEFAULT, ListQuery, Parameter};

/// The list of days of an island, after another member.
const SERIES: &[u8] = b",\"series\":[";
/// Rows of the islands with the most players now.
const LIVE_ROWS: usize = 10;
/// Rows on a page of new islands, and of live players. The first day of a catalogue has all islands.
pub(super) const ROWS_MAX: usize = 100;

/// Returns the page of an error, with a search and links to other pages. `days` are the folder of pages of days, and the
/// first and the last of these.
pub fn message_page(
    (title, message): (&str, &str),
    root: &str,
    notice: Option<&str>,
    days: Option<[&str; 3]>,
) -> String {
    page(
        "message.html",
        context! { title, message, root, notice, days => Serde(days) },
    )
}

/// Returns `/`: the newest figures, the players of the last day, the ten highest peaks, and a search.
pub fn home(service: &SiteSettings, body_of: BodyOf<'_>) -> String {
    let notice = service.notice.as_deref();
    let body = |target| Some(members(&body_of(target)?));
    let live = body_of("/v1/live").and_then(|body| start_of(&body, "}", LIVE_ROWS));
    let steps = body_of("/v1/live/intraday").and_then(|body| from_slice(&body).ok());
    let steps: Option<LiveSteps<u64>> = steps;
    let points = steps.as_ref().map_or(&[][..], |steps| &steps.points);
    let step = steps.as_ref().map_or(0, |steps| steps.resolution_seconds);
    let chart = Chart::new("Players", Unit::COUNT, points, step, i64::MIN);
    let values = context! {
        index => body("/v1"),
        ranking => body("/v1/rankings/latest"),
        live,
        oldest => points.first(),
        newest => points.last(),
        chart => chart.map(|chart| chart.values()),
        base_url => &service.base_url,
        notice,
    };
    // A body that cannot be read would be a fault of the service.
    let message = "This page cannot be shown. The API has the same data.";
    filled("home.html", values)
        .unwrap_or_else(|_| message_page(("Nothing to show", message), "", notice, None))
}

/// Returns the field of a parameter in the form of the list of islands: its name, label and value, the words before the
/// value in a sentence, its input, which is `search`, `number`, `select` or, if its value only stays as it is, `hidden`,
/// and the values to choose from, each with its text. `None` if it is no filter.
fn form_field(parameter: &Parameter, query: &ListQuery, tags: &[String]) -> Option<Value> {
    let (input, choices): (_, Vec<(&str, &str)>) = match parameter.kind {
        _ if parameter.default.is_some() => return None,
        _ if parameter.label.is_none() => ("hidden", Vec::new()),
        Kind::Name { names, texts, .. } => {
            let texts = texts.iter().copied();
            ("select", names.iter().copied().zip(texts).collect())
        }
        Kind::Integer { .. } => ("number", Vec::new()),
        Kind::Text { is_tag: true, .. } => {
            ("select", tags.iter().map(|tag| (&**tag, &**tag)).collect())
        }
        Kind::Text { .. } => ("search", Vec::new()),
    };
    Some(context! {
        name => parameter.name,
        label => parameter.label,
        words => parameter.words,
        value => query.filter(parameter.name).map(Filter::text),
        input,
        choices => choices.into_iter().collect::<Value>(),
    })
}

/// Returns the page of islands, given the body of `/v1/islands` for the same query, the parameters of the list, and the
/// tags to choose from. This page and those below are `None` if a body cannot be read.
pub fn islands(
    body: &[u8],
    (parameters, query): (&[Parameter], &ListQuery),
    tags: &[String],
    notice: Option<&str>,
) -> Option<String> {
    let limit = query.page.limit.to_string();
    let limit = Some(("limit", Cow::Borrowed(&*limit)));
    // Links keep a limit that is not the usual one.
    let limit = limit.filter(|_| query.page.limit != LIMIT_DEFAULT);
    let given: Vec<(&str, Cow<'_, str>)> = query.given().chain(limit).collect();
    let fields = parameters.iter();
    let fields = fields.filter_map(|parameter| form_field(parameter, query, tags));
    let values = context! {
        notice,
        query => Value::from_pairs(given.iter().map(|(name, value)| (*name, &**value))),
        given => Serde(given),
        fields => fields.collect::<Value>(),
        ..members(body)
    };
    filled("islands.html", values).ok()
}

/// Returns the page of creators, given the body of `/v1/creators` for the same search, and the newest day if there is one.
pub fn creators(body: &[u8], q: &str, date: Option<&str>, notice: Option<&str>) -> Option<String> {
    let values = context! { notice, q, date, ..members(body) };
    filled("creators.html", values).ok()
}

/// Returns the page of a creator, given the start of its body and that of its list of islands.
pub fn creator(body: &[u8], islands: &[u8], notice: Option<&str>) -> Option<String> {
    let creator = start_of(body, "}}", 0)?.get_attr("creator").ok()?;
    let values = context! { root => "../", notice, creator, ..members(islands) };
    filled("creator.html", values).ok()
}

/// Contents of the page of an island. Each body may be cut off; a history that is cut off is not shown, since its newest
/// days are missing.
#[derive(Clone, Copy)]
pub struct IslandPage<'a> {
    /// The body of `/v1/islands/{code}`.
    pub detail: &'a [u8],
    pub published: &'a str,
    /// The body of `/v1/islands/{code}/ccu` if histories are published.
    pub history: Option<&'a [u8]>,
    /// The body of `/v1/live` if it is published, with the island's players in it.
    pub live: Option<(&'a [u8], Option<u64>)>,
    /// Its place among the islands with a peak on the newest day, and their number.
    pub rank: Option<(u64, u64)>,
    pub notice: Option<&'a str>,
    /// The metric of the chart, one of [`METRIC_NAMES`](crate::model::METRIC_NAMES).
    pub metric: &'a str,
    /// The newest days to which the chart is limited, if it has more.
    pub days: Option<usize>,
}

/// Returns the page of an island: its newest figures, the history of a metric, and all metrics of the newest day.
pub fn island(page: IslandPage<'_>) -> Option<String> {
    let metric = Metric::named(page.metric).ok()?;
    let is_peak = metric.name == METRICS[0].name;
    let history: Option<CcuBody> = page.history.and_then(|body| from_slice(body).ok());
    let (body, series, is_series_cut_off) = start_of_list(page.detail, SERIES, "}}", usize::MAX)?;
    let series = if is_series_cut_off { &[][..] } else { &series };
    // The long-run history has more days than the series, and is not cut off.
    let is_cut_off = is_series_cut_off && !(history.is_some() && is_peak);
    let peaks = match history {
        Some(history) => history.ccu,
        None => points(series, &METRICS[0])?,
    };
    let shown = if is_peak {
        peaks.clone()
    } else {
        points(series, metric)?
    };
    let live = page.live.and_then(|(body, players)| {
        let time = start_of(body, "}", 0)?.get_attr("time").ok()?.as_i64()?;
        Some(context! { time, players })
    });
    // The newest published day is the same for all islands.
    let newest_day = body
        .get_attr("island")
        .and_then(|island| island.get_attr("date"));
    let newest_day = newest_day.ok()?;
    let chart = chart(metric, &shown, newest_day.as_str());
    // The first of equal peaks.
    let highest = peaks.iter().rev().max_by_key(|(_, peak)| *peak);
    let before = peaks.iter().nth_back(1);
    let change = peaks.last().zip(before);
    let change = change.map(|(newest, before)| Unit::COUNT.change(before.1, newest.1));
    let values = context! {
        root => "../",
        notice => page.notice,
        published => page.published,
        metric => Serde(metric),
        live,
        days => changing(metric.unit, shown.iter().map(|(day, value)| (day, *value, ()))),
        months => changing(metric.unit, months(metric.unit, &shown).into_iter()),
        range => page.days,
        ranges => chart.as_ref().map(Chart::ranges),
        chart => chart.map(|chart| chart.limited(page.days).values()),
        is_cut_off,
        newest => peaks.last(),
        before => before,
        change => Serde(change),
        highest,
        oldest => peaks.first(),
        rank => page.rank.map(|(rank, _)| rank),
        islands => page.rank.map(|(_, islands)| islands),
        ..body
    };
    filled("island.html", values).ok()
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

/// Returns the months of a history, oldest first: the average, the number of known days, and the highest value.
fn months(unit: Unit, days: &[(String, u64)]) -> Vec<(Option<&str>, u64, (usize, String))> {
    fn month((day, _): &(String, u64)) -> Option<&str> {
        day.get(.."2026-11".len())
    }
    let months = days.chunk_by(|one, other| month(one) == month(other));
    let months = months.map(|days| {
        let average = average(days.iter().map(|(_, value)| *value));
        let highest = days.iter().map(|(_, value)| *value).max();
        let highest = unit.text(highest.unwrap_or_default());
        (month(&days[0]), average, (days.len(), highest))
    });
    months.collect()
}

/// Returns the rows of a table, newest first: name, value, the change since the row before in time if there is one, and
/// the rest.
fn changing<N: Serialize, R: Serialize>(
    unit: Unit,
    rows: impl Iterator<Item = (N, u64, R)>,
) -> Value {
    let mut before = None;
    let rows = rows.map(|(name, value, rest)| {
        let change = before.replace(value);
        let change = change.map(|before| unit.change(before, value));
        Value::from(Serde((name, unit.text(value), change, rest)))
    });
    let mut rows: Vec<Value> = rows.collect();
    rows.reverse();
    Value::from(rows)
}

/// Returns the chart of a metric up to the newest day, on which an island may have no value; `None` without known values.
fn chart<'a>(
    metric: &'a Metric,
    days: &[(String, u64)],
    newest: Option<&str>,
) -> Option<Chart<'a>> {
    let time = |day: &str| Some(UtcDay::parse(day)?.start().0);
    let points = days.iter();
    let points: Vec<(i64, u64)> = points
        .filter_map(|(day, value)| Some((time(day)?, *value)))
        .collect();
    let end = newest.and_then(time).unwrap_or(i64::MIN);
    Chart::new(metric.label, metric.unit, &points, DAY_SECONDS, end)
}

/// A day and its neighbours among the published days.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DayLinks<'a> {
    pub previous: Option<&'a str>,
    pub next: Option<&'a str>,
    /// The first and the last day.
    pub range: [&'a str; 2],
    /// The relative path from the page to the root of the service.
    pub root: &'a str,
    pub notice: Option<&'a str>,
}

/// Returns the page of a ranking, given the body of `/v1/rankings/{date}`.
pub fn ranking(body: &[u8], links: DayLinks<'_>) -> Option<String> {
    let (root, notice) = (links.root, links.notice);
    let values = context! { root, notice, links => Serde(links), ..members(body) };
    filled("ranking.html", values).ok()
}

/// Returns the page of new islands, given the start of the body of `/v1/new/{date}`.
pub fn new_islands(body: &[u8], published: &str, links: DayLinks<'_>) -> Option<String> {
    let body = start_of(body, "}", ROWS_MAX)?;
    let (root, notice) = (links.root, links.notice);
    let (first_day, links) = (links.range[0], Serde(links));
    let values = context! { root, notice, first_day, links, published, ..body };
    filled("new.html", values).ok()
}

/// Returns the page of the islands with the most players, given the start of the body of `/v1/live` if it is published.
pub fn live(body: Option<&[u8]>, published: &str, notice: Option<&str>) -> Option<String> {
    let is_published = body.is_some();
    let body = match body {
        Some(body) => start_of(body, "}", ROWS_MAX)?,
        None => context! {},
    };
    filled(
        "live.html",
        context! { is_published, published, notice, ..body },
    )
    .ok()
}
