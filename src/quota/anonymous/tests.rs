//! The table against an oracle, alone and under threads.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::thread;

use super::*;

fn v4(quota: &AnonymousQuota, number: u32) -> Client {
    Client::new(quota, Ipv4Addr::from_bits(number).into())
}

fn words(quota: &AnonymousQuota) -> Vec<u64> {
    let all = quota.slots.iter().chain(&quota.overflow);
    all.map(|word| word.load(Ordering::Relaxed)).collect()
}

#[test]
fn with_room_for_all_it_agrees_with_a_map() {
    arbtest::arbtest(|u| {
        let quota = AnonymousQuota::new(5, 0);
        let limit = u.int_in_range(0..=4)?;
        let mut spent: HashMap<u32, u16> = HashMap::new();
        let mut day = UtcDay(u.int_in_range(-5000..=30_000)?);
        for _ in 0..u.int_in_range(0..=200)? {
            if u.ratio(1, 20)? {
                day = UtcDay(day.0 + u.int_in_range(1..=10)?);
                spent.clear();
            }
            let number = u.int_in_range(0..=31)?;
            let (client, count) = (v4(&quota, number), spent.entry(number).or_default());
            assert_eq!(quota.peek(client, limit, day), u32::from(limit - *count));
            let wanted = if *count < limit {
                *count += 1;
                Decision::Admit {
                    remaining: u32::from(limit - *count),
                }
            } else {
                Decision::Refuse
            };
            assert_eq!(quota.admit(client, limit, day), wanted);
        }
        Ok(())
    });
}

#[test]
fn clients_beyond_the_window_share_the_overflow() {
    arbtest::arbtest(|u| {
        let quota = AnonymousQuota::new(3, 1);
        let (limit, day) = (u.int_in_range(1..=5)?, UtcDay(20_000));
        let mut admitted: HashMap<u32, u16> = HashMap::new();
        for _ in 0..u.int_in_range(0..=400)? {
            let number = u.int_in_range(0..=40)?;
            let client = v4(&quota, number);
            let left = quota.peek(client, limit, day);
            match quota.admit(client, limit, day) {
                Decision::Admit { remaining } => {
                    assert_eq!(remaining + 1, left);
                    *admitted.entry(number).or_default() += 1;
                }
                Decision::Refuse => assert_eq!(left, 0),
            }
        }
        assert!(admitted.values().all(|count| *count <= limit));
        let total: u32 = admitted.values().map(|count| u32::from(*count)).sum();
        let cells = 8 + 2;
        assert!(
            total <= cells * u32::from(limit),
            "each cell admits its limit at most"
        );
        Ok(())
    });
}

#[test]
fn denials_and_peeks_write_nothing() {
    let (quota, day) = (AnonymousQuota::new(3, 0), UtcDay(20_000));
    for number in 0..20 {
        assert_eq!(quota.admit(v4(&quota, number), 0, day), Decision::Refuse);
        assert_eq!(quota.peek(v4(&quota, number), 0, day), 0);
        assert_eq!(quota.peek(v4(&quota, number), 7, day), 7);
    }
    assert!(words(&quota).iter().all(|word| *word == 0));
    for number in 0..20 {
        while quota.admit(v4(&quota, number), 2, day) != Decision::Refuse {}
    }
    let before = words(&quota);
    for number in 0..20 {
        assert_eq!(quota.admit(v4(&quota, number), 2, day), Decision::Refuse);
        assert_eq!(
            quota.peek(v4(&quota, number), 1, day),
            0,
            "a lowered limit is no underflow"
        );
    }
    assert_eq!(words(&quota), before);
}

#[test]
fn a_straggler_is_charged_to_the_later_day() {
    let quota = AnonymousQuota::new(5, 0);
    let (client, today, yesterday) = (v4(&quota, 1), UtcDay(4096), UtcDay(4095));
    assert_eq!(
        quota.admit(client, 3, yesterday),
        Decision::Admit { remaining: 2 }
    );
    assert_eq!(
        quota.admit(client, 3, today),
        Decision::Admit { remaining: 2 }
    );
    assert_eq!(quota.peek(client, 3, yesterday), 2);
    assert_eq!(
        quota.admit(client, 3, yesterday),
        Decision::Admit { remaining: 1 }
    );
    assert_eq!(
        quota.admit(client, 3, today),
        Decision::Admit { remaining: 0 }
    );
    assert_eq!(quota.admit(client, 3, yesterday), Decision::Refuse);
}

#[test]
fn addresses_are_one_client_by_ipv4_and_by_ipv6_network() {
    let quota = AnonymousQuota::new(10, 4);
    let client = |text: &str| Client::new(&quota, text.parse().unwrap());
    assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
    assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
    assert_ne!(client("2001:db8:1:2::1").tag, client("2001:db8:1:3::1").tag);
    let many: HashSet<Client> = (0..10_000_u128)
        .map(|network| Client::new(&quota, Ipv6Addr::from_bits(network << 64).into()))
        .collect();
    assert!(many.len() >= 9_999);
    assert!(
        many.iter()
            .all(|client| client.tag != Tag::SHARED && client.home % 8 == 0)
    );
    assert!(
        many.iter().any(|client| client.home >= 512),
        "homes reach the upper half"
    );
}

#[test]
fn tables_begin_at_a_cache_line() {
    for log2 in [0, 3, 4, 9, 16] {
        let quota = AnonymousQuota::new(log2, 0);
        assert_eq!(
            quota.slots[quota.start..].as_ptr().align_offset(LINE_BYTES),
            0
        );
        assert!(quota.slots.len() - quota.start >= 1 << quota.slots_log2);
    }
}

/// What threads were told: `(client, effective day, remaining)` for each admission.
fn stress(quota: &AnonymousQuota, limit: u16, clients: u32, seed: u64) -> Vec<(u32, RingDay, u32)> {
    let run = |mut state: u64| {
        let mut told = Vec::new();
        for round in 0..40_000_i32 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let number = u32::try_from(state % u64::from(clients)).unwrap();
            let skew = i32::try_from(state >> 40 & 1).unwrap();
            let day = UtcDay(4090 + round / 4_000 + skew);
            let (decision, day) = quota.admit_on(v4(quota, number), limit, day.into());
            if let Decision::Admit { remaining } = decision {
                told.push((number, day, remaining));
            }
        }
        told
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|thread| scope.spawn(move || run(seed * 31 + thread)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn under_threads_and_skewed_days_no_remaining_is_told_twice() {
    for seed in 1..=10 {
        let (quota, limit) = (AnonymousQuota::new(6, 2), 20);
        let told = stress(&quota, limit, 60, seed);
        let distinct: HashSet<_> = told.iter().collect();
        assert_eq!(distinct.len(), told.len());
        assert!(
            told.iter()
                .all(|(_, _, remaining)| *remaining < u32::from(limit))
        );
        assert!(!told.is_empty());
    }
}
