//! Writing: the logs and the ledger in intervals, and the files of the dataset.

use std::collections::BTreeMap;

use super::clean::Listed;
use super::collector::Collector;
use super::coverage::Coverage;
use super::day_log::newer;
use super::error::{CollectError, io_error};
use super::live::LivePass;
use super::window::fresh_day;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::Metrics;
use crate::model::IslandCode;

/// Collected days are written at least this often: a crash of this process repeats their requests.
const FLUSH_SECONDS: i64 = 5;
/// And made durable this often, with the ledger that accounts for them.
const SYNC_SECONDS: i64 = 60;
/// Time between merges while islands remain that were never asked.
const COLD_MERGE_SECONDS: i64 = 3600;
/// Time for which live steps are kept.
const LIVE_KEPT_SECONDS: i64 = 48 * 3600;
/// Time for which points of the platform are kept.
const PLATFORM_KEPT_SECONDS: i64 = 14 * DAY_SECONDS;

impl Collector {
    /// Writes what is due. To be called about once a second.
    pub(super) fn tick(&mut self, now: UnixSeconds) -> Result<(), CollectError> {
        if now.0 - self.flushed.0 >= FLUSH_SECONDS {
            self.logs
                .flush()
                .map_err(io_error("write the collected days in", &self.state))?;
            self.flushed = now;
        }
        if now.0 - self.synced.0 >= SYNC_SECONDS {
            self.sync()?;
            self.synced = now;
        }
        let day = fresh_day(now);
        if day > self.coverage.day {
            let before = self.dataset.day(UtcDay(day.0 - 1))?;
            self.coverage = Coverage::new(day, &before, &self.plan);
        }
        if self.is_merge_due(now) {
            self.merge(now)?;
        }
        Ok(())
    }

    /// Makes everything durable that was collected, and then the ledger that accounts for it.
    pub(super) fn sync(&mut self) -> Result<(), CollectError> {
        self.logs
            .sync()
            .map_err(io_error("write the collected days in", &self.state))?;
        self.ledger
            .sync()
            .map_err(io_error("write the ledger in", &self.state))?;
        self.progress
            .write(&self.state)
            .map_err(io_error("write the progress in", &self.state))
    }

    fn is_merge_due(&mut self, now: UnixSeconds) -> bool {
        let day = self.coverage.day;
        let is_cold = self.plan.has_unasked();
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
        let state = self.state.clone();
        let state_error = || io_error("read the collected days in", &state);
        for day in self.logs.days().map_err(state_error())? {
            let collected = self.logs.take(day).map_err(state_error())?;
            let mut rows = self.dataset.day(day)?;
            let (mut revised, mut is_changed) = (0, false);
            for (code, metrics) in &collected {
                let row = rows.entry(*code).or_insert(Metrics::NULL);
                let (merged, is_revised) = newer(row, metrics);
                is_changed |= merged != *row;
                revised += u64::from(is_revised);
                *row = merged;
                // An island that a crash took from the catalogue. The next crawl has its title.
                if !self.catalogue.contains_key(code) {
                    self.catalogue.insert(*code, stub(*code));
                    self.is_catalogue_changed = true;
                }
            }
            if is_changed {
                self.replace_day(day, &rows)?;
            }
            if revised > 0 {
                self.counts.revised += revised;
                self.log
                    .push(format!("{day}: the upstream revised {revised} islands"));
            }
            self.logs.finish(day).map_err(state_error())?;
        }
        self.progress.merged = now.0;
        if self.plan.is_fresh(now) {
            self.progress.complete_day = fresh_day(now).0;
        }
        self.progress
            .write(&self.state)
            .map_err(io_error("write the progress in", &self.state))
    }

    fn replace_day(
        &mut self,
        day: UtcDay,
        rows: &super::day_log::DayRows,
    ) -> Result<(), CollectError> {
        let is_new = !self.dataset.has_day(day);
        let mut set = self.dataset.begin();
        let result = (|| {
            if self.is_catalogue_changed {
                set.islands(&self.catalogue)?;
            }
            set.day(day, rows)?;
            set.commit()
        })();
        result.map_err(io_error("write a day to", self.dataset.directory()))?;
        self.is_catalogue_changed = false;
        if is_new {
            let count = rows.len();
            self.log.push(format!("{day}: shown, with {count} islands"));
        }
        Ok(())
    }

    /// Replaces islands.csv if the catalogue has changed.
    pub(super) fn save_catalogue(&mut self) -> Result<(), CollectError> {
        if self.is_catalogue_changed {
            let mut set = self.dataset.begin();
            let result = set.islands(&self.catalogue).and_then(|()| set.commit());
            result.map_err(io_error("write islands.csv to", self.dataset.directory()))?;
            self.is_catalogue_changed = false;
        }
        Ok(())
    }

    /// Adds points to platform.csv, and removes old ones.
    pub(super) fn save_platform(
        &mut self,
        points: &[(UnixSeconds, u64)],
    ) -> Result<(), CollectError> {
        let mut all = self.dataset.platform()?;
        let before = all.clone();
        all.extend(points.iter().copied());
        if let Some((&newest, _)) = all.last_key_value() {
            all = all.split_off(&UnixSeconds(newest.0 - PLATFORM_KEPT_SECONDS));
        }
        if all == before {
            return Ok(());
        }
        let mut set = self.dataset.begin();
        let result = set.platform(&all).and_then(|()| set.commit());
        result.map_err(io_error("write platform.csv to", self.dataset.directory()))
    }

    /// Writes the live step of a finished pass, and removes old steps.
    pub(super) fn save_live(
        &mut self,
        pass: &LivePass,
        now: UnixSeconds,
    ) -> Result<(), CollectError> {
        let error = || io_error("write a live step to", self.dataset.directory());
        if let Some((step, players)) = pass.values(self.options.once) {
            let known: BTreeMap<IslandCode, u64> = players
                .iter()
                .filter(|(code, _)| self.catalogue.contains_key(code))
                .map(|(code, players)| (*code, *players))
                .collect();
            let mut set = self.dataset.begin();
            let result = (|| {
                if self.is_catalogue_changed {
                    set.islands(&self.catalogue)?;
                }
                set.step(step, &known)?;
                set.commit()
            })();
            result.map_err(error())?;
            self.is_catalogue_changed = false;
            self.counts.live_written = now.0;
            if !self.progress.live_files.contains(&step.0) {
                self.progress.live_files.push(step.0);
            }
        } else {
            let step = pass.step;
            self.log
                .push(format!("live step {step}: the upstream has no values"));
        }
        self.progress.live_step = pass.step.0;
        let is_old = |step: i64| now.0 - step > LIVE_KEPT_SECONDS;
        for step in self
            .progress
            .live_files
            .iter()
            .filter(|step| is_old(**step))
        {
            self.dataset
                .remove_step(UnixSeconds(*step))
                .map_err(error())?;
        }
        self.progress.live_files.retain(|step| !is_old(*step));
        self.progress
            .write(&self.state)
            .map_err(io_error("write the progress in", &self.state))
    }
}

/// An island whose title is not known yet.
fn stub(code: IslandCode) -> Listed {
    Listed {
        code,
        title: "".into(),
        creator: None,
        created_in: None,
        tags: "".into(),
    }
}
