//! Coverage of a new day: whether enough of it was requested to become `latest`, which every client sees.
//!
//! A day is covered when the requested islands have at least 95 % of the previous day's summed peaks, at the
//! latest at 12:00Z. Without a previous day it is covered when all islands that a genre ranks were requested, or
//! two hours after collecting began.

use super::ledger::DayRows;
use super::plan::Plan;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::{IslandCode, SortField};

/// Share of the previous day's peaks that must be requested, in percent.
const ENOUGH_PERCENT: u128 = 95;
/// Time after the end of a day at which it is shown in any case.
const LATEST_SECONDS: i64 = 12 * 3600;
/// Time for the first day of a collector.
const FIRST_SECONDS: i64 = 2 * 3600;

/// Coverage of one day.
#[derive(Debug)]
pub(super) struct Coverage {
    pub(super) day: UtcDay,
    /// Peaks of the newest day before it that the dataset has.
    peaks: Vec<(IslandCode, u64)>,
}

impl Coverage {
    /// Creates the coverage of a day from the rows of the day before.
    pub(super) fn new(day: UtcDay, before: &DayRows) -> Coverage {
        let peaks = before.iter().filter_map(|(code, metrics)| {
            let peak = metrics.count(SortField::PeakCcu)?;
            Some((*code, peak))
        });
        let peaks = peaks.collect();
        Coverage { day, peaks }
    }

    /// Returns whether the day may be shown. Called once a second until the day is written.
    pub(super) fn is_enough(&self, plan: &Plan, began: UnixSeconds, now: UnixSeconds) -> bool {
        if now.0 >= self.day.end().0 + LATEST_SECONDS {
            return true;
        }
        let (mut all_peaks, mut asked_peaks) = (0, 0);
        for (code, peak) in &self.peaks {
            let state = plan.state(*code);
            let is_asked =
                state.is_some_and(|state| state.is_gone || state.covered >= Some(self.day));
            all_peaks += u128::from(*peak);
            asked_peaks += u128::from(if is_asked { *peak } else { 0 });
        }
        if all_peaks == 0 {
            return plan.ranked_are_requested() || now.0 - began.0 >= FIRST_SECONDS;
        }
        asked_peaks * 100 >= all_peaks * ENOUGH_PERCENT
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
        let mut plan = Plan::new(one_o_clock);
        let coverage = Coverage::new(day, &rows);
        let is_enough = |plan: &Plan, now| coverage.is_enough(plan, UnixSeconds(0), now);
        assert!(!is_enough(&plan, one_o_clock));
        assert!(is_enough(&plan, UnixSeconds(day.end().0 + LATEST_SECONDS)));
        let mut asked = plan.seen(code(1), one_o_clock).unwrap();
        asked.covered = Some(UtcDay(day.0 - 1));
        plan.record(asked);
        assert!(!is_enough(&plan, one_o_clock));
        asked.covered = Some(day);
        plan.record(asked);
        assert!(is_enough(&plan, one_o_clock));
        // An island that is gone counts as requested.
        asked.covered = None;
        plan.record(asked);
        assert!(!is_enough(&plan, one_o_clock));
        asked.is_gone = true;
        plan.record(asked);
        assert!(is_enough(&plan, one_o_clock));
    }
}
