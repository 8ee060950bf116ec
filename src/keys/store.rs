//! [`KeyStore`]: reads and changes the key file of a state directory. One process at a time can change
//! it.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::address::KeyAddress;
use super::key_file;
use super::merge::{merge, merge_shared, rewritten_keys};
use super::records::{KeyRecord, KeyRecords, KeyStoreError};
use super::token::{KeyId, KeyPrefix, NewKey};
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::model::Tier;
use crate::regular_file;
use crate::sync::{Mutex, lock};

/// Name of the key file in the state directory.
const FILE: &str = "keys.jsonl";
const HEADER_BYTES_MAX: u64 = 512;
/// Time that a server waits for another process that is changing the keys. Requests of sign-up wait
/// meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The keys of a state directory. Changes are atomic and durable.
///
/// A process forgets no key. If the file is lost or an older one takes its place, what the file lacks is merged
/// back, so no change that is made then takes keys away.
#[derive(Clone)]
pub struct KeyStore {
    directory: PathBuf,
    /// Time to wait for another process that is changing the keys; `None` waits without a limit.
    pub lock_timeout: Option<Duration>,
    /// The records that this process has read and written, shared by clones.
    known: Arc<Mutex<Known>>,
    log: LogLine,
}

type LogLine = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Debug, Default)]
struct Known {
    records: Arc<KeyRecords>,
    /// The version of the file that was read or written last; `None` if there was none.
    version: Option<KeyFileVersion>,
    /// Its fault if it is damaged. Only another version is read again.
    damaged: Option<String>,
    /// The records are not those of the file.
    is_ahead: bool,
    /// The keys that it lacks or has in an older state.
    differ: Vec<KeyId>,
}

/// A version of the key file. Two versions differ if the file was changed; only its first line is read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyFileVersion {
    header: Vec<u8>,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyStore").field(&self.path()).finish()
    }
}

impl KeyStore {
    /// Creates a store for a state directory, which need not exist yet.
    pub fn new(directory: &Path) -> KeyStore {
        KeyStore {
            directory: directory.to_owned(),
            lock_timeout: None,
            known: Arc::default(),
            log: Arc::new(|_| {}),
        }
    }

    /// Creates the store of a running server, which logs that keys were written again.
    pub(crate) fn of_server(
        directory: &Path,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> KeyStore {
        KeyStore {
            lock_timeout: Some(LOCK_TIMEOUT),
            log: Arc::new(log),
            ..KeyStore::new(directory)
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

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

    /// Returns all records that this process knows, after reading the file if it has changed.
    pub fn current(&self) -> Result<Arc<KeyRecords>, KeyStoreError> {
        let mut known = lock(&self.known);
        self.read_changed(&mut known)?;
        Ok(Arc::clone(&known.records))
    }

    /// Writes the records to the file again that it lacks, if there are any.
    pub(crate) fn repair(&self) -> Result<(), KeyStoreError> {
        let mut known = lock(&self.known);
        if known.is_ahead {
            let _lock = self.lock(self.lock_timeout)?;
            self.repair_locked(&mut known)?;
        }
        Ok(())
    }

    /// Merges the file into the known records if it has changed.
    fn read_changed(&self, known: &mut Known) -> Result<(), KeyStoreError> {
        // Before the records, so that a change in between is noticed the next time.
        let version = self.version()?;
        if version != known.version {
            let read = match self.read() {
                Ok(file) => Ok(file),
                Err(KeyStoreError::Damaged(fault)) => Err(fault),
                Err(error) => return Err(error),
            };
            match read {
                Ok(file) => {
                    let (records, differ) = merge(&known.records, &file)?;
                    known.is_ahead = records != file;
                    known.differ = differ;
                    known.damaged = None;
                    if records != *known.records {
                        known.records = Arc::new(records);
                    }
                }
                Err(fault) => known.damaged = Some(fault),
            }
            known.version = version;
        }
        let damaged = known.damaged.clone();
        damaged.map_or(Ok(()), |fault| Err(KeyStoreError::Damaged(fault)))
    }

    /// Writes the records again that the file lacks. The caller has the directory's lock, so that the file
    /// is the newest one.
    fn repair_locked(&self, known: &mut Known) -> Result<(), KeyStoreError> {
        self.read_changed(known)?;
        if known.is_ahead {
            let differ = known.differ.clone();
            self.save(known, KeyRecords::clone(&known.records))?;
            if !differ.is_empty() {
                let path = self.path();
                (self.log)(&format!("{}: {}", path.display(), rewritten_keys(&differ)));
            }
        }
        Ok(())
    }

    /// Writes the records; the caller has the directory's lock.
    fn save(&self, known: &mut Known, records: KeyRecords) -> Result<(), KeyStoreError> {
        self.write(&records.to_file())?;
        *known = Known {
            records: Arc::new(records),
            // The change is made even if this fails. Without a version the file is read again.
            version: self.version().ok().flatten(),
            ..Known::default()
        };
        Ok(())
    }

    /// Returns the version of the key file without reading all of it; `None` if there is no file.
    fn version(&self) -> Result<Option<KeyFileVersion>, KeyStoreError> {
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
    ) -> Result<Result<(NewKey, Arc<KeyRecords>), E>, KeyStoreError> {
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

    /// Disables a key, or enables it again. Returns `true` if that changed it.
    pub fn set_revoked(
        &self,
        id: KeyId,
        is_revoked: bool,
        now: UnixSeconds,
    ) -> Result<bool, KeyStoreError> {
        let (is_change, _) = self.change(|records| {
            let is_change = records.set_revoked(id, is_revoked, now)?;
            Ok((is_change, is_change))
        })?;
        Ok(is_change)
    }

    /// Merges records of other servers. On return they are durable. Returns whether the records have changed,
    /// and the ids of records that were ignored, since the known records with these ids are of other keys.
    pub fn merge(&self, shared: &[KeyRecord]) -> Result<(bool, Vec<KeyId>), KeyStoreError> {
        let mut known = lock(&self.known);
        let (merged, others) = merge_shared(&known.records, shared)?;
        if merged.is_none() {
            return Ok((false, others));
        }
        durable::create_private_directory(&self.directory)
            .map_err(KeyStoreError::io(&self.directory))?;
        let _lock = self.lock(self.lock_timeout)?;
        self.repair_locked(&mut known)?;
        let (merged, others) = merge_shared(&known.records, shared)?;
        if let Some(records) = merged {
            self.save(&mut known, records)?;
        }
        Ok((true, others))
    }

    /// Changes the records while holding the directory's lock. `change` returns its result, and `true`
    /// if the records have to be written. On return they are durable: they survive a power failure.
    /// Returns them too.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut KeyRecords) -> Result<(T, bool), KeyStoreError>,
    ) -> Result<(T, Arc<KeyRecords>), KeyStoreError> {
        let mut known = lock(&self.known);
        let _lock = self.lock(self.lock_timeout)?;
        self.repair_locked(&mut known)?;
        let mut records = KeyRecords::clone(&known.records);
        let (outcome, is_changed) = change(&mut records)?;
        if is_changed {
            self.save(&mut known, records)?;
        }
        Ok((outcome, Arc::clone(&known.records)))
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
        let revoke = || assert!(store.set_revoked(id(), true, UnixSeconds(2)).unwrap());
        let restore = || assert!(store.set_revoked(id(), false, UnixSeconds(2)).unwrap());
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
