//! The collector against a virtual upstream for simulated weeks, with faults, crashes and clock steps.
//!
//! The model: each value of an island's day in the dataset is the last usable non-null value that the
//! upstream gave; each island-day that was visible for seven days, and not denied, is there; nothing else is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use super::collector::Next;
use super::scratch_tests::{island, record_reply};
use super::simulated_collector_tests::Simulation;
use super::virtual_upstream_tests::{FIRST_DAY, VirtualUpstream, code, hash, number};
use super::{catalogue, rules, save};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::dataset::Metrics;
use crate::durable;
use crate::model::SortField;

/// Seconds of one request.
const PACE: i64 = 60;

/// Compares `daily/` with what the upstream gave. Returns the number of values.
pub(super) fn compare(run: &mut Simulation) -> usize {
    run.finish();
    run.validate();
    let mut found = 0;
    let today = run.now.day().0;
    for day in FIRST_DAY - 7..=today {
        let rows = run.collector.dataset.day(UtcDay(day)).unwrap();
        let by_number: BTreeMap<u64, _> = rows
            .iter()
            .map(|(code, metrics)| (number(*code), metrics))
            .collect();
        for number in 0..run.upstream.islands {
            let row = by_number.get(&number);
            for (field, name) in SortField::ALL.into_iter().enumerate() {
                let key = (number, day, field);
                let value = row.and_then(|row| row.count(name));
                let given = run.upstream.given.get(&key);
                let last = given.and_then(|(values, _)| values.last().copied());
                // Where the whole day has none, a value of a part of it stays in the file.
                let partial = run.upstream.partial.get(&key);
                let is_partial = partial
                    .zip(value)
                    .is_some_and(|(all, value)| all.contains(&value));
                assert!(
                    value == last || last.is_none() && is_partial,
                    "{key:?} {value:?} {given:?}"
                );
                found += usize::from(value.is_some());
            }
            // Visible from the end of the day for seven days, if the island was public.
            let was_public = (day + 1..=day + 7).all(|later| run.upstream.is_public(number, later));
            let was_denied = run.upstream.denied.contains(&(number, day));
            let is_due = day >= FIRST_DAY && day + 8 < today && was_public && !was_denied;
            if is_due && run.upstream.has_data(number, day) {
                let day = UtcDay(day);
                assert!(row.is_some(), "island {number} of {day} is missing");
            }
        }
    }
    found
}

/// Compares `live/` with the upstream. Returns the number of steps.
fn compare_live(run: &Simulation) -> usize {
    let folder = run.scratch.path().join("dataset/live");
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut count = 0;
    for name in names {
        let step = UnixSeconds(name.strip_suffix(".csv").unwrap().parse().unwrap());
        assert!(run.upstream.available(step) <= run.now, "{name}");
        let rows = run.collector.dataset.step(step).unwrap();
        assert!(!rows.is_empty());
        for (code, players) in rows {
            assert_eq!(players, run.upstream.players(number(code), step));
        }
        count += 1;
    }
    count
}

#[test]
fn every_visible_day_is_collected_with_its_last_values() {
    let slow = std::env::var_os("IM_TEST_SLOW").is_some();
    let (seeds, days) = if slow { (3, 30) } else { (1, 12) };
    for seed in 0..seeds {
        let mut run = Simulation::new(VirtualUpstream::new(seed, 150, 4), false);
        let end = UnixSeconds(run.now.0 + days * DAY_SECONDS);
        while run.now < end {
            let roll = hash(&[seed, 11, run.now.0.unsigned_abs()]);
            // The clock is wrong for some hours, by up to 30.
            run.skew = match roll % 6 {
                0 => ((roll / 6 % 60).cast_signed() - 30) * 3600,
                _ => 0,
            };
            let hours = match run.skew {
                0 => 1 + (roll / 600 % 60).cast_signed(),
                _ => 1 + (roll / 600 % 8).cast_signed(),
            };
            run.advance(UnixSeconds((run.now.0 + hours * 3600).min(end.0)), PACE);
            if !(roll / 7).is_multiple_of(3) {
                run.crash();
            }
        }
        run.skew = 0;
        run.advance(UnixSeconds(run.now.0 + 3 * 3600), PACE);
        let found = compare(&mut run);
        assert!(found > 1_000, "{found} values");
        assert!(compare_live(&run) > 3);
    }
}

#[test]
fn one_run_collects_everything_and_the_next_one_asks_for_nothing() {
    let mut run = Simulation::new(VirtualUpstream::new(3, 120, 0), true);
    let end = UnixSeconds(run.now.0 + DAY_SECONDS);
    run.advance(end, 1);
    assert!(run.now < end, "the run must end by itself");
    let requests = run.upstream.requests;
    let public = (0..120)
        .filter(|number| run.upstream.is_public(*number, FIRST_DAY))
        .count() as u64;
    // Every island once; 3 pages, 2 for the genres, the platform, and 3 live.
    let pages = public.div_ceil(40);
    assert_eq!(requests, public + pages + 2 + 1 + 3);
    assert!(compare(&mut run) > 100);
    assert_eq!(compare_live(&run), 1);
    let daily = || -> BTreeMap<_, _> {
        let files = fs::read_dir(run.scratch.path().join("dataset/daily")).unwrap();
        let paths = files.map(|entry| entry.unwrap().path());
        paths
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect()
    };
    let before = daily();
    let mut again = run.open();
    assert_eq!(again.next(run.now).unwrap(), Next::Done);
    again.finish(run.now).unwrap();
    assert_eq!(daily(), before);
    again.missing(run.now).unwrap();
}

/// One pass, however long it takes.
#[test]
fn one_run_ends_also_at_a_rate_at_which_steps_become_due_faster_than_a_pass_ends() {
    let mut run = Simulation::new(VirtualUpstream::new(3, 30, 0), true);
    run.live = 20;
    run.collector = run.open();
    run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), PACE);
    assert_eq!(run.collector.next(run.now).unwrap(), Next::Done);
    run.collector.finish(run.now).unwrap();
    assert_eq!(compare_live(&run), 1);
}

#[test]
fn a_clock_that_is_set_back_or_forward_loses_nothing() {
    for crashes in [true, false] {
        let mut run = Simulation::new(VirtualUpstream::new(5, 60, 2), false);
        for step in [-7_200, 3_600, -40_000, 90_000, -90_000, 10] {
            run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), PACE);
            run.skew += step;
            if crashes {
                run.crash();
            }
        }
        run.skew = 0;
        run.advance(UnixSeconds(run.now.0 + 2 * DAY_SECONDS), PACE);
        run.validate();
        assert!(compare(&mut run) > 500);
    }
}

#[test]
fn after_a_clock_that_was_years_ahead_all_islands_are_asked_again() {
    let mut run = Simulation::new(VirtualUpstream::new(6, 60, 0), false);
    run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), PACE);
    run.skew = 900 * DAY_SECONDS;
    run.crash();
    run.advance(UnixSeconds(run.now.0 + 7200), PACE);
    assert!(compare_live(&run) > 100);
    run.skew = 0;
    run.advance(UnixSeconds(run.now.0 + 9 * DAY_SECONDS), PACE);
    assert!(compare(&mut run) > 500 && compare_live(&run) > 100);
}

/// After an outage the islands of the day before it decide when the new day is complete enough.
#[test]
fn after_an_outage_a_day_is_not_shown_before_most_of_it_was_asked_for() {
    let mut run = Simulation::new(VirtualUpstream::new(7, 150, 0), false);
    run.advance(UnixSeconds(run.now.0 + 2 * DAY_SECONDS), PACE);
    run.now.0 += 3 * DAY_SECONDS - 8 * 3600;
    run.crash();
    let day = UtcDay(run.now.day().0 - 1);
    while !run.collector.dataset.has_day(day).unwrap() {
        run.advance(UnixSeconds(run.now.0 + 600), PACE);
        // As at the end of a run with `--once`, however little it has read.
        run.collector.finish(run.now).unwrap();
        assert!(run.now < UnixSeconds(day.end().0 + 12 * 3600 + 1800));
    }
    let peaks = |rows: Vec<u64>| rows.into_iter().sum::<u64>();
    let shown = run.collector.dataset.day(day).unwrap();
    let shown = peaks(
        shown
            .values()
            .filter_map(|row| row.count(SortField::PeakCcu))
            .collect(),
    );
    run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), PACE);
    let all = run.collector.dataset.day(day).unwrap();
    let all = peaks(
        all.values()
            .filter_map(|row| row.count(SortField::PeakCcu))
            .collect(),
    );
    // At an hour after the start it would be a third.
    assert!(shown * 2 > all, "{shown} of {all} players");
}

/// Least seconds in which a day with so many rows is merged: the file of a new day, and others in its place.
fn merge_seconds(count: u64) -> f64 {
    let run = &mut Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    let day = rules::newest_day(run.now);
    let islands: Vec<_> = (0..count).map(|number| island(code(number))).collect();
    let store = Rc::clone(&run.collector.store);
    let recorded = store.write(|| catalogue::record_page(&store, &islands, None, run.now));
    recorded.unwrap();
    let mut least = f64::INFINITY;
    for round in 0..4_u64 {
        let recorded = store.write(|| {
            for number in 0..count {
                let counts = [Some(number + round), Some(7), None, Some(3), Some(99), None];
                let metrics = Metrics::new(counts, [Some(12.25), Some(0.5), None]);
                record(run, number, day, metrics);
            }
            Ok(())
        });
        recorded.unwrap();
        let begun = std::time::Instant::now();
        run.collector.finish(run.now).unwrap();
        least = least.min(begun.elapsed().as_secs_f64());
    }
    let merged = run.collector.dataset.day(day).unwrap().len();
    assert_eq!(merged, usize::try_from(count).unwrap());
    least
}

#[test]
fn the_time_of_a_merge_does_not_grow_with_the_square_of_the_rows() {
    let [few, many] = [4_000, 16_000].map(merge_seconds);
    assert!(many < 10.0 * few, "{many:.3} s after {few:.3} s");
}

fn record(run: &Simulation, number: u64, day: UtcDay, metrics: Metrics) {
    let days = BTreeMap::from([(day, metrics)]);
    record_reply(&run.collector.store, code(number), &days, run.now).unwrap();
}

#[test]
fn values_leave_the_database_when_their_day_is_final() {
    let mut run = Simulation::new(VirtualUpstream::new(4, 60, 2), false);
    run.advance(UnixSeconds(run.now.0 + 14 * DAY_SECONDS), PACE);
    let sql = "SELECT count(DISTINCT day) FROM value";
    let days = run.collector.store.number(sql, []);
    assert!((8..=10).contains(&days.unwrap()));
}

/// A file that is written again is read again by the next publish.
#[test]
fn a_merge_that_changes_no_row_writes_no_file() {
    let run = &mut Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    let day = rules::newest_day(run.now);
    let islands = [0, 1].map(|number| island(code(number)));
    catalogue::record_page(&run.collector.store, &islands, None, run.now).unwrap();
    let mut inode_after = |metrics: &[Metrics]| {
        for (number, metrics) in (0..).zip(metrics) {
            record(run, number, day, *metrics);
        }
        run.collector.finish(run.now).unwrap();
        let file = run.scratch.path().join(format!("dataset/daily/{day}.csv"));
        fs::metadata(file).unwrap().ino()
    };
    let known = Metrics::new([Some(1); 6], [None, Some(0.5), None]);
    let first = inode_after(&[known]);
    assert_eq!(inode_after(&[known]), first);
    // An island without any value has no row.
    assert_eq!(inode_after(&[known, Metrics::NULL]), first);
    let second = inode_after(&[known, known]);
    assert_ne!(second, first);
    let revised = Metrics::new([Some(2); 6], [None, Some(0.5), None]);
    assert_ne!(inode_after(&[revised]), second);
}

/// Lines that an operator left, and files with other names.
#[test]
fn a_fault_of_one_file_keeps_values_out_of_that_file_only() {
    let run = &mut Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    catalogue::record_page(&run.collector.store, &[island(code(0))], None, run.now).unwrap();
    let newest = rules::newest_day(run.now);
    let days = [UtcDay(newest.0 - 1), newest];
    let step = UnixSeconds(run.now.0 - 3600);
    let steps = [step, UnixSeconds(step.0 + 600)];
    let folder = run.scratch.path().join("dataset");
    for (value, (faulty, is_error)) in (1..).zip([
        ("platform.csv".to_owned(), true),
        (format!("daily/{}.csv", days[0]), true),
        (format!("live/{}.csv", steps[0].0), true),
        ("daily/notes.csv".to_owned(), false),
        ("live/notes.csv".to_owned(), false),
    ]) {
        durable::replace(&folder.join(&faulty), b"nonsense\n").unwrap();
        for day in days {
            record(run, 0, day, Metrics::of_peak(Some(value)));
        }
        run.collector.platform_points.insert(step, value);
        for step in steps {
            let players = BTreeMap::from([(code(0), value)]);
            run.collector.live_steps.insert(step, players);
        }
        let check = |run: &Simulation, but: &str| {
            let dataset = &run.collector.dataset;
            let row = |day| dataset.day(day).unwrap()[&code(0)].count(SortField::PeakCcu);
            for day in days.iter().filter(|day| !but.contains(&day.to_string())) {
                assert_eq!(row(*day), Some(value), "{day} beside {but}");
            }
            for step in steps
                .iter()
                .filter(|step| !but.contains(&step.0.to_string()))
            {
                assert_eq!(
                    dataset.step(*step).unwrap()[&code(0)],
                    value,
                    "{step} beside {but}"
                );
            }
            if but != "platform.csv" {
                assert_eq!(dataset.platform().unwrap()[&step], value, "beside {but}");
            }
        };
        let written = run.collector.finish(run.now);
        assert_eq!(written.is_err(), is_error, "{faulty}");
        // The alert for a file that cannot be written.
        let unwritten = save::unwritten_since(&run.collector.store).unwrap();
        let is_lacking = is_error && faulty.starts_with("daily");
        assert_eq!(unwritten, is_lacking.then_some(run.now.0), "{faulty}");
        check(run, &faulty);
        // Nothing is lost for the faulty one either.
        fs::remove_file(folder.join(&faulty)).unwrap();
        run.collector.finish(run.now).unwrap();
        check(run, "");
    }
}

#[test]
fn a_new_day_waits_for_noon_while_the_one_before_cannot_be_read() {
    let run = &mut Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    catalogue::record_page(&run.collector.store, &[island(code(0))], None, run.now).unwrap();
    let day = rules::newest_day(run.now);
    let before = run
        .scratch
        .path()
        .join(format!("dataset/daily/{}.csv", UtcDay(day.0 - 1)));
    durable::replace(&before, b"nonsense\n").unwrap();
    record(run, 0, day, Metrics::of_peak(Some(7)));
    for (hours, is_shown) in [(11, false), (12, true)] {
        let now = UnixSeconds(day.end().0 + hours * 3600);
        assert!(run.collector.finish(now).is_err());
        assert_eq!(run.collector.dataset.has_day(day).unwrap(), is_shown);
    }
}

/// A write blocks the loop, so that it must not wait again for each file.
#[test]
fn a_held_lock_ends_a_write_after_one_wait_and_nothing_is_lost() {
    let run = &mut Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    catalogue::record_page(&run.collector.store, &[island(code(0))], None, run.now).unwrap();
    run.collector.finish(run.now).unwrap();
    let day = rules::newest_day(run.now);
    let step = UnixSeconds(run.now.0 - 3600);
    let lock = fs::File::open(run.scratch.path().join("dataset/.lock")).unwrap();
    lock.lock_shared().unwrap();
    for steps in 0..3 {
        let players = BTreeMap::from([(code(0), 7)]);
        let step = UnixSeconds(step.0 + 600 * steps);
        run.collector.live_steps.insert(step, players);
    }
    record(run, 0, day, Metrics::of_peak(Some(7)));
    let begun = std::time::Instant::now();
    let written = run.collector.finish(run.now);
    assert!(written.unwrap_err().is_busy());
    assert!(begun.elapsed() < std::time::Duration::from_secs(4));
    drop(lock);
    run.collector.finish(run.now).unwrap();
    assert_eq!(run.collector.dataset.day(day).unwrap().len(), 1);
    let steps = fs::read_dir(run.scratch.path().join("dataset/live")).unwrap();
    assert_eq!(steps.count(), 3);
}
