//! The keys by address, and the rules by which sign-up issues another.

use std::collections::HashMap;

use super::refused::{ISSUED_IN_24_HOURS_MAX, Refused};
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::keys::{FREE_KEYS_MAX, KeyAddress, KeyId, KeyRecords};
use crate::model::Tier;

/// Free keys on record with which sign-up closes: a file of 22 MB, which each change writes anew.
pub(super) const FREE_KEYS_IN_ALL_MAX: usize = 100_000;

/// A key as its holder sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The public part of the key.
    pub id: KeyId,
    /// What it buys.
    pub tier: Tier,
    /// When it was issued.
    pub issued: UnixSeconds,
    /// Since when it is disabled; `None` while it is active.
    pub revoked: Option<UnixSeconds>,
}

impl ListedKey {
    /// A free key, just issued.
    pub(super) fn new(id: KeyId, issued: UnixSeconds) -> ListedKey {
        ListedKey {
            id,
            tier: Tier::Free,
            issued,
            revoked: None,
        }
    }
}

/// All keys at one moment.
#[derive(Default)]
pub(super) struct Index {
    /// By address, those of one in the order in which they were issued.
    keys: Vec<(KeyAddress, ListedKey)>,
    /// Numbers of keys are below.
    numbers_end: u32,
    free: usize,
    free_on: HashMap<UtcDay, u32>,
}

impl Index {
    pub(super) fn of(records: &KeyRecords) -> Index {
        let mut index = Index::default();
        for record in records.iter() {
            let key = ListedKey {
                id: record.id,
                tier: record.tier,
                issued: record.issued,
                revoked: record.revoked,
            };
            index.push(record.address.clone(), key);
        }
        index.numbers_end = records.numbers_end();
        index.sort();
        index
    }

    /// Whether records are older than these, or of somebody else: no key's number is ever taken back.
    pub(super) fn is_ahead_of(&self, records: &KeyRecords) -> bool {
        records.numbers_end() < self.numbers_end
    }

    fn push(&mut self, address: KeyAddress, key: ListedKey) {
        if key.tier == Tier::Free {
            self.free += 1;
            *self.free_on.entry(key.issued.day()).or_default() += 1;
        }
        self.keys.push((address, key));
    }

    fn sort(&mut self) {
        // Stable: the order of one address's keys stays.
        self.keys.sort_by(|one, other| one.0.cmp(&other.0));
    }

    /// The keys of an address, the oldest first.
    pub(super) fn keys(&self, address: &KeyAddress) -> impl ExactSizeIterator<Item = &ListedKey> {
        let start = self.keys.partition_point(|(of, _)| of < address);
        let length = self.keys[start..].partition_point(|(of, _)| of == address);
        self.keys[start..start + length].iter().map(|(_, key)| key)
    }

    /// How many keys were ever issued to an address: no record is ever removed.
    pub(super) fn number(&self, address: &KeyAddress) -> u32 {
        u32::try_from(self.keys(address).len()).expect("keys have numbers of 26 bits")
    }

    /// Whether the address may be issued a free key, to a pass made when it had been issued `number`.
    pub(super) fn may_issue(
        &self,
        address: &KeyAddress,
        number: u32,
        daily_max: u32,
        now: UnixSeconds,
    ) -> Result<(), Refused> {
        if self.number(address) != number {
            return Err(Refused::Used);
        }
        let free = || self.keys(address).filter(|key| key.tier == Tier::Free);
        if free().filter(|key| key.revoked.is_none()).count() >= FREE_KEYS_MAX {
            return Err(Refused::TooManyActive);
        }
        let mut lately: Vec<i64> = free()
            .map(|key| key.issued.0 + DAY_SECONDS)
            .filter(|end| *end > now.0)
            .collect();
        // The latest first. Those after the last that may be must have had their day.
        lately.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(end) = lately.get(ISSUED_IN_24_HOURS_MAX - 1) {
            return Err(Refused::TooManyLately {
                retry_after_seconds: seconds_until(UnixSeconds(*end), now),
            });
        }
        if self.free >= FREE_KEYS_IN_ALL_MAX {
            return Err(Refused::Closed);
        }
        let today = self.free_on.get(&now.day()).copied().unwrap_or(0);
        if today >= daily_max {
            return Err(day_full(now));
        }
        Ok(())
    }
}

/// No more today.
pub(super) fn day_full(now: UnixSeconds) -> Refused {
    Refused::DayFull {
        retry_after_seconds: seconds_until(now.day().end(), now),
    }
}

/// At least one: whoever is refused has to wait.
fn seconds_until(end: UnixSeconds, now: UnixSeconds) -> u32 {
    u32::try_from((end.0 - now.0).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free keys of one address, as (issued, whether active), among `others` of another's.
    fn index(of: &KeyAddress, keys: &[(i64, bool)], others: usize) -> Index {
        let other: KeyAddress = "z@x.test".parse().unwrap();
        let all = keys.iter().map(|key| (of, *key));
        let all = all.chain((0..others).map(|_| (&other, (0, false))));
        let mut index = Index::default();
        for (address, (issued, active)) in all {
            let key = ListedKey {
                id: "0123456789".parse().unwrap(),
                tier: Tier::Free,
                issued: UnixSeconds(issued),
                revoked: (!active).then_some(UnixSeconds(issued)),
            };
            index.push(address.clone(), key);
        }
        index.sort();
        index
    }

    const NOON: i64 = DAY_SECONDS * 20_000 + DAY_SECONDS / 2;

    #[track_caller]
    fn check(keys: &[(i64, bool)], others: usize, daily_max: u32, want: Result<(), Refused>) {
        let address: KeyAddress = "a@x.test".parse().unwrap();
        let index = index(&address, keys, others);
        let number = index.number(&address);
        let got = index.may_issue(&address, number, daily_max, UnixSeconds(NOON));
        assert_eq!(got, want);
        let used = index.may_issue(&address, number + 1, daily_max, UnixSeconds(NOON));
        assert_eq!(used, Err(Refused::Used));
    }

    #[test]
    fn each_limit_ends_where_it_says() {
        let active = (0, true);
        check(&[active; 2], 0, 9, Ok(()));
        check(&[active; 3], 0, 9, Err(Refused::TooManyActive));
        check(&[], FREE_KEYS_IN_ALL_MAX - 1, 9, Ok(()));
        check(&[], FREE_KEYS_IN_ALL_MAX, 9, Err(Refused::Closed));
        let full = Refused::DayFull {
            retry_after_seconds: 43_200,
        };
        check(&[(NOON, false); 4], 0, 5, Ok(()));
        check(&[(NOON, false); 5], 0, 5, Err(full));
        // Yesterday's, and tomorrow's by a clock that was ahead.
        check(&[(NOON - 43_201, false); 5], 0, 5, Ok(()));
        check(&[(NOON + 43_200, false); 5], 0, 5, Ok(()));
        let mut ten = vec![(NOON - DAY_SECONDS + 100, false); 2];
        ten.extend([(NOON - 86_000, false); 8]);
        let lately = Refused::TooManyLately {
            retry_after_seconds: 100,
        };
        check(&ten[1..], 0, 99, Err(lately));
        // Of ten, two have to have had their day.
        check(&ten, 0, 99, Err(lately));
        ten[1].0 -= 100;
        check(&ten[1..], 0, 99, Ok(()));
    }
}
