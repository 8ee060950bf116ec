//! [`KeyReloader`]: loads issued, revoked and restored keys while serving. A key file that cannot
//! be loaded is refused, and the previous keys stay valid.

use std::fs::File;
use std::sync::Arc;

use crate::keys::{KeyPrefix, KeyRecords, KeyStore, KeyTable};
use crate::server::ops::quota_state::QuotaState;
use crate::server::ops::reload::ReloadStatus;
use crate::server::settings::StartError;

/// Watches the keys of a state directory.
pub(crate) struct KeyReloader {
    store: KeyStore,
    prefix: KeyPrefix,
    quota: QuotaState,
    /// The keys that are valid.
    loaded: Arc<KeyRecords>,
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
        store: KeyStore,
        prefix: KeyPrefix,
        quota: QuotaState,
        status: ReloadStatus,
    ) -> Result<KeyReloader, StartError> {
        let mut reloader = KeyReloader {
            store,
            prefix,
            quota,
            loaded: Arc::default(),
            status,
            reserved_fds: Vec::new(),
        };
        reloader.reserve_fds();
        let records = reloader.store.current().map_err(StartError::Keys)?;
        reloader.load(records)?;
        Ok(reloader)
    }

    /// Reserves the quota counters of the keys, before the keys become valid: a key without a counter is
    /// refused.
    fn load(&mut self, records: Arc<KeyRecords>) -> Result<(), StartError> {
        let log = |line: &str| self.status.log.write(line);
        let today = self.quota.clock.now().day;
        let reserved = self.quota.keyed.reserve(records.numbers_end(), today, &log);
        let keys = KeyTable::new(self.prefix.clone(), &records);
        if reserved.is_ok() {
            let plural = if keys.count() == 1 { "" } else { "s" };
            log(&format!("{} key{plural} loaded", keys.count()));
        }
        self.quota.keys.replace(keys);
        reserved.map_err(|error| StartError::counters(&error))?;
        self.loaded = records;
        Ok(())
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
        let records = self.store.current();
        let records = records.map_err(|error| format!("{error}; the previous keys stay valid"))?;
        if !Arc::ptr_eq(&records, &self.loaded) {
            // The next poll tries again.
            let loaded = self.load(records);
            loaded.map_err(|error| format!("{error}; the newest keys are refused"))?;
            self.status.loaded();
        }
        let repaired = self.store.repair();
        repaired.map_err(|error| format!("{error}; the keys that it lacks stay valid"))?;
        self.status.errors.reset();
        Ok(())
    }
}
