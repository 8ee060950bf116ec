//! A live pass: the players of the most played islands in one 10-minute step.
//!
//! Values come 20 to 30 minutes after a step has ended, so step S has them between S + 30 min and S + 40 min.
//! It is requested from S + 30 min on, 50 minutes back. A step for which only a part of the islands had
//! values yet waits for the next pass, which reads the two steps before its own too.

use std::collections::{BTreeMap, VecDeque};

use super::dataset_files::StepRows;
use super::endpoints::{ATTEMPTS, Request};
use super::wire;
use crate::calendar::UnixSeconds;
use crate::dataset::STEP_SECONDS;
use crate::model::IslandCode;

/// Time after the start of a step from which it is requested.
const DELAY_SECONDS: i64 = 30 * 60;
/// Time before the step from which values are requested: 50 minutes before the pass begins.
const BACK_SECONDS: i64 = 20 * 60;
/// Age at which an interrupted pass is not worth its requests.
const STALE_SECONDS: i64 = 3 * 3600;
/// Share of the players of the step before, in percent, that may be missing in a step that is written.
const MISSING_PERCENT: u128 = 10;

/// One pass over the islands of the live snapshot.
#[derive(Debug)]
pub(super) struct LivePass {
    /// The step that is due.
    pub(super) step: UnixSeconds,
    /// Islands that are not read yet, with their failures.
    islands: VecDeque<(IslandCode, u32)>,
    steps: Steps,
}

/// Players by step and island.
pub(super) type Steps = BTreeMap<UnixSeconds, StepRows>;

impl LivePass {
    pub(super) fn due_step(now: UnixSeconds) -> UnixSeconds {
        wire::step(now.0 - DELAY_SECONDS)
    }

    /// Begins a pass over islands. Returns `None` if there are none.
    pub(super) fn new(step: UnixSeconds, mut islands: Vec<IslandCode>) -> Option<LivePass> {
        // Mixed: if the most played ones all failed, one after the other, each would lengthen the pause.
        islands.sort_by_key(|code| code.number().wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (!islands.is_empty()).then(|| LivePass {
            step,
            islands: islands.into_iter().map(|code| (code, 0)).collect(),
            steps: BTreeMap::new(),
        })
    }

    pub(super) fn request(&self, now: UnixSeconds) -> Option<Request> {
        let from = UnixSeconds(self.step.0 - BACK_SECONDS);
        let (code, _) = self.islands.front()?;
        Some(Request::Steps(*code, from..wire::step(now.0)))
    }

    pub(super) fn advance(&mut self, code: IslandCode, values: BTreeMap<UnixSeconds, u64>) {
        self.islands.pop_front_if(|(next, _)| *next == code);
        for (step, players) in values {
            self.steps.entry(step).or_default().insert(code, players);
        }
    }

    /// Moves an island that failed to the end, or leaves it out after [`ATTEMPTS`] failures. If values were read, and only
    /// islands remain that failed, all are left out after so many failures of the endpoint in a row. Returns the number
    /// of islands that are left out.
    pub(super) fn postpone(&mut self, code: IslandCode, endpoint_failures: u32) -> usize {
        let before = self.islands.len();
        let failed = self.islands.pop_front_if(|(next, _)| *next == code);
        let failed = failed.map(|(code, failures)| (code, failures + 1));
        let again = failed.filter(|(_, failures)| *failures < ATTEMPTS);
        self.islands.extend(again);
        let next = self.islands.front();
        let is_end = next.is_some_and(|(_, failures)| *failures > 0);
        if is_end && endpoint_failures >= ATTEMPTS && !self.steps.is_empty() {
            self.islands.clear();
        }
        before - self.islands.len()
    }

    pub(super) fn is_done(&self) -> bool {
        self.islands.is_empty()
    }

    /// Returns whether the pass was interrupted for so long that a new one is better.
    pub(super) fn is_stale(&self, now: UnixSeconds) -> bool {
        !(0..STALE_SECONDS).contains(&(now.0 - self.step.0))
    }

    /// Returns the steps that can be written; with `newest`, only the newest step that has any value.
    pub(super) fn into_steps(mut self, newest: bool) -> Steps {
        if newest {
            return self.steps.pop_last().into_iter().collect();
        }
        drop(self.steps.split_off(&UnixSeconds(self.step.0 + 1)));
        let due = self.steps.get(&self.step);
        let before = UnixSeconds(self.step.0 - STEP_SECONDS);
        let (mut all, mut missing) = (0, 0);
        for (code, players) in self.steps.get(&before).into_iter().flatten() {
            let is_missing = due.is_some_and(|due| !due.contains_key(code));
            all += u128::from(*players);
            missing += u128::from(is_missing) * u128::from(*players);
        }
        // Islands that had many of the players in the step before have no value: values became
        // available during the pass.
        if missing * 100 > all * MISSING_PERCENT {
            self.steps.remove(&self.step);
        }
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(number: u64) -> IslandCode {
        IslandCode::from_number(number).unwrap()
    }

    #[test]
    fn all_islands_are_asked_and_one_step_is_kept() {
        let now = UnixSeconds(20_700 * 86_400 + 7 * 3600 + 35 * 60);
        let step = LivePass::due_step(now);
        assert_eq!(step.0 % 86_400, 7 * 3600);
        let mut pass = LivePass::new(step, vec![code(2), code(4)]).unwrap();
        let mut asked = Vec::new();
        while let Some(Request::Steps(code, times)) = pass.request(now) {
            let back = UnixSeconds(step.0 - 20 * 60);
            // Not into the future.
            assert_eq!(times, back..UnixSeconds(step.0 + 30 * 60));
            let later = UnixSeconds(step.0 + 600);
            pass.advance(code, [(step, code.number()), (later, 7)].into());
            asked.push(code.number());
        }
        asked.sort_unstable();
        assert_eq!(asked, [2, 4]);
        assert!(pass.is_done());
        assert!(!pass.is_stale(now) && pass.is_stale(UnixSeconds(now.0 + STALE_SECONDS)));
        let steps = pass.into_steps(false);
        let values: Vec<_> = steps[&step].values().copied().collect();
        assert_eq!((steps.len(), values), (1, vec![2, 4]));
        assert!(LivePass::new(step, Vec::new()).is_none());
    }

    #[test]
    fn an_island_that_fails_is_requested_again_at_the_end_and_then_left_out() {
        let step = UnixSeconds(20_700 * 86_400);
        let mut pass = LivePass::new(step, [1, 2, 3].map(code).to_vec()).unwrap();
        let mut asked = Vec::new();
        while let Some(Request::Steps(code, _)) = pass.request(step) {
            asked.push(code.number());
            if code.number() == 2 {
                assert_eq!(pass.postpone(code, 1), usize::from(asked.len() == 5));
            } else {
                pass.advance(code, [(step, 7)].into());
            }
        }
        assert_eq!(asked[3..], [2, 2]);
        let codes: Vec<_> = pass.into_steps(false)[&step].keys().copied().collect();
        assert_eq!(codes, [1, 3].map(code));
    }

    #[test]
    fn islands_that_fail_are_left_out_together_when_no_others_remain() {
        let step = UnixSeconds(20_700 * 86_400);
        let mut pass = LivePass::new(step, (1..=9).map(code).collect()).unwrap();
        let (mut asked, mut failures, mut left_out) = (0, 0, 0);
        while let Some(Request::Steps(code, _)) = pass.request(step) {
            asked += 1;
            if code.number() < 6 {
                failures += 1;
                left_out += pass.postpone(code, failures);
            } else {
                failures = 0;
                pass.advance(code, [(step, 7)].into());
            }
        }
        assert_eq!((asked, left_out), (9 + 3, 5));
        // In an outage that began with the pass, each is requested three times.
        let mut pass = LivePass::new(step, (1..=9).map(code).collect()).unwrap();
        let requests = (1..).map_while(|number| {
            let Some(Request::Steps(code, _)) = pass.request(step) else {
                return None;
            };
            Some(pass.postpone(code, number))
        });
        assert_eq!(
            requests.collect::<Vec<_>>(),
            [[0; 18].as_slice(), &[1; 9]].concat()
        );
    }

    #[test]
    fn a_step_that_becomes_available_during_the_pass_waits_for_the_next() {
        let step = UnixSeconds(20_700 * 86_400);
        let at = |steps: i64| UnixSeconds(step.0 + steps * STEP_SECONDS);
        let pass = |due: &[(u64, u64)]| {
            let mut pass = LivePass {
                step,
                islands: VecDeque::new(),
                steps: BTreeMap::new(),
            };
            for (island, players) in [(1, 90), (2, 6), (3, 4)] {
                pass.islands.push_back((code(island), 0));
                pass.advance(code(island), [(at(-1), players)].into());
            }
            for (island, players) in due {
                pass.islands.push_back((code(*island), 0));
                pass.advance(code(*island), [(at(0), *players), (at(1), 1)].into());
            }
            pass
        };
        let written = |due: &[(u64, u64)], newest| -> Vec<UnixSeconds> {
            pass(due).into_steps(newest).into_keys().collect()
        };
        assert_eq!(written(&[(1, 80)], false), [at(-1), at(0)]);
        assert_eq!(written(&[(2, 6), (3, 4)], false), [at(-1)]);
        assert_eq!(written(&[], false), [at(-1)]);
        assert_eq!(written(&[(3, 4)], true), [at(1)]);
        assert_eq!(written(&[], true), [at(-1)]);
    }
}
