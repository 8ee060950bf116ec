//! `/islands/{code}`: an island's newest day, its live players, and the history of a metric.

use serde_json::{Value, from_slice};

use super::api_bodies::{CcuBody, Island, IslandBody, LiveIsland, start_of};
use super::chart::Chart;
use super::html::{
    CHARTS, Escaped, count, creator_link, day, each, encoded, html_page, step, tab, tile,
    title_or_code, unreadable_page,
};
use super::html_tables::{METRICS, Metric};
use super::templates::filled;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

/// Returns the names of the metrics to choose from; the first is the default.
pub fn metric_names() -> [&'static str; 9] {
    METRICS.each_ref().map(|metric| metric.name)
}

/// Returns the page, with a chart of one of [`metric_names`] by its index, given the bodies of
/// `/v1/islands/{code}`, of `/v1/islands/{code}/ccu` if histories are published, and of `/v1/live` if it
/// is published, with the island's players in it.
pub fn island(
    detail: &[u8],
    history: Option<&[u8]>,
    live: Option<(&[u8], Option<u64>)>,
    metric: usize,
) -> String {
    let Ok(IslandBody { island, meta }) = from_slice(detail) else {
        return unreadable_page("../");
    };
    let metric = &METRICS[metric];
    let published = &meta.generated_at;
    let history = history.filter(|_| metric.name == METRICS[0].name);
    let history = history.and_then(|body| from_slice::<CcuBody>(body).ok());
    // The long-run history has more days than the series.
    let points: Vec<(&str, u64)> = if let Some(history) = &history {
        let peaks = history.ccu.iter();
        peaks.map(|(day, peak)| (day.as_str(), *peak)).collect()
    } else {
        let days = island.series.iter();
        days.filter_map(|point| Some((point.date.as_deref()?, (metric.value)(point)?)))
            .collect()
    };
    let name = title_or_code(&island.title, &island.code);
    let code = Escaped(&island.code);
    let (title, about) = (Escaped(name), about(&island));
    let live = live.and_then(|(body, players)| {
        let (head, _) = start_of::<Value, LiveIsland>(body, "}", 0)?;
        Some((head["time"].as_i64()?, players))
    });
    let step = each(live, |(time, _)| step(time, published));
    let players = each(live, |(_, players)| match players {
        Some(players) => count(players),
        None => "not in the live snapshot".to_owned(),
    });
    let date = each(&island.metrics.date, |date| day(date, published));
    let tiles = each(&METRICS, |metric| {
        tile(metric.label, &metric.text(&island.metrics))
    });
    let choices = each(METRICS.iter().enumerate(), |(at, other)| {
        let query = each((at > 0).then_some(other.name), |name| {
            format!("?metric={name}")
        });
        let url = format!("{code}{query}#history");
        tab(&url, other.label, other.name == metric.name)
    });
    let (chart, known, label) = (
        chart(metric, &points),
        count(points.len() as u64),
        metric.label,
    );
    let rows = each(points.iter().rev(), |(day, value)| {
        let (day, value) = (Escaped(day), metric.unit.text(*value));
        format!("<tr><td>{day}<td class=n>{value}")
    });
    let content = filled!(
        "island.html"; title, about, players, step, date, tiles, label, choices, chart, known, rows, code
    );
    let description = format!("Daily metrics and player history of the game island {name}.");
    html_page(["../", "islands", name, &description], CHARTS, &content)
}

fn about(island: &Island) -> String {
    let creator = each(&island.creator, |slug| creator_link("../", slug));
    let tool = encoded(island.created_in.as_deref().unwrap_or_default());
    let tool_name = if tool == "uefn" { "UEFN" } else { "Creative" };
    let seen = [&island.first_seen, &island.last_seen];
    let [first, last] = seen.map(|day| Escaped(day.as_deref().unwrap_or_default()));
    let tags = each(&island.tags, |tag| {
        let (encoded, tag) = (encoded(tag), Escaped(tag));
        format!(" <a class=tag href=\"../islands?tag={encoded}\"><bdi>{tag}</bdi></a>")
    });
    let code = Escaped(&island.code);
    filled!("about_island.html"; code, creator, tool, tool_name, first, last, tags)
}

/// Returns the chart of a metric, or an empty text without known values.
fn chart(metric: &Metric, days: &[(&str, u64)]) -> String {
    let points = days.iter();
    let points: Vec<(i64, u64)> = points
        .filter_map(|(day, value)| Some((i64::from(UtcDay::parse(day)?.0) * DAY_SECONDS, *value)))
        .collect();
    let name = |time: i64| UnixSeconds(time).day().to_string();
    let chart = Chart::new(metric.label, &points, DAY_SECONDS, name, metric.unit);
    each(chart, |chart| chart.figure())
}
