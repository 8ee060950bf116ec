//! The records of all keys, and the rules for changing them.

use std::collections::HashSet;
use std::fmt;

use super::address::KeyAddress;
use super::token::{KeyId, SecretDigest};
use crate::calendar::UnixSeconds;
use crate::model::{KEYS_MAX, Tier};

/// Maximum number of active free keys per address (SPEC section 8).
pub const FREE_KEYS_MAX: usize = 3;

/// The stored record of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Index of the key's quota counter. Never reused for another key.
    pub number: u32,
    /// The public part of the key.
    pub id: KeyId,
    /// Selects the daily limit.
    pub tier: Tier,
    /// The address that it was issued to.
    pub address: KeyAddress,
    /// Time of issue.
    pub issued: UnixSeconds,
    /// Time at which it was disabled; `None` if it is active.
    pub revoked: Option<UnixSeconds>,
    pub(super) digest: SecretDigest,
}

/// A change of the records is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChangeError {
    /// The address has reached the limit of active free keys.
    TooManyFree(KeyAddress),
    /// No key has this id.
    Unknown(KeyId),
    /// All key numbers have been issued.
    Full,
}

impl fmt::Display for KeyChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyChangeError::TooManyFree(address) => write!(
                f,
                "{address} already has {FREE_KEYS_MAX} active free keys, the limit for an address; \
                 revoke one first"
            ),
            KeyChangeError::Unknown(id) => {
                write!(f, "no key has the id {id}; run `keys list` to see all keys")
            }
            KeyChangeError::Full => write!(
                f,
                "all {KEYS_MAX} key numbers have been issued; no key can be added"
            ),
        }
    }
}

/// All keys, in the order in which they were issued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecords {
    records: Vec<KeyRecord>,
    /// Number of the next key.
    pub(super) next: u32,
    /// Number of changes so far.
    pub(super) revision: u64,
}

impl KeyRecords {
    /// Restores stored records; `None` if they are inconsistent.
    pub(super) fn stored(records: Vec<KeyRecord>, next: u32, revision: u64) -> Option<KeyRecords> {
        let ids: HashSet<KeyId> = records.iter().map(|record| record.id).collect();
        let ascending = records.is_sorted_by(|a, b| a.number < b.number);
        let below = records.last().is_none_or(|last| last.number < next);
        let sound = ids.len() == records.len() && ascending && below && next <= KEYS_MAX;
        sound.then_some(KeyRecords {
            records,
            next,
            revision,
        })
    }

    /// Iterates over all keys, the oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &KeyRecord> {
        self.records.iter()
    }

    /// Returns the exclusive upper bound of the key numbers.
    pub fn numbers_end(&self) -> u32 {
        self.next
    }

    /// Adds a key. Returns `Ok(None)` if the id is taken and the caller has to retry with another one.
    pub(super) fn issue(
        &mut self,
        (id, digest): (KeyId, SecretDigest),
        address: KeyAddress,
        tier: Tier,
        now: UnixSeconds,
    ) -> Result<Option<&KeyRecord>, KeyChangeError> {
        if self.next == KEYS_MAX {
            return Err(KeyChangeError::Full);
        }
        if tier == Tier::Free {
            self.check_free_limit(&address)?;
        }
        if self.records.iter().any(|record| record.id == id) {
            return Ok(None);
        }
        self.records.push(KeyRecord {
            number: self.next,
            id,
            tier,
            address,
            issued: now,
            revoked: None,
            digest,
        });
        self.next += 1;
        self.revision += 1;
        Ok(self.records.last())
    }

    fn check_free_limit(&self, address: &KeyAddress) -> Result<(), KeyChangeError> {
        let counts = |record: &&KeyRecord| {
            record.tier == Tier::Free && record.revoked.is_none() && record.address == *address
        };
        if self.records.iter().filter(counts).count() < FREE_KEYS_MAX {
            Ok(())
        } else {
            Err(KeyChangeError::TooManyFree(address.clone()))
        }
    }

    /// Disables a key. Returns `true` if it was active.
    pub(super) fn revoke(&mut self, id: KeyId, now: UnixSeconds) -> Result<bool, KeyChangeError> {
        let record = self.find(id)?;
        let was_active = record.revoked.is_none();
        if was_active {
            record.revoked = Some(now);
            self.revision += 1;
        }
        Ok(was_active)
    }

    /// Enables a disabled key again. Returns `true` if it was disabled. As for a new key, the limit of
    /// free keys per address applies.
    pub(super) fn restore(&mut self, id: KeyId) -> Result<bool, KeyChangeError> {
        let record = self.find(id)?;
        if record.revoked.is_none() {
            return Ok(false);
        }
        if record.tier == Tier::Free {
            let address = record.address.clone();
            self.check_free_limit(&address)?;
        }
        self.find(id)?.revoked = None;
        self.revision += 1;
        Ok(true)
    }

    fn find(&mut self, id: KeyId) -> Result<&mut KeyRecord, KeyChangeError> {
        let found = self.records.iter_mut().find(|record| record.id == id);
        found.ok_or(KeyChangeError::Unknown(id))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::keys::token::{KeyPrefix, NewKey};

    /// The oracle: a list of keys, each with two flags, free and active.
    #[derive(Default)]
    struct Plain(Vec<(KeyId, String, bool, bool)>);

    impl Plain {
        fn free(&self, address: &str) -> usize {
            let counts = |(_, of, free, active): &&(KeyId, String, bool, bool)| {
                of == address && *free && *active
            };
            self.0.iter().filter(counts).count()
        }
    }

    #[test]
    fn any_sequence_of_changes_agrees_with_a_plain_list() {
        arbtest::arbtest(|u| {
            let (mut records, mut plain) = (KeyRecords::default(), Plain::default());
            for _ in 0..u.int_in_range(0..=40)? {
                let now = UnixSeconds(u.int_in_range(0..=9)?);
                let address = *u.choose(&["a@x.test", "b@x.test"])?;
                let known = plain.0.len();
                match u.int_in_range(0..=3)? {
                    0 | 1 => {
                        let tier = *u.choose(&Tier::ALL)?;
                        let key = NewKey::random(&KeyPrefix::default());
                        let parts = (key.id, key.digest());
                        let fits = tier != Tier::Free || plain.free(address) < 3;
                        let issued = records.issue(parts, address.parse().unwrap(), tier, now);
                        assert_eq!(issued.is_ok(), fits);
                        if fits {
                            let free = tier == Tier::Free;
                            plain.0.push((key.id, address.to_owned(), free, true));
                        }
                    }
                    2 if known > 0 => {
                        let entry = &mut plain.0[u.choose_index(known)?];
                        assert_eq!(records.revoke(entry.0, now), Ok(entry.3));
                        entry.3 = false;
                    }
                    _ if known > 0 => {
                        let at = u.choose_index(known)?;
                        let (id, address, free, active) = plain.0[at].clone();
                        let fits = active || !free || plain.free(&address) < 3;
                        let restored = records.restore(id);
                        assert_eq!(restored.as_ref().ok(), fits.then_some(&!active));
                        plain.0[at].3 = active || fits;
                    }
                    _ => assert!(records.revoke("0123456789".parse().unwrap(), now).is_err()),
                }
                let kept = records.iter().zip(&plain.0);
                assert!(kept.len() == plain.0.len() && kept.len() == records.iter().len());
                for (at, (record, (id, .., active))) in (0..).zip(kept) {
                    assert_eq!((record.number, record.id), (at, *id));
                    assert_eq!(record.revoked.is_none(), *active);
                }
            }
            Ok(())
        });
    }

    #[test]
    fn an_id_that_is_taken_is_not_given_again() {
        let mut records = KeyRecords::default();
        let key = NewKey::random(&KeyPrefix::default());
        let mut issue = || {
            let address = "a@x.test".parse().unwrap();
            let parts = (key.id, key.digest());
            let issued = records.issue(parts, address, Tier::Pro, UnixSeconds(0));
            issued.unwrap().map(|record| record.number)
        };
        assert_eq!(issue(), Some(0));
        assert_eq!(issue(), None);
    }

    #[test]
    fn stored_records_that_contradict_each_other_are_refused() {
        let mut records = KeyRecords::default();
        let mut ids = HashMap::new();
        for number in 0..3 {
            let key = NewKey::random(&KeyPrefix::default());
            let address = "a@x.test".parse().unwrap();
            let parts = (key.id, key.digest());
            records
                .issue(parts, address, Tier::Free, UnixSeconds(0))
                .unwrap();
            ids.insert(number, key.id);
        }
        let stored = |change: &dyn Fn(&mut Vec<KeyRecord>), next| {
            let mut list = records.records.clone();
            change(&mut list);
            KeyRecords::stored(list, next, records.revision)
        };
        assert_eq!(stored(&|_| {}, 3), Some(records.clone()));
        assert!(stored(&|_| {}, KEYS_MAX).is_some());
        assert_eq!(stored(&|_| {}, 2), None);
        assert_eq!(stored(&|_| {}, KEYS_MAX + 1), None);
        assert_eq!(stored(&|list| list.swap(0, 1), 3), None);
        assert_eq!(stored(&|list| list[1].id = ids[&0], 3), None);
        assert_eq!(stored(&|list| list[1].number = 0, 3), None);
    }
}
