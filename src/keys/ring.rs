//! The keys as a server holds them: looked up by id, judged by secret.

use std::hint::black_box;

use super::records::KeyRecords;
use super::token::{KeyId, KeyPrefix, Presented, SecretDigest};
use crate::model::Tier;

/// What an active key gives its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The key's place among the counters.
    pub number: u32,
    /// What it is called by where its secret may not stand.
    pub id: KeyId,
    /// What it buys.
    pub tier: Tier,
}

/// What a presented key is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A key that may be used.
    Active(Grant),
    /// A key that is disabled; its secret was right.
    Revoked,
    /// No key, or not with this secret.
    Unknown,
}

/// All keys at one moment. Fifty-six bytes and the id's eight for each.
#[derive(Debug)]
pub struct KeyRing {
    prefix: KeyPrefix,
    /// Ascending. The last is nobody's, and larger than any that can be sent, so that every search
    /// ends at an id with a record.
    ids: Box<[u64]>,
    /// In the order of the ids.
    records: Box<[Held]>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    digest: SecretDigest,
    grant: Grant,
    revoked: bool,
}

impl KeyRing {
    /// The keys of these records, written with this prefix.
    pub fn new(prefix: KeyPrefix, records: &KeyRecords) -> KeyRing {
        let mut held: Vec<(u64, Held)> = records
            .iter()
            .map(|record| {
                let held = Held {
                    digest: record.digest,
                    grant: Grant {
                        number: record.number,
                        id: record.id,
                        tier: record.tier,
                    },
                    revoked: record.revoked.is_some(),
                };
                (record.id.number(), held)
            })
            .collect();
        let nobody = Held {
            digest: SecretDigest([0; 32]),
            grant: Grant {
                number: u32::MAX,
                id: KeyId::NOBODY,
                tier: Tier::Free,
            },
            revoked: true,
        };
        held.push((u64::MAX, nobody));
        held.sort_unstable_by_key(|(id, _)| *id);
        let (ids, records): (Vec<_>, Vec<_>) = held.into_iter().unzip();
        KeyRing {
            prefix,
            ids: ids.into(),
            records: records.into(),
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.ids.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ids) + size_of_val(&*self.records)
    }

    /// Judges what a client sent.
    ///
    /// Text that has not the form of a key is refused at once. Of what has it, the id is found by a
    /// search of the same steps whether it is known or not, some record's digest is compared, and
    /// the secret is hashed: the time tells neither whether an id exists nor whether it is revoked.
    pub fn judge(&self, key: &[u8]) -> Verdict {
        let Some(presented) = Presented::parse(&self.prefix, key) else {
            return Verdict::Unknown;
        };
        let id = presented.id.number();
        let at = self.ids.partition_point(|known| *known < id);
        let held = &self.records[at];
        let is_right = held.digest.matches(&presented.digest());
        let is_known = self.ids[at] == id;
        match (black_box(is_known) & is_right, held.revoked) {
            (true, false) => Verdict::Active(held.grant),
            (true, true) => Verdict::Revoked,
            (false, _) => Verdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::UnixSeconds;
    use crate::keys::token::NewKey;

    #[test]
    fn a_ring_agrees_with_the_list_of_its_keys() {
        let prefix = KeyPrefix::default();
        let mut records = KeyRecords::default();
        let keys: Vec<NewKey> = (0..300).map(|_| NewKey::random(&prefix)).collect();
        for (number, key) in (0_u32..).zip(&keys) {
            let address = format!("{number}@x.test").parse().unwrap();
            let tier = Tier::ALL[number as usize % 3];
            let parts = (key.id, key.digest());
            records.issue(parts, address, tier, UnixSeconds(0)).unwrap();
            if number % 5 == 0 {
                records.revoke(key.id, UnixSeconds(1)).unwrap();
            }
        }
        let ring = KeyRing::new(prefix.clone(), &records);
        assert_eq!(ring.len(), 300);
        for (number, key) in (0_u32..).zip(&keys) {
            let want = if number % 5 == 0 {
                Verdict::Revoked
            } else {
                let tier = Tier::ALL[number as usize % 3];
                Verdict::Active(Grant {
                    number,
                    id: key.id,
                    tier,
                })
            };
            assert_eq!(ring.judge(key.reveal().as_bytes()), want);
            let stranger = NewKey::random(&prefix);
            assert_eq!(ring.judge(stranger.reveal().as_bytes()), Verdict::Unknown);
        }
        let other = KeyRing::new("ix".parse().unwrap(), &records);
        assert_eq!(other.judge(keys[1].reveal().as_bytes()), Verdict::Unknown);
        let none = KeyRing::new(prefix, &KeyRecords::default());
        assert_eq!(none.judge(keys[1].reveal().as_bytes()), Verdict::Unknown);
        assert!(none.is_empty());
    }
}
