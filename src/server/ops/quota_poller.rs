//! The thread that checks the clock, the key file and the quota counters.

use crate::observe::Log;
use crate::server::ops::key_reload::KeyReloader;
use crate::server::ops::quota_state::QuotaState;
use crate::server::ops::reload::{ReloadStatus, StateMetrics};
use crate::server::settings::{Settings, StartError};
use crate::sync::{Ordering, PollTrigger};

/// Polls between two counts of anonymous clients: 15 seconds, as a count reads the whole table.
const POLLS_PER_COUNT: u32 = 60;

/// Opens the counters and the keys, and starts a thread that checks the clock, the key file and the
/// counters.
pub(crate) fn start(
    settings: &Settings,
    metrics: &StateMetrics,
    log: &Log,
) -> Result<(QuotaState, PollTrigger), StartError> {
    let quota = QuotaState::open(settings, log)?;
    let mut keys = match &quota.key_store {
        None => None,
        Some(store) => {
            let status = ReloadStatus::new(log, &metrics.key_reloads);
            let prefix = settings.key_prefix.clone();
            Some(KeyReloader::open(
                store.clone(),
                prefix,
                quota.clone(),
                status,
            )?)
        }
    };
    let (polled, metrics, log) = (quota.clone(), metrics.clone(), log.clone());
    let mut polls: u32 = 0;
    let poll = move |_| {
        if let Some(line) = polled.clock.check() {
            log.write(&line);
        }
        if polls.is_multiple_of(POLLS_PER_COUNT) {
            let (clients, overflow) = polled.anonymous.in_use(polled.clock.now().day);
            metrics.clients.store(clients, Ordering::Relaxed);
            metrics.overflow_clients.store(overflow, Ordering::Relaxed);
        }
        polls = polls.wrapping_add(1);
        if let Some(keys) = &mut keys {
            keys.poll();
        }
    };
    let trigger = PollTrigger::start("keys", poll)?;
    Ok((quota, trigger))
}
