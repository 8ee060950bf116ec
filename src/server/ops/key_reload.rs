//! [`KeyReloader`]: loads issued, revoked and restored keys while serving. A key file that cannot
//! be loaded is refused, and the previous keys stay valid.

use std::fs::File;
use std::path::Path;

use crate::keys::{KeyFileVersion, KeyPrefix, KeyStore, KeyStoreError, KeyTable};
use crate::server::ops::quota_state::QuotaState;
use crate::server::ops::reload::ReloadStatus;
use crate::server::settings::StartError;

/// Watches the key file of a state directory.
pub(crate) struct KeyReloader {
    store: KeyStore,
    prefix: KeyPrefix,
    quota: QuotaState,
    /// The version that was read last, valid or not.
    version: Option<KeyFileVersion>,
    status: ReloadStatus,
    /// File descriptors kept in reserve, so that the key file can be opened when connections use all
    /// others.
    reserved_fds: Vec<File>,
}

/// More than one, because a waiting connection can take a descriptor between release and use.
const RESERVED_FDS: usize = 8;

impl KeyReloader {
    /// Loads the keys that the server starts with.
    pub(crate) fn open(
        directory: &Path,
        prefix: KeyPrefix,
        quota: QuotaState,
        status: ReloadStatus,
    ) -> Result<KeyReloader, StartError> {
        let mut reloader = KeyReloader {
            store: KeyStore::new(directory),
            prefix,
            quota,
            version: None,
            status,
            reserved_fds: Vec::new(),
        };
        reloader.reserve_fds();
        reloader.version = reloader.store.version().map_err(StartError::Keys)?;
        reloader.load()?;
        Ok(reloader)
    }

    /// Reads the key file and reserves the quota counters of its keys, before the keys become
    /// valid: a key without a counter is refused.
    fn load(&self) -> Result<(), StartError> {
        let log = |line: &str| self.status.log.write(line);
        let records = self.store.read().map_err(StartError::Keys)?;
        let today = self.quota.clock.now().day;
        let reserved = self.quota.keyed.reserve(records.numbers_end(), today, &log);
        let keys = KeyTable::new(self.prefix.clone(), &records);
        if reserved.is_ok() {
            let plural = if keys.count() == 1 { "" } else { "s" };
            log(&format!("{} key{plural} loaded", keys.count()));
        }
        self.quota.keys.swap(keys);
        reserved.map_err(|error| StartError::counters(&error))
    }

    /// Loads the keys if the file has changed.
    pub(crate) fn poll(&mut self) {
        self.reserved_fds.pop();
        if let Err(error) = self.load_changed() {
            self.status.refused(error);
        }
        self.reserve_fds();
    }

    fn reserve_fds(&mut self) {
        while self.reserved_fds.len() < RESERVED_FDS
            && let Ok(file) = File::open("/dev/null")
        {
            self.reserved_fds.push(file);
        }
    }

    fn load_changed(&mut self) -> Result<(), String> {
        const KEPT: &str = "the previous keys stay valid";
        let version = self.store.version();
        let version = version.map_err(|error| format!("{error}; {KEPT}"))?;
        if version == self.version {
            return Ok(());
        }
        if version.is_none() {
            let path = self.store.path();
            return Err(format!("{} is missing; {KEPT}", path.display()));
        }
        match self.load() {
            Ok(()) => {
                self.status.loaded();
                self.version = version;
                Ok(())
            }
            // The next poll tries again.
            Err(StartError::Io(error)) => Err(format!("{error}; the newest keys are refused")),
            Err(error) => {
                // A damaged file is read once: only another change can repair it.
                if matches!(error, StartError::Keys(KeyStoreError::Damaged(_))) {
                    self.version = version;
                }
                Err(format!("{error}; {KEPT}"))
            }
        }
    }
}
