//! [`QuotaState`]: the clock, the keys and the quota counters, by which requests are counted; and
//! the thread that checks them.

use std::sync::Arc;

use crate::calendar::Clock;
use crate::keys::{KeyRecords, KeyTable};
use crate::observe::{DedupLog, Log};
use crate::quota::{AnonymousQuota, DayFile, KeyedQuota, LeaseTable};
use crate::server::http::identity::QuotaGate;
use crate::server::ops::key_reload::KeyReloader;
use crate::server::ops::reload::{ReloadStatus, StateMetrics};
use crate::server::settings::{Settings, StartError};
use crate::sync::{ArcSwap, ArcSwapCache, Ordering, PollTrigger};

/// Polls between two counts of anonymous clients: 15 seconds, as a count reads the whole table.
const POLLS_PER_COUNT: u32 = 60;
/// After a jump of the clock, this many polls clear the counters of other days, since late requests may
/// still write some.
const CLEARING_POLLS: u32 = 8;

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
                let failed = |error| StartError::counters(&error);
                let file = DayFile::open(directory, &log).map_err(failed)?;
                let clock = Clock::system(file.day);
                let today = clock.now().day;
                if let Some(newest) = file.day.filter(|newest| today.0 > newest.0 + 1) {
                    log(&format!(
                        "the quota counters belong to {newest}; today is {today}"
                    ));
                }
                let anonymous =
                    AnonymousQuota::open(directory, sizes, today, &log).map_err(failed)?;
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

/// Opens the counters and the keys, and starts a thread that checks the clock, the key file and the
/// counters.
pub(crate) fn start(
    settings: &Settings,
    metrics: &StateMetrics,
    log: &Log,
) -> Result<(QuotaState, PollTrigger), StartError> {
    let (quota, mut day_file) = QuotaState::open(settings, log)?;
    let mut keys = match &settings.state {
        None => None,
        Some(directory) => {
            let status = ReloadStatus::new(log, &metrics.key_reloads);
            let prefix = settings.key_prefix.clone();
            Some(KeyReloader::open(directory, prefix, quota.clone(), status)?)
        }
    };
    let (polled, metrics, log) = (quota.clone(), metrics.clone(), log.clone());
    let mut day_file_errors = DedupLog::new(log.clone());
    // The day of the last poll, and the number of next polls that clear the counters of other days.
    let (mut day, mut clearing_polls) = (quota.clock.now().day, 0);
    let mut polls: u32 = 0;
    let poll = move || {
        if let Some(line) = polled.clock.check() {
            log.write(&line);
        }
        let (today, anonymous) = (polled.clock.now().day, &polled.anonymous);
        // Not in the poll that finds the jump: a request that read the clock before it would find
        // its counter cleared and start its old day again. By the next poll it has been counted.
        if clearing_polls > 0 {
            clearing_polls -= 1;
            anonymous.clear_other_days(today);
        }
        if today.0 > day.0 + 1 {
            clearing_polls = CLEARING_POLLS;
        }
        day = today;
        if polls.is_multiple_of(POLLS_PER_COUNT) {
            let (clients, overflow) = anonymous.in_use(today);
            metrics.clients.store(clients, Ordering::Relaxed);
            metrics.overflow_clients.store(overflow, Ordering::Relaxed);
        }
        polls = polls.wrapping_add(1);
        if let Some(keys) = &mut keys {
            keys.poll();
        }
        if let Some(Err(error)) = day_file.as_mut().map(|file| file.record(today)) {
            let line = format!("{error}; after a restart only the clock determines the day");
            day_file_errors.write(line);
        }
    };
    let trigger = PollTrigger::start("keys", poll)?;
    Ok((quota, trigger))
}
