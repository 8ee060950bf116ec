//! [`QuotaState`]: the clock, the keys and the quota counters, by which requests are counted.

use std::sync::Arc;

use crate::calendar::Clock;
use crate::keys::{KeyRecords, KeyTable};
use crate::observe::Log;
use crate::quota::{AnonymousQuota, DayFile, KeyedQuota, LeaseTable};
use crate::server::http::identity::QuotaGate;
use crate::server::settings::{Settings, StartError};
use crate::sync::{ArcSwap, ArcSwapCache};

/// The clock, keys and counters of all workers.
#[derive(Clone, Debug)]
pub(crate) struct QuotaState {
    pub(crate) clock: Arc<Clock>,
    pub(crate) keys: Arc<ArcSwap<KeyTable>>,
    pub(crate) anonymous: Arc<AnonymousQuota>,
    pub(crate) keyed: Arc<KeyedQuota>,
}

impl QuotaState {
    /// Opens the counters, in memory or in the state directory, without any keys. Returns the day
    /// file of the state directory too.
    pub(crate) fn open(
        settings: &Settings,
        log: &Log,
    ) -> Result<(QuotaState, Option<DayFile>), StartError> {
        let log = |line: &str| log.write(line);
        let sizes = settings.quota_sizes;
        let (clock, anonymous, day_file) = match &settings.state {
            None => (Clock::system(None), AnonymousQuota::new(sizes), None),
            Some(directory) => {
                let file = DayFile::open(directory, &log).map_err(StartError::State)?;
                let clock = Clock::system(file.day);
                let today = clock.now().day;
                if let Some(newest) = file.day.filter(|newest| today.0 > newest.0 + 1) {
                    log(&format!(
                        "the quota counters belong to {newest}; today is {today}"
                    ));
                }
                let anonymous = AnonymousQuota::open(directory, sizes, today, &log)
                    .map_err(StartError::State)?;
                (clock, anonymous, Some(file))
            }
        };
        let keys = KeyTable::new(settings.key_prefix.clone(), &KeyRecords::default());
        let state = QuotaState {
            clock: Arc::new(clock),
            keys: Arc::new(ArcSwap::new(keys)),
            anonymous: Arc::new(anonymous),
            keyed: Arc::new(KeyedQuota::new(settings.state.clone())),
        };
        Ok((state, day_file))
    }

    /// Returns the gate of a worker.
    pub(crate) fn gate(&self, settings: &Settings, leases: Option<&Arc<LeaseTable>>) -> QuotaGate {
        QuotaGate {
            keys: ArcSwapCache::new(Arc::clone(&self.keys)),
            anonymous: Arc::clone(&self.anonymous),
            keyed: Arc::clone(&self.keyed),
            leases: leases.map(Arc::clone),
            limits: settings.limits,
            proxies: Arc::new(settings.trusted_proxies.clone()),
        }
    }
}
