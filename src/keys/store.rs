//! The keys of a state directory. One process at a time can change them.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::KeyAddress;
use super::key_file::{self, KeyFileError, KeyFileVersion};
use super::records::{KeyChangeError, KeyRecords};
use super::token::{KeyId, KeyPrefix, NewKey};
use crate::calendar::UnixSeconds;
use crate::durable;
use crate::model::Tier;

/// The keys of a state directory. Changes are atomic and durable.
#[derive(Clone, Debug)]
pub struct KeyStore {
    directory: PathBuf,
    /// Time to wait for another process that holds the lock; `None` waits without a limit.
    lock_timeout: Option<Duration>,
}

/// The keys could not be read or changed.
#[derive(Debug)]
pub enum KeyStoreError {
    /// The key file is damaged, or cannot be read or written.
    File(KeyFileError),
    /// The change is not allowed.
    Refused(KeyChangeError),
}

impl fmt::Display for KeyStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyStoreError::File(error) => error.fmt(f),
            KeyStoreError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for KeyStoreError {}

impl From<KeyFileError> for KeyStoreError {
    fn from(error: KeyFileError) -> KeyStoreError {
        KeyStoreError::File(error)
    }
}

impl From<KeyChangeError> for KeyStoreError {
    fn from(refusal: KeyChangeError) -> KeyStoreError {
        KeyStoreError::Refused(refusal)
    }
}

impl KeyStore {
    /// Creates a store for a state directory, which need not exist yet.
    pub fn new(directory: &Path) -> KeyStore {
        KeyStore {
            directory: directory.to_owned(),
            lock_timeout: None,
        }
    }

    /// Limits the time to wait for another process that is changing the keys.
    #[must_use]
    pub fn with_lock_timeout(self, lock_timeout: Duration) -> KeyStore {
        let lock_timeout = Some(lock_timeout);
        KeyStore {
            lock_timeout,
            ..self
        }
    }

    /// Reads all records; none if no key has been issued.
    pub fn read(&self) -> Result<KeyRecords, KeyFileError> {
        key_file::read(&self.directory)
    }

    /// Returns the path of the key file.
    pub fn path(&self) -> PathBuf {
        self.directory.join(key_file::FILE)
    }

    /// Returns a value that differs after each change, without reading the whole file; `None` if there is
    /// no file.
    pub fn version(&self) -> Result<Option<KeyFileVersion>, KeyFileError> {
        key_file::version(&self.directory)
    }

    /// Issues a key. On return the key is durable and may be shown.
    pub fn issue(
        &self,
        prefix: &KeyPrefix,
        address: &KeyAddress,
        tier: Tier,
        now: UnixSeconds,
    ) -> Result<NewKey, KeyStoreError> {
        let issued = self.issue_if(prefix, (address, tier), now, |_| Ok::<(), Infallible>(()))?;
        let Ok(key) = issued;
        Ok(key)
    }

    /// Issues a key if `check` accepts the current records. The lock is held from the check to the
    /// change, so no other process changes the records in between.
    pub fn issue_if<E>(
        &self,
        prefix: &KeyPrefix,
        (address, tier): (&KeyAddress, Tier),
        now: UnixSeconds,
        check: impl FnOnce(&KeyRecords) -> Result<(), E>,
    ) -> Result<Result<NewKey, E>, KeyStoreError> {
        durable::create_private_directory(&self.directory).map_err(self.failed())?;
        self.change(|records| {
            if let Err(refused) = check(records) {
                return Ok((Err(refused), false));
            }
            loop {
                let key = NewKey::random(prefix);
                let parts = (key.id, key.digest());
                if records.issue(parts, address.clone(), tier, now)?.is_some() {
                    return Ok((Ok(key), true));
                }
            }
        })
    }

    /// Disables a key. Returns `true` if it was active.
    pub fn revoke(&self, id: KeyId, now: UnixSeconds) -> Result<bool, KeyStoreError> {
        self.change(|records| {
            let changed = records.revoke(id, now)?;
            Ok((changed, changed))
        })
    }

    /// Enables a disabled key again. Returns `true` if it was disabled.
    pub fn restore(&self, id: KeyId) -> Result<bool, KeyStoreError> {
        self.change(|records| {
            let changed = records.restore(id)?;
            Ok((changed, changed))
        })
    }

    fn failed(&self) -> impl Fn(io::Error) -> KeyFileError + use<> {
        let path = self.directory.clone();
        move |source| KeyFileError::Io {
            path: path.clone(),
            source,
        }
    }

    /// Changes the records while holding the directory's lock. `change` returns its result, and `true`
    /// if the records have to be written.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut KeyRecords) -> Result<(T, bool), KeyChangeError>,
    ) -> Result<T, KeyStoreError> {
        let lock = match self.lock_timeout {
            Some(lock_timeout) => durable::lock_within(&self.directory, lock_timeout),
            None => durable::lock(&self.directory),
        };
        let _lock = lock.map_err(self.failed())?;
        let mut records = self.read()?;
        let (outcome, is_changed) = change(&mut records)?;
        if is_changed {
            key_file::write(&self.directory, &records)?;
        }
        Ok(outcome)
    }
}
