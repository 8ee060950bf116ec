//! The plan: the island whose daily metrics are requested next, as queries of the database.
//!
//! Order:
//!
//! 1. Islands whose oldest day that is not covered leaves the window in under 36 h, earliest first. With
//!    active islands first instead, days are lost (the test has it as a control).
//! 2. Islands that were never read, best genre rank first; about every fourth one is preceded by an
//!    active island that is due, largest first. Half and half would lose days of a cold start at 0.7 requests/s.
//! 3. Inactive islands that are due.
//!
//! Queries for the next island read the start of an index. `sizes`, `most_played` and the query after a failure read all
//! islands.

use super::error::Result;
use super::rules::{self, MAX_CLASS};
use super::store::{Store, Task};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::model::IslandCode;

/// While islands remain that were never read, about one in so many requests is for an active island that is due.
const FRESH_TURN: u64 = 4;

/// Least last peak of an island whose missing value is a fault: one with fewer players often has none on the next day.
const STEADY_PEAK: u32 = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlanSizes {
    pub(super) islands: usize,
    pub(super) at_risk: usize,
    /// Active islands that are due.
    pub(super) fresh: usize,
    pub(super) never_requested: usize,
    pub(super) inactive_due: usize,
    pub(super) gone: usize,
    /// Islands with a value in the window.
    pub(super) active: usize,
    /// The sum of the last peaks of islands that do not come and go with a few players.
    pub(super) players: i64,
    /// The part of those whose last reply, of the last day, lacked a value that an earlier one had, one of the newest day
    /// after it had settled, or the peak among other values.
    pub(super) contradicted_players: i64,
    /// Islands that failed, whose reply lacked a day, or whose 404 was not believed, and that are not due yet.
    pub(super) postponed: usize,
    /// Time at which the first day that is not covered leaves the upstream's window, in Unix seconds. Without
    /// islands that fail alone, each of which would set it for as long as it fails.
    pub(super) next_loss: Option<i64>,
    /// The newest whole day up to which all days of each active island were read after they had settled, if it is in the
    /// window. An island is active if its last reading had a value, also if that was before an outage. No day is complete
    /// before a first crawl has ended and while islands remain that were never read, unless they fail alone. One that has
    /// values and always fails keeps the day where it is: without its values, no later day is complete.
    pub(super) complete_day: Option<UtcDay>,
}

impl PlanSizes {
    /// Islands that are not up to date.
    pub(super) fn due(&self) -> usize {
        self.fresh + self.never_requested + self.inactive_due + self.postponed
    }
}

/// Returns the island to request now if one is at risk: the first island of step 1.
pub(super) fn next_at_risk(store: &Store, now: UnixSeconds) -> Result<Option<IslandCode>> {
    let sql = "SELECT code FROM reading INDEXED BY reading_covered
         WHERE class >= 0 AND covered <= ?1 AND postponed_until <= ?2 ORDER BY covered LIMIT 1";
    store.row(sql, (rules::risk_day(now).0, now.0), |row| row.get(0))
}

/// Returns the island to request now if none is at risk: the first island of step 2 or 3. `turn` is the number of
/// requests for islands so far.
pub(super) fn next(store: &Store, turn: u64, now: UnixSeconds) -> Result<Option<IslandCode>> {
    let never = "SELECT code FROM reading INDEXED BY reading_never
         WHERE read_at = 0 AND class >= 0 AND postponed_until <= ?1 ORDER BY rank NULLS LAST LIMIT 1";
    let never = store.row(never, [now.0], |row| row.get(0))?;
    let of_class = "SELECT code FROM reading INDEXED BY reading_due
         WHERE read_at > 0 AND class = ?1 AND due_at <= ?2 AND postponed_until <= ?2 ORDER BY due_at LIMIT 1";
    let of_class = |class: i64| store.row(of_class, (class, now.0), |row| row.get(0));
    if never.is_none() || is_chosen(turn, FRESH_TURN) {
        // One of the highest class.
        for class in (1..=MAX_CLASS).rev() {
            if let Some(code) = of_class(class)? {
                return Ok(Some(code));
            }
        }
    }
    match never {
        Some(code) => Ok(Some(code)),
        None => of_class(0),
    }
}

/// Returns whether a turn is one in so many. These have no period, so that an upstream which answers each third request,
/// for example, does not always answer for the same island.
pub(super) fn is_chosen(turn: u64, one_in: u64) -> bool {
    let mixed = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 32).is_multiple_of(one_in)
}

/// Returns the island to request now if the last request for one failed: in about half of the turns the one that was read
/// last, else the one that has waited for longest since it failed.
pub(super) fn next_after_failure(
    store: &Store,
    turn: u64,
    now: UnixSeconds,
) -> Result<Option<IslandCode>> {
    // An active one if there is one: another reading does not change when it is due.
    let last_read =
        "SELECT code FROM reading WHERE read_at > 0 AND class >= 0 AND postponed_until <= ?1
         ORDER BY class >= 2 DESC, read_at DESC LIMIT 1";
    if is_chosen(turn, 2)
        && let Some(code) = store.row(last_read, [now.0], |row| row.get(0))?
    {
        return Ok(Some(code));
    }
    let due = "SELECT code FROM reading WHERE class >= 0 AND postponed_until <= ?1
           AND (read_at = 0 OR due_at <= ?1 OR covered <= ?2)
         ORDER BY postponed_until, covered LIMIT 1";
    store.row(due, (now.0, rules::risk_day(now).0), |row| row.get(0))
}

/// Returns the `count` islands with the highest last peaks among those with a value in the window.
pub(super) fn most_played(store: &Store, count: usize) -> Result<Vec<IslandCode>> {
    let sql = "SELECT code FROM reading WHERE class >= 2 AND read_at > 0 ORDER BY peak DESC, code LIMIT ?1";
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    store.rows(sql, [count], |row| row.get(0))
}

/// Counts the queues, and the postponed islands beside them. An island fails alone if its pause is longer than the first
/// one: others were read meanwhile.
pub(super) fn sizes(store: &Store, now: UnixSeconds) -> Result<PlanSizes> {
    let sql = "SELECT
           count(*) FILTER (WHERE class <> -2),
           count(*) FILTER (WHERE class >= 0 AND covered <= ?2),
           count(*) FILTER (WHERE class > 0 AND read_at > 0 AND due_at <= ?1 AND postponed_until <= ?1),
           count(*) FILTER (WHERE class >= 0 AND read_at = 0 AND postponed_until <= ?1),
           count(*) FILTER (WHERE class = 0 AND read_at > 0 AND due_at <= ?1 AND postponed_until <= ?1),
           count(*) FILTER (WHERE class = -1),
           count(*) FILTER (WHERE class >= 2 OR contradicted_at > ?3),
           ifnull(sum(peak) FILTER (WHERE peak >= ?5 AND (class >= 2 OR contradicted_at > ?3)), 0),
           ifnull(sum(peak) FILTER (WHERE peak >= ?5 AND contradicted_at > ?3), 0),
           count(*) FILTER (WHERE class >= 0 AND postponed_until > ?1),
           min(covered) FILTER (WHERE class >= 0 AND postponed_until <= ?4),
           min(iif(read_at = 0, 0, covered)) FILTER (WHERE class >= 0 AND quiet = 0
             AND (read_at > 0 OR postponed_until <= ?4))
         FROM reading";
    let is_crawled = store.task(Task::FULL_CRAWL)? > 0;
    let alone_after = rules::retry_at(1, now);
    let values = (
        now.0,
        rules::risk_day(now).0,
        now.0 - DAY_SECONDS,
        alone_after,
        STEADY_PEAK,
    );
    let sizes = store.row(sql, values, |row| {
        let [covered, complete] =
            [row.get(10)?, row.get(11)?].map(|day: Option<i32>| day.map(UtcDay));
        Ok(PlanSizes {
            islands: row.get(0)?,
            at_risk: row.get(1)?,
            fresh: row.get(2)?,
            never_requested: row.get(3)?,
            inactive_due: row.get(4)?,
            gone: row.get(5)?,
            active: row.get(6)?,
            players: row.get(7)?,
            contradicted_players: row.get(8)?,
            postponed: row.get(9)?,
            next_loss: covered.map(rules::deadline),
            complete_day: complete.filter(|day| is_crawled && *day >= rules::window(now).start),
        })
    })?;
    Ok(sizes.unwrap_or_default())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
