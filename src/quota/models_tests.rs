//! Every schedule of a few threads on the real tables, explored by loom.
//!
//! Run with `RUSTFLAGS="--cfg island_metrics_loom" cargo test --release --lib models`. A table has
//! windows of two words here, and one overflow word. Each of the last models contains a known mistake
//! and must fail, which shows that the others could fail.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;

use super::key_counter;
use super::word::ClientTag;
use super::{AnonymousClient, AnonymousQuota, Decision, TableSize};
use crate::calendar::UtcDay;

const LIMIT: u16 = 2;
/// Day 0 of the models.
const FIRST: i32 = 20_000;

/// `(client, day that it was counted for, remaining)` of an admission.
type Admission = Option<(u8, i32, u32)>;

/// A table small enough for loom to try all schedules.
fn table() -> Arc<AnonymousQuota> {
    let (slots_log2, overflow_log2) = (1, 0);
    Arc::new(AnonymousQuota::new(TableSize {
        slots_log2,
        overflow_log2,
    }))
}

/// Client `number` of those whose window begins at the first slot.
fn client(number: u8) -> AnonymousClient {
    AnonymousClient {
        tag: ClientTag::of_address(number.into()),
        home: 0,
        overflow: 0,
        tag_seed: 0,
        earlier_tag: None,
    }
}

fn admit(quota: &AnonymousQuota, number: u8, day: i32) -> Admission {
    match quota.admit_on(client(number), LIMIT, UtcDay(FIRST + day).into()) {
        (Decision::Admit { remaining }, day) => {
            Some((number, UtcDay::from(day).0 - FIRST, remaining))
        }
        (Decision::Refuse, _) => None,
    }
}

/// Asserts that no client gets the same `remaining` twice on a day; hence none exceeds its limit.
#[track_caller]
fn check(admissions: impl IntoIterator<Item = Admission>) -> Vec<(u8, i32, u32)> {
    let admissions: Vec<_> = admissions.into_iter().flatten().collect();
    for (at, entry) in admissions.iter().enumerate() {
        assert!(entry.2 < u32::from(LIMIT));
        assert!(
            !admissions[..at].contains(entry),
            "{entry:?} twice in {admissions:?}"
        );
    }
    admissions
}

/// Runs each list of `(client, day)` in a thread, after `before`.
fn model(before: &'static [(u8, i32)], threads: &'static [&'static [(u8, i32)]], all: usize) {
    loom::model(move || {
        let quota = table();
        let run = |quota: &AnonymousQuota, requests: &[(u8, i32)]| -> Vec<Admission> {
            requests
                .iter()
                .map(|(number, day)| admit(quota, *number, *day))
                .collect()
        };
        let mut admissions = run(&quota, before);
        let spawned: Vec<_> = threads[1..]
            .iter()
            .map(|requests| {
                let quota = Arc::clone(&quota);
                thread::spawn(move || run(&quota, requests))
            })
            .collect();
        admissions.extend(run(&quota, threads[0]));
        for thread in spawned {
            admissions.extend(thread.join().unwrap());
        }
        let admitted = check(admissions).len();
        assert!(admitted >= all, "{admitted} admitted");
    });
}

#[test]
fn one_client_from_two_threads_gets_its_limit() {
    model(&[], &[&[(1, 9), (1, 9)], &[(1, 9), (1, 9)]], 2);
}

#[test]
fn one_client_from_three_threads_gets_its_limit() {
    model(&[], &[&[(1, 9)], &[(1, 9)], &[(1, 9)]], 2);
}

#[test]
fn two_clients_of_one_home_get_a_limit_each() {
    model(&[], &[&[(1, 9), (1, 9)], &[(2, 9), (2, 9)]], 4);
}

#[test]
fn three_clients_of_a_window_of_two_share_the_overflow() {
    model(&[], &[&[(1, 9)], &[(2, 9)], &[(3, 9)]], 3);
}

#[test]
fn clients_in_the_overflow_share_one_limit() {
    model(
        &[(1, 9), (2, 9)],
        &[&[(3, 9), (3, 9)], &[(4, 9), (4, 9)]],
        4,
    );
}

#[test]
fn yesterdays_word_is_taken_over_once() {
    model(&[(1, 8), (1, 8)], &[&[(1, 9), (1, 9)], &[(1, 9)]], 4);
}

#[test]
fn yesterdays_word_of_another_is_taken_by_one_of_two() {
    model(&[(3, 8), (3, 8)], &[&[(1, 9)], &[(2, 9), (2, 9)]], 5);
}

#[test]
fn a_straggler_of_yesterday_is_charged_once() {
    model(&[(1, 8)], &[&[(1, 9), (1, 9)], &[(1, 8), (1, 8)]], 3);
}

#[test]
fn a_straggler_whose_word_another_client_took_is_charged_once() {
    model(&[(1, 8)], &[&[(2, 9)], &[(1, 8), (1, 8)]], 3);
}

#[test]
fn midnight_among_three_threads() {
    model(&[(1, 8)], &[&[(1, 8)], &[(1, 9)], &[(2, 9)]], 3);
}

#[test]
fn threads_two_days_apart() {
    model(&[(1, 8), (2, 8)], &[&[(1, 10)], &[(1, 8), (1, 8)]], 3);
}

#[test]
fn threads_decades_apart() {
    model(
        &[(1, 8), (2, 20_000)],
        &[&[(1, 20_000)], &[(1, 8), (1, 9)]],
        4,
    );
}

#[test]
fn midnight_in_the_overflow() {
    model(&[(1, 8), (2, 9), (3, 8)], &[&[(3, 9)], &[(3, 8)]], 4);
}

/// Runs a key's counter from two threads, each with its days, after one request on `before`.
fn key_model(before: i32, days: [&'static [i32]; 2]) {
    loom::model(move || {
        let counter = Arc::new(AtomicU64::new(0));
        let run = |counter: &AtomicU64, days: &[i32]| -> Vec<Admission> {
            let one = |day: &i32| match key_counter::admit(counter, LIMIT.into(), UtcDay(*day)) {
                (Decision::Admit { remaining }, day) => {
                    Some((0, i32::try_from(day).unwrap(), remaining))
                }
                (Decision::Refuse, _) => None,
            };
            days.iter().map(one).collect()
        };
        let mut admissions = run(&counter, &[before]);
        let other = Arc::clone(&counter);
        let spawned = thread::spawn(move || run(&other, days[1]));
        admissions.extend(run(&counter, days[0]));
        admissions.extend(spawned.join().unwrap());
        check(admissions);
    });
}

#[test]
fn one_key_from_two_threads_gets_its_limit() {
    key_model(9, [&[9, 9], &[9, 9]]);
}

#[test]
fn one_key_at_midnight_gets_a_limit_a_day() {
    key_model(8, [&[8, 9, 9], &[9, 8, 8]]);
}

// The mistakes.

#[test]
#[should_panic(expected = "twice")]
fn mistake_checking_and_then_counting() {
    loom::model(|| {
        let count = Arc::new(AtomicU64::new(0));
        let careless = |count: &AtomicU64| {
            let seen = count.load(Relaxed);
            (seen < 2).then(|| {
                count.store(seen + 1, Relaxed);
                (0, 0, 1 - u32::try_from(seen).unwrap())
            })
        };
        let other = Arc::clone(&count);
        let spawned = thread::spawn(move || careless(&other));
        let admissions = [careless(&count), spawned.join().unwrap()];
        check(admissions);
    });
}

#[test]
#[should_panic(expected = "admitted past the limit")]
fn mistake_day_and_count_in_two_words() {
    loom::model(|| {
        let words = Arc::new((AtomicU64::new(8), AtomicU64::new(1)));
        let careless = |(day, count): &(AtomicU64, AtomicU64)| {
            if day.swap(9, Relaxed) != 9 {
                count.store(0, Relaxed);
            }
            u64::from(count.fetch_add(1, Relaxed) < 2)
        };
        let spawned: Vec<_> = (0..2)
            .map(|_| {
                let words = Arc::clone(&words);
                thread::spawn(move || careless(&words) + careless(&words))
            })
            .collect();
        let admitted: u64 = spawned
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert!(admitted <= 2, "admitted past the limit");
    });
}

#[test]
#[should_panic(expected = "admitted past the limit")]
fn mistake_the_smaller_of_two_rows() {
    loom::model(|| {
        let rows = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        // A limit of one: admitted if the smaller count is still zero.
        let careless = |[one, other]: &[AtomicU64; 2]| {
            let counts = [one.fetch_add(1, Relaxed), other.fetch_add(1, Relaxed)];
            u64::from(counts.into_iter().min() == Some(0))
        };
        let other = Arc::clone(&rows);
        let spawned = thread::spawn(move || careless(&other));
        let admitted = careless(&rows) + spawned.join().unwrap();
        assert!(admitted <= 1, "admitted past the limit");
    });
}
