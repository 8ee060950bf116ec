//! The table against a hash map as the oracle.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

fn sized(slots_log2: u32, overflow_log2: u32) -> TableSize {
    TableSize {
        slots_log2,
        overflow_log2,
    }
}

fn v4(quota: &AnonymousQuota, number: u32) -> AnonymousClient {
    AnonymousClient::new(quota, Ipv4Addr::from_bits(number).into())
}

fn words(quota: &AnonymousQuota) -> Vec<u64> {
    let all = quota.words.iter();
    all.map(|word| word.load(Ordering::Relaxed)).collect()
}

#[test]
fn with_a_word_for_each_client_it_agrees_with_a_map() {
    arbtest::arbtest(|u| {
        let quota = AnonymousQuota::new(sized(5, 0));
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
            let expected = if *count < limit {
                *count += 1;
                Decision::Admit {
                    remaining: u32::from(limit - *count),
                }
            } else {
                Decision::Refuse
            };
            assert_eq!(quota.admit(client, limit, day), expected);
        }
        Ok(())
    });
}

#[test]
fn clients_beyond_the_window_share_the_overflow() {
    arbtest::arbtest(|u| {
        let quota = AnonymousQuota::new(sized(3, 1));
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
        let words = 8 + 2;
        assert!(
            total <= words * u32::from(limit),
            "each word admits at most its limit"
        );
        Ok(())
    });
}

#[test]
fn refusals_and_peeks_write_nothing() {
    let (quota, day) = (AnonymousQuota::new(sized(3, 0)), UtcDay(20_000));
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
    let quota = AnonymousQuota::new(sized(5, 0));
    let (client, today, yesterday) = (v4(&quota, 1), UtcDay(4096), UtcDay(4095));
    let admit = |day| match quota.admit(client, 3, day) {
        Decision::Admit { remaining } => Some(remaining),
        Decision::Refuse => None,
    };
    assert_eq!(admit(yesterday), Some(2));
    assert_eq!(admit(today), Some(2));
    assert_eq!(quota.peek(client, 3, yesterday), 2);
    let results = [yesterday, today, yesterday].map(admit);
    assert_eq!(results, [Some(1), Some(0), None]);
}

#[test]
fn addresses_are_one_client_by_ipv4_and_by_ipv6_network() {
    let quota = AnonymousQuota::new(sized(10, 4));
    let client = |text: &str| AnonymousClient::new(&quota, text.parse().unwrap());
    assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
    assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
    assert_ne!(client("2001:db8:1:2::1").tag, client("2001:db8:1:3::1").tag);
    let many: HashSet<AnonymousClient> = (0..10_000_u128)
        .map(|network| AnonymousClient::new(&quota, Ipv6Addr::from_bits(network << 64).into()))
        .collect();
    assert!(many.len() >= 9_999);
    assert!(
        many.iter()
            .all(|client| client.tag != ClientTag::SHARED && client.home % 8 == 0)
    );
    assert!(
        many.iter().any(|client| client.home >= 512),
        "homes reach the upper half"
    );
}

#[test]
fn sizes_leave_two_fifths_of_the_words_free() {
    for (clients, slots_log2) in [(0, 6), (38, 6), (39, 7), (5_000_000, 23), (5_100_000, 24)] {
        let sizes = TableSize::for_clients(clients);
        assert_eq!(sizes, sized(slots_log2, slots_log2 - 3), "{clients}");
    }
    let most = TableSize::for_clients(u64::MAX);
    assert_eq!(most, TableSize::for_clients(TableSize::CLIENTS_MAX));
}

#[test]
fn after_a_leap_old_words_are_not_future_days() {
    let (today, long_ago) = (UtcDay(20_778), UtcDay(20_778 - 2822));
    let quota = AnonymousQuota::new(sized(5, 2));
    for number in 0..40 {
        while quota.admit(v4(&quota, number), 3, long_ago) != Decision::Refuse {}
    }
    // Unless cleared they apply: on the ring they read as future days.
    assert_eq!(quota.admit(v4(&quota, 1), 3, today), Decision::Refuse);
    quota.clear_other_days(today);
    assert!(words(&quota).iter().all(|word| *word == 0));
    let admitted = Decision::Admit { remaining: 2 };
    assert_eq!(quota.admit(v4(&quota, 1), 3, today), admitted);
    quota.clear_other_days(today);
    assert_eq!(quota.peek(v4(&quota, 1), 3, today), 2, "today's words stay");
}
