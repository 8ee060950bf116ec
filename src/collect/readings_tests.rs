use super::*;
use crate::calendar::DAY_SECONDS;
use crate::collect::scratch_tests::{Scratch, island, record_reply};
use crate::collect::store::Task;
use crate::collect::{catalogue, plan, save};

const TODAY: i32 = 20_700;

fn at(hours: i64) -> UnixSeconds {
    UnixSeconds(i64::from(TODAY) * DAY_SECONDS + hours * 3600)
}

fn code(number: u64) -> IslandCode {
    IslandCode::from_number(number).unwrap()
}

/// A database with one island, in a directory that is removed when it is dropped.
fn new_store() -> (Scratch, Store) {
    let scratch = Scratch::new();
    let store = Store::open(scratch.path()).unwrap().0;
    catalogue::record_page(&store, &[island(code(1))], None, at(-9 * 24)).unwrap();
    (scratch, store)
}

/// Records a 404 of the island.
fn missing(store: &Store, hour: i64) -> Outcome {
    record_missing(store, code(1), at(hour)).unwrap()
}

/// A reply with these peaks of the last days, the newest first; `None` for a null.
fn reply(peaks: &[Option<u64>]) -> BTreeMap<UtcDay, Metrics> {
    let days = (1..).zip(peaks);
    days.map(|(ago, peak)| (UtcDay(TODAY - ago), Metrics::of_peak(*peak)))
        .collect()
}

fn covered(store: &Store) -> i32 {
    let sql = "SELECT covered FROM reading WHERE code = 1";
    store.row(sql, [], |row| row.get(0)).unwrap().unwrap()
}

#[test]
fn only_days_that_a_reply_has_are_covered_and_the_newest_when_it_has_settled() {
    let week = [Some(5); 7];
    let mut gap = reply(&week);
    gap.remove(&UtcDay(TODAY - 4));
    for (days, hour, want) in [
        (reply(&week), 9, 1),
        (reply(&week), 1, 2),
        (reply(&[None; 7]), 4, 1),
        (reply(&[None, Some(5), None, None, None, None, None]), 4, 2),
        (reply(&[None, None, None, Some(5), None, None, None]), 4, 1),
        // A day is missing, with everything after it.
        (gap, 9, 5),
        (reply(&[Some(5); 3]), 9, 8),
    ] {
        let (_scratch, store) = new_store();
        record_reply(&store, code(1), &days, at(hour)).unwrap();
        assert_eq!(covered(&store), TODAY - want, "{days:?} at {hour}");
    }
}

/// Once only for days before the island was listed: the upstream may never have them.
#[test]
fn an_island_is_read_again_after_six_hours_if_its_reply_is_not_final() {
    let mut without_newest = reply(&[Some(5); 7]);
    without_newest.remove(&UtcDay(TODAY - 1));
    let next_day = 24 * 60 + 40;
    for (days, hour, again, then) in [
        (reply(&[Some(5); 7]), 1, Some(7 * 60), None),
        (reply(&[None, Some(5), Some(5)]), 1, Some(7 * 60), None),
        (reply(&[Some(5); 7]), 9, None, None),
        (without_newest, 9, Some(15 * 60), Some(21 * 60)),
        // A first start, with the days before it.
        (reply(&[Some(5); 3]), 9, Some(15 * 60), None),
    ] {
        let scratch = Scratch::new();
        let store = Store::open(scratch.path()).unwrap().0;
        catalogue::record_page(&store, &[island(code(1))], None, at(0)).unwrap();
        for (hour, want) in [(hour, again), (hour + 6, then)] {
            record_reply(&store, code(1), &days, at(hour)).unwrap();
            let sql = "SELECT due_at - ?1 FROM reading";
            let due = store.number(sql, [at(0).0]).unwrap();
            assert_eq!(due / 60, want.unwrap_or(next_day), "{days:?} at {hour}");
        }
    }
}

/// The readings of the first island after an outage tell nothing about the others.
#[test]
fn a_day_is_complete_when_each_island_that_was_active_is_read_through_it() {
    let (_scratch, store) = new_store();
    let islands = [2, 3, 4].map(|number| island(code(number)));
    catalogue::record_page(&store, &islands, None, at(-9 * 24)).unwrap();
    store.set_task(Task::FULL_CRAWL, at(0).0).unwrap();
    let read = |number, ago: i64, peak| {
        let days = reply(&[peak; 9]);
        record_reply(&store, code(number), &days, at(9 - ago * 24)).unwrap();
    };
    let complete = || {
        let sizes = plan::sizes(&store, at(9)).unwrap();
        sizes.complete_day.map(|day| TODAY - day.0)
    };
    // The last two days before today are missed.
    for (number, peak) in [(1, Some(5)), (2, Some(5)), (3, None)] {
        assert_eq!(complete(), None, "island {number} was never read");
        read(number, 2, peak);
    }
    read(4, 2, Some(5));
    assert_eq!(complete(), Some(3));
    read(1, 0, Some(5));
    assert_eq!(complete(), Some(3));
    read(2, 0, Some(5));
    assert_eq!(complete(), Some(3));
    // One that is gone is not waited for, and again when it is back.
    // Its values are older than two days.
    let gone = record_missing(&store, code(4), at(10)).unwrap();
    assert_eq!(gone, Outcome::Gone);
    assert_eq!(complete(), Some(1));
    catalogue::record_page(&store, &[island(code(4))], None, at(12)).unwrap();
    assert_eq!(complete(), Some(3));
    read(4, 0, Some(5));
    assert_eq!(complete(), Some(1));
    // Nor for one that was never read and fails alone, but in an outage.
    catalogue::record_page(&store, &[island(code(5))], None, at(-9 * 24)).unwrap();
    for (seconds, want) in [(10, None), (80, Some(1))] {
        postpone(&store, code(5), at(9).0 + seconds, at(9)).unwrap();
        assert_eq!(complete(), want);
    }
    // Nor is a day complete without one that fails, also when its days are lost.
    let sql = "UPDATE reading SET covered = ?2 WHERE code = ?1";
    store.execute(sql, (code(4), TODAY - 20)).unwrap();
    postpone(&store, code(4), at(10).0, at(9)).unwrap();
    assert_eq!(complete(), None);
    // These two are not due, and the days that they lose do not hide those of others.
    let sizes = plan::sizes(&store, at(9)).unwrap();
    assert_eq!((sizes.fresh, sizes.postponed), (0, 2));
    assert!(sizes.next_loss.unwrap() > at(0).0 + 5 * DAY_SECONDS);
}

#[test]
fn a_404_of_an_island_with_players_is_believed_in_the_third_hour() {
    let (_scratch, store) = new_store();
    record_reply(&store, code(1), &reply(&[Some(5); 7]), at(9)).unwrap();
    let is_believed = |hour| missing(&store, hour) == Outcome::Gone;
    assert_eq!([10, 10, 10, 11, 11].map(is_believed), [false; 5]);
    // A reading in between begins the count again.
    record_reply(&store, code(1), &reply(&[Some(5); 7]), at(12)).unwrap();
    assert_eq!([13, 14, 15].map(is_believed), [false, false, true]);
    let quiet = reply(&[None, None, Some(5), None, None, None, None]);
    let (_scratch, store) = new_store();
    record_reply(&store, code(1), &quiet, at(9)).unwrap();
    assert_eq!(missing(&store, 10), Outcome::Gone);
}

#[test]
fn values_of_a_day_are_counted_by_metric() {
    let (_scratch, store) = new_store();
    catalogue::record_page(&store, &[island(code(2))], None, at(0)).unwrap();
    record_reply(&store, code(1), &reply(&[Some(5), None]), at(9)).unwrap();
    let counts = [Some(7), None, Some(0), None, None, None];
    let metrics = Metrics::new(counts, [None, None, Some(0.5)]);
    let days = BTreeMap::from([(UtcDay(TODAY - 1), metrics)]);
    record_reply(&store, code(2), &days, at(9)).unwrap();
    let counts = |day| value_counts(&store, Some(UtcDay(day))).unwrap();
    assert_eq!(counts(TODAY - 1), [2, 0, 1, 0, 0, 0, 0, 0, 1]);
    assert_eq!(counts(TODAY - 2), [0; 9]);
}

#[test]
fn a_reply_says_whether_its_newest_day_is_a_surprise() {
    let (_scratch, store) = new_store();
    let read = |peaks: &[Option<u64>]| record_reply(&store, code(1), &reply(peaks), at(9)).unwrap();
    assert_eq!(read(&[None; 7]), Outcome::Null);
    assert_eq!(read(&[None, None, None, Some(50)]), Outcome::Usable);
    assert_eq!(read(&[None, None, Some(50)]), Outcome::Vanished);
    // Also if the value before is only in the database.
    assert_eq!(read(&[None; 7]), Outcome::Vanished);
    let contradicted = || {
        let sizes = plan::sizes(&store, at(9)).unwrap();
        (sizes.contradicted_players, sizes.players)
    };
    assert_eq!(contradicted(), (50, 50));
    assert_eq!(read(&[Some(50); 7]), Outcome::Usable);
    assert_eq!(contradicted(), (0, 50));
    // A value that was read before the fault began.
    assert_eq!(read(&[None; 7]), Outcome::Vanished);
    assert_eq!(read(&[Some(50); 7]), Outcome::Usable);
    assert_eq!(missing(&store, 9), Outcome::Doubtful);
    assert_eq!(contradicted(), (50, 50));
    let unknown = record_reply(&store, code(2), &reply(&[Some(50)]), at(9));
    assert_eq!(unknown.unwrap(), Outcome::Usable);
}

/// Values may still appear, and what an earlier reply said holds until then. Few players come and go.
#[test]
fn a_null_of_the_newest_day_contradicts_when_the_day_has_settled() {
    for (peak, players) in [(20, 20), (19, 0)] {
        let (_scratch, store) = new_store();
        let days = reply(&[None, Some(peak), Some(peak)]);
        let contradicted = |hour| {
            record_reply(&store, code(1), &days, at(hour)).unwrap();
            let sizes = plan::sizes(&store, at(hour)).unwrap();
            (sizes.contradicted_players, sizes.players)
        };
        let want = [(0, players), (players, players), (players, players)];
        assert_eq!([1, 7, 25].map(contradicted), want);
    }
}

/// As if its series had another name. The values are recorded, and it shows.
#[test]
fn values_without_a_peak_are_a_surprise_if_the_day_before_has_one() {
    let others = Metrics::new([None, Some(4), None, None, None, None], [None; 3]);
    let without_peak = |days: std::ops::RangeInclusive<i32>| {
        let mut week = reply(&[Some(50); 7]);
        week.extend(days.map(|ago| (UtcDay(TODAY - ago), others)));
        week
    };
    for (known, days, want) in [
        (true, 1..=7, Outcome::Vanished),
        (true, 1..=1, Outcome::Vanished),
        (false, 1..=1, Outcome::Vanished),
        // An island that never had one.
        (false, 1..=7, Outcome::Usable),
    ] {
        let (_scratch, store) = new_store();
        if known {
            record_reply(&store, code(1), &reply(&[Some(50); 7]), at(1)).unwrap();
        }
        let read = record_reply(&store, code(1), &without_peak(days.clone()), at(9));
        assert_eq!(read.unwrap(), want, "{days:?} {known}");
        let rows = values(&store, UtcDay(TODAY - 1)).unwrap();
        let players = rows[&code(1)].count(SortField::UniquePlayers);
        assert_eq!(players, Some(4));
        let contradicted = plan::sizes(&store, at(9)).unwrap().contradicted_players;
        assert_eq!(contradicted, 50 * i64::from(want == Outcome::Vanished));
    }
}

#[test]
fn a_day_changes_with_a_value_only_and_stays_changed_until_it_is_written() {
    let (_scratch, store) = new_store();
    let changed = || -> Vec<i32> {
        let days = save::changed_days(&store, at(9)).unwrap();
        days.into_iter().map(|(day, _)| TODAY - day.0).collect()
    };
    record_reply(&store, code(1), &reply(&[None; 7]), at(9)).unwrap();
    assert!(changed().is_empty());
    record_reply(&store, code(1), &reply(&[Some(5), None, Some(6)]), at(9)).unwrap();
    assert_eq!(changed(), [3, 1]);
    save::record_written(&store, UtcDay(TODAY - 3), at(9)).unwrap();
    // The same values, and a null in place of one.
    record_reply(&store, code(1), &reply(&[Some(5), None, None]), at(10)).unwrap();
    assert_eq!(changed(), [1]);
    assert_eq!(save::changed_days(&store, at(9)).unwrap()[0].1, at(9));
    // Days that were not written stay, however old.
    let later = UnixSeconds(at(0).0 + 30 * DAY_SECONDS);
    save::prune(&store, later).unwrap();
    let rows = |ago| values(&store, UtcDay(TODAY - ago)).unwrap().len();
    assert_eq!([rows(1), rows(3)], [1, 0]);
}

#[test]
fn values_come_back_as_they_were() {
    arbtest::arbtest(|u| {
        let (scratch, store) = new_store();
        let mut counts = [None; 6];
        for count in &mut counts {
            *count = u
                .arbitrary::<Option<u32>>()?
                .map(|value| u64::from(value) << 21);
        }
        let mut decimals = [None; 3];
        for decimal in &mut decimals {
            *decimal = u
                .arbitrary::<Option<u16>>()?
                .map(|value| f64::from(value) / 65_535.0);
        }
        let metrics = Metrics::new(counts, decimals);
        let days = BTreeMap::from([(UtcDay(TODAY - 1), metrics)]);
        record_reply(&store, code(1), &days, at(9)).unwrap();
        drop(store);
        let (store, _) = Store::open(scratch.path()).unwrap();
        let found = values(&store, UtcDay(TODAY - 1)).unwrap();
        let want = (metrics != Metrics::NULL).then_some((code(1), metrics));
        assert_eq!(found.into_iter().next(), want);
        Ok(())
    });
}

#[test]
fn null_never_replaces_a_value() {
    let old = Metrics::new(
        [Some(1), None, Some(3), None, None, None],
        [Some(0.5), None, None],
    );
    let new = Metrics::new(
        [None, Some(2), Some(4), None, None, None],
        [None, Some(0.0), None],
    );
    let merged = newer(&old, &new);
    // One of the values replaced another one.
    assert_ne!(merged, newer(&new, &old));
    assert_eq!(newer(&old, &old), old);
    assert_eq!(merged.count(SortField::PeakCcu), Some(1));
    assert_eq!(merged.count(SortField::UniquePlayers), Some(2));
    assert_eq!(merged.count(SortField::MinutesPlayed), Some(4));
    assert_eq!(merged.decimals(), [Some(0.5), Some(0.0), None]);
}
