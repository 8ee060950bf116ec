//! Coverage of a new day: whether enough of it was asked for to become `latest`, which every reader sees.
//!
//! A day is covered when the islands asked carry at least 95 % of the previous day's summed peaks, at the
//! latest at 12:00Z. Without a previous day it is covered when all islands that a genre ranks were asked, or
//! two hours after collecting began.

use std::collections::HashMap;

use super::dataset_files::Dataset;
use super::day_log::DayRows;
use super::error::{CollectError, io_error};
use super::ledger::IslandState;
use super::plan::Plan;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{IslandCode, SortField};

/// Share of the previous day's peaks that must be asked for, in percent.
const ENOUGH_PERCENT: u64 = 95;
/// Time after the end of a day at which it is shown in any case.
const LATEST_SECONDS: i64 = 12 * 3600;
/// Time for the first day of a collector.
const FIRST_SECONDS: i64 = 2 * 3600;

/// Coverage of one day.
#[derive(Debug)]
pub(super) struct Coverage {
    pub(super) day: UtcDay,
    /// Peaks of the previous day, of islands that were not asked yet.
    missing: HashMap<IslandCode, u64, ahash::RandomState>,
    missing_peaks: u64,
    all_peaks: u64,
}

impl Coverage {
    /// Returns the coverage of a day, measured by the newest day before it that the dataset has.
    pub(super) fn measure(
        dataset: &Dataset,
        plan: &Plan,
        day: UtcDay,
    ) -> Result<Coverage, CollectError> {
        let newest = dataset.newest_day_before(day);
        let newest = newest.map_err(io_error("list the days of", dataset.directory()))?;
        let before = newest.map_or_else(|| Ok(DayRows::new()), |newest| dataset.day(newest))?;
        Ok(Coverage::new(day, &before, plan))
    }

    /// Creates the coverage of a day from the rows of the day before.
    pub(super) fn new(day: UtcDay, before: &DayRows, plan: &Plan) -> Coverage {
        let mut coverage = Coverage {
            day,
            missing: HashMap::default(),
            missing_peaks: 0,
            all_peaks: 0,
        };
        for (code, metrics) in before {
            let peak = metrics.count(SortField::PeakCcu).unwrap_or(0);
            coverage.all_peaks = coverage.all_peaks.saturating_add(peak);
            coverage.missing_peaks = coverage.missing_peaks.saturating_add(peak);
            coverage.missing.insert(*code, peak);
            if let Some(state) = plan.state(*code) {
                coverage.record(state);
            }
        }
        coverage
    }

    /// Records the state of an island after a response.
    pub(super) fn record(&mut self, state: &IslandState) {
        let is_asked = state.is_gone || state.covered.is_some_and(|covered| covered >= self.day);
        if is_asked && let Some(peak) = self.missing.remove(&state.code) {
            self.missing_peaks = self.missing_peaks.saturating_sub(peak);
        }
    }

    /// Returns whether the day may be shown.
    pub(super) fn is_enough(&self, plan: &Plan, began: UnixSeconds, now: UnixSeconds) -> bool {
        if now.0 >= self.day.end().0 + LATEST_SECONDS {
            return true;
        }
        if self.all_peaks == 0 {
            return plan.ranked_are_asked() == Some(true) || now.0 - began.0 >= FIRST_SECONDS;
        }
        let asked = self.all_peaks - self.missing_peaks;
        u128::from(asked) * 100 >= u128::from(self.all_peaks) * u128::from(ENOUGH_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Metrics;

    #[test]
    fn a_day_is_covered_at_95_percent_of_the_peaks_or_at_noon() {
        let day = UtcDay(20_700);
        let code = |number| IslandCode::from_number(number).unwrap();
        let rows: DayRows = [(1, 95), (2, 4), (3, 1)]
            .map(|(number, peak)| {
                let counts = [Some(peak), None, None, None, None, None];
                (code(number), Metrics::new(counts, [None; 3]))
            })
            .into();
        let one_o_clock = UnixSeconds(day.end().0 + 3600);
        let mut plan = Plan::new(Vec::new(), one_o_clock);
        let mut coverage = Coverage::new(day, &rows, &plan);
        let is_enough =
            |coverage: &Coverage, plan: &Plan, now| coverage.is_enough(plan, UnixSeconds(0), now);
        assert!(!is_enough(&coverage, &plan, one_o_clock));
        assert!(is_enough(
            &coverage,
            &plan,
            UnixSeconds(day.end().0 + LATEST_SECONDS)
        ));
        let mut asked = IslandState::new(code(1), day);
        asked.covered = Some(UtcDay(day.0 - 1));
        coverage.record(&asked);
        assert!(!is_enough(&coverage, &plan, one_o_clock));
        asked.covered = Some(day);
        coverage.record(&asked);
        coverage.record(&asked);
        assert!(is_enough(&coverage, &plan, one_o_clock));
        // An island that is gone counts as asked, and the same is found from the states at start.
        plan.seen(code(1), one_o_clock);
        let mut gone = *plan.state(code(1)).unwrap();
        gone.is_gone = true;
        plan.record(gone);
        assert!(is_enough(
            &Coverage::new(day, &rows, &plan),
            &plan,
            one_o_clock
        ));
    }
}
