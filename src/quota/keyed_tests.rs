//! Counters of keys that outlive a process, a damaged segment, and another number of their key.
#![expect(
    clippy::disallowed_methods,
    reason = "files of tests need not survive a crash"
)]

use std::cell::RefCell;
use std::fs;

use super::counter_file_tests::{State, TODAY};
use super::{Decision, KeyedQuota, NewestDay};
use crate::calendar::UtcDay;

#[test]
fn counts_stay_with_the_ids_of_keys_when_numbers_change() {
    let state = State::new("renumbered");
    let open = |ids: &[u64]| {
        let quota = KeyedQuota::open(&state.0, &mut NewestDay::default(), &|_| {}).unwrap();
        quota.reserve(9, TODAY, &|_| {}).unwrap();
        quota.assign((0..).zip(ids.iter().copied()));
        quota
    };
    let counts = |quota: &KeyedQuota| [0, 1, 2, 3].map(|number| quota.count(TODAY, number));
    let quota = open(&[0, 71, 72]);
    for (number, count) in (0..).zip([1, 2, 3]) {
        for _ in 0..count {
            assert_ne!(quota.admit(number, 10, TODAY), Decision::Refuse);
        }
    }
    // The same keys, in memory and in the file.
    quota.assign((0..).zip([0, 71, 72]));
    assert_eq!(counts(&quota), [1, 2, 3, 0]);
    assert_eq!(counts(&open(&[0, 71, 72])), [1, 2, 3, 0]);
    // Others, and the same ones with other numbers.
    assert_eq!(counts(&open(&[72, 0, 9, 71])), [3, 1, 0, 2]);
    let quota = open(&[71, 8]);
    assert_eq!(counts(&quota), [2, 0, 0, 3], "72 has no number");
    assert_ne!(quota.admit(0, 10, TODAY), Decision::Refuse);
    assert_eq!(counts(&open(&[8, 9, 72, 71])), [0, 0, 3, 3]);
    let clear = open(&[8, 9, 72, 71, 0]);
    assert_eq!(
        clear.count(TODAY, 4),
        1,
        "the count of a key that comes back"
    );
    assert_eq!(clear.clear_after(UtcDay(TODAY.0 - 2)), 3);
    assert_eq!(counts(&clear), [0; 4]);
    assert_eq!(clear.clear_after(TODAY), 0, "ids are no counters");
}

#[test]
fn counts_of_keys_outlive_the_table_and_damage_is_set_aside_by_segment() {
    let state = State::new("keys");
    let open = || {
        let logged = RefCell::new(String::new());
        let quota = KeyedQuota::new(Some(state.0.clone()));
        quota
            .reserve(65_537, TODAY, &|line| logged.borrow_mut().push_str(line))
            .unwrap();
        (quota, logged.into_inner())
    };
    let (quota, _) = open();
    for number in [0, 65_535, 65_536] {
        assert_eq!(
            quota.admit(number, 5, TODAY),
            Decision::Admit { remaining: 4 }
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
