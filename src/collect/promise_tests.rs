//! Faults of one endpoint for days, and random histories: the promises of the collector hold at every hour, and an
//! alert fires within a day of any fault with which days would be lost.

use std::collections::BTreeMap;
use std::mem;

use super::endpoints::Endpoint;
use super::faults_tests::{Spell, Trouble};
use super::plan;
use super::reply::Outcome;
use super::save;
use super::simulated_collector_tests::Simulation;
use super::simulation_tests::compare;
use super::store::Task;
use super::virtual_upstream_tests::{VirtualUpstream, hash, number};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::model::SortField;

/// Seconds of one request.
const PACE: i64 = 60;
const HOUR: i64 = 3600;

/// Values that upstream gave an hour ago are in `daily/`, and no day is complete too early.
fn check_promises(run: &Simulation) {
    let newest = UtcDay(run.now.day().0 - 1);
    for day in (newest.0 - 8..=newest.0).map(UtcDay) {
        let rows = run.collector.dataset.day(day).unwrap();
        let rows: BTreeMap<u64, _> = rows
            .iter()
            .map(|(code, row)| (number(*code), row))
            .collect();
        let is_hidden = !run.collector.dataset.has_day(day).unwrap();
        if is_hidden && day == newest && run.now.0 < day.end().0 + 12 * HOUR + 600 {
            continue;
        }
        for number in 0..run.upstream.islands {
            for (field, name) in SortField::ALL.into_iter().enumerate() {
                let given = run.upstream.given.get(&(number, day.0, field));
                let Some((values, at)) = given else { continue };
                if at.0 + HOUR > run.now.0 {
                    continue;
                }
                let row = rows.get(&number).and_then(|row| row.count(name));
                let want = values.last().copied();
                assert_eq!(
                    row, want,
                    "island {number} of {day} at {}, given at {at}",
                    run.now
                );
            }
        }
    }
    // A null after a day has settled, and a third 404, are believed.
    let is_lie = |spell: &Spell| {
        let lies = [Trouble::Nulls, Trouble::NewestNull, Trouble::Missing];
        lies.contains(&spell.trouble)
    };
    let Some(day) = run.collector.sizes.complete_day else {
        return;
    };
    if run.upstream.spells.iter().any(is_lie) {
        return;
    }
    for number in 0..run.upstream.islands {
        let is_known = |before| run.upstream.given.contains_key(&(number, before, 0));
        // An island that was away returns with the catalogue, which may take days.
        let since = if is_known(day.0 - 1) { 0 } else { 7 };
        let is_public =
            (day.0 - since..=run.now.day().0).all(|later| run.upstream.is_public(number, later));
        // As far as it is known: an inactive island that wakes up is read within the window. The value that was known
        // may be older than the day before, which an outage can leave unread.
        let is_active =
            run.upstream.has_data(number, day.0 - 1) && (day.0 - 7..day.0).any(is_known);
        let settled = UnixSeconds(day.end().0 + 6 * HOUR);
        let value = run.upstream.value(number, day.0, 0, settled);
        let Some(value) = value.filter(|_| is_public && is_active) else {
            continue;
        };
        let given = run.upstream.given.get(&(number, day.0, 0));
        // A first reading may come after the upstream has revised the day.
        let is_given = given.is_some_and(|(values, at)| *at >= settled || values.contains(&value));
        assert!(
            is_given,
            "{day} is complete without island {number} at {}",
            run.now
        );
    }
}

/// State of the alerts that look back.
#[derive(Default)]
struct HourAgo {
    /// Replies contradicted islands with many of the players.
    is_contrary: bool,
    /// Most islands that a believed crawl listed.
    believed: i64,
    /// Half an hour ago, islands were due and there was no value for as long.
    has_no_value: bool,
    /// Replies with a value until half an hour ago.
    with_value: u64,
}

/// Islands are due, and none had a value since the last call.
fn has_no_value(run: &Simulation, with_value: &mut u64) -> bool {
    let sizes = plan::sizes(&run.collector.store, run.now).unwrap();
    let days = run.collector.breaker(Endpoint::Days);
    let before = mem::replace(with_value, days.counts[Outcome::Usable as usize]);
    before == *with_value && sizes.fresh > 0
}

/// The alerts of `data/prometheus/rules.yml` that fire now.
fn alerts(run: &Simulation, before: &mut HourAgo) -> Vec<&'static str> {
    let (collector, now) = (&run.collector, run.now.0);
    let started = collector.started.0;
    let sizes = plan::sizes(&collector.store, run.now).unwrap();
    let task = |task| collector.store.task(task).unwrap();
    let is_contrary = sizes.contradicted_players * 10 > sizes.players;
    let believed = before.believed.max(task(Task::BELIEVED_ISLANDS));
    let complete_end = collector.sizes.complete_day.map_or(0, |day| day.end().0);
    let unwritten = save::unwritten_since(&collector.store).unwrap();
    let has_no_value = has_no_value(run, &mut before.with_value);
    let since = |time: i64| now - time.max(started);
    let fired = [
        (
            sizes.next_loss.is_some_and(|time| time - now < 6 * HOUR),
            "DayAtRisk",
        ),
        (now - complete_end > 33 * HOUR, "DayIncomplete"),
        (has_no_value && before.has_no_value, "NoValue"),
        (before.is_contrary && is_contrary, "Contradictions"),
        (
            unwritten.is_some_and(|time| now - time > 13 * HOUR),
            "Unwritten",
        ),
        (since(collector.counts.live_written) > 40 * 60, "NoLiveStep"),
        (
            since(collector.counts.platform_point) > 2 * HOUR,
            "NoPlatform",
        ),
        (since(collector.counts.last_usable) > 15 * 60, "NoResponse"),
        (
            task(Task::LISTED_ISLANDS) * 10 < believed * 9,
            "CatalogueShrank",
        ),
        (now - task(Task::FULL_CRAWL) > 31 * HOUR, "CatalogueOld"),
    ];
    before.is_contrary = is_contrary;
    before.believed = believed;
    let fired = fired.into_iter().filter(|(fires, _)| *fires);
    fired.map(|(_, name)| name).collect()
}

/// Runs hour by hour, and checks the promises. Returns the alerts of each hour.
fn run_hours(run: &mut Simulation, hours: i64) -> Vec<Vec<&'static str>> {
    let mut before = HourAgo::default();
    let mut each_hour = |_| {
        run.advance(UnixSeconds(run.now.0 + HOUR / 2), PACE);
        before.has_no_value = has_no_value(run, &mut before.with_value);
        run.advance(UnixSeconds(run.now.0 + HOUR / 2), PACE);
        check_promises(run);
        alerts(run, &mut before)
    };
    (0..hours).map(&mut each_hour).collect()
}

#[test]
fn without_faults_no_alert_fires_and_each_day_is_complete_in_the_morning() {
    let mut run = Simulation::new(VirtualUpstream::new(21, 80, 0), false);
    run_hours(&mut run, 30);
    let hours = run_hours(&mut run, 5 * 24);
    for (hour, alerts) in (16..).zip(hours) {
        assert!(alerts.is_empty(), "{alerts:?} at {}:00Z", hour % 24);
    }
    let hour = run.now.0.rem_euclid(DAY_SECONDS) / HOUR;
    assert_eq!(hour, 15);
    assert_eq!(
        run.collector.sizes.complete_day,
        Some(UtcDay(run.now.day().0 - 1))
    );
    assert!(compare(&mut run) > 500);
}

#[test]
fn each_fault_of_an_endpoint_alerts_within_a_day_and_loses_nothing_within_four() {
    let slow = std::env::var_os("IM_TEST_SLOW").is_some();
    let days = [
        Trouble::Status(400),
        Trouble::Status(500),
        Trouble::EmptyOk,
        Trouble::EmptyObject,
        Trouble::PlainMissing,
        Trouble::Missing,
        Trouble::Renamed,
        Trouble::Zoneless,
        Trouble::Nulls,
        Trouble::NewestAbsent,
    ];
    let catalogue = [
        Trouble::EmptyPage,
        Trouble::NoCursor,
        Trouble::Short,
        Trouble::Status(500),
    ];
    let all = days.map(|trouble| (trouble, Endpoint::Days)).into_iter();
    let all = all.chain(catalogue.map(|trouble| (trouble, Endpoint::Catalogue)));
    let all = all.chain([
        (Trouble::Status(400), Endpoint::Steps),
        (Trouble::EmptyObject, Endpoint::Platform),
    ]);
    for (number, (trouble, endpoint)) in all.enumerate() {
        // A third of them in a fast run.
        if !slow && number % 3 > 0 {
            continue;
        }
        let mut run = Simulation::new(VirtualUpstream::new(22, 60, 0), false);
        run_hours(&mut run, 40);
        let times = run.now..UnixSeconds(run.now.0 + 4 * DAY_SECONDS);
        run.upstream
            .spells
            .push(Spell::new(trouble, endpoint, times));
        let hours = run_hours(&mut run, 24);
        let fired = hours.iter().flatten().next();
        assert!(
            fired.is_some(),
            "no alert within a day of {trouble:?} of {endpoint:?}"
        );
        run_hours(&mut run, 5 * 24);
        assert!(compare(&mut run) > 200, "{trouble:?} of {endpoint:?}");
    }
}

/// It gives null for good: each reply is usable, and the day is complete.
#[test]
fn a_day_that_the_upstream_gives_for_a_part_of_the_islands_alerts() {
    for (islands, denied) in [(60, 20), (10, 10)] {
        let mut run = Simulation::new(VirtualUpstream::new(22, islands, 0), false);
        run_hours(&mut run, 40);
        let times = run.now..UnixSeconds(run.now.0 + 9 * DAY_SECONDS);
        let spell = Spell::new(Trouble::NewestNull, Endpoint::Days, times);
        run.upstream.spells.push(Spell {
            islands: denied,
            ..spell
        });
        // Until nine o'clock of the day after the first one that it denies.
        let hours = run_hours(&mut run, 32);
        let fired: Vec<_> = hours.iter().flatten().collect();
        assert!(
            fired.contains(&&"Contradictions"),
            "{denied} of {islands}: {fired:?}"
        );
    }
}

#[test]
fn one_series_is_enough_in_place_of_eight() {
    let mut run = Simulation::new(VirtualUpstream::new(23, 60, 0), false);
    let end = UnixSeconds(run.now.0 + 12 * DAY_SECONDS);
    run.upstream
        .spells
        .push(Spell::new(Trouble::OneSeries, Endpoint::Days, run.now..end));
    run_hours(&mut run, 40);
    for alerts in run_hours(&mut run, 4 * 24) {
        assert!(alerts.is_empty(), "{alerts:?}");
    }
    assert!(compare(&mut run) > 100);
}

/// Islands are read at their usual pace while the live steps fail.
#[test]
fn a_fault_of_one_endpoint_slows_down_only_that_one() {
    for trouble in [
        Trouble::Status(400),
        Trouble::Status(500),
        Trouble::EmptyObject,
    ] {
        let mut run = Simulation::new(VirtualUpstream::new(24, 600, 0), false);
        run.advance(UnixSeconds(run.now.0 + HOUR), 5);
        // Until the active islands are due.
        let midnight = i64::from(run.now.day().0 + 1) * DAY_SECONDS;
        run.now = UnixSeconds(midnight + 2400);
        let times = run.now..UnixSeconds(run.now.0 + DAY_SECONDS);
        run.upstream
            .spells
            .push(Spell::new(trouble, Endpoint::Steps, times));
        let before = run.upstream.requested;
        run.advance(UnixSeconds(run.now.0 + 1000), 5);
        let made = |endpoint: Endpoint| {
            run.upstream.requested[endpoint as usize] - before[endpoint as usize]
        };
        let (days, steps) = (made(Endpoint::Days), made(Endpoint::Steps));
        assert!(days > 150 && steps < 30, "{trouble:?}: {days} {steps}");
    }
}

/// A spell of at most two days: in longer ones, the days of an inactive island that has a value again can leave
/// the window.
fn random_spell(seed: u64, now: UnixSeconds) -> Spell {
    let roll = |number| hash(&[seed, number, now.0.unsigned_abs()]);
    let pick = |number, of: u64| usize::try_from(roll(number) % of).unwrap();
    let days = [
        Trouble::Status(400),
        Trouble::Status(500),
        Trouble::Status(429),
        Trouble::EmptyOk,
        Trouble::Html,
        Trouble::CutShort,
        Trouble::EmptyObject,
        Trouble::PlainMissing,
        Trouble::Missing,
        Trouble::Renamed,
        Trouble::Zoneless,
        Trouble::Nulls,
        Trouble::NewestAbsent,
        Trouble::OneSeries,
    ];
    let catalogue = [
        Trouble::EmptyPage,
        Trouble::NoCursor,
        Trouble::Short,
        Trouble::Status(500),
        Trouble::EmptyOk,
    ];
    let end = UnixSeconds(now.0 + HOUR * (1 + (roll(31) % 48).cast_signed()));
    let (trouble, endpoint) = match roll(32) % 4 {
        0 => (catalogue[pick(33, 5)], Endpoint::Catalogue),
        1 => (days[pick(33, 8)], Endpoint::ALL[pick(34, 6)].0),
        _ => (days[pick(33, 14)], Endpoint::Days),
    };
    Spell {
        one_in: [1, 1, 2, 5][pick(35, 4)],
        one_hour_in: [1, 1, 10][pick(36, 3)],
        ..Spell::new(trouble, endpoint, now..end)
    }
}

#[test]
fn random_histories_of_faults_kills_and_clock_steps_lose_nothing() {
    let slow = std::env::var_os("IM_TEST_SLOW");
    let (seeds, days) = match slow.as_ref().and_then(|slow| slow.to_str()) {
        None => (2, 12),
        Some("all") => (60, 30),
        Some(_) => (6, 30),
    };
    for seed in 0..seeds {
        let mut run = Simulation::new(VirtualUpstream::new(40 + seed, 60, 2), false);
        let end = UnixSeconds(run.now.0 + days * DAY_SECONDS);
        let mut spell_end = UnixSeconds(run.now.0 + DAY_SECONDS);
        // Values that were read while the clock was wrong are corrected within some hours.
        let mut quiet_until = run.now;
        while run.now < end {
            let roll = hash(&[seed, 51, run.now.0.unsigned_abs()]);
            if run.now > spell_end {
                let spell = random_spell(seed, run.now);
                // A day without faults between two spells.
                spell_end = UnixSeconds(spell.times.end.0 + DAY_SECONDS);
                run.upstream.spells = vec![spell];
            }
            if run.skew != 0 {
                run.skew = 0;
                quiet_until = UnixSeconds(run.now.0 + 36 * HOUR);
            } else if roll.is_multiple_of(60) {
                run.skew = ((roll / 60 % 60).cast_signed() - 30) * HOUR;
            }
            if (roll / 7).is_multiple_of(30) {
                run.crash();
            }
            run.advance(UnixSeconds(run.now.0 + HOUR), PACE);
            if run.skew == 0 && run.now > quiet_until {
                check_promises(&run);
            }
        }
        run.skew = 0;
        run.upstream.spells.clear();
        run.advance(UnixSeconds(run.now.0 + 2 * DAY_SECONDS), PACE);
        let found = compare(&mut run);
        assert!(found > 300, "{found} values of seed {seed}");
    }
}
