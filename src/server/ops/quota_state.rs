//! [`QuotaState`]: the clock, the keys and the quota counters, by which requests are counted.

use std::sync::Arc;

use crate::calendar::Clock;
use crate::keys::{KeyRecords, KeyStore, KeyTable};
use crate::observe::Log;
use crate::quota::{AnonymousQuota, KeyedQuota, LeaseTable, NewestDay};
use crate::server::http::identity::QuotaGate;
use crate::server::settings::{Settings, StartError};
use crate::sync::Replicated;

#[derive(Clone)]
pub(crate) struct QuotaState {
    pub(crate) clock: Arc<Clock>,
    pub(crate) keys: Arc<Replicated<KeyTable>>,
    /// The records of the keys, if there is a state directory.
    pub(crate) key_store: Option<KeyStore>,
    pub(crate) anonymous: Arc<AnonymousQuota>,
    pub(crate) keyed: Arc<KeyedQuota>,
}

impl QuotaState {
    /// Opens the counters, in memory or in the state directory, without any keys. The clock begins on the
    /// newest day of the counters at the earliest.
    pub(crate) fn open(settings: &Settings, log: &Log) -> Result<QuotaState, StartError> {
        let state = settings.state.as_deref();
        let key_store = state.map(|directory| {
            let log = log.clone();
            KeyStore::of_server(directory, move |line| log.write(line))
        });
        let log = |line: &str| log.write(line);
        let (sizes, mut newest) = (settings.quota_sizes, NewestDay::default());
        let (anonymous, keyed) = match state {
            None => (AnonymousQuota::new(sizes), KeyedQuota::new(None)),
            Some(directory) => {
                let failed = |error| StartError::counters(&error);
                let anonymous = AnonymousQuota::open(directory, sizes, &mut newest, &log);
                let keyed = KeyedQuota::open(directory, &mut newest, &log);
                (anonymous.map_err(failed)?, keyed.map_err(failed)?)
            }
        };
        let newest = newest.day();
        let clock = Clock::new(None, newest);
        let today = clock.now().day;
        if let Some(newest) = newest.filter(|newest| today.0 > newest.0 + 1) {
            log(&format!(
                "the quota counters belong to {newest}; today is {today}"
            ));
        }
        let cleared = anonymous.clear_after(today) + keyed.clear_after(today);
        if cleared > 0 {
            log(&format!(
                "damaged quota counters, whose days are long after {today}, were set to zero: {cleared}"
            ));
        }
        let keys = KeyTable::new(settings.key_prefix.clone(), KeyRecords::default(), []);
        Ok(QuotaState {
            clock: Arc::new(clock),
            keys: Arc::new(Replicated::new(keys)),
            key_store,
            anonymous: Arc::new(anonymous),
            keyed: Arc::new(keyed),
        })
    }

    pub(crate) fn gate(&self, settings: &Settings, leases: Option<&Arc<LeaseTable>>) -> QuotaGate {
        QuotaGate {
            keys: self.keys.replica(),
            anonymous: Arc::clone(&self.anonymous),
            keyed: Arc::clone(&self.keyed),
            leases: leases.map(Arc::clone),
            limits: settings.limits,
            proxies: Arc::new(settings.trusted_proxies.clone()),
        }
    }
}
