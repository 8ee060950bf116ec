//! A live pass: the players of the most played islands in one 10-minute step.
//!
//! Values come 20 to 40 minutes after a step has ended. Step S is asked for from S + 30 min on, 50 minutes back.

use std::collections::BTreeMap;

use super::plan::Plan;
use super::request::Request;
use super::wire::STEP_SECONDS;
use crate::calendar::UnixSeconds;
use crate::model::IslandCode;

/// Time after the start of a step from which it is asked for.
const DELAY_SECONDS: i64 = 30 * 60;
/// Time before now from which values are asked for.
const BACK_SECONDS: i64 = 50 * 60;

/// One pass over the islands of the live snapshot.
#[derive(Debug)]
pub(super) struct LivePass {
    /// The step that is due.
    pub(super) step: UnixSeconds,
    /// Islands that are not asked yet, the next one last.
    islands: Vec<IslandCode>,
    /// Values by step.
    steps: BTreeMap<UnixSeconds, BTreeMap<IslandCode, u64>>,
}

impl LivePass {
    /// Returns the newest step that can be asked for.
    pub(super) fn due_step(now: UnixSeconds) -> UnixSeconds {
        UnixSeconds((now.0 - DELAY_SECONDS).div_euclid(STEP_SECONDS) * STEP_SECONDS)
    }

    /// Begins a pass over the `count` islands with the highest last peaks. Returns `None` if no island has data.
    pub(super) fn new(step: UnixSeconds, count: usize, plan: &Plan) -> Option<LivePass> {
        let mut islands: Vec<(u32, IslandCode)> = plan
            .recent()
            .map(|state| (state.peak, state.code))
            .collect();
        let by_peak = |one: &(u32, IslandCode), other: &(u32, IslandCode)| {
            (other.0, one.1).cmp(&(one.0, other.1))
        };
        if islands.len() > count {
            islands.select_nth_unstable_by(count, by_peak);
            islands.truncate(count);
        }
        islands.sort_unstable_by(by_peak);
        let islands: Vec<IslandCode> = islands.into_iter().rev().map(|(_, code)| code).collect();
        (!islands.is_empty()).then(|| LivePass {
            step,
            islands,
            steps: BTreeMap::new(),
        })
    }

    /// Returns the next request.
    pub(super) fn request(&self, now: UnixSeconds) -> Option<Request> {
        let slot = |time: i64| UnixSeconds(time.div_euclid(STEP_SECONDS) * STEP_SECONDS);
        self.islands.last().map(|code| Request::Steps {
            code: *code,
            from: slot(now.0 - BACK_SECONDS),
            to: slot(now.0 + STEP_SECONDS),
        })
    }

    /// Records the values of an island.
    pub(super) fn advance(&mut self, code: IslandCode, values: &[(UnixSeconds, u64)]) {
        self.islands.pop_if(|next| *next == code);
        for (step, players) in values {
            self.steps.entry(*step).or_default().insert(code, *players);
        }
    }

    /// Goes on without the next island.
    pub(super) fn skip(&mut self) {
        self.islands.pop();
    }

    /// Returns whether all islands were asked.
    pub(super) fn is_done(&self) -> bool {
        self.islands.is_empty()
    }

    /// Returns the values of the step that was due; with `newest`, those of the newest step that has any.
    pub(super) fn values(&self, newest: bool) -> Option<(UnixSeconds, &BTreeMap<IslandCode, u64>)> {
        let found = if newest {
            self.steps.last_key_value()
        } else {
            self.steps.get_key_value(&self.step)
        };
        found.map(|(step, players)| (*step, players))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::UtcDay;
    use crate::collect::ledger::IslandState;

    fn code(number: u64) -> IslandCode {
        IslandCode::from_number(number).unwrap()
    }

    #[test]
    fn the_most_played_islands_are_asked_and_one_step_is_kept() {
        let now = UnixSeconds(20_700 * 86_400 + 7 * 3600 + 35 * 60);
        let states = [(1, 5), (2, 9), (3, 0), (4, 9)].map(|(number, peak)| IslandState {
            covered: Some(UtcDay(20_699)),
            data_day: (number != 3).then_some(UtcDay(20_699)),
            peak,
            ..IslandState::new(code(number), UtcDay(20_690))
        });
        let plan = Plan::new(states.to_vec(), now);
        let step = LivePass::due_step(now);
        assert_eq!(step.0 % 86_400, 7 * 3600);
        let mut pass = LivePass::new(step, 2, &plan).unwrap();
        let mut asked = Vec::new();
        while let Some(Request::Steps { code, from, to }) = pass.request(now) {
            assert_eq!((from.0, to.0), (step.0 - 20 * 60, step.0 + 40 * 60));
            let later = UnixSeconds(step.0 + 600);
            pass.advance(code, &[(step, code.number()), (later, 7)]);
            asked.push(code.number());
        }
        assert_eq!(asked, [2, 4]);
        assert!(pass.is_done());
        let values = pass.values(false).unwrap();
        assert_eq!(values.0, step);
        assert_eq!(values.1.values().copied().collect::<Vec<_>>(), [2, 4]);
        assert_eq!(pass.values(true).unwrap().0.0, step.0 + 600);
        assert!(LivePass::new(step, 2, &Plan::new(Vec::new(), now)).is_none());
    }
}
