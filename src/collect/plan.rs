//! The plan: the island whose daily metrics are requested next.
//!
//! In: the state of each island, the time. Out: an island, or the time at which one is due. Deterministic:
//! the queues are an index over the states and hold nothing that cannot be computed from them.
//!
//! A response on day D covers the seven whole days before D, so a day leaves the window when day + 7 ends.
//! Order:
//!
//! 1. Islands whose oldest day that was not requested leaves the window in under 36 h, earliest first. With
//!    active islands first instead, days are lost (the test has it as a control).
//! 2. Islands that were never requested, best genre rank first; every fourth one is preceded by an active
//!    island without metrics of yesterday, highest peak first, from 00:20Z. Half and half would lose days of a
//!    cold start at 0.7 requests/s.
//! 3. Inactive islands, 1, 2, 4 and then 6 days after the last response. A longer back-off would lose
//!    the first days of an island that becomes active again.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use super::ledger::{IslandState, Ledger, Record};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::model::IslandCode;

/// Whole days that a response covers.
pub(super) const WINDOW_DAYS: i32 = 7;
/// Time before a day leaves the window at which its island comes first.
const RISK_SECONDS: i64 = 36 * 3600;
/// Time after midnight from which yesterday's metrics are requested.
const FRESH_AFTER_SECONDS: i64 = 20 * 60;
/// Days between responses of inactive islands, by the number of responses without recent data.
const BACK_OFF_DAYS: [i64; 4] = [1, 2, 4, 6];
/// Time after which an island that failed several times in a row is requested again.
const POSTPONED_SECONDS: i64 = 3600;
/// While islands remain that were never requested, one in so many requests is for yesterday of an active island.
const FRESH_TURN: u32 = 4;
/// Rank of an island that no genre lists.
pub(super) const UNRANKED: u32 = u32::MAX;

/// Islands in the order in which they are due.
#[derive(Debug)]
pub(super) struct Plan {
    islands: Vec<Entry>,
    index: HashMap<IslandCode, u32, ahash::RandomState>,
    /// Islands of each [`Queue`], with what it is sorted by.
    queues: [BTreeSet<(i64, u32)>; 5],
    /// The newest day that is requested. The queues are built for it.
    fresh_day: UtcDay,
    /// Islands of step 2 since the last one of the queue `fresh`.
    since_fresh: u32,
}

#[derive(Debug)]
struct Entry {
    state: IslandState,
    /// Place in the genre rankings, best of all genres.
    rank: u32,
    postponed_until: Option<UnixSeconds>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PlanSizes {
    pub(super) islands: usize,
    pub(super) at_risk: usize,
    pub(super) fresh: usize,
    pub(super) never_requested: usize,
    pub(super) inactive_due: usize,
    pub(super) gone: usize,
    /// Time at which the first day that was not requested leaves the upstream's window, in Unix seconds.
    pub(super) next_loss: Option<i64>,
}

/// The queues of islands. An island is in at most two.
#[derive(Clone, Copy)]
enum Queue {
    /// By the time at which a day of the island leaves the window.
    Deadlines,
    /// Active islands without yesterday's metrics, highest peak first.
    Fresh,
    /// Islands that were never requested, by genre rank.
    NeverRequested,
    /// Inactive islands, by the time at which they are due.
    Inactive,
    /// Islands that failed, by the time at which they return to the other queues.
    Postponed,
}

/// Returns the newest day whose metrics can be requested.
pub(super) fn fresh_day(now: UnixSeconds) -> UtcDay {
    UtcDay(UnixSeconds(now.0 - FRESH_AFTER_SECONDS).day().0 - 1)
}

/// Returns the time at which the oldest day that was not requested leaves the window, in Unix seconds.
fn deadline(state: &IslandState) -> i64 {
    // The first day of a new island may have data.
    let oldest = state.covered.map_or(state.first_seen.0, |day| day.0 + 1);
    UtcDay(oldest + WINDOW_DAYS).end().0
}

impl Plan {
    /// Creates a plan without islands.
    pub(super) fn new(now: UnixSeconds) -> Plan {
        Plan {
            islands: Vec::new(),
            index: HashMap::default(),
            queues: Default::default(),
            fresh_day: fresh_day(now),
            since_fresh: 0,
        }
    }

    /// Reads the newest states from the ledger of a state directory. Returns also the bytes of its damaged tail.
    pub(super) fn read(state: &Path, now: UnixSeconds) -> io::Result<(Plan, u64)> {
        let mut plan = Plan::new(now);
        let tail_bytes = Ledger::read(state, |record| {
            if let Record::State(state) = record {
                plan.record(state);
            }
        })?;
        Ok((plan, tail_bytes))
    }

    fn insert(&mut self, state: IslandState) {
        let at = u32::try_from(self.islands.len())
            .expect("codes have twelve digits; memory ends earlier");
        self.index.insert(state.code, at);
        self.islands.push(Entry {
            state,
            rank: UNRANKED,
            postponed_until: None,
        });
        self.enqueue(at);
    }

    pub(super) fn state(&self, code: IslandCode) -> Option<&IslandState> {
        let at = *self.index.get(&code)?;
        Some(&self.islands[at as usize].state)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &IslandState> {
        self.islands.iter().map(|entry| &entry.state)
    }

    /// Records that the catalogue shows an island. Returns its new state if it changed.
    pub(super) fn seen(&mut self, code: IslandCode, now: UnixSeconds) -> Option<IslandState> {
        let state = match self.state(code) {
            None => IslandState::new(code, now.day()),
            Some(state) if state.is_gone => IslandState {
                is_gone: false,
                ..*state
            },
            Some(_) => return None,
        };
        self.record(state);
        Some(state)
    }

    /// Adds islands that the dataset has and the ledger lacks.
    pub(super) fn add(&mut self, codes: impl Iterator<Item = IslandCode>, now: UnixSeconds) {
        for code in codes {
            if !self.index.contains_key(&code) {
                self.insert(IslandState::new(code, now.day()));
            }
        }
    }

    /// Forgets responses of a future that the clock no longer shows. Their islands are requested again.
    pub(super) fn forget_after(&mut self, now: UnixSeconds) {
        for entry in &mut self.islands {
            let state = &mut entry.state;
            if state.requested_at > now {
                (state.covered, state.requested_at) = (None, now);
            }
            state.first_seen = state.first_seen.min(now.day());
            entry.postponed_until = None;
        }
        self.rebuild();
    }

    /// Replaces the genre ranks, which order a cold start and wake inactive islands. Unknown codes are
    /// ignored.
    pub(super) fn set_ranks(&mut self, ranks: impl Iterator<Item = (IslandCode, u32)>) {
        for entry in &mut self.islands {
            entry.rank = UNRANKED;
        }
        for (code, rank) in ranks {
            if let Some(&at) = self.index.get(&code) {
                self.islands[at as usize].rank = rank;
            }
        }
        self.rebuild();
    }

    /// Returns islands to their queues that were postponed until `now` or earlier. Returns whether there were any.
    pub(super) fn release_postponed(&mut self, now: UnixSeconds) -> bool {
        let mut any = false;
        while let Some((until, at)) = self.first(Queue::Postponed)
            && until <= now.0
        {
            self.change(at, |entry| entry.postponed_until = None);
            any = true;
        }
        any
    }

    /// Returns the islands with data in the last seven days.
    pub(super) fn recent(&self) -> impl Iterator<Item = &IslandState> {
        self.states()
            .filter(|state| !state.is_gone && self.has_recent_data(state))
    }

    fn has_recent_data(&self, state: &IslandState) -> bool {
        state
            .data_day
            .is_some_and(|day| day.0 > self.fresh_day.0 - WINDOW_DAYS)
    }

    /// Returns whether islands remain that were never requested.
    pub(super) fn has_never_requested(&self) -> bool {
        self.first(Queue::NeverRequested).is_some()
    }

    pub(super) fn record(&mut self, state: IslandState) {
        match self.index.get(&state.code) {
            Some(&at) => self.change(at, |entry| entry.state = state),
            None => self.insert(state),
        }
    }

    /// Postpones an island that failed several times in a row, so that it does not block others.
    pub(super) fn postpone(&mut self, code: IslandCode, now: UnixSeconds) {
        let until = UnixSeconds(now.0 + POSTPONED_SECONDS);
        self.change(self.index[&code], |entry| {
            entry.postponed_until = Some(until);
        });
    }

    /// Returns the island to request now if one is at risk: the first island of step 1.
    pub(super) fn next_at_risk(&mut self, now: UnixSeconds) -> Option<IslandCode> {
        self.advance(now);
        let (deadline, at) = self.first(Queue::Deadlines)?;
        (deadline < now.0 + RISK_SECONDS).then(|| self.islands[at as usize].state.code)
    }

    /// Returns the island to request now if none is at risk: the first island of step 2 or 3.
    pub(super) fn next(&mut self, now: UnixSeconds) -> Option<IslandCode> {
        self.advance(now);
        let at = self.first_in_turn().or_else(|| {
            let (due, at) = self.first(Queue::Inactive)?;
            (due <= now.0).then_some(at)
        })?;
        Some(self.islands[at as usize].state.code)
    }

    /// Returns the first island of step 2, from the two queues in turn.
    fn first_in_turn(&mut self) -> Option<u32> {
        let [fresh, never_requested] =
            [Queue::Fresh, Queue::NeverRequested].map(|queue| self.first(queue).map(|(_, at)| at));
        let is_turn_of_fresh = self.since_fresh + 1 >= FRESH_TURN;
        let at = fresh
            .filter(|_| is_turn_of_fresh)
            .or(never_requested)
            .or(fresh)?;
        self.since_fresh = if fresh == Some(at) {
            0
        } else {
            self.since_fresh + 1
        };
        Some(at)
    }

    /// Returns whether yesterday's metrics of all active islands have been requested.
    pub(super) fn is_fresh(&mut self, now: UnixSeconds) -> bool {
        self.advance(now);
        self.first(Queue::Fresh).is_none()
    }

    /// Returns whether genres rank islands and all of those were requested.
    pub(super) fn ranked_are_requested(&self) -> bool {
        let any_ranked = self.islands.iter().any(|entry| entry.rank != UNRANKED);
        let first = self.first(Queue::NeverRequested);
        any_ranked && first.is_none_or(|(rank, _)| rank == i64::from(UNRANKED))
    }

    /// Counts the queues.
    pub(super) fn sizes(&mut self, now: UnixSeconds) -> PlanSizes {
        self.advance(now);
        let before = |queue: Queue, end: i64| self.queues[queue as usize].range(..(end, 0)).count();
        let queued = self.first(Queue::Deadlines).map(|(time, _)| time);
        // Islands that fail again and again are still requested every hour.
        let postponed = self.queue(Queue::Postponed);
        let postponed = postponed.map(|(_, at)| deadline(&self.islands[at as usize].state));
        PlanSizes {
            islands: self.islands.len(),
            at_risk: before(Queue::Deadlines, now.0 + RISK_SECONDS),
            fresh: self.queue(Queue::Fresh).len(),
            never_requested: self.queue(Queue::NeverRequested).len(),
            inactive_due: before(Queue::Inactive, now.0 + 1),
            gone: self.states().filter(|state| state.is_gone).count(),
            next_loss: postponed.chain(queued).min(),
        }
    }

    /// Moves to a new day, and returns postponed islands to their queues.
    fn advance(&mut self, now: UnixSeconds) {
        // Another day also if the clock was set back: islands would never be up to date otherwise.
        if fresh_day(now) != self.fresh_day {
            self.fresh_day = fresh_day(now);
            self.rebuild();
        }
        self.release_postponed(now);
    }

    fn rebuild(&mut self) {
        self.queues = Default::default();
        for at in 0..self.islands.len() {
            self.enqueue(u32::try_from(at).expect("checked on insertion"));
        }
    }

    /// Changes an island, and its place in the queues.
    fn change(&mut self, at: u32, change: impl FnOnce(&mut Entry)) {
        self.dequeue(at);
        change(&mut self.islands[at as usize]);
        self.enqueue(at);
    }

    fn queue(&self, queue: Queue) -> impl ExactSizeIterator<Item = (i64, u32)> {
        self.queues[queue as usize].iter().copied()
    }

    fn first(&self, queue: Queue) -> Option<(i64, u32)> {
        self.queue(queue).next()
    }

    /// Returns the queues of an island, with what they are sorted by.
    fn keys(&self, at: u32) -> [Option<(Queue, i64)>; 2] {
        let entry = &self.islands[at as usize];
        let state = &entry.state;
        if state.is_gone {
            return [None; 2];
        }
        if let Some(until) = entry.postponed_until {
            return [Some((Queue::Postponed, until.0)), None];
        }
        let deadline = Some((Queue::Deadlines, deadline(state)));
        let Some(covered) = state.covered else {
            return [
                deadline,
                Some((Queue::NeverRequested, i64::from(entry.rank))),
            ];
        };
        if entry.rank != UNRANKED || self.has_recent_data(state) {
            let fresh = (Queue::Fresh, -i64::from(state.peak));
            return [deadline, (covered < self.fresh_day).then_some(fresh)];
        }
        let responses = usize::from(state.empty_responses).min(BACK_OFF_DAYS.len());
        let back_off = BACK_OFF_DAYS[responses.saturating_sub(1)];
        let due = state.requested_at.0 + back_off * DAY_SECONDS;
        [deadline, Some((Queue::Inactive, due))]
    }

    fn enqueue(&mut self, at: u32) {
        for (queue, key) in self.keys(at).into_iter().flatten() {
            self.queues[queue as usize].insert((key, at));
        }
    }

    fn dequeue(&mut self, at: u32) {
        for (queue, key) in self.keys(at).into_iter().flatten() {
            self.queues[queue as usize].remove(&(key, at));
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
