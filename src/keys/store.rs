//! [`KeyStore`]: reads and changes the key file of a state directory. One process at a time can change
//! it.

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use super::address::KeyAddress;
use super::key_file;
use super::records::{KeyRecord, KeyRecords, KeyStoreError};
use super::sharing::CheckRecords;
use super::token::{KeyId, KeyPrefix, NewKey};
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::model::{KEYS_MAX, Tier};
use crate::regular_file;
use crate::sync::{Mutex, lock};

/// Name of the key file in the state directory.
const FILE: &str = "keys.jsonl";
const HEADER_BYTES_MAX: u64 = 512;
/// Time that a server waits for another process that is changing the keys. Requests of sign-up wait
/// meanwhile. A command waits without a limit.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for records that are written again: a revocation that is received next must not wait for longer.
const REPAIR_LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// Seconds by which the last change of a key may be ahead of the clock so that its restoration waits.
const AHEAD_MAX: u64 = 3;

/// The keys of a state directory. Changes are atomic and durable.
///
/// A process forgets no key. If the file is lost or an older one takes its place, what the file lacks is merged
/// back, so no change that is made then takes keys away.
#[derive(Clone)]
pub struct KeyStore {
    directory: PathBuf,
    /// The records that this process has read and written, shared by clones.
    known: Arc<Mutex<Known>>,
    /// Writes a line to the log, if this process is a server.
    log: Option<LogLine>,
}

type LogLine = Arc<dyn Fn(&str) + Send + Sync>;

#[derive(Debug, Default)]
struct Known {
    records: Arc<KeyRecords>,
    /// The version of the file that was read or written last; `None` if there was none.
    version: Option<KeyFileVersion>,
    /// The number of known keys that the file had and now lacks or has in an older state. 0 if it only lacks merged
    /// records that were not written yet; `None` if it lacks nothing.
    lost: Option<usize>,
}

/// A version of the key file: its header, its length and when it was modified. Two versions differ if the file was
/// changed; only its first line is read.
type KeyFileVersion = (Vec<u8>, u64, Option<SystemTime>);

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
            known: Arc::default(),
            log: None,
        }
    }

    /// Creates the store of a running server, which logs that keys were written again.
    pub(crate) fn of_server(
        directory: &Path,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> KeyStore {
        KeyStore {
            log: Some(Arc::new(log)),
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
        let Some((bytes, _)) = self.read_bytes(u64::MAX)? else {
            return Ok(KeyRecords::default());
        };
        key_file::parse(&bytes).map_err(KeyStoreError::damaged(&self.path()))
    }

    /// Reads the beginning of the key file, if there is one.
    fn read_bytes(&self, bytes_max: u64) -> Result<Option<(Vec<u8>, Metadata)>, KeyStoreError> {
        let path = self.path();
        regular_file::read(&path, bytes_max).map_err(KeyStoreError::io(&path))
    }

    /// Returns all records that this process knows. The file may have others that were not read yet.
    pub(crate) fn known(&self) -> Arc<KeyRecords> {
        Arc::clone(&lock(&self.known).records)
    }

    /// Returns all records that this process knows, after reading the file if it has changed.
    pub fn current(&self) -> Result<Arc<KeyRecords>, KeyStoreError> {
        self.read_changed(&mut lock(&self.known))?;
        Ok(self.known())
    }

    /// Writes the known records that the file lacks, if there are any. On success they are durable.
    pub(crate) fn repair(&self) -> Result<(), KeyStoreError> {
        if lock(&self.known).lost.is_none() {
            return Ok(());
        }
        self.create_directory()?;
        self.change(REPAIR_LOCK_TIMEOUT, |_| Ok(()))
    }

    /// Merges the file into the known records if it has changed.
    fn read_changed(&self, known: &mut Known) -> Result<(), KeyStoreError> {
        // Before the records, so that a change in between is noticed the next time.
        let version = self.version(&known.records)?;
        if version != known.version {
            let file = match version {
                Some(_) => self.read()?,
                None => KeyRecords::default(),
            };
            let mut records = KeyRecords::clone(&known.records);
            records.merge(file.as_slice(), KEYS_MAX)?;
            let differ = records.count_differing(&file);
            // Records that were not written yet are no loss.
            let lost = known.lost.unwrap_or(differ).min(differ);
            known.lost = (differ > 0).then_some(lost);
            if records != *known.records {
                known.records = Arc::new(records);
            }
            known.version = version;
        }
        Ok(())
    }

    /// Returns the version of the key file without reading all of it; `None` if there is no file. An empty file has lost
    /// all keys, as a missing one has; to a process that knows none, it is damaged.
    fn version(&self, known: &KeyRecords) -> Result<Option<KeyFileVersion>, KeyStoreError> {
        let read = self.read_bytes(HEADER_BYTES_MAX)?;
        let read = read.filter(|(header, _)| !header.is_empty() || known.as_slice().is_empty());
        Ok(read.map(|(header, metadata)| (header, metadata.len(), metadata.modified().ok())))
    }

    /// Issues a key. On return the key is durable and may be shown.
    pub fn issue(
        &self,
        prefix: &KeyPrefix,
        address: &KeyAddress,
        tier: Tier,
        now: UnixSeconds,
    ) -> Result<NewKey, KeyStoreError> {
        loop {
            let (key, record) = KeyRecord::random(prefix, (address, tier), now);
            if self.add(&record, &mut |_| true)? {
                return Ok(key);
            }
        }
    }

    /// Adds a key if `check` accepts the current records. The lock is held from the check to the change, so no other
    /// process changes the records in between. Returns `false` if the check refused it, or its id is taken.
    pub(crate) fn add(
        &self,
        record: &KeyRecord,
        check: CheckRecords<'_>,
    ) -> Result<bool, KeyStoreError> {
        self.create_directory()?;
        self.change(LOCK_TIMEOUT, |records| {
            Ok(check(records) && records.issue(record.clone())?)
        })
    }

    /// Disables a key, or enables it again. Returns `true` if that changed it.
    pub fn set_revoked(
        &self,
        id: KeyId,
        is_revoked: bool,
        now: UnixSeconds,
    ) -> Result<bool, KeyStoreError> {
        self.change(LOCK_TIMEOUT, |records| {
            records.set_revoked(id, is_revoked, now)
        })
    }

    /// Enables a key again. Returns `true` if that changed it. Waits for the second after the last change of the key: a
    /// change is later than the one before, and ahead of the clock it would outweigh a revocation that is made afterwards
    /// at another server, which does not know of it. A change that is further ahead was made by another clock.
    pub(crate) fn restore(&self, id: KeyId) -> Result<bool, KeyStoreError> {
        let mut waits = 0..AHEAD_MAX;
        loop {
            let restored = self.change(LOCK_TIMEOUT, |records| {
                let now = UnixSeconds::now();
                let ahead = records.revoked_ahead(id, now);
                if (1..=AHEAD_MAX).contains(&ahead) && waits.next().is_some() {
                    return Ok(Err(ahead));
                }
                records.set_revoked(id, false, now).map(Ok)
            })?;
            match restored {
                Ok(is_change) => return Ok(is_change),
                Err(ahead) => sleep(Duration::from_secs(ahead)),
            }
        }
    }

    /// Merges records of other servers into the known ones. `repair` writes them to the file: a revocation must not wait
    /// for the disk. Returns the ids of records that were ignored, since the known records with these ids are of other
    /// keys.
    pub fn merge(&self, shared: &[KeyRecord]) -> Result<Vec<KeyId>, KeyStoreError> {
        let mut known = lock(&self.known);
        // Of two keys with one id, that of the file stays. `repair` reports a file that cannot be read.
        let _ = self.read_changed(&mut known);
        let mut records = KeyRecords::clone(&known.records);
        // Of too many, there are changes of known keys too.
        let merged = records.merge(shared, KEYS_MAX);
        if records != *known.records {
            known.records = Arc::new(records);
            known.lost.get_or_insert(0);
        }
        merged
    }

    fn create_directory(&self) -> Result<(), KeyStoreError> {
        durable::create_private_directory(&self.directory)
            .map_err(KeyStoreError::io(&self.directory))
    }

    /// Changes the records while holding the directory's lock, and writes those again that the file lacks. On return a
    /// change is durable: it survives a power failure.
    fn change<T>(
        &self,
        timeout: Duration,
        change: impl FnOnce(&mut KeyRecords) -> Result<T, KeyStoreError>,
    ) -> Result<T, KeyStoreError> {
        let timeout = self.log.as_ref().map(|_| timeout);
        let locked = durable::lock(&self.directory, timeout);
        let _lock = locked.map_err(KeyStoreError::io(&self.directory))?;
        // After the lock of the directory: `merge` takes only this one, and must not wait for that.
        let mut known = lock(&self.known);
        // With the lock, the file is the newest one.
        self.read_changed(&mut known)?;
        let mut records = KeyRecords::clone(&known.records);
        let outcome = change(&mut records)?;
        let lost = known.lost;
        if records == *known.records && lost.is_none() {
            return Ok(outcome);
        }
        // `merge` must not wait for the disk either.
        drop(known);
        let path = self.path();
        let written = durable::replace_private(&path, &records.to_file());
        written.map_err(KeyStoreError::io(&path))?;
        if let (Some(count @ 1..), Some(log)) = (lost, &self.log) {
            let path = path.display();
            log(&format!(
                "{path}: known keys were missing or out of date, and were written again ({count})"
            ));
        }
        let written = records.clone();
        let mut known = lock(&self.known);
        // The change is made even if this fails. Without a version the file is read again.
        known.version = self.version(&written).ok().flatten();
        // What was merged meanwhile is written the next time.
        let _ = records.merge(known.records.as_slice(), KEYS_MAX);
        known.lost = (records != written).then_some(0);
        // A server loads other records, which takes long.
        if records != *known.records {
            known.records = Arc::new(records);
        }
        Ok(outcome)
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
