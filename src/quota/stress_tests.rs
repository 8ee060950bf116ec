//! Threads that call a counter with different days, checked against a ledger of every `remaining`.
//!
//! `IM_TEST_STRESS=1000 cargo test --release --lib stress` runs until 1000 million admissions of each
//! kind of counter; the default of one million shows that the checks work.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use super::key_counter;
use super::{AnonymousClient, AnonymousQuota, Decision, KeyedQuota, TableSize};
use crate::calendar::UtcDay;

const THREADS: u64 = 4;
const LIMIT: u32 = 31;
/// First day of a run.
const FIRST: i32 = 20_476;
const DAYS: i32 = 8;
/// Maximum difference between a thread's day and the run's, either way.
const SKEW: i32 = 2;
const CALLS_PER_TABLE: u64 = 200_000;

#[expect(
    clippy::disallowed_methods,
    reason = "the length of the test is chosen by its user"
)]
fn admissions_wanted() -> u64 {
    let millions = std::env::var("IM_TEST_STRESS").map_or(1, |text| text.parse().unwrap());
    millions * 1_000_000_u64
}

/// One word for each client and day, one bit for each `remaining`.
struct Ledger(Vec<AtomicU32>);

impl Ledger {
    fn new(clients: u32) -> Ledger {
        let days = u32::try_from(DAYS + 2 * SKEW).unwrap();
        Ledger((0..clients * days).map(|_| AtomicU32::new(0)).collect())
    }

    fn entry(&self, client: u32, day: i32) -> &AtomicU32 {
        let day = usize::try_from(day - FIRST + SKEW).unwrap();
        let days = usize::try_from(DAYS + 2 * SKEW).unwrap();
        &self.0[client as usize * days + day]
    }

    fn admissions(&self) -> u64 {
        let bits = |entry: &AtomicU32| u64::from(entry.load(Ordering::Relaxed).count_ones());
        self.0.iter().map(bits).sum()
    }

    /// Records an admission; returns `true` if it was recorded before.
    fn is_repeated(&self, client: u32, day: i32, remaining: u32) -> bool {
        assert!(remaining < LIMIT);
        let bit = 1 << remaining;
        self.entry(client, day).fetch_or(bit, Ordering::Relaxed) & bit != 0
    }
}

/// Calls `admit` from several threads, with random clients and days that advance unevenly. `admit`
/// returns the day that it counted for and its decision. Returns the number of repeated admissions.
fn hammer(
    ledger: &Ledger,
    clients: u32,
    seed: u64,
    admit: impl Fn(u32, UtcDay) -> (i32, Decision) + Sync,
) -> usize {
    let calls = CALLS_PER_TABLE / THREADS;
    let run = |mut state: u64| {
        let mut repeated = 0;
        for call in 0..calls {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let client = u32::try_from(state % u64::from(clients)).unwrap();
            let skew = i32::try_from(state >> 40 & 3).unwrap() - SKEW;
            let passed = i32::try_from(call * DAYS as u64 / calls).unwrap();
            let (day, decision) = admit(client, UtcDay(FIRST + passed + skew));
            if let Decision::Admit { remaining } = decision {
                repeated += usize::from(ledger.is_repeated(client, day, remaining));
            }
        }
        repeated
    };
    thread::scope(|scope| {
        let start =
            |thread: u64| scope.spawn(move || run(1 + ((seed * THREADS + thread + 1) << 20)));
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    })
}

/// Admits every client to its limit on the last day; every `remaining` of the limit must occur.
fn drain(ledger: &Ledger, clients: u32, admit: impl Fn(u32, UtcDay) -> (i32, Decision)) {
    let last = FIRST + DAYS + SKEW - 1;
    for client in 0..clients {
        while let (day, Decision::Admit { remaining }) = admit(client, UtcDay(last)) {
            assert!(!ledger.is_repeated(client, day, remaining));
        }
        let recorded = ledger.entry(client, last).load(Ordering::Relaxed);
        assert_eq!(recorded, (1 << LIMIT) - 1, "client {client}");
    }
}

#[test]
fn addresses_get_each_remaining_once_and_all_of_them() {
    let (mut admissions, mut seed) = (0, 0);
    while admissions < admissions_wanted() {
        let crowded = seed % 4 == 3;
        let clients = if crowded { 900 } else { 300 };
        let clients_max = if crowded { 100 } else { 1000 };
        let quota = AnonymousQuota::new(TableSize::for_clients(clients_max));
        let admit = |client: u32, day: UtcDay| {
            let address = Ipv4Addr::from_bits(client).into();
            let limit = u16::try_from(LIMIT).unwrap();
            let client = AnonymousClient::new(&quota, address);
            let (decision, day) = quota.admit_on(client, limit, day.into());
            (UtcDay::from(day).0, decision)
        };
        let ledger = Ledger::new(clients);
        assert_eq!(hammer(&ledger, clients, seed, admit), 0, "seed {seed}");
        // In the crowded table most clients share overflow words, and their limits.
        if !crowded {
            drain(&ledger, clients, admit);
        }
        admissions += ledger.admissions();
        seed += 1;
    }
}

#[test]
fn keys_get_each_remaining_once_and_all_of_them() {
    let (mut admissions, mut seed) = (0, 0);
    while admissions < admissions_wanted() {
        // Few keys, so that threads often use the same one, then many.
        let keys = if seed % 2 == 0 { 20 } else { 400 };
        let counters: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
        let admit = |client: u32, day: UtcDay| {
            let (decision, day) = key_counter::admit(&counters[client as usize], LIMIT, day);
            (i32::try_from(day).unwrap(), decision)
        };
        let ledger = Ledger::new(keys);
        assert_eq!(hammer(&ledger, keys, seed, admit), 0, "seed {seed}");
        drain(&ledger, keys, admit);
        admissions += ledger.admissions();
        seed += 1;
    }
}

#[test]
fn a_counter_that_stores_without_comparing_is_caught() {
    let counters: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let careless = |client: u32, day: UtcDay| {
        let counter = &counters[client as usize];
        let copy = AtomicU64::new(counter.load(Ordering::Relaxed));
        let (decision, day) = key_counter::admit(&copy, LIMIT, day);
        counter.store(copy.load(Ordering::Relaxed), Ordering::Relaxed);
        (i32::try_from(day).unwrap(), decision)
    };
    let runs = 0..2000;
    let caught = runs.into_iter().any(|seed| {
        for counter in &counters {
            counter.store(0, Ordering::Relaxed);
        }
        hammer(&Ledger::new(4), 4, seed, careless) > 0
    });
    assert!(caught);
}

#[test]
fn places_without_a_counter_have_no_quota_and_no_neighbours() {
    let (quota, day) = (KeyedQuota::new(None), UtcDay(20_000));
    assert_eq!(quota.admit(0, 9, day), None);
    assert_eq!(quota.peek(0, 9, day), None);
    quota.places(0..70_000, &|_| {}).1.unwrap();
    for place in [0, 1, 65_535, 65_536, 131_071] {
        assert_eq!(quota.peek(place, 2, day), Some(2), "{place}");
        let admitted = Some(Decision::Admit { remaining: 1 });
        assert_eq!(quota.admit(place, 2, day), admitted);
    }
    let counted = |day| -> Vec<u32> {
        let places = 0..200_000;
        places
            .filter(|place| quota.count(day, *place) == 1)
            .collect()
    };
    assert_eq!(counted(day), [0, 1, 65_535, 65_536, 131_071]);
    assert!(counted(UtcDay(day.0 + 1)).is_empty());
    assert_eq!(quota.count(day, u32::MAX), 0);
    assert_eq!(quota.admit(131_072, 9, day), None);
    assert_eq!(quota.admit(u32::MAX, 9, day), None);
    assert_eq!(
        quota.peek(0, 2, day),
        Some(1),
        "reserving more preserves the counts"
    );
}
