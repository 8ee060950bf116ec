//! Content of the upstream's responses, as far as it is used. Unknown members are ignored.
//!
//! Parsing is as lenient as the public description: no series is required, rows may be null, integers may be
//! strings. A row or value that cannot be used is left out and counted. A response without anything that was
//! requested is refused.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use serde_json::Value;

use super::clean::{Cleaned, clean};
use super::repair::repair;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::{Island, Metrics};
use crate::model::{COUNT_MAX, IslandCode, SortField, digits};

pub(super) const STEP_SECONDS: i64 = 600;

fn parse(body: &[u8]) -> Result<Value, String> {
    serde_json::from_str(&repair(body)).map_err(unexpected)
}

fn unexpected(problem: impl Display) -> String {
    format!("the body is not as expected: {problem}")
}

/// Returns the rows of a page and the cursor of the next one, unless it is the last.
fn page(body: &Value) -> Result<(&[Value], Option<String>), String> {
    let Some(rows) = body["data"].as_array() else {
        return Err(unexpected("missing field `data`, a list"));
    };
    let cursor = &body["meta"]["page"]["nextCursor"];
    let links = body.get("links").filter(|links| !links.is_null());
    // Members that disagree are no end.
    match (cursor, links.map_or(cursor, |links| &links["next"])) {
        (Value::Null, Value::Null) => Ok((rows, None)),
        (Value::String(cursor), Value::String(_)) => Ok((rows, Some(cursor.clone()))),
        (cursor, next) => Err(format!(
            "the page must have links.next and nextCursor, or neither, got {next} and {cursor}"
        )),
    }
}

#[derive(Debug)]
pub(super) struct CataloguePage {
    pub(super) islands: Vec<Island>,
    /// Cursor of the next page; `None` on the last.
    pub(super) next: Option<String>,
    pub(super) cleaned: Cleaned,
}

pub(super) fn catalogue_page(body: &[u8]) -> Result<CataloguePage, String> {
    let body = parse(body)?;
    let (rows, next) = page(&body)?;
    if rows.is_empty() {
        return Err("the page of the catalogue is empty".to_owned());
    }
    let mut cleaned = Cleaned::default();
    let islands = rows
        .iter()
        .filter_map(|row| clean(row, &mut cleaned))
        .collect();
    Ok(CataloguePage {
        islands,
        next,
        cleaned,
    })
}

/// Parses `/genres`: slugs, or objects with a slug.
pub(super) fn genres(body: &[u8]) -> Result<Vec<String>, String> {
    let body = parse(body)?;
    let is_plain = |slug: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        matches!(slug.len(), 1..=64) && slug.bytes().all(plain) && !matches!(*slug, "." | "..")
    };
    let slugs = page(&body)?.0.iter();
    let slugs = slugs.filter_map(|genre| genre.as_str().or_else(|| genre["slug"].as_str()));
    let slugs: Vec<String> = slugs.filter(is_plain).map(str::to_owned).collect();
    if slugs.is_empty() {
        return Err("the list of genres is empty".to_owned());
    }
    Ok(slugs)
}

/// A page of a genre's ranking.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RankingPage {
    pub(super) ranks: Vec<(IslandCode, u32)>,
    pub(super) next: Option<String>,
}

pub(super) fn ranking_page(body: &[u8]) -> Result<RankingPage, String> {
    let body = parse(body)?;
    if body["meta"]["snapshotAvailable"] == false {
        return Ok(RankingPage::default());
    }
    let (rows, next) = page(&body)?;
    let rank = |row: &Value| {
        let rank = row["rank"].as_u64()?.try_into().ok()?;
        Some((row["islandCode"].as_str()?.parse().ok()?, rank))
    };
    let ranks = rows.iter().filter_map(rank).collect();
    Ok(RankingPage { ranks, next })
}

/// Iterates over the buckets of a series: the start, unless it is not a multiple of `seconds`, and the members.
fn buckets<'a>(
    body: &'a Value,
    name: &str,
    seconds: i64,
) -> impl Iterator<Item = (Option<UnixSeconds>, &'a Value)> {
    let points = body[name].as_array().into_iter().flatten();
    points.filter(|point| !point.is_null()).map(move |point| {
        let start = point["timestamp"].as_str().and_then(UnixSeconds::parse);
        (start.filter(|start| start.0 % seconds == 0), point)
    })
}

/// The nine metrics of an island by day.
#[derive(Debug, Default)]
pub(super) struct IslandDays {
    /// Days that have a bucket, also if it is null.
    pub(super) rows: BTreeMap<UtcDay, Metrics>,
    /// Number of values and timestamps that cannot be used.
    pub(super) refused: u64,
}

/// The metrics that are decimals: their series, members, and largest values.
const DECIMALS: [(&str, &str, f64); 3] = [
    ("averageMinutesPerPlayer", "value", f64::MAX),
    ("retention", "d1", 1.0),
    ("retention", "d7", 1.0),
];

/// The counts and the decimals of a day.
type Row = ([Option<u64>; 6], [Option<f64>; 3]);

/// Parses `/islands/{code}/metrics/day`. One of the `requested` days must have a bucket.
pub(super) fn island_days(body: &[u8], requested: &Range<UtcDay>) -> Result<IslandDays, String> {
    let body = parse(body)?;
    let mut refused = 0;
    let mut rows: BTreeMap<UtcDay, Row> = BTreeMap::new();
    for (at, field) in SortField::ALL.into_iter().enumerate() {
        for (start, point) in buckets(&body, field.as_str(), DAY_SECONDS) {
            let value = &point["value"];
            let number = count(value);
            refused += u64::from(start.is_none()) + u64::from(number.is_none() && !value.is_null());
            if let Some(start) = start {
                let slot = &mut rows.entry(start.day()).or_default().0[at];
                *slot = number.or(*slot);
            }
        }
    }
    for (at, (series, member, largest)) in DECIMALS.into_iter().enumerate() {
        for (start, point) in buckets(&body, series, DAY_SECONDS) {
            let value = &point[member];
            let number = decimal(value, largest);
            refused += u64::from(start.is_none()) + u64::from(number.is_none() && !value.is_null());
            if let Some(start) = start {
                let slot = &mut rows.entry(start.day()).or_default().1[at];
                *slot = number.or(*slot);
            }
        }
    }
    rows.retain(|day, _| requested.contains(day));
    if rows.is_empty() {
        return Err(unexpected("it has none of the requested days"));
    }
    let rows = rows.into_iter();
    let rows = rows.map(|(day, (counts, decimals))| (day, Metrics::new(counts, decimals)));
    Ok(IslandDays {
        rows: rows.collect(),
        refused,
    })
}

/// Returns a decimal from 0 to `largest`.
fn decimal(value: &Value, largest: f64) -> Option<f64> {
    let decimal = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let decimal = decimal.filter(|decimal| (0.0..=largest).contains(decimal));
    // Negative zero is written as "-0", which is no decimal of a dataset.
    decimal.map(f64::abs)
}

/// Returns a count that a dataset can hold: an integer from 0 to 2^53 - 1, also if written as `12.0` or `"12"`.
fn count(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an integer in that range"
    )]
    let from_decimal = |decimal: f64| {
        let is_count = (0.0..=9_007_199_254_740_991.0).contains(&decimal);
        (is_count && decimal.fract() == 0.0).then_some(decimal as u64)
    };
    let count = value.as_u64().or_else(|| digits(value.as_str()?));
    let count = count.or_else(|| value.as_f64().and_then(from_decimal));
    count.filter(|count| *count <= COUNT_MAX)
}

/// Parses a series of 10-minute buckets: the non-null values, oldest first. One bucket at least must be there.
pub(super) fn steps(body: &[u8], name: &str) -> Result<Vec<(UnixSeconds, u64)>, String> {
    let body = parse(body)?;
    let buckets = buckets(&body, name, STEP_SECONDS);
    let buckets = buckets.filter_map(|(start, point)| Some((start?, count(&point["value"]))));
    let buckets: Vec<_> = buckets.collect();
    if buckets.is_empty() {
        return Err(unexpected(format_args!("{name} has no bucket")));
    }
    let steps = buckets.into_iter();
    let steps = steps.filter_map(|(start, value)| Some((start, value?)));
    let steps: BTreeMap<_, _> = steps.collect();
    Ok(steps.into_iter().collect())
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
