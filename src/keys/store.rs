//! [`KeyStore`]: reads and changes the key file of a state directory. One process at a time can change
//! it.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::address::KeyAddress;
use super::dropped::dropped_changes;
use super::key_file;
use super::records::{KeyRecords, KeyStoreError};
use super::role::{self, KeyRole};
use super::token::{KeyId, KeyPrefix, NewKey};
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::model::Tier;
use crate::regular_file;

/// Name of the key file in the state directory.
const FILE: &str = "keys.jsonl";
const HEADER_BYTES_MAX: u64 = 512;

/// The keys of a state directory. Changes are atomic and durable.
#[derive(Clone, Debug)]
pub struct KeyStore {
    directory: PathBuf,
    /// Time to wait for another process that is changing the keys; `None` waits without a limit.
    pub lock_timeout: Option<Duration>,
}

/// The records of a key file, and the version of the file that has them.
#[derive(Debug, Default)]
pub struct StoredKeys {
    /// All records.
    pub records: KeyRecords,
    /// `None` without a file.
    version: Option<KeyFileVersion>,
}

/// A version of the key file. Two versions differ if the file was changed; only its first line is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileVersion {
    header: Vec<u8>,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl KeyStore {
    /// Creates a store for a state directory, which need not exist yet.
    pub fn new(directory: &Path) -> KeyStore {
        KeyStore {
            directory: directory.to_owned(),
            lock_timeout: None,
        }
    }

    /// Returns the path of the key file.
    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Reads all records; none if no key has been issued.
    pub fn read(&self) -> Result<KeyRecords, KeyStoreError> {
        let path = self.path();
        let read = regular_file::read(&path, u64::MAX).map_err(KeyStoreError::io(&path))?;
        let Some((bytes, _)) = read else {
            return Ok(KeyRecords::default());
        };
        key_file::parse(&bytes).map_err(KeyStoreError::damaged(&path))
    }

    /// Reads all records if the file has changed.
    pub fn read_changed(&self, known: &StoredKeys) -> Result<Option<StoredKeys>, KeyStoreError> {
        // Before the records, so that a change in between is noticed the next time.
        let version = self.version()?;
        if version == known.version {
            return Ok(None);
        }
        let records = self.read()?;
        Ok(Some(StoredKeys { records, version }))
    }

    /// Returns the version of the key file without reading all of it; `None` if there is no file.
    pub fn version(&self) -> Result<Option<KeyFileVersion>, KeyStoreError> {
        let path = self.path();
        let read = regular_file::read(&path, HEADER_BYTES_MAX);
        let read = read.map_err(KeyStoreError::io(&path))?;
        Ok(read.map(|(header, metadata)| KeyFileVersion {
            header,
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        }))
    }

    /// Issues a key. On return the key is durable and may be shown.
    pub fn issue(
        &self,
        prefix: &KeyPrefix,
        address: &KeyAddress,
        tier: Tier,
        now: UnixSeconds,
    ) -> Result<NewKey, KeyStoreError> {
        let check = |_: &KeyRecords| Ok::<(), Infallible>(());
        let Ok((key, _)) = self.issue_if(prefix, (address, tier), now, check)?;
        Ok(key)
    }

    /// Issues a key if `check` accepts the current records. The lock is held from the check to the
    /// change, so no other process changes the records in between. Returns the new records too.
    pub fn issue_if<E>(
        &self,
        prefix: &KeyPrefix,
        (address, tier): (&KeyAddress, Tier),
        now: UnixSeconds,
        check: impl FnOnce(&KeyRecords) -> Result<(), E>,
    ) -> Result<Result<(NewKey, StoredKeys), E>, KeyStoreError> {
        durable::create_private_directory(&self.directory)
            .map_err(KeyStoreError::io(&self.directory))?;
        let (issued, stored) = self.change(|records| {
            if let Err(rejection) = check(records) {
                return Ok((Err(rejection), false));
            }
            loop {
                let key = NewKey::random(prefix);
                let parts = (key.id, key.digest());
                if records.issue(parts, address.clone(), tier, now)?.is_some() {
                    return Ok((Ok(key), true));
                }
            }
        })?;
        Ok(issued.map(|key| (key, stored)))
    }

    /// Disables a key, or with `None` enables it again. Returns `true` if that changed it.
    pub fn set_revoked(
        &self,
        id: KeyId,
        revoked: Option<UnixSeconds>,
    ) -> Result<bool, KeyStoreError> {
        let (is_change, _) = self.change(|records| {
            let is_change = records.set_revoked(id, revoked)?;
            Ok((is_change, is_change))
        })?;
        Ok(is_change)
    }

    /// Changes the records while holding the directory's lock. `change` returns its result, and `true`
    /// if the records have to be written. On return they are durable: they survive a power failure.
    /// Returns them too.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut KeyRecords) -> Result<(T, bool), KeyStoreError>,
    ) -> Result<(T, StoredKeys), KeyStoreError> {
        let _lock = self.lock(self.lock_timeout)?;
        self.check_leader()?;
        let mut records = self.read()?;
        let (outcome, is_changed) = change(&mut records)?;
        if is_changed {
            self.write(&records.to_file())?;
        }
        // The change is made even if this fails. Without a version the file is read again.
        let version = self.version().ok().flatten();
        Ok((outcome, StoredKeys { records, version }))
    }

    /// Locks the directory until the returned file is dropped.
    fn lock(&self, timeout: Option<Duration>) -> Result<File, KeyStoreError> {
        let lock = durable::lock(&self.directory, timeout);
        lock.map_err(KeyStoreError::io(&self.directory))
    }

    fn write(&self, bytes: &[u8]) -> Result<(), KeyStoreError> {
        let path = self.path();
        durable::replace_private(&path, bytes).map_err(KeyStoreError::io(&path))
    }

    /// Returns which server changes the keys.
    pub fn role(&self) -> Result<KeyRole, KeyStoreError> {
        let path = self.directory.join(role::FILE);
        let read = regular_file::read(&path, HEADER_BYTES_MAX).map_err(KeyStoreError::io(&path))?;
        let Some((bytes, _)) = read else {
            return Ok(KeyRole::Alone);
        };
        let text = io::read_to_string(bytes.as_slice()).map_err(KeyStoreError::io(&path))?;
        KeyRole::parse(&text)
            .ok_or_else(|| (1, format!("{text:?} is not a role")))
            .map_err(KeyStoreError::damaged(&path))
    }

    /// Refuses changes of keys where another server makes them.
    pub fn check_leader(&self) -> Result<(), KeyStoreError> {
        match self.role()? {
            KeyRole::Alone | KeyRole::Leads { .. } => Ok(()),
            other => Err(KeyStoreError::NotLeader(other)),
        }
    }

    /// Sets which server changes the keys.
    pub fn set_role(&self, role: &KeyRole) -> Result<(), KeyStoreError> {
        let _lock = self.lock(None)?;
        self.write_role(role)
    }

    /// Changes the role from `known` to `role`. Returns `false` if another process has changed it.
    pub fn replace_role(&self, known: &KeyRole, role: &KeyRole) -> Result<bool, KeyStoreError> {
        let _lock = self.lock(None)?;
        let is_known = self.role()? == *known;
        if is_known {
            self.write_role(role)?;
        }
        Ok(is_known)
    }

    fn write_role(&self, role: &KeyRole) -> Result<(), KeyStoreError> {
        let path = self.directory.join(role::FILE);
        let written = match role.text() {
            Some(text) => durable::replace_private(&path, text.as_bytes()),
            None => durable::remove(&path),
        };
        written.map_err(KeyStoreError::io(&path))
    }

    /// Replaces the key file by that of the leader if that is newer. Returns a text about the changes that
    /// are lost, empty if there are none.
    pub fn take_over(&self, bytes: &[u8]) -> Result<String, KeyStoreError> {
        let new = key_file::parse(bytes)
            .map_err(|(line, problem)| (line, format!("in the store of shared quotas: {problem}")))
            .map_err(KeyStoreError::damaged(&self.path()))?;
        let _lock = self.lock(None)?;
        let own = self.read()?;
        if new.revision <= own.revision {
            return Ok(String::new());
        }
        self.write(bytes)?;
        // In all other files, a key that is valid again was restored by the leader.
        let is_deposed = matches!(self.role()?, KeyRole::Deposed { .. });
        let revoked = is_deposed && own.term() != new.term();
        Ok(dropped_changes(&own, &new, revoked))
    }

    /// Begins a term as the leader: revisions of the key file rise above all of earlier terms.
    pub fn lead(&self, term: u32) -> Result<(), KeyStoreError> {
        let _lock = self.lock(None)?;
        let mut records = self.read()?;
        records.revision = records.revision.max(u64::from(term) << 32);
        self.write(&records.to_file())?;
        self.write_role(&KeyRole::Leads { term })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_read_back_and_has_another_version() {
        let directory = std::env::temp_dir().join(format!("im-keys-{}", std::process::id()));
        let store = KeyStore::new(&directory);
        assert_eq!(store.version().unwrap(), None);
        assert_eq!(store.read().unwrap(), KeyRecords::default());
        let address = "a@x.test".parse().unwrap();
        let id = || store.read().unwrap().as_slice()[0].id;
        let issue = || {
            let issued = store.issue(&KeyPrefix::default(), &address, Tier::Free, UnixSeconds(1));
            assert!(issued.is_ok());
        };
        let revoke = || assert!(store.set_revoked(id(), Some(UnixSeconds(2))).unwrap());
        let restore = || assert!(store.set_revoked(id(), None).unwrap());
        let changes: [&dyn Fn(); 3] = [&issue, &revoke, &restore];
        for (change, revision) in changes.iter().zip(1..) {
            let before = store.version().unwrap();
            change();
            let after = store.version().unwrap();
            assert_ne!(before, after);
            assert_eq!(after, store.version().unwrap());
            assert_eq!(store.read().unwrap().revision, revision);
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
}
