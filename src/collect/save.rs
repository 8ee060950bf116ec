//! Writing: the files of the dataset, as functions of the database and the files that are there.

use super::catalogue;
use super::collector::Collector;
use super::dataset_files::{Dataset, day_name, step_name};
use super::endpoints::{Endpoint, summarize};
use super::error::Result;
use super::readings::{self, newer};
use super::reply::Outcome;
use super::rules::{self, WINDOW_DAYS};
use super::store::{Store, Task};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::{DatasetReader, Metrics};
use crate::model::SortField;

/// Longest time for which a value of a day that readers see is in the database only.
const WRITE_SECONDS: i64 = 30 * 60;
/// Share of the previous day's peaks whose islands must have a value before a new day is shown, in percent.
const ENOUGH_PERCENT: u128 = 95;
/// Time after the end of a day at which it is shown in any case.
const LATEST_SECONDS: i64 = 12 * 3600;
/// Days that stay in the database after they left the window, for the comparison with the day after.
const KEPT_DAYS: i32 = WINDOW_DAYS + 2;
/// Time between two looks at the days that are hidden or old, and at the files.
const LOOK_SECONDS: i64 = 60;
/// Time between two summaries in the log.
const SUMMARY_SECONDS: i64 = 3600;
/// A clock that goes back by more than this was set.
const CLOCK_SLACK_SECONDS: i64 = 60;
/// Time before the newest live step, or before now if that is earlier, for which others are kept.
const LIVE_KEPT_SECONDS: i64 = 48 * 3600;
/// Time for which points of the platform are kept.
const PLATFORM_KEPT_SECONDS: i64 = 14 * DAY_SECONDS;

/// Returns the whole days with values that their files lack, oldest first, with the time of the first of these values.
pub(super) fn changed_days(store: &Store, now: UnixSeconds) -> Result<Vec<(UtcDay, UnixSeconds)>> {
    let sql =
        "SELECT day, changed_at FROM day WHERE changed_at IS NOT NULL AND day < ?1 ORDER BY day";
    store.rows(sql, [now.day().0], |row| {
        Ok((UtcDay(row.get(0)?), UnixSeconds(row.get(1)?)))
    })
}

/// Returns the time of the oldest value that the files lack, if any.
pub(super) fn unwritten_since(store: &Store) -> Result<Option<i64>> {
    let since = store.row("SELECT min(changed_at) FROM day", [], |row| row.get(0))?;
    Ok(since.flatten())
}

/// Records that the file of a day has all values.
pub(super) fn record_written(store: &Store, day: UtcDay, now: UnixSeconds) -> Result<()> {
    let sql = "UPDATE day SET changed_at = NULL, written_at = ?2 WHERE day = ?1";
    store.execute(sql, (day.0, now.0)).map(drop)
}

/// Removes the values of days that left the window and are written.
pub(super) fn prune(store: &Store, now: UnixSeconds) -> Result<()> {
    for sql in [
        "DELETE FROM value WHERE day < ?1 AND day IN (SELECT day FROM day WHERE changed_at IS NULL)",
        "DELETE FROM day WHERE day < ?1 AND changed_at IS NULL",
    ] {
        store.execute(sql, [now.day().0 - KEPT_DAYS])?;
    }
    Ok(())
}

impl Collector {
    /// Makes days due whose files are not as this collector left them. The values of the database are merged into them again.
    /// The islands of a day without a file are requested again if the upstream still has it.
    pub(super) fn check_days(&mut self, now: UnixSeconds) -> Result<()> {
        let written = "SELECT day FROM day WHERE written_at > 0 ORDER BY day";
        for day in self.store.rows(written, [], |row| row.get(0).map(UtcDay))? {
            if self.dataset.is_unchanged(&day_name(day), now)? {
                continue;
            }
            let is_lost = !self.dataset.has_day(day)?;
            let sql = "UPDATE day SET changed_at = ifnull(changed_at, ?2), written_at = iif(?3, NULL, written_at)
                 WHERE day = ?1";
            self.store
                .execute(sql, (day.0, now.0 - WRITE_SECONDS, is_lost))?;
            if !is_lost {
                continue;
            }
            let requested = if day >= rules::window(now).start {
                let sql = "UPDATE reading SET covered = min(covered, ?1 - 1), due_at = 0
                     WHERE class >= 0 AND read_at > 0";
                self.store.execute(sql, [day.0])?;
                " and requested again"
            } else {
                "; the upstream no longer has it"
            };
            self.log.push(format!(
                "the dataset lacks {day}, which this collector wrote; it is written again with what the database \
                 has{requested}"
            ));
            self.is_state_replaced = true;
        }
        Ok(())
    }

    /// Takes back the values of days that have not ended, which a clock ahead of time read and perhaps wrote. Not before
    /// a reply about days: the upstream has none for a clock that is behind, whose days may have ended.
    fn take_back_days(&mut self, now: UnixSeconds) -> Result<()> {
        let days = self.breaker(Endpoint::Days);
        if days.counts[Outcome::Usable as usize] == 0 {
            return Ok(());
        }
        let early = "SELECT day FROM day WHERE day >= ?1";
        for day in self
            .store
            .rows(early, [now.day().0], |row| row.get(0).map(UtcDay))?
        {
            let values = readings::values(&self.store, day)?;
            let mut rows = self.dataset.day(day)?;
            rows.retain(|code, _| !values.contains_key(code));
            if rows.is_empty() {
                self.dataset.remove(&day_name(day))?;
            } else {
                self.dataset.write_day(day, &rows)?;
            }
            for sql in [
                "DELETE FROM value WHERE day = ?1",
                "DELETE FROM day WHERE day = ?1",
            ] {
                self.store.execute(sql, [day.0])?;
            }
        }
        Ok(())
    }

    /// Writes what is due. To be called about once a second. Opens everything again if the clock was set back.
    pub(super) fn tick(&mut self, now: UnixSeconds) -> Result<()> {
        if now.0 < self.ticked.0 - CLOCK_SLACK_SECONDS {
            self.open_again(now)?;
        }
        self.ticked = now;
        if now.0 - self.summarized.0 >= SUMMARY_SECONDS {
            self.summarize(now);
        }
        self.write(false, now)
    }

    /// Logs what was requested and left out. To be called at the end too.
    pub(super) fn summarize(&mut self, now: UnixSeconds) {
        let minutes = (now.0 - self.summarized.0) / 60;
        self.summarized = now;
        let counts = summarize(&mut self.endpoints);
        let day = self.sizes.complete_day;
        let day = day.map_or("none".to_owned(), |day| day.to_string());
        let (refused, skipped) = (self.counts.refused, self.counts.skipped);
        self.log.push(format!(
            "requests in the last {minutes} minutes: {counts}; newest complete day: {day}; left out since the \
             start: {refused} values out of range, {skipped} rows without an island's code, title and tags"
        ));
    }

    /// Writes everything that was collected, whether it is due or not; a hidden day only if there is enough of it: a
    /// run with `--once` may end before most islands have a value.
    pub(super) fn finish(&mut self, now: UnixSeconds) -> Result<()> {
        self.write(true, now)
    }

    /// Writes to the dataset what is due; at the end also the rest. What could not be written stays due, and does not
    /// stop the rest: a fault in one file must not stop the writing of others. Returns the first error, but at once if
    /// readers hold the lock.
    fn write(&mut self, is_end: bool, now: UnixSeconds) -> Result<()> {
        let mut first = Ok(());
        let is_look = is_end || !(0..LOOK_SECONDS).contains(&(now.0 - self.looked.0));
        if is_look {
            keep_first(&mut first, self.take_back_days(now))?;
            keep_first(&mut first, self.check_days(now))?;
        }
        if is_end || self.crawl.is_none() {
            keep_first(&mut first, self.save_islands(now))?;
        }
        keep_first(&mut first, self.save_platform())?;
        keep_first(&mut first, self.save_live(now))?;
        keep_first(&mut first, self.save_days((is_end, is_look), now))?;
        first
    }

    /// Writes the days that are due.
    fn save_days(&mut self, (is_end, is_look): (bool, bool), now: UnixSeconds) -> Result<()> {
        let newest = rules::newest_day(now);
        let mut first = Ok(());
        if self.before.0 != newest {
            let read = self.dataset.day_before(newest);
            first = read.map(|rows| self.before = (newest, rows));
        }
        for (day, changed_at) in changed_days(&self.store, now)? {
            let mut is_due = is_end || now.0 - changed_at.0 >= WRITE_SECONDS;
            // A hidden day is shown as soon as there is enough of it.
            if day == newest && !self.dataset.has_day(day)? {
                is_due = is_look && self.is_shown(day, is_due, now)?;
            }
            if is_due {
                keep_first(&mut first, self.save_day(day, now))?;
            } else if is_end {
                self.log.push(format!(
                    "{day} is not written yet: too few of the players of the day before have a value; a run from 12:00Z \
                     on writes it in any case"
                ));
            }
        }
        if is_look {
            self.looked = now;
            prune(&self.store, now)?;
        }
        first
    }

    /// Returns whether a hidden day, the newest one, which readers do not see yet, is to be shown: the islands that had
    /// most of the players in the newest file before it have a value. Without such a file, `is_due` decides; if it
    /// cannot be read, the day is shown at noon.
    fn is_shown(&self, day: UtcDay, is_due: bool, now: UnixSeconds) -> Result<bool> {
        let values = readings::values(&self.store, day)?;
        let (mut all, mut covered) = (0, 0);
        for (code, row) in &self.before.1 {
            let peak = u128::from(row.count(SortField::PeakCcu).unwrap_or(0));
            all += peak;
            covered += u128::from(values.contains_key(code)) * peak;
        }
        let is_late = now.0 >= day.end().0 + LATEST_SECONDS;
        let is_enough = self.before.0 == day && covered * 100 >= all * ENOUGH_PERCENT;
        Ok((is_due || all > 0) && (is_late || is_enough))
    }

    /// Writes islands.csv if an island or the file has changed. Comes before all files that have islands. Islands that
    /// others have added to the file stay.
    fn save_islands(&self, now: UnixSeconds) -> Result<()> {
        let is_unchanged = self.dataset.is_unchanged(DatasetReader::ISLANDS, now)?;
        if is_unchanged && self.store.task(Task::ISLANDS_CHANGED)? == 0 {
            return Ok(());
        }
        let listed = Dataset::islands(&self.settings.dataset)?;
        self.store.write(|| {
            catalogue::adopt(&self.store, &listed, now)?;
            catalogue::restrict(&self.store, self.settings.codes.as_ref(), now)
        })?;
        drop(listed);
        let all = catalogue::all(&self.store)?;
        self.dataset.write_islands(&all)?;
        let count = i64::try_from(all.len()).unwrap_or(i64::MAX);
        self.store.set_task(Task::ISLANDS_WRITTEN, count)?;
        self.store.set_task(Task::ISLANDS_CHANGED, 0)
    }

    /// Writes a file of `daily/`: the rows that are there, with the values of the database in place of theirs.
    fn save_day(&mut self, day: UtcDay, now: UnixSeconds) -> Result<()> {
        self.save_islands(now)?;
        let stamp = self.dataset.stamp(&day_name(day))?;
        let mut rows = self.dataset.day(day)?;
        let (mut revised, mut is_changed) = (0, false);
        for (code, metrics) in readings::values(&self.store, day)? {
            let old = rows.get(&code).copied().unwrap_or(Metrics::NULL);
            let merged = newer(&old, &metrics);
            is_changed |= merged != old;
            // A value replaced another one if it matters which of them is newer.
            revised += u64::from(merged != newer(&metrics, &old));
            rows.insert(code, merged);
        }
        if is_changed {
            self.dataset.write_day(day, &rows)?;
        } else {
            self.dataset.set_unchanged(day_name(day), stamp);
        }
        if stamp.is_none() {
            let count = rows.len();
            self.log
                .push(format!("{day}: written with {count} islands"));
        }
        record_written(&self.store, day, now)?;
        if revised > 0 {
            self.counts.revised += revised;
            self.log
                .push(format!("{day}: the upstream revised {revised} islands"));
        }
        Ok(())
    }

    /// Adds the collected points to platform.csv, and removes old ones.
    fn save_platform(&mut self) -> Result<()> {
        if self.platform_points.is_empty() {
            return Ok(());
        }
        let before = self.dataset.platform()?;
        let mut all = before.clone();
        all.extend(&self.platform_points);
        let newest = all.last_key_value().map_or(0, |(time, _)| time.0);
        all = all.split_off(&UnixSeconds(newest - PLATFORM_KEPT_SECONDS));
        if all != before {
            self.dataset.write_platform(&all)?;
        }
        self.platform_points.clear();
        self.counts.platform_point = newest;
        Ok(())
    }

    /// Writes the collected live steps, and removes old ones.
    fn save_live(&mut self, now: UnixSeconds) -> Result<()> {
        let mut first = Ok(());
        // The clock may be ahead, and a step too, if one was requested by such a clock.
        let newest = "SELECT min(?1, max(?2, coalesce(max(step), 0))) FROM live_file";
        let collected = self.live_steps.keys().next_back().map_or(0, |step| step.0);
        let oldest = self.store.number(newest, [now.0, collected])? - LIVE_KEPT_SECONDS;
        let steps: Vec<UnixSeconds> = self.live_steps.keys().copied().collect();
        for step in steps {
            let saved = self.save_step(step, now);
            if saved.is_ok() || step.0 <= oldest {
                self.live_steps.remove(&step);
            }
            keep_first(&mut first, saved)?;
        }
        let old = "SELECT step FROM live_file WHERE step <= ?1 ORDER BY step";
        for step in self.store.rows(old, [oldest], |row| row.get(0))? {
            let removed = self.dataset.remove(&step_name(UnixSeconds(step)));
            let sql = "DELETE FROM live_file WHERE step = ?1";
            let removed = removed.and_then(|()| self.store.execute(sql, [step]));
            keep_first(&mut first, removed.map(drop))?;
        }
        first
    }

    /// Writes a live step: the rows that are there, and those that were collected.
    fn save_step(&mut self, step: UnixSeconds, now: UnixSeconds) -> Result<()> {
        let before = self.dataset.step(step)?;
        let mut rows = before.clone();
        rows.extend(&self.live_steps[&step]);
        if rows != before {
            self.save_islands(now)?;
            // Before the file: one that a crash leaves is removed later too.
            let sql = "INSERT OR IGNORE INTO live_file VALUES (?1)";
            self.store.execute(sql, [step.0])?;
            self.dataset.write_step(step, &rows)?;
            self.counts.live_written = now.0;
        }
        Ok(())
    }
}

/// Keeps the first error of parts that do not depend on each other. A held lock is returned: each part would wait
/// for it again.
fn keep_first(first: &mut Result<()>, part: Result<()>) -> Result<()> {
    match part {
        Err(error) if error.is_busy() => return Err(error),
        part if first.is_ok() => *first = part,
        _ => {}
    }
    Ok(())
}
