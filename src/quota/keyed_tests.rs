//! Counters of keys: their places, and counts that outlive a process and a damaged segment.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed step ends the test; its files need not survive a crash"
)]

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::thread;

use super::counter_file_tests::{State, TODAY};
use super::{Decision, KeyedQuota, LeaseClient, NewestDay};
use crate::calendar::UtcDay;

fn open(state: &State) -> KeyedQuota {
    KeyedQuota::open(&state.0, &mut NewestDay::default(), &|_| {}).unwrap()
}

fn places(quota: &KeyedQuota, ids: &[u64]) -> Vec<u32> {
    let (places, claimed) = quota.places(ids.iter().copied(), &|_| {});
    claimed.unwrap();
    places
}

fn counts(quota: &KeyedQuota, ids: &[u64]) -> Vec<u32> {
    places(quota, ids);
    let counts: HashMap<LeaseClient, u32> = quota.counts(TODAY).into_iter().collect();
    let count = |id: &u64| counts.get(&LeaseClient::Key(*id)).copied();
    ids.iter().map(|id| count(id).unwrap_or(0)).collect()
}

#[test]
fn counts_stay_with_the_ids_of_keys() {
    let state = State::new("ids");
    let quota = open(&state);
    for (place, count) in places(&quota, &[0, 71, 72]).into_iter().zip([1, 2, 3]) {
        for _ in 0..count {
            assert_ne!(quota.admit(place, 10, TODAY), Some(Decision::Refuse));
        }
    }
    // The same keys, in memory and in the file.
    assert_eq!(counts(&quota, &[0, 71, 72]), [1, 2, 3]);
    assert_eq!(counts(&open(&state), &[0, 71, 72]), [1, 2, 3]);
    // Others, and the same ones in another order.
    assert_eq!(counts(&open(&state), &[72, 0, 9, 71]), [3, 1, 0, 2]);
    let quota = open(&state);
    assert_eq!(counts(&quota, &[71, 8]), [2, 0]);
    let place = places(&quota, &[71])[0];
    assert_ne!(quota.admit(place, 10, TODAY), Some(Decision::Refuse));
    let clear = open(&state);
    let ids = [8, 9, 72, 71, 0];
    let want = [0, 0, 3, 3, 1];
    assert_eq!(
        counts(&clear, &ids),
        want,
        "the count of a key that comes back"
    );
    let before = places(&clear, &ids);
    assert_eq!(clear.clear_after(UtcDay(TODAY.0 - 2)), 3);
    assert_eq!(counts(&clear, &ids), [0; 5]);
    assert_eq!(clear.clear_after(TODAY), 0, "ids are no counters");
    assert_eq!(places(&clear, &ids), before);
}

/// Earlier versions moved the lines of keys: free lines lie between others.
#[test]
fn a_key_keeps_the_line_with_its_id_and_gets_no_count_that_has_no_id() {
    let state = State::new("gaps");
    drop(open(&state).places([1, 2].into_iter(), &|_| {}));
    let quota = open(&state);
    for place in [1, 4] {
        assert_ne!(quota.admit(place, 10, TODAY), Some(Decision::Refuse));
    }
    let file = File::options()
        .write(true)
        .open(state.0.join("quota-keys-0"));
    let line = |place: u64| 4096 + 64 * place;
    let file = file.unwrap();
    file.write_all_at(&[0; 64], line(0)).unwrap();
    let id = (1_u64 << 63 | 7).to_le_bytes();
    file.write_all_at(&id, line(3) + 8).unwrap();
    assert_eq!(quota.counts(TODAY), [(LeaseClient::Key(2), 1)]);
    assert_eq!(quota.counts(UtcDay(TODAY.0 + 1)), []);
    assert_eq!(places(&quota, &[7, 2, 5, 6, 8]), [3, 1, 0, 2, 4]);
    assert_eq!(counts(&quota, &[7, 2, 5, 6, 8]), [0, 1, 0, 0, 0]);
}

#[test]
fn processes_that_look_for_the_same_keys_give_each_one_line() {
    let state = State::new("same");
    let lists: [Vec<u64>; 4] = std::array::from_fn(|seed| {
        let mut ids: Vec<u64> = (0..2_000).collect();
        ids.sort_by_key(|id| (id + 1) * (seed as u64 * 7_919 + 1) % 2_003);
        ids
    });
    let quotas = [(); 4].map(|()| open(&state));
    let found: Vec<HashMap<u64, u32>> = thread::scope(|scope| {
        let search = |(quota, ids): (_, &_)| -> HashMap<u64, u32> {
            let ids: &Vec<u64> = ids;
            // A few at a time, so that the searches overlap.
            let parts = ids.chunks(100);
            parts
                .flat_map(|part| part.iter().copied().zip(places(quota, part)))
                .collect()
        };
        let threads: Vec<_> = quotas
            .iter()
            .zip(&lists)
            .map(|pair| scope.spawn(move || search(pair)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let distinct: HashSet<&u32> = found[0].values().collect();
    assert_eq!(distinct.len(), 2_000);
    assert!(found.iter().all(|places| *places == found[0]));
}

#[test]
fn keys_that_find_no_room_have_no_counter_and_the_others_keep_theirs() {
    let state = State::new("no-room");
    let quota = open(&state);
    places(&quota, &[65_536]);
    fs::create_dir(state.0.join("quota-keys-1")).unwrap();
    let (places, claimed) = quota.places(0..65_537, &|_| {});
    let error = claimed.unwrap_err().to_string();
    assert!(error.contains("quota-keys-1"), "{error}");
    assert_eq!(quota.admit(places[65_535], 9, TODAY), None);
    for at in [0, 65_534, 65_536] {
        assert_eq!(quota.peek(places[at], 9, TODAY), Some(9), "{at}");
    }
}

#[test]
fn counts_of_keys_outlive_the_table_and_damage_is_set_aside_by_segment() {
    let state = State::new("keys");
    let open = || {
        let logged = RefCell::new(String::new());
        let log = |line: &str| logged.borrow_mut().push_str(line);
        let quota = KeyedQuota::open(&state.0, &mut NewestDay::default(), &log).unwrap();
        let (places, claimed) = quota.places(0..65_537, &log);
        claimed.unwrap();
        assert!((0..65_537).eq(places));
        (quota, logged.into_inner())
    };
    let (quota, _) = open();
    for number in [0, 65_535, 65_536] {
        assert_eq!(
            quota.admit(number, 5, TODAY),
            Some(Decision::Admit { remaining: 4 })
        );
    }
    drop(quota);
    let (quota, logged) = open();
    assert_eq!(
        (logged.as_str(), quota.peek(65_535, 5, TODAY)),
        ("", Some(4))
    );
    drop(quota);
    fs::write(state.0.join("quota-keys-1"), "nonsense").unwrap();
    let (quota, logged) = open();
    assert!(logged.contains("quota-keys-1 is too short"), "{logged}");
    assert_eq!(
        [0, 65_535, 65_536].map(|key| quota.peek(key, 5, TODAY)),
        [Some(4), Some(4), Some(5)]
    );
}
