//! The plan against simulated weeks: no day that was visible leaves the window before it was read.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a simulation in numbers far below any limit"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::calendar::DAY_SECONDS;
use crate::collect::catalogue;
use crate::collect::readings::{self, record_missing};
use crate::collect::reply::Outcome;
use crate::collect::rules::WINDOW_DAYS;
use crate::collect::save;
use crate::collect::scratch_tests::{Scratch, island, record_reply};
use crate::dataset::Metrics;

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

fn peak(number: u64) -> Metrics {
    Metrics::of_peak(Some(hash(number, 7) % 1000))
}

/// The reply about an island.
fn days(number: u64, now: UnixSeconds) -> BTreeMap<UtcDay, Metrics> {
    let window = rules::window(now);
    let days = (window.start.0..window.end.0).map(|day| {
        let metrics = if has_data(number, day) {
            peak(number)
        } else {
            Metrics::NULL
        };
        (UtcDay(day), metrics)
    });
    days.collect()
}

fn store_of(islands: u64, scratch: &Scratch) -> Store {
    let (store, problem) = Store::open(scratch.path()).unwrap();
    assert_eq!(problem, None);
    let listed: Vec<_> = (0..islands).map(|number| island(code(number))).collect();
    let recorded =
        store.write(|| catalogue::record_page(&store, &listed, None, UnixSeconds(START)));
    recorded.unwrap();
    store
}

/// CPU time of this thread, which other programs do not lengthen.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

struct Simulated {
    island_days: u64,
    lost: u64,
    /// CPU time within which 99.9 % of the choices were made, and the bytes of the database.
    slowest: Duration,
    bytes: u64,
}

/// Runs the plan for some days at a constant rate, and counts the days with data that left the window.
fn simulate(
    islands: u64,
    days_count: i64,
    requests_per_second: f64,
    active_first: bool,
) -> Simulated {
    let first_day = UnixSeconds(START).day().0;
    let scratch = Scratch::new();
    let store = store_of(islands, &scratch);
    let mut last_read: Vec<i32> = vec![first_day; islands as usize];
    let mut result = Simulated {
        island_days: 0,
        lost: 0,
        slowest: Duration::ZERO,
        bytes: 0,
    };
    let mut count_lost = |number: u64, days: std::ops::Range<i32>, oldest: i32| {
        for day in days.filter(|day| has_data(number, *day)) {
            result.island_days += 1;
            result.lost += u64::from(day < oldest);
        }
    };
    let (mut step, steps) = (0.0, (days_count * DAY_SECONDS) as f64 * requests_per_second);
    let mut slow = Vec::new();
    let mut request = |now: UnixSeconds| {
        let begun = cpu_time();
        let risk = if active_first {
            None
        } else {
            next_at_risk(&store, now)?
        };
        let found = match risk {
            Some(code) => Some(code),
            None => next(&store, slow.len() as u64, now)?,
        };
        slow.push(cpu_time().saturating_sub(begun));
        let Some(code) = found else { return Ok(()) };
        let number = code.number();
        let read = &mut last_read[number as usize];
        // The newest day is counted when it is read, also if it is read again.
        count_lost(number, *read..now.day().0, now.day().0 - WINDOW_DAYS);
        *read = now.day().0;
        record_reply(&store, code, &days(number, now), now).map(drop)
    };
    while step < steps {
        // One transaction for many requests: locks of the file would take most of the time.
        let end = f64::min(steps, step + 1024.0);
        let requests = store.write(|| {
            while step < end {
                request(UnixSeconds(START + (step / requests_per_second) as i64))?;
                step += 1.0;
            }
            Ok(())
        });
        requests.unwrap();
        if (step as u64).is_multiple_of(1 << 16) {
            let now = UnixSeconds(START + (step / requests_per_second) as i64);
            for (day, _) in save::changed_days(&store, now).unwrap() {
                save::record_written(&store, day, now).unwrap();
            }
            save::prune(&store, now).unwrap();
        }
    }
    // What is still not read must be within the window.
    let end = UnixSeconds(START + days_count * DAY_SECONDS).day().0;
    for (number, read) in (0..).zip(last_read) {
        count_lost(number, read..end - WINDOW_DAYS, end);
    }
    slow.sort_unstable();
    result.slowest = slow[slow.len() - 1 - slow.len() / 1_000];
    result.bytes = store.bytes();
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
        assert_eq!(result.lost, 0, "at {rate} of {}", result.island_days);
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
    let Some(rates) = std::env::var_os("IM_TEST_SLOW") else {
        return;
    };
    let all = [0.7, 1.0, 3.0];
    // Twelve days have the deadlines of all islands.
    let (rates, days) = if rates == "all" {
        (&all[..], 42)
    } else {
        (&all[..1], 12)
    };
    for rate in rates {
        let result = simulate(300_000, days, *rate, false);
        let figures = format!(
            "at {rate}/s {} of {} island-days are lost, 99.9 % of choices took at most {:?}, the database has {} bytes",
            result.lost, result.island_days, result.slowest, result.bytes
        );
        assert_eq!(result.lost, 0, "{figures}");
        let is_fast = result.slowest <= Duration::from_millis(1) || cfg!(debug_assertions);
        assert!(is_fast && result.bytes <= 300_000_000, "{figures}");
    }
}

fn next_of_all(store: &Store, now: UnixSeconds) -> Option<IslandCode> {
    let risk = next_at_risk(store, now).unwrap();
    risk.or_else(|| next(store, 1, now).unwrap())
}

/// Before the others: its oldest day in the window leaves it next. Days that left it before are not at risk.
#[test]
fn an_island_returns_when_the_catalogue_shows_it_or_it_is_chosen_again() {
    for is_gone in [true, false] {
        let scratch = Scratch::new();
        let (store, now) = (store_of(2, &scratch), UnixSeconds(START));
        for number in 0..2 {
            record_reply(&store, code(number), &days(number, now), now).unwrap();
        }
        let others = [code(0)].into();
        if is_gone {
            assert_eq!(record_missing(&store, code(1), now).unwrap(), Outcome::Gone);
        } else {
            catalogue::restrict(&store, Some(&others), now).unwrap();
        }
        let later = UnixSeconds(now.0 + 12 * DAY_SECONDS);
        record_reply(&store, code(0), &days(0, later), later).unwrap();
        assert_eq!(next_of_all(&store, later), None);
        let out = sizes(&store, later).unwrap();
        assert_eq!(
            (out.gone, out.islands),
            if is_gone { (1, 2) } else { (0, 1) }
        );
        if is_gone {
            catalogue::record_page(&store, &[island(code(1))], None, later).unwrap();
        } else {
            catalogue::restrict(&store, None, later).unwrap();
        }
        assert_eq!(next_at_risk(&store, later).unwrap(), Some(code(1)));
        let loss = sizes(&store, later).unwrap().next_loss;
        assert_eq!(loss, Some(later.day().end().0));
    }
}

#[test]
fn a_postponed_island_leaves_its_turn_to_others_and_is_due_then() {
    let scratch = Scratch::new();
    let (store, now) = (store_of(2, &scratch), UnixSeconds(START));
    let at = |seconds| UnixSeconds(now.0 + seconds);
    let postpone = |number| readings::postpone(&store, code(number), at(10).0, now).unwrap();
    postpone(0);
    assert_eq!(next_of_all(&store, now), Some(code(1)));
    assert_eq!(sizes(&store, now).unwrap().postponed, 1);
    postpone(1);
    assert_eq!(
        [0, 9].map(|after| next_of_all(&store, at(after))),
        [None; 2]
    );
    assert!(next_of_all(&store, at(10)).is_some());
    readings::release_postponed(&store).unwrap();
    assert!(next_of_all(&store, now).is_some());
    // Islands that were not due.
    for number in [0, 1] {
        record_reply(&store, code(number), &days(0, now), now).unwrap();
    }
    assert_eq!(next_of_all(&store, now), None);
    postpone(1);
    assert_eq!(next_of_all(&store, at(10)), Some(code(1)));
}

#[test]
fn after_a_failure_an_island_that_was_read_and_one_that_waits_are_next_in_turn() {
    let scratch = Scratch::new();
    let store = store_of(6, &scratch);
    let at = |seconds| UnixSeconds(START + seconds);
    // Two turns of different choices.
    let next = |seconds| [1, 5].map(|turn| next_after_failure(&store, turn, at(seconds)).unwrap());
    record_missing(&store, code(3), at(0)).unwrap();
    // Nothing was read yet.
    assert!(next(0).iter().all(Option::is_some));
    let peaks = |metrics: Metrics| {
        let all = days(0, at(0)).into_keys().map(|day| (day, metrics));
        all.collect::<BTreeMap<_, _>>()
    };
    for (number, seconds) in [(0, 1), (1, 3), (2, 2)] {
        record_reply(&store, code(number), &peaks(peak(number)), at(seconds)).unwrap();
    }
    // An inactive one.
    record_reply(&store, code(4), &peaks(Metrics::NULL), at(4)).unwrap();
    for (number, seconds) in [(1, 8), (2, 7), (0, 5), (4, 9)] {
        assert_eq!(next(9), [number, 5].map(|number| Some(code(number))));
        readings::postpone(&store, code(number), at(seconds + 10).0, at(9)).unwrap();
    }
    assert_eq!(next(9), [5, 5].map(|number| Some(code(number))));
    readings::postpone(&store, code(5), at(20).0, at(9)).unwrap();
    assert_eq!(next(9), [None; 2]);
    // Island 1 was read last, and the pause of island 0 is over since the 15th second.
    assert_eq!(next(18), [1, 0].map(|number| Some(code(number))));
}

/// Otherwise it would take every request while it is at risk.
#[test]
fn an_island_whose_reply_lacks_a_day_leaves_its_turn_to_others_for_six_hours() {
    let scratch = Scratch::new();
    let store = store_of(1, &scratch);
    let now = UnixSeconds(START + 6 * DAY_SECONDS);
    assert_eq!(next_at_risk(&store, now).unwrap(), Some(code(0)));
    let mut gap = days(0, now);
    gap.remove(&rules::window(now).start);
    record_reply(&store, code(0), &gap, now).unwrap();
    let next = |hours: i64| next_of_all(&store, UnixSeconds(now.0 + hours * 3600));
    assert_eq!([0, 5].map(next), [None; 2]);
    assert_eq!(next(6), Some(code(0)));
    record_reply(&store, code(0), &days(0, now), now).unwrap();
    assert_eq!(sizes(&store, now).unwrap().postponed, 0);
}

#[test]
fn islands_that_a_genre_ranks_come_first_and_wake_up() {
    let scratch = Scratch::new();
    let (store, now) = (store_of(4, &scratch), UnixSeconds(START));
    let ranks = |ranks: &[(u64, u32)]| {
        let ranks = ranks.iter().map(|(number, rank)| (code(*number), *rank));
        catalogue::set_ranks(&store, &ranks.collect::<Vec<_>>(), now).unwrap();
    };
    // The best of several ranks counts.
    ranks(&[(2, 7), (3, 9), (3, 5), (3, 8), (99, 1)]);
    let quiet: BTreeMap<_, _> = days(0, now)
        .into_keys()
        .map(|day| (day, Metrics::NULL))
        .collect();
    for want in [3, 2, 0, 1] {
        assert_eq!(next_of_all(&store, now), Some(code(want)));
        record_reply(&store, code(want), &quiet, now).unwrap();
    }
    assert_eq!(next_of_all(&store, now), None);
    // It is read with the active ones, not after its back-off.
    ranks(&[(0, 1), (2, 7)]);
    assert_eq!(next_of_all(&store, now), Some(code(0)));
}

/// The sizes and the queues agree, whatever happened.
#[test]
fn an_island_is_next_as_long_as_one_is_due() {
    arbtest::arbtest(|u| {
        let scratch = Scratch::new();
        let (store, mut now) = (store_of(6, &scratch), UnixSeconds(START));
        for turn in 0..u.int_in_range(0..=40)? {
            now.0 += u.int_in_range(0..=50_000)?;
            let island = code(u.int_in_range(0..=7)?);
            match u.int_in_range(0..=4)? {
                0 => drop(record_missing(&store, island, now).unwrap()),
                1 => readings::release_postponed(&store).unwrap(),
                2 => readings::postpone(&store, island, now.0 + 3600, now).unwrap(),
                _ => {
                    let mut days = days(island.number(), now);
                    days.retain(|_, _| u.ratio(9, 10).unwrap_or(true));
                    record_reply(&store, island, &days, now).unwrap();
                }
            }
            readings::release_postponed(&store).unwrap();
            let sizes = sizes(&store, now).unwrap();
            assert_eq!(next(&store, turn, now).unwrap().is_some(), sizes.due() > 0);
            assert_eq!(
                next_at_risk(&store, now).unwrap().is_some(),
                sizes.at_risk > 0
            );
        }
        Ok(())
    });
}
