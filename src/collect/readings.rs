//! Readings: what a reply about an island's days changes in the database.
//!
//! Coverage counts days that a reply has, not requests: a day without a bucket was not read.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, params_from_iter};

use super::error::Result;
use super::reply::Outcome;
use super::rules::{self, Facts};
use super::store::Store;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::Metrics;
use crate::model::{IslandCode, METRIC_NAMES, SortField};

/// Unbelieved 404s in different hours after which an island with recent values is believed to be gone.
const MISSING_HOURS: i64 = 3;
/// Time after which an island is requested again whose 404 is not believed.
const DOUBT_SECONDS: i64 = 3600;

/// Returns the metrics of a row of `value`, in the columns behind day and code.
fn metrics(row: &Row<'_>) -> rusqlite::Result<Metrics> {
    let mut metrics = Metrics::NULL;
    for (column, bits) in (2..).zip(&mut metrics.0) {
        *bits = match row.get_ref(column)? {
            ValueRef::Integer(count) => count.cast_unsigned(),
            ValueRef::Real(decimal) => decimal.to_bits(),
            _ => continue,
        };
    }
    Ok(metrics)
}

/// Returns the values of an island's day; nulls if there are none.
fn stored(store: &Store, code: IslandCode, day: i32) -> Result<Metrics> {
    let sql = "SELECT * FROM value WHERE day = ?1 AND code = ?2";
    let found = store.row(sql, (day, code), metrics)?;
    Ok(found.unwrap_or(Metrics::NULL))
}

/// Returns the values of all islands of a day, by code.
pub(super) fn values(store: &Store, day: UtcDay) -> Result<BTreeMap<IslandCode, Metrics>> {
    let sql = "SELECT * FROM value WHERE day = ?1 ORDER BY code";
    let rows = store.rows(sql, [day.0], |row| Ok((row.get(1)?, metrics(row)?)))?;
    Ok(rows.into_iter().collect())
}

/// Returns the number of islands with a value on a day, by metric, in the order of [`METRIC_NAMES`]. Reads all values of
/// the day.
pub(super) fn value_counts(store: &Store, day: Option<UtcDay>) -> Result<Vec<i64>> {
    let counts = METRIC_NAMES.map(|name| format!("count({name})")).join(", ");
    let sql = format!("SELECT {counts} FROM value WHERE day = ?1");
    let read = |row: &Row<'_>| (0..METRIC_NAMES.len()).map(|at| row.get(at)).collect();
    let counts = store.row(&sql, [day.map(|day| day.0)], read)?;
    Ok(counts.unwrap_or_default())
}

fn write_value(
    store: &Store,
    code: IslandCode,
    day: i32,
    metrics: &Metrics,
    now: UnixSeconds,
) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let key: [Value; 2] = [day.into(), code.number().cast_signed().into()];
    let counts = SortField::ALL.map(|field| metrics.count(field).map(u64::cast_signed).into());
    let decimals = metrics.decimals().map(Value::from);
    let values = key.into_iter().chain(counts).chain(decimals);
    store.execute(sql, params_from_iter(values.chain([now.0.into()])))?;
    let sql = "INSERT INTO day(day, changed_at) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET changed_at = coalesce(changed_at, excluded.changed_at)";
    store.execute(sql, (day, now.0)).map(drop)
}

/// Merges the days of a reply into the values of the window. Returns the peaks of the days with a value, and whether a
/// value or a peak is missing that was known, or that the day before has.
fn merge_days(
    store: &Store,
    code: IslandCode,
    days: &BTreeMap<UtcDay, Metrics>,
    window: &Range<UtcDay>,
    now: UnixSeconds,
) -> Result<(BTreeMap<i32, u32>, bool)> {
    let has_peak = |metrics: &Metrics| metrics.count(SortField::PeakCcu).is_some();
    let (mut peaks, mut is_contradicted, mut peak_before) = (BTreeMap::new(), false, false);
    for day in window.start.0..window.end.0 {
        let old = stored(store, code, day)?;
        let read = days.get(&UtcDay(day)).unwrap_or(&Metrics::NULL);
        is_contradicted |= *read == Metrics::NULL && old != Metrics::NULL;
        is_contradicted |= *read != Metrics::NULL && !has_peak(read) && peak_before;
        let merged = newer(&old, read);
        peak_before = has_peak(&merged);
        if merged != old {
            write_value(store, code, day, &merged, now)?;
        }
        if merged != Metrics::NULL {
            let peak = merged.count(SortField::PeakCcu).unwrap_or(0);
            peaks.insert(day, u32::try_from(peak).unwrap_or(u32::MAX));
        }
    }
    Ok((peaks, is_contradicted))
}

/// Records the days of an island in a reply. `window` is the requested one, which the reply is about: midnight may have
/// passed since. Returns the outcome: [`Outcome::Vanished`] if a day has no value although an earlier reply had one, the
/// newest has none although one of the two before it has one, or a day has values but no peak although the day before
/// has one: the series may have another name or type.
pub(super) fn record_days(
    store: &Store,
    code: IslandCode,
    days: &BTreeMap<UtcDay, Metrics>,
    window: &Range<UtcDay>,
    now: UnixSeconds,
) -> Result<Outcome> {
    let sql = "SELECT read_at, covered, quiet, rank IS NOT NULL, contradicted_at FROM reading WHERE code = ?1";
    let before: Option<(i64, i32, u8, bool, i64)> = store.row(sql, [code], |row| row.try_into())?;
    let Some((read_at, covered, quiet, is_ranked, contradicted_at)) = before else {
        // Not an island of the catalogue.
        return Ok(Outcome::Usable);
    };
    let (peaks, is_contradicted) = merge_days(store, code, days, window, now)?;
    let (oldest, newest) = (window.start.0, window.end.0 - 1);
    let had_before = peaks.range(newest - 2..newest).next().is_some();
    let lacks_newest = had_before && !peaks.contains_key(&newest);
    let is_contradicted = is_contradicted || lacks_newest;
    let is_settled = rules::is_settled(window.end, now, lacks_newest);
    let is_read = |day: &i32| days.contains_key(&UtcDay(*day)) && (*day < newest || is_settled);
    let covered = covered.max(oldest - 1);
    // A first reading must have all days, also those before the island was listed.
    let required_after = if read_at == 0 { oldest - 1 } else { covered };
    let facts = Facts {
        quiet: u8::from(peaks.is_empty()) * quiet.saturating_add(1),
        is_ranked,
        // Of the newest day that has one: other values without a peak are perhaps a fault.
        peak: peaks.into_values().rfind(|peak| *peak > 0).unwrap_or(0),
        is_final: (required_after + 1..=newest).all(|day| is_read(&day)),
    };
    let newly_covered = (covered + 1..=newest).take_while(is_read).last();
    let covered = newly_covered.unwrap_or(covered);
    // Otherwise, its oldest day that is not covered would keep it first in the queue of islands at risk.
    let is_at_risk = covered <= rules::risk_day(now).0;
    let postponed_until = i64::from(is_at_risk) * (now.0 + rules::AGAIN_SECONDS);
    let contradicted_at = match (is_contradicted, is_settled) {
        (false, _) => 0,
        // Values may still appear before the day has settled.
        (true, false) => contradicted_at,
        (true, true) => contradicted_at.max(now.0),
    };
    let sql = "UPDATE reading SET missing = 0, read_at = ?2, covered = ?3, quiet = ?4, peak = ?5, class = ?6,
         due_at = ?7, contradicted_at = ?8, postponed_until = ?9 WHERE code = ?1";
    let Facts { quiet, peak, .. } = facts;
    let (class, due_at) = (rules::class(facts), rules::due_at(facts, now));
    let values = (
        code,
        now.0,
        covered,
        quiet,
        peak,
        class,
        due_at,
        contradicted_at,
        postponed_until,
    );
    store.execute(sql, values)?;
    let mut read = days.range(window.clone());
    let any = read.any(|(_, metrics)| *metrics != Metrics::NULL);
    Ok(match (is_contradicted, any) {
        (true, _) => Outcome::Vanished,
        (false, true) => Outcome::Usable,
        (false, false) => Outcome::Null,
    })
}

/// Records a 404 of an island. Returns [`Outcome::Gone`] if it is believed: not at first for an island with a value on
/// one of the last two days.
pub(super) fn record_missing(store: &Store, code: IslandCode, now: UnixSeconds) -> Result<Outcome> {
    let newest = rules::newest_day(now).0;
    let sql = "SELECT count(*) FROM value WHERE day IN (?1 - 1, ?1) AND code = ?2";
    let has_value = store.number(sql, (newest, code))? > 0;
    let sql = "UPDATE reading SET missing = missing + (missing_hour <> ?2), missing_hour = ?2,
         contradicted_at = ?3 WHERE code = ?1 RETURNING missing";
    let contradicted_at = if has_value { now.0 } else { 0 };
    let missing = store.number(sql, (code, now.0.div_euclid(3600), contradicted_at))?;
    if has_value && missing < MISSING_HOURS {
        postpone(store, code, now.0 + DOUBT_SECONDS, now)?;
        return Ok(Outcome::Doubtful);
    }
    // If the catalogue still lists it, the next 404 is believed at once.
    let sql = "UPDATE reading SET class = -1 WHERE code = ?1";
    store.execute(sql, [code])?;
    Ok(Outcome::Gone)
}

/// Postpones an island that gave no usable reply, so that it does not block others. It is due from `until` on, also if
/// it was not due now.
pub(super) fn postpone(
    store: &Store,
    code: IslandCode,
    until: i64,
    now: UnixSeconds,
) -> Result<()> {
    let sql = "UPDATE reading SET postponed_until = ?2, due_at = min(due_at, ?3) WHERE code = ?1";
    store.execute(sql, (code, until, now.0)).map(drop)
}

/// Returns all postponed islands to their queues.
pub(super) fn release_postponed(store: &Store) -> Result<()> {
    let sql = "UPDATE reading SET postponed_until = 0 WHERE postponed_until > 0";
    store.execute(sql, []).map(drop)
}

/// Returns the values of `new` where it has one, else those of `old`.
pub(super) fn newer(old: &Metrics, new: &Metrics) -> Metrics {
    let null = Metrics::NULL.0;
    let place = |at: usize| if new.0[at] == null[at] { old } else { new }.0[at];
    Metrics(std::array::from_fn(place))
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
