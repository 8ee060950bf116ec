//! The records of all keys, and the rules for changing and merging them.
//!
//! A server merges the records that it knows with those of its key file and of other servers, so that a copy
//! which was lost or restored from an old backup takes no key away and no revocation back. The states of a key
//! have an order, and merging takes the higher one; no key is removed. So any order, any repetition and any
//! subset of copies give the same result.

use std::collections::{HashMap, HashSet};
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
    pub id: KeyId,
    pub tier: Tier,
    pub address: KeyAddress,
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
    /// Creates a random key with its record, which no server has yet.
    pub(crate) fn random(
        prefix: &KeyPrefix,
        (address, tier): (&KeyAddress, Tier),
        now: UnixSeconds,
    ) -> (NewKey, KeyRecord) {
        let key = NewKey::random(prefix);
        let record = KeyRecord {
            id: key.id,
            tier,
            address: address.clone(),
            issued: now,
            revoked: None,
            changed: now,
            digest: key.digest(),
        };
        (key, record)
    }

    /// Returns the state, which is all of a record that changes. Of two states the higher one is newer: the one
    /// that was changed later; of two changed in the same second, the revoked one.
    pub fn state(&self) -> (UnixSeconds, Option<UnixSeconds>) {
        (self.changed, self.revoked)
    }

    /// Returns whether two records are of one key. Nothing of these members ever changes.
    fn is_same_key(&self, other: &KeyRecord) -> bool {
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
    Unknown(KeyId),
    /// The limit of keys has been reached.
    Full,
}

impl KeyStoreError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> KeyStoreError + '_ {
        |error| KeyStoreError::Io(with_path(path)(error))
    }

    /// Returns a conversion of faults of a file: the number of a line, starting at 1, and its fault.
    pub(super) fn damaged(path: &Path) -> impl FnOnce((usize, String)) -> KeyStoreError + '_ {
        |(line, problem)| {
            KeyStoreError::Damaged(format!(
                "{}:{line}: {problem}; restore a backup, or remove the file while a server runs, \
                 which then writes its keys again",
                path.display()
            ))
        }
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
                "{KEYS_MAX} keys have been issued, the limit; no key can be added"
            ),
        }
    }
}

impl std::error::Error for KeyStoreError {}

/// All keys, in the order in which they became known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecords {
    records: Vec<KeyRecord>,
}

impl KeyRecords {
    /// Restores stored records; `None` if two have one id.
    pub(super) fn stored(records: Vec<KeyRecord>) -> Option<KeyRecords> {
        let ids: HashSet<KeyId> = records.iter().map(|record| record.id).collect();
        (ids.len() == records.len()).then_some(KeyRecords { records })
    }

    /// Returns all keys, in the order in which they became known.
    pub fn as_slice(&self) -> &[KeyRecord] {
        &self.records
    }

    /// Adds a key. Returns `false` if its id is taken and the caller has to retry with another one.
    pub(super) fn issue(&mut self, key: KeyRecord) -> Result<bool, KeyStoreError> {
        self.check_free_limit(&key)?;
        let ignored = self.merge(&[key], KEYS_MAX)?;
        Ok(ignored.is_empty())
    }

    /// Merges the records of a file or of other servers, up to `keys_max` keys; after an error, as many as there is room
    /// for. Of two states of a key the newer one counts. Records of other keys with a known id are ignored; returns these
    /// ids.
    pub(super) fn merge(
        &mut self,
        others: &[KeyRecord],
        keys_max: u32,
    ) -> Result<Vec<KeyId>, KeyStoreError> {
        let places = self.records.iter().map(|key| key.id).zip(0..);
        let mut places: HashMap<KeyId, usize> = places.collect();
        let (mut ignored, mut fits) = (Vec::new(), true);
        for other in others {
            let at = *places.entry(other.id).or_insert(self.records.len());
            let Some(known) = self.records.get_mut(at) else {
                fits &= at < keys_max as usize;
                self.records.extend(fits.then(|| other.clone()));
                continue;
            };
            if !known.is_same_key(other) {
                ignored.push(other.id);
                continue;
            }
            (known.changed, known.revoked) = known.state().max(other.state());
        }
        fits.then_some(ignored).ok_or(KeyStoreError::Full)
    }

    /// Returns the number of keys that a file lacks, or has in another state.
    pub(super) fn count_differing(&self, file: &KeyRecords) -> usize {
        let stored = file.records.iter().map(|key| (key.id, key));
        let stored: HashMap<KeyId, &KeyRecord> = stored.collect();
        let differs = |key: &&KeyRecord| stored.get(&key.id) != Some(key);
        self.records.iter().filter(differs).count()
    }

    fn check_free_limit(&self, key: &KeyRecord) -> Result<(), KeyStoreError> {
        let counts = |other: &&KeyRecord| {
            other.tier == Tier::Free && other.revoked.is_none() && other.address == key.address
        };
        if key.tier == Tier::Free && self.records.iter().filter(counts).count() >= FREE_KEYS_MAX {
            return Err(KeyStoreError::TooManyFree(key.address.clone()));
        }
        Ok(())
    }

    /// Returns the seconds until the clock has passed the last change of a revoked key; 0 for another one.
    pub(super) fn revoked_ahead(&self, id: KeyId, now: UnixSeconds) -> u64 {
        let is_meant = |record: &&KeyRecord| record.id == id && record.revoked.is_some();
        let record = self.records.iter().find(is_meant);
        let ahead = record.map_or(0, |record| record.changed.0 + 1 - now.0);
        ahead.try_into().unwrap_or(0)
    }

    /// Disables a key, or enables it again. Returns `true` if it was in the other state. The limit of free keys per
    /// address applies to an enabled key as to a new one.
    ///
    /// A change to the state that the key already has makes that newer: another server may have changed it meanwhile.
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
        if is_change && !is_revoked {
            self.check_free_limit(record)?;
        }
        let record = &mut self.records[at];
        if is_change {
            let later = UnixSeconds(record.changed.0.saturating_add(1).min(TIME_MAX));
            record.revoked = is_revoked.then_some(now);
            record.changed = now.max(later);
        } else {
            record.changed = record.changed.max(now);
        }
        Ok(is_change)
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod merge_tests;

#[cfg(test)]
mod tests {
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
                        let key = (&address.parse().unwrap(), tier);
                        let (key, record) = KeyRecord::random(&KeyPrefix::default(), key, now);
                        let fits = tier != Tier::Free || plain.free(address) < 3;
                        assert_eq!(records.issue(record).is_ok(), fits);
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
                for (record, (id, .., active)) in kept {
                    assert_eq!(record.id, *id);
                    assert_eq!(record.revoked.is_none(), *active);
                }
            }
            Ok(())
        });
    }

    #[test]
    fn an_error_names_the_key_the_address_or_the_place() {
        let id: KeyId = "0123456789".parse().unwrap();
        let damaged = KeyStoreError::damaged(Path::new("/s/keys.jsonl"));
        for (error, text) in [
            (KeyStoreError::Unknown(id), "the id 0123456789;"),
            (
                KeyStoreError::TooManyFree("a@x.test".parse().unwrap()),
                "a@x.test already has 3 active free keys",
            ),
            (
                damaged((3, "no".to_owned())),
                "/s/keys.jsonl:3: no; restore a backup, or remove the file while",
            ),
        ] {
            let message = error.to_string();
            assert!(message.contains(text), "{message}");
            assert!(!error.is_busy(), "{message}");
        }
    }

    #[test]
    fn an_id_that_is_taken_is_not_given_again() {
        let mut records = KeyRecords::default();
        let key = (&"a@x.test".parse().unwrap(), Tier::Pro);
        let (_, key) = KeyRecord::random(&KeyPrefix::default(), key, UnixSeconds(0));
        assert!(records.issue(key.clone()).unwrap());
        let mut other = key.clone();
        other.digest[0] ^= 1;
        assert!(!records.issue(other).unwrap());
        let kept: Vec<[u8; 32]> = records.as_slice().iter().map(|key| key.digest).collect();
        assert_eq!(kept, [key.digest]);
    }

    #[test]
    fn stored_records_with_one_id_are_refused() {
        let mut records = KeyRecords::default();
        for _ in 0..3 {
            let address = "a@x.test".parse().unwrap();
            let key = (&address, Tier::Free);
            let (_, record) = KeyRecord::random(&KeyPrefix::default(), key, UnixSeconds(0));
            assert!(records.issue(record).unwrap());
        }
        let mut list = records.records.clone();
        assert_eq!(KeyRecords::stored(list.clone()), Some(records));
        list[1].id = list[0].id;
        assert_eq!(KeyRecords::stored(list), None);
    }
}
