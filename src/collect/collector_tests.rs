use std::collections::BTreeMap;

use super::*;
use crate::collect::catalogue;
use crate::collect::faults_tests::{Spell, Trouble, reply};
use crate::collect::reply::Outcome;
use crate::collect::scratch_tests::island;
use crate::collect::simulated_collector_tests::Simulation;
use crate::collect::virtual_upstream_tests::{VirtualUpstream, code, number};

/// The step is collected while the other endpoint still fails, and the run ends.
#[test]
fn one_run_collects_the_live_step_also_if_another_endpoint_fails() {
    for endpoint in [Endpoint::Platform, Endpoint::Catalogue] {
        let mut run = Simulation::new(VirtualUpstream::new(3, 60, 0), true);
        run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), 1);
        assert_eq!(run.collector.next(run.now).unwrap(), Next::Done);
        // The next day.
        run.now.0 += DAY_SECONDS;
        run.collector = run.open();
        let end = UnixSeconds(run.now.0 + DAY_SECONDS);
        let spell = Spell::new(Trouble::Status(500), endpoint, run.now..end);
        run.upstream.spells.push(spell);
        run.advance(end, 1);
        assert!(run.now < end, "the run must end by itself");
        run.collector.finish(run.now).unwrap();
        let written = run.collector.counts.live_written;
        assert!(written > 0, "no step with faults of {endpoint:?}");
        assert!(run.collector.missing(run.now).is_err());
    }
}

/// Also before the newest day has settled: its islands are requested again six hours later.
#[test]
fn a_second_run_at_once_makes_no_request_per_island_also_after_midnight() {
    let mut run = Simulation::new(VirtualUpstream::new(3, 60, 0), true);
    run.now.0 = i64::from(run.now.day().0 + 1) * DAY_SECONDS + 50 * 60;
    run.collector = run.open();
    let days = |run: &Simulation| run.upstream.requested[Endpoint::Days as usize];
    run.advance(UnixSeconds(run.now.0 + 3600), 1);
    assert_eq!(run.collector.next(run.now).unwrap(), Next::Done);
    let first = days(&run);
    for (hours, want) in [(0, 0), (5, 0), (6, first), (0, 0)] {
        run.now.0 += hours * 3600;
        run.collector = run.open();
        let before = days(&run);
        run.advance(UnixSeconds(run.now.0 + 3600), 1);
        assert_eq!(days(&run) - before, want, "after {hours} hours");
    }
}

/// The other islands are collected, and the run ends with an error.
#[test]
fn one_run_ends_also_if_islands_fail_all_the_time() {
    for (endpoint, islands, problem) in [
        (Endpoint::Days, 5, "the days of 4 islands could not be read"),
        (
            Endpoint::Days,
            u64::MAX,
            "the upstream gave no usable response",
        ),
        (Endpoint::Steps, 30, "the live step lacks "),
        (
            Endpoint::Steps,
            u64::MAX,
            "the upstream gave no usable response",
        ),
    ] {
        for trouble in [Trouble::Status(500), Trouble::Html] {
            let mut run = Simulation::new(VirtualUpstream::new(3, 60, 0), true);
            run.live = 20;
            run.collector = run.open();
            let end = UnixSeconds(run.now.0 + DAY_SECONDS);
            let spell = Spell::new(trouble, endpoint, run.now..end);
            run.upstream.spells.push(Spell { islands, ..spell });
            run.advance(end, 1);
            assert!(run.now.0 < end.0 - 23 * 3600, "the run must end by itself");
            let error = run.collector.missing(run.now).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{endpoint:?}: {error}");
            let sql = "SELECT count(*) FROM reading WHERE read_at = 0 AND class >= 0";
            let unread = run.collector.store.number(sql, []).unwrap();
            assert!(unread == 0 || endpoint == Endpoint::Days && unread >= 4);
            run.collector.finish(run.now).unwrap();
            let is_written = run.collector.counts.live_written > 0;
            assert_eq!(is_written, islands < u64::MAX, "{endpoint:?}: {error}");
        }
    }
}

/// Runs for some time, with so many seconds between requests. Those for days fail (`F`) or not by a pattern.
fn fail_in_turn(run: &mut Simulation, pattern: &str, (seconds, duration): (i64, i64)) {
    let end = UnixSeconds(run.now.0 + duration);
    let mut turns = pattern.bytes().cycle();
    while run.now < end {
        let Next::Send(request) = run.collector.next(run.now).unwrap() else {
            run.now.0 += 10;
            continue;
        };
        let mut raw = run.upstream.reply(&request, run.now);
        if request.endpoint() == Endpoint::Days && turns.next() == Some(b'F') {
            raw = Ok(reply(500, ""));
        }
        run.collector.receive(&request, raw, run.now).unwrap();
        run.now.0 += seconds;
    }
}

/// A failure and the urgent request after it must not take all turns, however many islands are due.
#[test]
fn live_steps_are_collected_if_requests_for_days_fail_in_turn() {
    let mut run = Simulation::new(VirtualUpstream::new(3, 20_000, 0), false);
    run.live = 1000;
    run.collector = run.open();
    fail_in_turn(&mut run, "FO", (5, 12 * 3600));
    let requested = |endpoint: Endpoint| run.upstream.requested[endpoint as usize];
    let (live, days) = (requested(Endpoint::Steps), requested(Endpoint::Days));
    assert!(
        live > 1000 && days > 4000,
        "{live} for live, {days} for days"
    );
}

/// The request after a failure is perhaps always the one that is answered: it must not always be for an island that was
/// read before.
#[test]
fn islands_are_read_if_requests_fail_in_turn() {
    for (pattern, seconds) in [
        ("FO", 1),
        ("FFO", 1),
        ("FFO", 7),
        ("FFFO", 1),
        ("FOFFO", 1),
        ("FOFFO", 7),
    ] {
        let mut run = Simulation::new(VirtualUpstream::new(3, 60, 0), false);
        fail_in_turn(&mut run, pattern, (seconds, 12 * 3600));
        let sql = "SELECT count(*) FROM reading WHERE class >= 0 AND read_at = 0";
        let unread = run.collector.store.number(sql, []).unwrap();
        assert!(unread <= 10, "{pattern}: {unread} islands were not read");
    }
}

/// The one that fails must not take the requests of the other ones, also after all were postponed by an outage.
#[test]
fn islands_are_read_after_an_outage_while_one_of_them_fails() {
    for (islands, minutes) in [(2, 2), (20, 40)] {
        let mut run = Simulation::new(VirtualUpstream::new(29, islands, 0), false);
        let outage = run.now..UnixSeconds(run.now.0 + minutes * 60);
        let always = run.now..UnixSeconds(run.now.0 + 30 * DAY_SECONDS);
        let spell = |times| Spell::new(Trouble::Status(500), Endpoint::Days, times);
        run.upstream.spells.push(spell(outage));
        let islands = 1;
        let bad = Spell {
            islands,
            ..spell(always)
        };
        run.upstream.spells.push(bad);
        for _ in 0..4 {
            let failures = |run: &Simulation| {
                let days = run.collector.breaker(Endpoint::Days);
                days.counts[Outcome::Broken as usize]
            };
            let before = failures(&run);
            run.advance(UnixSeconds(run.now.0 + DAY_SECONDS), 5);
            let sql = "SELECT code FROM reading WHERE class > 0 AND covered < ?1 OR class >= 0 AND read_at = 0";
            let newest = [run.now.day().0 - 1];
            let late = run
                .collector
                .store
                .rows(sql, newest, |row| row.get::<_, IslandCode>(0));
            assert_eq!(late.unwrap(), [code(0)]);
            let failed = failures(&run) - before;
            assert!(failed <= 100, "{failed} requests failed in a day");
        }
    }
}

/// Also if they are the first ones of their queues, before they were ever read and after.
#[test]
fn islands_that_always_fail_delay_no_others() {
    for (trouble, known_hours) in [(Trouble::Status(500), 0), (Trouble::Html, 3)] {
        let mut run = Simulation::new(VirtualUpstream::new(26, 600, 0), false);
        run.live = 20;
        run.collector = run.open();
        run.advance(UnixSeconds(run.now.0 + known_hours * 3600), 5);
        let times = run.now..UnixSeconds(run.now.0 + 30 * DAY_SECONDS);
        let spells = [Endpoint::Days, Endpoint::Steps].map(|endpoint| Spell {
            islands: 60,
            ..Spell::new(trouble, endpoint, times.clone())
        });
        run.upstream.spells.extend(spells);
        run.advance(UnixSeconds(run.now.0 + 3 * 3600), 5);
        for _ in 0..2 {
            let midnight = i64::from(run.now.day().0 + 1) * DAY_SECONDS;
            run.advance(UnixSeconds(midnight + 40 * 60), 60);
            let failures = |run: &Simulation, endpoint| {
                let outcomes = [Outcome::Broken, Outcome::Throttled].into_iter();
                let count = |outcome| run.collector.breaker(endpoint).counts[outcome as usize];
                outcomes.map(count).sum::<u64>()
            };
            let before = failures(&run, Endpoint::Days);
            run.advance(UnixSeconds(midnight + 2 * 3600), 5);
            let failed = failures(&run, Endpoint::Days) - before;
            assert!(failed < 6 * 60, "{trouble:?}: {failed} requests failed");
            let sql = "SELECT code FROM reading
                 WHERE class >= 0 AND missing = 0 AND (read_at = 0 OR class > 0 AND read_at < ?1)";
            let since = [midnight + 40 * 60];
            let late = run.collector.store.rows(sql, since, |row| row.get(0));
            let late: Vec<u64> = late.unwrap().into_iter().map(number).collect();
            assert!(
                late.len() > 50 && late.iter().all(|number| *number < 60),
                "{trouble:?}: {late:?} were not read"
            );
            let age = run.now.0 - run.collector.counts.live_written;
            assert!(age <= 20 * 60, "{trouble:?}: no live step for {age} s");
        }
    }
}

/// Otherwise no crawl of 300 pages would end while the upstream fails for some seconds in every few minutes.
#[test]
fn a_crawl_goes_on_where_it_failed_unless_its_cursor_is_refused() {
    for (status, is_begun_again) in [(500, false), (429, false), (400, true)] {
        let mut run = Simulation::new(VirtualUpstream::new(3, 200, 0), false);
        let public = (0..200).filter(|number| run.upstream.is_public(*number, run.now.day().0));
        let pages = public.count().div_ceil(40) as u64;
        let read = |run: &Simulation| {
            let catalogue = run.collector.breaker(Endpoint::Catalogue);
            catalogue.counts[Outcome::Usable as usize]
        };
        while read(&run) < 3 {
            run.advance(UnixSeconds(run.now.0 + 1), 1);
        }
        let times = run.now..UnixSeconds(run.now.0 + 60);
        let spell = Spell::new(Trouble::Status(status), Endpoint::Catalogue, times);
        run.upstream.spells.push(spell);
        run.advance(UnixSeconds(run.now.0 + 1200), 5);
        let more = if is_begun_again { 3 } else { 0 };
        assert_eq!(read(&run), pages + more, "{status}");
        assert!(run.collector.store.task(Task::FULL_CRAWL).unwrap() > 0);
    }
}

/// Neither a clock that is ahead nor a step that such a clock requested makes all others look old.
#[test]
fn live_files_are_kept_for_48_hours_before_the_newest_step_and_now() {
    let run = &mut Simulation::new(VirtualUpstream::new(1, 0, 0), false);
    catalogue::record_page(&run.collector.store, &[island(code(0))], None, run.now).unwrap();
    let begun = run.now;
    let at = |hours: i64| UnixSeconds(begun.0 + hours * 3600);
    for (now, collected, kept) in [
        (21_600, &[-50, -49, -1][..], &[-1][..]),
        (0, &[21_600], &[-1, 21_600]),
        (47, &[0], &[0, 21_600]),
    ] {
        for hours in collected {
            let players = BTreeMap::from([(code(0), 7)]);
            run.collector.live_steps.insert(at(*hours), players);
        }
        run.collector.finish(at(now)).unwrap();
        for hours in [-50, -49, -1, 0, 21_600] {
            let rows = run.collector.dataset.step(at(hours)).unwrap();
            assert_eq!(!rows.is_empty(), kept.contains(&hours), "{hours} at {now}");
        }
    }
}
