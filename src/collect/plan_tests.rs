//! The plan against simulated weeks: no day that was visible leaves the window before it was requested.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a simulation in numbers far below any limit"
)]

use super::*;
use crate::collect::scratch_tests::Scratch;

const START: i64 = 20_700 * DAY_SECONDS + 9 * 3600;

fn code(number: u64) -> IslandCode {
    IslandCode::from_number(number).unwrap()
}

fn hash(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 32)
}

/// Activity of an island: one in eight always, one in six by weeks of its own, the rest rarely.
fn has_data(number: u64, day: i32) -> bool {
    let day = u64::from(day.unsigned_abs());
    match hash(number, 0) % 100 {
        0..12 => true,
        12..30 => hash(number, 1 + day / 5).is_multiple_of(2),
        _ => (0..3).any(|back| hash(number, 1_000_000 + day - back) % 1000 < 2),
    }
}

/// The island to request now, in the order of the collector.
fn next(plan: &mut Plan, now: UnixSeconds) -> Option<IslandCode> {
    plan.next_at_risk(now).or_else(|| plan.next(now))
}

struct Simulated {
    island_days: u64,
    lost: u64,
    stale: u64,
}

/// Runs the plan for some days at a constant rate, and counts the days with data that left the window.
fn simulate(islands: u64, days: i64, requests_per_second: f64, active_first: bool) -> Simulated {
    let first_day = UnixSeconds(START).day().0;
    let mut plan = Plan::new(UnixSeconds(START));
    for number in 0..islands {
        plan.seen(code(number), UnixSeconds(START));
    }
    let mut result = Simulated {
        island_days: 0,
        lost: 0,
        stale: 0,
    };
    let steps = (days * DAY_SECONDS) as f64 * requests_per_second;
    let mut step = 0.0;
    while step < steps {
        let now = UnixSeconds(START + (step / requests_per_second) as i64);
        step += 1.0;
        let found = if active_first {
            plan.next(now)
        } else {
            next(&mut plan, now)
        };
        let Some(code) = found else { continue };
        let mut state = *plan.state(code).unwrap();
        let number = code.number();
        let covers = fresh_day(now);
        let oldest = now.day().0 - WINDOW_DAYS;
        let from = state.covered.map_or(first_day, |day| day.0 + 1);
        for day in from..=covers.0 {
            if has_data(number, day) {
                result.island_days += 1;
                result.lost += u64::from(day < oldest);
            }
        }
        result.stale += u64::from(state.covered.is_some_and(|day| covers.0 - day.0 > 8));
        let newest = (oldest..=covers.0).rev().find(|day| has_data(number, *day));
        state.covered = Some(covers);
        state.requested_at = now;
        state.peak = (hash(number, 7) % 1000) as u32;
        state.data_day = newest.map(UtcDay).or(state.data_day);
        state.empty_responses = match newest {
            Some(_) => 0,
            None => state.empty_responses.saturating_add(1),
        };
        plan.record(state);
    }
    // What is still not requested must be within the window.
    let end = UnixSeconds(START + days * DAY_SECONDS).day().0;
    for state in plan.states() {
        let from = state.covered.map_or(first_day, |day| day.0 + 1);
        result.lost += (from..end - WINDOW_DAYS)
            .filter(|day| has_data(state.code.number(), *day))
            .count() as u64;
    }
    result
}

/// Capacity scales with the islands: 3,000 islands at 0.03/s are 300,000 at 3/s.
#[test]
fn no_visible_day_is_lost_at_any_rate_that_can_hold_the_window() {
    for rate in [0.03, 0.01, 0.007] {
        let result = simulate(3_000, 42, rate, false);
        assert!(
            result.island_days > 15_000,
            "{rate}: {}",
            result.island_days
        );
        assert_eq!(
            (result.lost, result.stale),
            (0, 0),
            "at {rate} of {}",
            result.island_days
        );
    }
}

/// The control: the obvious order loses days, so the test above can fail.
#[test]
fn active_islands_first_would_lose_days() {
    let result = simulate(3_000, 42, 0.01, true);
    assert!(
        result.lost > result.island_days / 100,
        "{} of {}",
        result.lost,
        result.island_days
    );
}

#[test]
fn full_size_loses_nothing_either() {
    if std::env::var_os("IM_TEST_SLOW").is_none() {
        return;
    }
    for rate in [3.0, 1.0, 0.7] {
        let result = simulate(300_000, 42, rate, false);
        assert_eq!(
            (result.lost, result.stale),
            (0, 0),
            "at {rate} of {}",
            result.island_days
        );
    }
}

#[test]
fn the_queues_are_the_index_that_the_states_give() {
    arbtest::arbtest(|u| {
        let mut now = UnixSeconds(START);
        let mut plan = Plan::new(now);
        for _ in 0..u.int_in_range(0..=60)? {
            let island = code(u.int_in_range(0..=9)?);
            now.0 += u.int_in_range(0..=200_000)?;
            match u.int_in_range(0..=5)? {
                0 => drop(plan.seen(island, now)),
                1 => plan.set_ranks([(island, u.int_in_range(1..=5)?)].into_iter()),
                2 => drop(plan.release_postponed(UnixSeconds(i64::MAX))),
                3 if plan.state(island).is_some() => plan.postpone(island, now),
                _ => {
                    if let Some(island) = next(&mut plan, now) {
                        let mut state = *plan.state(island).unwrap();
                        state.covered = Some(fresh_day(now));
                        state.requested_at = now;
                        state.is_gone = u.ratio(1, 8)?;
                        state.data_day = u
                            .arbitrary::<bool>()?
                            .then(|| fresh_day(now))
                            .or(state.data_day);
                        state.empty_responses = u.int_in_range(0..=9)?;
                        plan.record(state);
                    }
                }
            }
            plan.advance(now);
            let queues = plan.queues.clone();
            plan.rebuild();
            assert_eq!(queues, plan.queues);
        }
        Ok(())
    });
}

#[test]
fn an_island_that_is_gone_returns_when_the_catalogue_shows_it() {
    let now = UnixSeconds(START);
    let mut plan = Plan::new(now);
    plan.seen(code(1), now).unwrap();
    let mut state = *plan.state(code(1)).unwrap();
    state.is_gone = true;
    plan.record(state);
    assert_eq!(next(&mut plan, now), None);
    let later = UnixSeconds(now.0 + 30 * DAY_SECONDS);
    assert_eq!(next(&mut plan, later), None);
    assert!(plan.seen(code(1), now).is_some());
    assert_eq!(next(&mut plan, now), Some(code(1)));
}

#[test]
fn the_newest_state_of_each_island_in_the_ledger_counts() {
    let scratch = Scratch::new();
    let mut ledger = Ledger::replace(scratch.path(), []).unwrap();
    let state = |number, peak| IslandState {
        peak,
        ..IslandState::new(code(number), UtcDay(20_700))
    };
    for (number, peak) in [(1, 5), (2, 6), (1, 7)] {
        ledger.push(&Record::State(state(number, peak)));
    }
    ledger.sync().unwrap();
    let (mut plan, tail_bytes) = Plan::read(scratch.path(), UnixSeconds(START)).unwrap();
    let states: Vec<_> = plan.states().copied().collect();
    assert_eq!((states, tail_bytes), (vec![state(1, 7), state(2, 6)], 0));
    assert!(next(&mut plan, UnixSeconds(START)).is_some());
}
