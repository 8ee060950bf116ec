//! The members of a JSON body that depend on its version. Other members are ignored.

use serde_json::Value;

use super::feed::{STEP_SECONDS, STEPS};
use super::targets::Kind;
use super::versions::{Marks, Version};

/// Fails with the formatted reason unless the condition holds.
macro_rules! require {
    ($is_right:expr, $($reason:tt)+) => {
        if !$is_right {
            return Err(format!($($reason)+));
        }
    };
}
pub(crate) use require;

/// The rows of a member; none if it is absent.
fn rows<'a>(body: &'a Value, member: &str) -> Result<&'a [Value], String> {
    match &body[member] {
        Value::Null => Ok(&[]),
        Value::Array(rows) => Ok(rows),
        other => Err(format!("its {member} are {other}")),
    }
}

/// The text of a member; `None` if it is absent.
fn text<'a>(body: &'a Value, member: &str) -> Result<Option<&'a str>, String> {
    match &body[member] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => Err(format!("its {member} is {other}")),
    }
}

pub(crate) fn check(body: &Value, kind: Kind, version: &Version) -> Result<(), String> {
    match kind {
        Kind::Index => check_index(body, version),
        Kind::Live => check_live(body, version),
        Kind::Intraday => check_intraday(body, version),
        Kind::Fixed => check_rows(body, &version.marks),
        Kind::Page => {
            check_length(body)?;
            check_rows(body, &version.marks)
        }
    }
}

fn check_index(body: &Value, version: &Version) -> Result<(), String> {
    let stamp = &body["generatedAt"];
    require!(*stamp == version.stamp, "its generatedAt is {stamp}");
    let (days, published) = (&body["counts"]["rankings"], version.marks.days);
    require!(*days == published, "it counts {days} days, not {published}");
    Ok(())
}

fn check_live(body: &Value, version: &Version) -> Result<(), String> {
    let (time, step) = (&body["time"], version.step);
    require!(*time == step, "its time is {time}, not {step}");
    let players = rows(body, "islands")?.iter();
    let sum: u64 = players.filter_map(|row| row["players"].as_u64()).sum();
    let (total, published) = (&body["players"], version.players);
    require!(
        *total == published && sum == published,
        "{total} players and {sum} in its rows, not {published}"
    );
    check_rows(body, &version.marks)
}

fn check_intraday(body: &Value, version: &Version) -> Result<(), String> {
    let points = rows(body, "points")?;
    let last = points.last();
    let is_newest = last.is_some_and(|last| last[0] == version.step && last[1] == version.players);
    require!(is_newest, "its last point is {last:?}");
    let first = version.step - (STEPS - 1) * STEP_SECONDS;
    let times = (first..=version.step).step_by(STEP_SECONDS as usize);
    let found = points.iter().map(|point| point[0].as_i64());
    let (is_complete, count) = (times.map(Some).eq(found), points.len());
    require!(is_complete, "its {count} points are not the last day");
    Ok(())
}

/// Checks the number of rows of a page.
fn check_length(body: &Value) -> Result<(), String> {
    let found = body["islands"].as_array().or(body["creators"].as_array());
    let found = found.map(|rows| rows.len() as u64);
    let number = |member: &str| body["meta"][member].as_u64();
    let expected = number("total").zip(number("limit")).zip(number("offset"));
    let expected = expected.map(|((total, limit), offset)| total.saturating_sub(offset).min(limit));
    let is_right = found.is_some() && found == expected;
    require!(is_right, "it has {found:?} rows, not {expected:?}");
    Ok(())
}

fn check_rows(body: &Value, marks: &Marks) -> Result<(), String> {
    let newest = marks.newest_day.as_str();
    // Rows of a day's new islands have that day's metrics, all others those of the newest day.
    let day = text(body, "date")?.unwrap_or(newest);
    if let Some(latest) = text(body, "latest")? {
        require!(latest == newest, "its latest day is {latest}");
    }
    let ranked = rows(body, "islands")?.iter().chain(rows(body, "ranking")?);
    for row in ranked.chain(body.get("island")) {
        check_island(row, day, marks)?;
    }
    for creator in rows(body, "creators")?.iter().chain(body.get("creator")) {
        require!(creator["slug"].is_string(), "{creator}");
        check_count(creator, &creator["slug"], marks)?;
        for row in rows(creator, "islands")? {
            check_island(row, newest, marks)?;
        }
    }
    let last = rows(body, "ccu")?.last().map(|peak| peak[0].as_str());
    let is_past = last.is_none_or(|day| day.is_some_and(|day| day <= newest));
    require!(is_past, "its last day is {last:?}, after {newest}");
    Ok(())
}

fn check_island(row: &Value, day: &str, marks: &Marks) -> Result<(), String> {
    let (code, title) = (&row["code"], row["title"].as_str().unwrap_or_default());
    let (is_marked, end) = (title.ends_with(&marks.title_end), &marks.title_end);
    require!(
        code.is_string() && is_marked,
        "{code} is {title:?}, not {end:?}"
    );
    if let Some(date) = text(row, "date")? {
        require!(date == day, "{code} is of {date}, not {day}");
        if date == marks.newest_day {
            check_count(row, code, marks)?;
        }
    }
    let Some(last) = rows(row, "series")?.last() else {
        return Ok(());
    };
    let (date, newest) = (last["date"].as_str(), marks.newest_day.as_str());
    let is_past = date.is_some_and(|date| date <= newest);
    require!(is_past, "the last day of {code} is {date:?}");
    if date == Some(newest) {
        check_count(last, code, marks)?;
    }
    Ok(())
}

/// Checks the recommendations of a row, if it has any.
fn check_count(row: &Value, of: &Value, marks: &Marks) -> Result<(), String> {
    let (count, factor) = (&row["recommendations"], marks.factor);
    let is_multiple = count
        .as_u64()
        .is_some_and(|count| count.is_multiple_of(factor));
    require!(
        count.is_null() || is_multiple,
        "{of} has {count} recommendations, not a multiple of {factor}"
    );
    Ok(())
}
