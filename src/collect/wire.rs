//! Content of the upstream's responses, as far as it is used. Unknown members are ignored.
//!
//! Parsing is strict about the shape of a response and lenient about its rows: a response without the
//! expected members is refused, a row or value that cannot be used is left out and counted.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::clean::{Cleaned, RawIsland, clean};
use super::ledger::newer;
use super::repair::repair;
use super::settings::PlatformSeries;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::{Island, Metrics};
use crate::model::{COUNT_MAX, IslandCode};

pub(super) const STEP_SECONDS: i64 = 600;

#[derive(Debug, Default)]
pub(super) struct CataloguePage {
    pub(super) islands: Vec<Island>,
    /// Cursor of the next page; `None` on the last.
    pub(super) next: Option<String>,
    pub(super) cleaned: Cleaned,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paging {
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    page: Option<Paging>,
    snapshot_available: Option<bool>,
}

#[derive(Deserialize)]
struct Links {
    next: Option<String>,
}

#[derive(Deserialize)]
struct Page<T> {
    data: Vec<T>,
    meta: Option<PageMeta>,
    links: Option<Links>,
}

impl<T> Page<T> {
    /// Returns the cursor of the next page. Both members that tell of one must.
    fn next(&self) -> Option<String> {
        let linked = self.links.as_ref().is_none_or(|links| links.next.is_some());
        let paging = self.meta.as_ref()?.page.as_ref()?;
        paging
            .next_cursor
            .clone()
            .filter(|_| linked && !self.data.is_empty())
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("the body is not as expected: {error}"))
}

pub(super) fn catalogue_page(body: &[u8]) -> Result<CataloguePage, String> {
    let page: Page<RawIsland> = parse(&repair(body))?;
    let (next, mut cleaned) = (page.next(), Cleaned::default());
    let rows = page.data.iter();
    let islands = rows.filter_map(|row| clean(row, &mut cleaned)).collect();
    Ok(CataloguePage {
        islands,
        next,
        cleaned,
    })
}

pub(super) fn genres(body: &[u8]) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Genre {
        Slug(String),
        Object { slug: String },
    }
    let page: Page<Genre> = parse(&repair(body))?;
    let slug = |genre| match genre {
        Genre::Slug(slug) | Genre::Object { slug } => slug,
    };
    let is_plain = |slug: &String| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        matches!(slug.len(), 1..=64) && slug.bytes().all(plain) && slug != "." && slug != ".."
    };
    Ok(page.data.into_iter().map(slug).filter(is_plain).collect())
}

/// A page of a genre's ranking.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RankingPage {
    pub(super) ranks: Vec<(IslandCode, u32)>,
    pub(super) next: Option<String>,
}

/// Parses a page of `/genres/{slug}/rankings`.
pub(super) fn ranking_page(body: &[u8]) -> Result<RankingPage, String> {
    #[derive(Deserialize)]
    struct Ranked {
        #[serde(rename = "islandCode")]
        island_code: String,
        rank: u32,
    }
    let page: Page<Ranked> = parse(&repair(body))?;
    if page.meta.as_ref().and_then(|meta| meta.snapshot_available) == Some(false) {
        return Ok(RankingPage::default());
    }
    let next = page.next();
    let ranks = page
        .data
        .iter()
        .filter_map(|row| Some((row.island_code.parse().ok()?, row.rank)));
    Ok(RankingPage {
        ranks: ranks.collect(),
        next,
    })
}

#[derive(Deserialize)]
struct Point {
    value: Option<serde_json::Number>,
    timestamp: String,
}

#[derive(Deserialize)]
struct RetentionPoint {
    d1: Option<serde_json::Number>,
    d7: Option<serde_json::Number>,
    timestamp: String,
}

/// The nine metrics of an island by day.
#[derive(Debug, Default)]
pub(super) struct IslandDays {
    /// Days with at least one value.
    pub(super) rows: BTreeMap<UtcDay, Metrics>,
    /// Number of values that were out of range.
    pub(super) refused: u64,
}

/// Parses `/islands/{code}/metrics/day`.
pub(super) fn island_days(body: &[u8]) -> Result<IslandDays, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Series {
        #[serde(rename = "peakCCU")]
        peak_ccu: Vec<Point>,
        unique_players: Vec<Point>,
        minutes_played: Vec<Point>,
        favorites: Vec<Point>,
        plays: Vec<Point>,
        recommendations: Vec<Point>,
        average_minutes_per_player: Vec<Point>,
        retention: Vec<RetentionPoint>,
    }
    let series: Series = parse(&repair(body))?;
    let mut days = IslandDays::default();
    // In the order of `SortField::ALL`.
    let counts = [
        series.peak_ccu,
        series.unique_players,
        series.minutes_played,
        series.favorites,
        series.plays,
        series.recommendations,
    ];
    for (field, points) in counts.into_iter().enumerate() {
        for point in points {
            let mut counts = [None; 6];
            counts[field] = days.count(point.value.as_ref());
            days.add(&point.timestamp, counts, [None; 3]);
        }
    }
    for point in series.average_minutes_per_player {
        let average = days.decimal(point.value.as_ref(), f64::MAX);
        days.add(&point.timestamp, [None; 6], [average, None, None]);
    }
    for point in series.retention {
        let [d1, d7] = [point.d1, point.d7].map(|value| days.decimal(value.as_ref(), 1.0));
        days.add(&point.timestamp, [None; 6], [None, d1, d7]);
    }
    days.rows.retain(|_, row| *row != Metrics::NULL);
    Ok(days)
}

impl IslandDays {
    /// Adds the values of a bucket, unless its timestamp is not the start of a day.
    fn add(&mut self, timestamp: &str, counts: [Option<u64>; 6], decimals: [Option<f64>; 3]) {
        let start = UnixSeconds::parse(timestamp).filter(|time| time.0 % DAY_SECONDS == 0);
        let Some(start) = start else {
            self.refused += 1;
            return;
        };
        let row = self.rows.entry(start.day()).or_insert(Metrics::NULL);
        *row = newer(row, &Metrics::new(counts, decimals)).0;
    }

    fn count(&mut self, number: Option<&serde_json::Number>) -> Option<u64> {
        let count = count(number?);
        self.refused += u64::from(count.is_none());
        count
    }

    /// Returns a decimal from 0 to `largest`.
    fn decimal(&mut self, number: Option<&serde_json::Number>, largest: f64) -> Option<f64> {
        let decimal = number?
            .as_f64()
            .filter(|decimal| (0.0..=largest).contains(decimal));
        self.refused += u64::from(decimal.is_none());
        // Negative zero is written as "-0", which is no decimal of a dataset.
        decimal.map(f64::abs)
    }
}

/// Returns a count that a dataset can hold: an integer from 0 to 2^53 - 1, also if written as `12.0`.
fn count(number: &serde_json::Number) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an integer in that range"
    )]
    let from_decimal = |decimal: f64| {
        let is_count = (0.0..=9_007_199_254_740_991.0).contains(&decimal);
        (is_count && decimal.fract() == 0.0).then_some(decimal as u64)
    };
    let count = number.as_u64();
    let count = count.or_else(|| number.as_f64().and_then(from_decimal));
    count.filter(|count| *count <= COUNT_MAX)
}

/// Parses a series of 10-minute buckets: the non-null values, oldest first.
fn steps(points: Vec<Point>) -> Vec<(UnixSeconds, u64)> {
    let mut steps: Vec<(UnixSeconds, u64)> = points
        .into_iter()
        .filter_map(|point| {
            let time = UnixSeconds::parse(&point.timestamp)?;
            let value = count(point.value.as_ref()?)?;
            (time.0 % STEP_SECONDS == 0).then_some((time, value))
        })
        .collect();
    steps.sort_unstable_by_key(|(time, _)| *time);
    steps
}

/// Parses `/islands/{code}/metrics/minute` of `peakCCU`.
pub(super) fn island_steps(body: &[u8]) -> Result<Vec<(UnixSeconds, u64)>, String> {
    #[derive(Deserialize)]
    struct Series {
        #[serde(rename = "peakCCU")]
        peak_ccu: Vec<Point>,
    }
    let series: Series = parse(&repair(body))?;
    Ok(steps(series.peak_ccu))
}

/// Parses one of the series of `/metrics/minute`.
pub(super) fn platform_steps(
    body: &[u8],
    series: PlatformSeries,
) -> Result<Vec<(UnixSeconds, u64)>, String> {
    #[derive(Deserialize)]
    struct Series {
        #[serde(rename = "inMatchPeakCCU")]
        in_match: Option<Vec<Point>>,
        #[serde(rename = "inClientPeakCCU")]
        in_client: Option<Vec<Point>>,
    }
    let both: Series = parse(&repair(body))?;
    let (points, name) = match series {
        PlatformSeries::InMatch => (both.in_match, "inMatchPeakCCU"),
        PlatformSeries::InClient => (both.in_client, "inClientPeakCCU"),
    };
    points
        .map(steps)
        .ok_or_else(|| format!("the body is not as expected: {name} is missing"))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
