//! Writing: the ledger in intervals, and the files of the dataset.

use super::collector::Collector;
use super::coverage::Coverage;
use super::dataset_files::Change;
use super::error::{CollectError, io_error};
use super::ledger::{Ledger, newer};
use super::live::Steps;
use super::plan::fresh_day;
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::dataset::{Island, Metrics};
use crate::model::IslandCode;

/// Longest time between two writes of collected values: a crash of this process repeats the requests since the
/// last one.
const FLUSH_SECONDS: i64 = 5;
/// And made durable this often: a crash of the machine repeats the requests since then.
const SYNC_SECONDS: i64 = 60;
/// Time between merges while islands remain that were never requested.
const COLD_MERGE_SECONDS: i64 = 3600;
/// Time between two attempts to write to a dataset whose lock readers hold.
const BUSY_SECONDS: i64 = 10;
/// Time after which that is logged.
const LONG_BUSY_SECONDS: i64 = 600;
/// A clock that goes back by more than this was set.
const CLOCK_SLACK_SECONDS: i64 = 60;
/// Time for which live steps are kept.
const LIVE_KEPT_SECONDS: i64 = 48 * 3600;
/// Time for which points of the platform are kept.
const PLATFORM_KEPT_SECONDS: i64 = 14 * DAY_SECONDS;
/// The action that failed, in errors of the ledger.
const WRITE_DAYS: &str = "write the collected days in";

impl Collector {
    /// Writes what is due. To be called about once a second.
    pub(super) fn tick(&mut self, now: UnixSeconds) -> Result<(), CollectError> {
        if now.0 < self.ticked.0 - CLOCK_SLACK_SECONDS {
            self.adapt_to_clock(now);
        }
        self.ticked = now;
        if now.0 - self.flushed.0 >= FLUSH_SECONDS {
            let flushed = self.ledger.flush();
            flushed.map_err(io_error(WRITE_DAYS, &self.settings.state))?;
            self.flushed = now;
        }
        if now.0 - self.synced.0 >= SYNC_SECONDS {
            self.sync()?;
            self.synced = now;
        }
        let day = fresh_day(now);
        if day != self.coverage.day {
            self.coverage = Coverage::new(day, &self.dataset.day_before(day)?);
        }
        let is_waiting = |(_, tried): (_, UnixSeconds)| now.0 - tried.0 < BUSY_SECONDS;
        if self.busy.is_some_and(is_waiting) {
            return Ok(());
        }
        match self.write(now) {
            Err(error) if error.is_busy() => self.record_busy(now),
            other => {
                self.busy = None;
                return other;
            }
        }
        Ok(())
    }

    /// Forgets times that lie in the future after the clock was set back: nothing would be due before then.
    fn adapt_to_clock(&mut self, now: UnixSeconds) {
        self.progress.limit(now);
        self.plan.forget_after(now);
        // Due now.
        self.flushed = UnixSeconds(now.0 - SYNC_SECONDS);
        self.synced = self.flushed;
        (self.not_before, self.platform_failed) = (now, now);
        (self.busy, self.live) = (None, None);
        self.log.push("the clock was set back".to_owned());
    }

    fn record_busy(&mut self, now: UnixSeconds) {
        let since = self.busy.map_or(now, |(since, _)| since);
        let is_long = |at: UnixSeconds| at.0 - since.0 >= LONG_BUSY_SECONDS;
        if is_long(now) && !self.busy.is_some_and(|(_, tried)| is_long(tried)) {
            let directory = self.settings.dataset.display();
            self.log.push(format!(
                "readers have held the lock on {directory} for ten minutes; files are written when they release it"
            ));
        }
        self.busy = Some((since, now));
    }

    /// Writes to the dataset what is due. What could not be written stays due.
    fn write(&mut self, now: UnixSeconds) -> Result<(), CollectError> {
        if self.is_catalogue_due {
            self.dataset
                .replace("write islands.csv to", &[Change::Islands])?;
            self.is_catalogue_due = false;
        }
        self.save_platform()?;
        self.save_live(now)?;
        if self.is_merge_due(now) {
            self.merge(now)?;
        }
        Ok(())
    }

    /// Writes everything that was collected, whether it is due or not.
    pub(super) fn finish(&mut self, now: UnixSeconds) -> Result<(), CollectError> {
        self.write(now)?;
        self.merge(now)
    }

    /// Makes everything durable that was collected.
    pub(super) fn sync(&mut self) -> Result<(), CollectError> {
        let synced = self.ledger.sync();
        synced.map_err(io_error(WRITE_DAYS, &self.settings.state))?;
        self.write_progress()
    }

    fn is_merge_due(&mut self, now: UnixSeconds) -> bool {
        let day = self.coverage.day;
        let is_cold = self.plan.has_never_requested();
        if !self.dataset.has_day(day) {
            // Shown when enough of it is there; then hourly, if no island had data yet.
            let is_tried = self.progress.merged > day.end().0
                && now.0 - self.progress.merged < COLD_MERGE_SECONDS;
            let began = UnixSeconds(self.progress.began);
            return !is_tried && self.coverage.is_enough(&self.plan, began, now);
        }
        if is_cold {
            return now.0 - self.progress.merged >= COLD_MERGE_SECONDS;
        }
        self.progress.complete_day < day.0 && self.plan.is_fresh(now)
    }

    /// Merges the collected days into `daily/`. An existing row keeps its values where there is no new one.
    pub(super) fn merge(&mut self, now: UnixSeconds) -> Result<(), CollectError> {
        self.sync()?;
        let state = self.settings.state.clone();
        let state_error = io_error("read the collected days in", &state);
        for day in Ledger::days(&state).map_err(&state_error)? {
            let collected = Ledger::rows(&state, day).map_err(&state_error)?;
            let mut rows = self.dataset.day(day)?;
            let (mut revised, mut is_changed) = (0, false);
            for (code, metrics) in &collected {
                let old = rows.get(code);
                let (merged, is_revised) = newer(old.unwrap_or(&Metrics::NULL), metrics);
                is_changed |= old != Some(&merged);
                revised += u64::from(is_revised);
                rows.insert(*code, merged);
                // An island that a crash took from the catalogue. The next crawl has its title.
                if !self.dataset.catalogue.contains_key(code) {
                    self.dataset.insert(stub(*code));
                }
            }
            if is_changed {
                let is_new = !self.dataset.has_day(day);
                self.dataset
                    .replace("write a day to", &[Change::Day(day, &rows)])?;
                if is_new {
                    let count = rows.len();
                    self.log
                        .push(format!("{day}: written with {count} islands"));
                }
            }
            if revised > 0 {
                self.counts.revised += revised;
                self.log
                    .push(format!("{day}: the upstream revised {revised} islands"));
            }
        }
        let ledger = Ledger::replace(&state, self.plan.states());
        self.ledger = ledger.map_err(io_error("write the ledger in", &state))?;
        let refused = self.counts.refused - self.refused_logged;
        if refused > 0 {
            self.refused_logged = self.counts.refused;
            self.log
                .push(format!("left out {refused} values that are out of range"));
        }
        self.progress.merged = now.0;
        if self.plan.is_fresh(now) {
            self.progress.complete_day = fresh_day(now).0;
        }
        self.write_progress()
    }

    /// Adds the collected points to platform.csv, and removes old ones.
    fn save_platform(&mut self) -> Result<(), CollectError> {
        if self.platform_points.is_empty() {
            return Ok(());
        }
        let mut all = self.dataset.platform()?;
        let before = all.clone();
        all.extend(self.platform_points.iter().copied());
        if let Some((&newest, _)) = all.last_key_value() {
            all = all.split_off(&UnixSeconds(newest.0 - PLATFORM_KEPT_SECONDS));
        }
        if all != before {
            self.dataset
                .replace("write platform.csv to", &[Change::Platform(&all)])?;
        }
        self.platform_points.clear();
        Ok(())
    }

    /// Writes the collected live steps, and removes old ones.
    fn save_live(&mut self, now: UnixSeconds) -> Result<(), CollectError> {
        let mut steps = Steps::new();
        for (step, players) in &self.live_steps {
            let mut rows = self.dataset.step(*step)?;
            let before = rows.clone();
            let is_known =
                |(code, _): &(&IslandCode, &u64)| self.dataset.catalogue.contains_key(code);
            rows.extend(players.iter().filter(is_known));
            if rows != before {
                steps.insert(*step, rows);
            }
        }
        let is_old = |step: &i64| now.0 - step > LIVE_KEPT_SECONDS;
        let files = self.progress.live_files.iter().copied();
        let (old, mut kept): (Vec<i64>, Vec<i64>) = files.partition(is_old);
        if !steps.is_empty() || !old.is_empty() {
            kept.extend(steps.keys().map(|step| step.0));
            kept.sort_unstable();
            kept.dedup();
            // Written before the files: a file that a crash leaves is removed later too.
            self.progress.live_files = [&old[..], &kept].concat();
            self.write_progress()?;
            let written = steps.iter().map(|(step, rows)| Change::Step(*step, rows));
            let removed = old
                .iter()
                .map(|step| Change::RemovedStep(UnixSeconds(*step)));
            let changes: Vec<Change<'_>> = written.chain(removed).collect();
            self.dataset.replace("write a live step to", &changes)?;
            self.progress.live_files = kept;
            if !steps.is_empty() {
                self.counts.live_written = now.0;
            }
        }
        self.live_steps.clear();
        Ok(())
    }

    fn write_progress(&self) -> Result<(), CollectError> {
        let written = self.progress.write(&self.settings.state);
        written.map_err(io_error("write the progress in", &self.settings.state))
    }
}

/// An island whose title is not known yet.
fn stub(code: IslandCode) -> Island {
    Island {
        code,
        title: "".into(),
        creator: None,
        created_in: None,
        tags: "".into(),
    }
}
