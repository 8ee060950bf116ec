//! The records of all keys, and the rules for changing them.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;

use super::address::KeyAddress;
use super::token::{KeyId, KeyPrefix, NewKey};
use crate::calendar::UnixSeconds;
use crate::model::{FREE_KEYS_MAX, KEYS_MAX, Tier};
use crate::regular_file::with_path;

/// Latest time in a record. Later ones come from damage; a change that follows one must have room above it.
pub(super) const TIME_MAX: i64 = 1 << 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Index of the key's quota counter. Not reused for another key, except where
    /// files that have diverged are merged.
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
    /// Time of its latest change, or one second after the change before if that is later: of two states
    /// of a key, the one with the later time is the newer one.
    pub changed: UnixSeconds,
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
}

impl KeyRecord {
    /// Number of a record that comes from another server or goes there. It gets a number when it is added to the
    /// records of a server.
    pub(super) const NO_NUMBER: u32 = u32::MAX;

    /// Creates a random key with its record, which no server has yet.
    pub(crate) fn random(
        prefix: &KeyPrefix,
        (address, tier): (&KeyAddress, Tier),
        now: UnixSeconds,
    ) -> (NewKey, KeyRecord) {
        let key = NewKey::random(prefix);
        let parts = (key.id, key.digest());
        let record = KeyRecord::new(parts, address.clone(), tier, now);
        (key, record)
    }

    fn new(
        (id, digest): (KeyId, [u8; 32]),
        address: KeyAddress,
        tier: Tier,
        now: UnixSeconds,
    ) -> KeyRecord {
        KeyRecord {
            number: KeyRecord::NO_NUMBER,
            id,
            tier,
            address,
            issued: now,
            revoked: None,
            changed: now,
            digest,
        }
    }

    /// Returns the state, which is all of a record that changes. Of two states the higher one is newer: the one
    /// that was changed later; of two changed in the same second, the revoked one.
    pub fn state(&self) -> (UnixSeconds, Option<UnixSeconds>) {
        (self.changed, self.revoked)
    }

    /// Takes over the state of another record of this key if that is newer. Returns `true` if it was.
    pub(super) fn join(&mut self, other: &KeyRecord) -> bool {
        let is_newer = self.state() < other.state();
        if is_newer {
            (self.changed, self.revoked) = other.state();
        }
        is_newer
    }

    /// Returns whether two records are of one key. Nothing of these members ever changes.
    pub(crate) fn is_same_key(&self, other: &KeyRecord) -> bool {
        let of = |key: &KeyRecord| (key.id, key.tier, key.issued, key.digest);
        of(self) == of(other) && self.address == other.address
    }
}

/// Keys could not be read or changed. Displays with the file and the line, if there are any.
#[derive(Debug)]
pub enum KeyStoreError {
    /// The key file or its directory cannot be read or written. The error has the path.
    Io(io::Error),
    /// The key file has been changed or truncated. The text has the path, the line and the fault.
    Damaged(String),
    /// The address has reached the limit of active free keys.
    TooManyFree(KeyAddress),
    /// No key has this id.
    Unknown(KeyId),
    /// All key numbers have been issued.
    Full,
}

impl KeyStoreError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> KeyStoreError + '_ {
        |error| KeyStoreError::Io(with_path(path)(error))
    }

    /// Returns a conversion of faults of a file: the number of a line, starting at 1, and its fault.
    pub(super) fn damaged(path: &Path) -> impl FnOnce((usize, String)) -> KeyStoreError + '_ {
        |(line, problem)| KeyStoreError::Damaged(format!("{}:{line}: {problem}", path.display()))
    }

    /// Returns `true` if another process held the directory's lock until the timeout.
    pub fn is_busy(&self) -> bool {
        matches!(self, KeyStoreError::Io(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

impl fmt::Display for KeyStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyStoreError::Io(error) => error.fmt(f),
            KeyStoreError::Damaged(fault) => f.write_str(fault),
            KeyStoreError::TooManyFree(address) => write!(
                f,
                "{address} already has {FREE_KEYS_MAX} active free keys, the limit for an address; \
                 revoke one first"
            ),
            KeyStoreError::Unknown(id) => {
                write!(f, "no key has the id {id}; run `keys list` to see all keys")
            }
            KeyStoreError::Full => write!(
                f,
                "all {KEYS_MAX} key numbers have been issued; no key can be added"
            ),
        }
    }
}

impl std::error::Error for KeyStoreError {}

/// All keys, in the order in which they were issued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecords {
    records: Vec<KeyRecord>,
    pub(super) next: u32,
    /// Grows with each change.
    pub(super) revision: u64,
}

impl KeyRecords {
    /// Restores stored records; `None` if they are inconsistent.
    pub(super) fn stored(records: Vec<KeyRecord>, next: u32, revision: u64) -> Option<KeyRecords> {
        let ids: HashSet<KeyId> = records.iter().map(|record| record.id).collect();
        let is_consistent = ids.len() == records.len()
            && records.is_sorted_by(|a, b| a.number < b.number)
            && records.last().is_none_or(|last| last.number < next)
            && next <= KEYS_MAX;
        is_consistent.then_some(KeyRecords {
            records,
            next,
            revision,
        })
    }

    /// Returns all keys, the oldest first.
    pub fn as_slice(&self) -> &[KeyRecord] {
        &self.records
    }

    /// Returns the exclusive upper bound of the key numbers.
    pub fn numbers_end(&self) -> u32 {
        self.next
    }

    /// Adds a key and returns its record; `None` if the id is taken and the caller has to retry with
    /// another one.
    pub(super) fn issue(
        &mut self,
        (id, digest): (KeyId, [u8; 32]),
        address: KeyAddress,
        tier: Tier,
        now: UnixSeconds,
    ) -> Result<Option<&KeyRecord>, KeyStoreError> {
        if self.next == KEYS_MAX {
            return Err(KeyStoreError::Full);
        }
        self.check_free_limit(tier, &address)?;
        if self.records.iter().any(|record| record.id == id) {
            return Ok(None);
        }
        self.records.push(KeyRecord {
            number: self.next,
            ..KeyRecord::new((id, digest), address, tier, now)
        });
        self.next += 1;
        self.revision += 1;
        Ok(self.records.last())
    }

    fn check_free_limit(&self, tier: Tier, address: &KeyAddress) -> Result<(), KeyStoreError> {
        let counts = |record: &&KeyRecord| {
            record.tier == Tier::Free && record.revoked.is_none() && record.address == *address
        };
        if tier != Tier::Free || self.records.iter().filter(counts).count() < FREE_KEYS_MAX {
            Ok(())
        } else {
            Err(KeyStoreError::TooManyFree(address.clone()))
        }
    }

    /// Disables a key, or enables it again. Returns `true` if that changed it. The limit of free keys per
    /// address applies to an enabled key as to a new one.
    pub(super) fn set_revoked(
        &mut self,
        id: KeyId,
        is_revoked: bool,
        now: UnixSeconds,
    ) -> Result<bool, KeyStoreError> {
        let at = self.records.iter().position(|record| record.id == id);
        let at = at.ok_or(KeyStoreError::Unknown(id))?;
        let record = &self.records[at];
        let is_change = record.revoked.is_some() != is_revoked;
        if is_change {
            if !is_revoked {
                self.check_free_limit(record.tier, &record.address)?;
            }
            let record = &mut self.records[at];
            let later = UnixSeconds(record.changed.0.saturating_add(1).min(TIME_MAX));
            record.revoked = is_revoked.then_some(now);
            record.changed = now.max(later);
            self.revision += 1;
        }
        Ok(is_change)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

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
                        assert_eq!(records.set_revoked(entry.0, true, now).unwrap(), entry.3);
                        entry.3 = false;
                    }
                    _ if known > 0 => {
                        let at = u.choose_index(known)?;
                        let (id, address, free, active) = plain.0[at].clone();
                        let fits = active || !free || plain.free(&address) < 3;
                        let restored = records.set_revoked(id, false, now);
                        assert_eq!(restored.as_ref().ok(), fits.then_some(&!active));
                        plain.0[at].3 = active || fits;
                    }
                    _ => {
                        let unknown = "0123456789".parse().unwrap();
                        assert!(records.set_revoked(unknown, true, now).is_err());
                    }
                }
                let kept = records.as_slice().iter().zip(&plain.0);
                assert!(kept.len() == plain.0.len() && kept.len() == records.as_slice().len());
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
