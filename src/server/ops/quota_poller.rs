//! The thread that checks the clock and the key file.

use std::sync::Arc;

use crate::keys::{KeyPrefix, KeyRecords, KeyStore, KeyTable};
use crate::observe::Log;
use crate::server::ops::quota_state::QuotaState;
use crate::server::ops::reload::{ReloadStatus, StateMetrics};
use crate::server::settings::{Settings, StartError};
use crate::sync::PollTrigger;

/// Opens the counters and the keys, and starts a thread that checks the clock and the key file.
pub(crate) fn start(
    settings: &Settings,
    metrics: &StateMetrics,
    pollers: &mut Vec<PollTrigger>,
    log: &Log,
) -> Result<QuotaState, StartError> {
    let quota = QuotaState::open(settings, log)?;
    let mut keys = quota.key_store.clone().map(|store| KeyReloader {
        store,
        prefix: settings.key_prefix.clone(),
        quota: quota.clone(),
        loaded: Arc::default(),
        status: ReloadStatus::new(log, &metrics.key_reloads),
    });
    if let Some(keys) = &mut keys {
        let records = keys.store.current().map_err(StartError::Keys)?;
        keys.load(records)?;
    }
    let (clock, log) = (Arc::clone(&quota.clock), log.clone());
    let poll = move |_| {
        if let Some(line) = clock.check() {
            log.write(&line);
        }
        if let Some(keys) = &mut keys
            && let Err(error) = keys.poll()
        {
            keys.status.refused(error);
        }
    };
    pollers.push(PollTrigger::start("keys", poll)?);
    Ok(quota)
}

/// Loads issued, revoked and restored keys. A key file that cannot be loaded is refused, and the known keys stay in use.
struct KeyReloader {
    store: KeyStore,
    prefix: KeyPrefix,
    quota: QuotaState,
    loaded: Arc<KeyRecords>,
    status: ReloadStatus,
}

impl KeyReloader {
    /// Finds or creates the quota counters of the keys, before the keys become valid: requests with a key that has
    /// none get a 503.
    fn load(&mut self, records: Arc<KeyRecords>) -> Result<(), StartError> {
        let log = |line: &str| self.status.errors.log.write(line);
        let ids = records.as_slice().iter().map(|key| key.id.number());
        let (places, claimed) = self.quota.keyed.places(ids, &log);
        let keys = KeyTable::new(self.prefix.clone(), Arc::clone(&records), places);
        if claimed.is_ok() {
            let plural = if keys.count() == 1 { "" } else { "s" };
            log(&format!("{} key{plural} loaded", keys.count()));
        }
        self.quota.keys.replace(keys);
        claimed.map_err(|error| StartError::counters(&error))?;
        self.loaded = records;
        Ok(())
    }

    fn poll(&mut self) -> Result<(), String> {
        let read = self.store.current();
        // Those of other servers are known even if the file cannot be read.
        let records = self.store.known();
        let mut loaded = Ok(());
        if !Arc::ptr_eq(&records, &self.loaded) {
            // The next poll tries again.
            loaded = self.load(records).map(|()| self.status.loaded());
        }
        // Keys that cannot be loaded are written too: a user may have seen one of them.
        let repaired = self.store.repair();
        loaded.map_err(|error| format!("{error}; the newest keys are refused"))?;
        read.map_err(|error| format!("{error}; the known keys stay in use"))?;
        repaired.map_err(|error| format!("{error}; the keys that it lacks stay valid"))?;
        self.status.errors.reset();
        Ok(())
    }
}

#[cfg(test)]
#[path = "quota_poller_tests.rs"]
mod tests;
