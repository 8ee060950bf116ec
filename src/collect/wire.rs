//! Content of the upstream's responses, as far as it is used. Unknown members are ignored.
//!
//! Parsing is as lenient as the public description: no series is required, rows may be null, integers may be
//! strings. A row or value that cannot be used is left out and counted, and texts of the catalogue are cleaned, so that whatever
//! is collected is a sound dataset (CONTRACT section 3). A response without anything that was requested is refused.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use serde_json::Value;

use super::endpoints::PAGE_SIZE;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::{Island, Metrics, STEP_SECONDS};
use crate::model::{COUNT_MAX, CreatedIn, IslandCode, SortField, digits};

/// Longest field of a dataset, in bytes.
const MAX_FIELD_BYTES: usize = 1_024;

fn parse(body: &[u8]) -> Result<Value, String> {
    serde_json::from_str(&repair(body)).map_err(unexpected)
}

fn unexpected(problem: impl Display) -> String {
    format!("the body is not as expected: {problem}")
}

/// Repairs text that a strict parser refuses as a whole for one bad value: lone surrogate escapes become U+FFFD, raw
/// control characters become spaces, bytes that are not UTF-8 become U+FFFD. A number that is out of range, or another
/// word that is no value of JSON, becomes an empty text, which no member can use.
fn repair(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut repaired = String::with_capacity(text.len());
    let (mut rest, mut is_text) = (&*text, false);
    let is_mark = |letter| matches!(letter, '\0'..=' ' | '"' | ',' | ':' | '[' | ']' | '{' | '}');
    while let Some(first) = rest.chars().next() {
        let (length, replacement) = match (first, unit(rest)) {
            ('\0'..' ', _) => (1, Some(" ")),
            ('"', _) => {
                is_text = !is_text;
                (1, None)
            }
            (mark, _) if is_mark(mark) => (1, None),
            _ if !is_text => {
                let length = rest.find(is_mark).unwrap_or(rest.len());
                let is_value = serde_json::from_str::<Value>(&rest[..length]).is_ok();
                (length, (!is_value).then_some("\"\""))
            }
            ('\\', Some(0xD800..=0xDBFF)) if matches!(unit(&rest[6..]), Some(0xDC00..=0xDFFF)) => {
                (12, None)
            }
            ('\\', Some(0xD800..=0xDFFF)) => (6, Some("\\uFFFD")),
            // What is escaped neither ends the text nor joins what follows.
            _ if rest.starts_with("\\\\") || rest.starts_with("\\\"") => (2, None),
            _ => (first.len_utf8(), None),
        };
        repaired.push_str(replacement.unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    repaired
}

/// Returns the code unit of an escape `\uXXXX` at the start of the text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// A page of the catalogue or of a ranking.
#[derive(Debug, PartialEq)]
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    /// Number of rows that cannot be used.
    pub(super) skipped: usize,
    /// Cursor of the next page; `None` on the last.
    pub(super) next: Option<String>,
}

impl<T> Page<T> {
    pub(super) const EMPTY: Page<T> = Page {
        rows: Vec::new(),
        skipped: 0,
        next: None,
    };
}

/// Returns the rows that `read` can use.
fn page<T>(body: &Value, read: impl FnMut(&Value) -> Option<T>) -> Result<Page<T>, String> {
    let Some(rows) = body["data"].as_array() else {
        return Err(unexpected("missing field `data`, a list"));
    };
    let cursor = &body["meta"]["page"]["nextCursor"];
    let links = body.get("links").filter(|links| !links.is_null());
    let has_neither = body["meta"]["page"].get("nextCursor").is_none()
        && links.is_none_or(|links| links.get("next").is_none());
    let next = match (cursor, links.map_or(cursor, |links| &links["next"])) {
        // Perhaps they have other names.
        _ if has_neither && rows.len() >= PAGE_SIZE => {
            return Err(unexpected(
                "a full page has neither links.next nor nextCursor",
            ));
        }
        (Value::Null, Value::Null) => None,
        (Value::String(cursor), Value::String(_)) => Some(cursor.clone()),
        // Members that disagree are no end.
        (cursor, next) => {
            return Err(format!(
                "the page must have links.next and nextCursor, or neither, got {next} and {cursor}"
            ));
        }
    };
    let listed = rows.len();
    let rows: Vec<T> = rows.iter().filter_map(read).collect();
    let skipped = listed - rows.len();
    Ok(Page {
        rows,
        skipped,
        next,
    })
}

/// Parses a page of `/islands`.
pub(super) fn catalogue_page(body: &[u8]) -> Result<Page<Island>, String> {
    let page = page(&parse(body)?, clean)?;
    if page.rows.is_empty() && page.skipped == 0 {
        return Err("the page of the catalogue is empty".to_owned());
    }
    Ok(page)
}

/// Parses `/genres`: slugs, or objects with a slug.
pub(super) fn genres(body: &[u8]) -> Result<Vec<String>, String> {
    let slug = |genre: &Value| {
        let slug = genre.as_str().or_else(|| genre["slug"].as_str())?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_plain = matches!(slug.len(), 1..=64) && slug.bytes().all(plain);
        (is_plain && !matches!(slug, "." | "..")).then(|| slug.to_owned())
    };
    let slugs = page(&parse(body)?, slug)?.rows;
    if slugs.is_empty() {
        return Err("the list of genres is empty".to_owned());
    }
    Ok(slugs)
}

/// Parses a page of a genre's ranking.
pub(super) fn ranking_page(body: &[u8]) -> Result<Page<(IslandCode, u32)>, String> {
    let body = parse(body)?;
    if body["meta"]["snapshotAvailable"] == false {
        return Ok(Page::EMPTY);
    }
    page(&body, |row| {
        let rank = row["rank"].as_u64()?.try_into().ok()?;
        Some((row["islandCode"].as_str()?.parse().ok()?, rank))
    })
}

/// Converts a row; `None` if its code is not an island's, or the title or the tags are missing: every row has them, and
/// an island must not lose its own because they have other names.
fn clean(raw: &Value) -> Option<Island> {
    let code = raw["code"].as_str()?.parse().ok()?;
    let (title, tags) = (raw["title"].as_str()?, raw["tags"].as_array()?);
    let mut title = title.replace(char::is_control, "");
    title.truncate(title.floor_char_boundary(MAX_FIELD_BYTES));
    let creator = raw["creatorCode"].as_str();
    let created_in = match raw["createdIn"].as_str() {
        Some("UEFN") => Some(CreatedIn::Uefn),
        Some("FNC") => Some(CreatedIn::Creative),
        _ => None,
    };
    Some(Island {
        code,
        title: title.into(),
        creator: creator.and_then(|creator| creator.parse().ok()),
        created_in,
        tags: join_tags(tags).into(),
    })
}

fn join_tags(tags: &[Value]) -> String {
    let mut joined = String::new();
    for raw in tags {
        let tag = raw.as_str().unwrap_or_default();
        // `|` separates tags in a dataset.
        let tag = tag.replace('|', "/").replace(char::is_control, "");
        let tag = tag.trim();
        let separator = usize::from(!joined.is_empty());
        let fits = joined.len() + separator + tag.len() <= MAX_FIELD_BYTES;
        let is_new = !joined.split('|').any(|other| other == tag);
        if !tag.is_empty() && fits && is_new {
            joined.push_str(&"|"[..separator]);
            joined.push_str(tag);
        }
    }
    joined
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

/// Parses `/islands/{code}/metrics/day`. One of the `requested` days must have a bucket.
pub(super) fn island_days(body: &[u8], requested: &Range<UtcDay>) -> Result<IslandDays, String> {
    let body = parse(body)?;
    let mut days = IslandDays::default();
    let counts = SortField::ALL.map(|field| (field.as_str(), "value", None));
    let decimals = DECIMALS.map(|(series, member, largest)| (series, member, Some(largest)));
    for (place, (series, member, largest)) in counts.into_iter().chain(decimals).enumerate() {
        for (start, point) in buckets(&body, series, DAY_SECONDS) {
            let value = &point[member];
            let bits = match largest {
                None => count(value),
                Some(largest) => decimal(value, largest).map(f64::to_bits),
            };
            let is_refused = bits.is_none() && !value.is_null();
            days.refused += u64::from(start.is_none()) + u64::from(is_refused);
            if let Some(start) = start {
                let metrics = days.rows.entry(start.day()).or_insert(Metrics::NULL);
                metrics.0[place] = bits.unwrap_or(metrics.0[place]);
            }
        }
    }
    days.rows.retain(|day, _| requested.contains(day));
    if days.rows.is_empty() {
        return Err(unexpected("it has none of the requested days"));
    }
    Ok(days)
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

/// Returns the start of the 10-minute bucket of a time.
pub(super) fn step(time: i64) -> UnixSeconds {
    UnixSeconds(time - time.rem_euclid(STEP_SECONDS))
}

/// Parses a series of 10-minute buckets: the non-null values. One bucket of the `requested` times at least
/// must be there.
pub(super) fn steps(
    body: &[u8],
    name: &str,
    requested: &Range<UnixSeconds>,
) -> Result<BTreeMap<UnixSeconds, u64>, String> {
    let body = parse(body)?;
    let buckets = buckets(&body, name, STEP_SECONDS);
    let buckets = buckets.filter_map(|(start, point)| Some((start?, count(&point["value"]))));
    let buckets: Vec<_> = buckets
        .filter(|(start, _)| requested.contains(start))
        .collect();
    if buckets.is_empty() {
        return Err(unexpected(format_args!(
            "{name} has no bucket of the requested times"
        )));
    }
    let steps = buckets.into_iter();
    Ok(steps
        .filter_map(|(start, value)| Some((start, value?)))
        .collect())
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
