//! The table against a plain one as the oracle.

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

/// The oracle: the table as a list of words with their fields, and the rule in plain steps.
struct PlainTable {
    /// The slots, followed by the overflow.
    words: Vec<PlainWord>,
    slots: usize,
}

#[derive(Clone, Copy, Default)]
struct PlainWord {
    client: u64,
    day: i32,
    count: u16,
}

impl PlainTable {
    /// The word of a client on a day, or on a later one that it finds.
    fn find(&mut self, client: AnonymousClient, mut day: i32) -> (&mut PlainWord, i32) {
        let window = (0..32).map(|at| (client.home as usize + at) % self.slots);
        let mut places: Vec<usize> = window.collect();
        places.push(self.slots + client.overflow as usize);
        let (own, mut at) = (client.tag.bits(), 0);
        loop {
            let word = &mut self.words[places[at]];
            if word.count == 0 || word.day < day {
                *word = PlainWord {
                    client: own,
                    day,
                    count: 0,
                };
                break;
            }
            if word.day > day {
                (day, at) = (word.day, 0);
            } else if word.client == own || at == 32 {
                break;
            } else {
                at += 1;
            }
        }
        (&mut self.words[places[at]], day)
    }

    fn counts(&self, day: i32) -> Vec<(LeaseClient, u32)> {
        let words = self.words[..self.slots].iter();
        let used = words.filter(|word| word.count > 0 && word.day == day);
        used.map(|word| (LeaseClient::Anonymous(word.client), word.count.into()))
            .collect()
    }
}

/// The days of words are those from 2020-01-01 to 2109-09-18.
fn clamped(day: i32) -> i32 {
    day.clamp(18_262, 18_262 + 32_767)
}

#[test]
fn a_table_agrees_with_the_oracle_on_days_of_any_distance() {
    arbtest::arbtest(|u| {
        let quota = AnonymousQuota::new(sized(u.int_in_range(3..=6)?, u.int_in_range(0..=1)?));
        let slots = quota.slots();
        let mut plain = PlainTable {
            words: vec![PlainWord::default(); slots + 2],
            slots,
        };
        let mut day = u.int_in_range(15_000..=55_000)?;
        let limit = u.int_in_range(0..=4)?;
        for _ in 0..u.int_in_range(0..=200)? {
            let leaps = [
                0, 0, 0, 0, 0, 0, 0, 1, 1, -1, 2_048, 4_096, -4_096, 20_000, -20_000,
            ];
            day += u.choose(&leaps)?;
            let number = u.int_in_range(0..=70_u16)?;
            let client = match number % 3 {
                0 => {
                    AnonymousClient::new(&quota, Ipv6Addr::new(number, 1, 0, 0, 0, 0, 0, 0).into())
                }
                _ => v4(&quota, number.into()),
            };
            let (word, counted) = plain.find(client, clamped(day));
            assert_eq!(
                quota.peek(client, limit, UtcDay(day)),
                u32::from(limit - word.count)
            );
            let expected = if word.count < limit {
                word.count += 1;
                Decision::Admit {
                    remaining: u32::from(limit - word.count),
                }
            } else {
                Decision::Refuse
            };
            let admitted = quota.admit_on(client, limit, UtcDay(day).into());
            assert_eq!(admitted, (expected, UtcDay(counted).into()));
        }
        let all = plain.counts(clamped(day));
        assert_eq!(quota.counts(UtcDay(day), 0..usize::MAX), all);
        let cut = u.int_in_range(0..=quota.slots())?;
        let parts = [0..cut, cut..quota.slots()].map(|range| quota.counts(UtcDay(day), range));
        assert_eq!(parts.concat(), all);
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
    let (client, today, yesterday) = (v4(&quota, 1), UtcDay(20_001), UtcDay(20_000));
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
fn servers_with_one_tag_seed_compute_equal_tags() {
    let quotas = [sized(10, 4), sized(5, 0)].map(AnonymousQuota::new);
    for quota in &quotas {
        quota.adopt_tag_seed(0x0123_4567_89ab_cdef).unwrap();
        let tag = |text: &str| AnonymousClient::new(quota, text.parse().unwrap()).lease_client();
        assert_eq!(tag("192.0.2.1"), LeaseClient::Anonymous(0xc000_0201));
        // Servers built with another hash would not agree with this one.
        assert_eq!(
            tag("2001:db8:1:2::1"),
            LeaseClient::Anonymous(0x1_3675_cad4)
        );
    }
    assert_ne!(quotas[0].directory_id(), quotas[1].directory_id());
}

#[test]
fn a_network_keeps_its_count_when_the_tag_seed_comes_late() {
    let (quota, day) = (AnonymousQuota::new(sized(10, 4)), UtcDay(20_000));
    let client = || AnonymousClient::new(&quota, "2001:db8::1".parse().unwrap());
    let early = client();
    let address = v4(&quota, 1);
    assert!(!early.is_outdated(&quota));
    assert_eq!(quota.admit(early, 3, day), Decision::Admit { remaining: 2 });
    quota.adopt_tag_seed(!quota.tag_seed()).unwrap();
    assert!(early.is_outdated(&quota) && client().lease_client() != early.lease_client());
    assert!(
        !address.is_outdated(&quota),
        "the tag of an IPv4 address has no seed"
    );
    assert_eq!(quota.peek(client(), 3, day), 2);
    for remaining in [1, 0] {
        let admitted = Decision::Admit { remaining };
        assert_eq!(quota.admit(client(), 3, day), admitted);
    }
    assert_eq!(quota.admit(client(), 3, day), Decision::Refuse);
    assert_eq!(quota.peek(client(), 3, UtcDay(day.0 + 1)), 3);
}

#[cfg(target_os = "linux")]
#[test]
fn a_tag_seed_is_adopted_although_it_cannot_be_written() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = memfd_create("quota", MemfdFlags::ALLOW_SEALING).unwrap();
    let (file, sizes) = (std::fs::File::from(file), sized(10, 4));
    file.set_len(8 * sizes.words() as u64).unwrap();
    let words = CounterSlab::of_file(file.try_clone().unwrap(), 0, sizes.words()).unwrap();
    fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).unwrap();
    let quota = AnonymousQuota::of(words, sizes, FileNumbers::random());
    let seed = !quota.tag_seed();
    assert!(quota.adopt_tag_seed(seed).is_err());
    assert_eq!(quota.tag_seed(), seed);
    assert!(
        quota.adopt_tag_seed(seed).is_err(),
        "it is not written again"
    );
}

#[test]
fn sizes_leave_two_fifths_of_the_words_free() {
    for (clients, slots_log2) in [(0, 6), (38, 6), (39, 7), (5_000_000, 23), (5_100_000, 24)] {
        let sizes = TableSize::for_clients(clients);
        assert_eq!(sizes, sized(slots_log2, slots_log2 - 3), "{clients}");
        let clients_max = AnonymousQuota::new(sizes).clients_max();
        assert_eq!(clients_max, (1 << slots_log2) * 3 / 5);
        assert!(clients <= clients_max, "{clients}");
    }
    let most = TableSize::for_clients(u64::MAX);
    assert_eq!(most, TableSize::for_clients(TableSize::CLIENTS_MAX));
}
