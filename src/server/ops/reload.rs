//! `ReloadStatus`: log and counters of a reload; `StateMetrics`: the counters of the pollers.

use std::sync::Arc;

use crate::observe::{DedupLog, LocalCounter, Log};
use crate::sync::AtomicI64;

#[derive(Clone, Debug, Default)]
pub(crate) struct StateMetrics {
    pub(crate) data_reloads: Arc<ReloadCounters>,
    pub(crate) key_reloads: Arc<ReloadCounters>,
    pub(crate) certificate_reloads: Arc<ReloadCounters>,
    /// Time at which the TLS certificate expires, in Unix seconds; 0 if there is none.
    pub(crate) certificate_expiry: Arc<AtomicI64>,
}

#[derive(Debug, Default)]
pub(crate) struct ReloadCounters {
    pub(crate) ok: LocalCounter,
    pub(crate) refused: LocalCounter,
}

/// The log and the counters of a reloader. An error that lasts is logged and counted once.
pub(crate) struct ReloadStatus {
    pub(crate) errors: DedupLog,
    counters: Arc<ReloadCounters>,
}

impl ReloadStatus {
    pub(crate) fn new(log: &Log, counters: &Arc<ReloadCounters>) -> ReloadStatus {
        ReloadStatus {
            errors: DedupLog::new(log.clone(), 1),
            counters: Arc::clone(counters),
        }
    }

    pub(crate) fn loaded(&mut self) {
        self.errors.reset();
        self.counters.ok.add(1);
    }

    pub(crate) fn refused(&mut self, error: String) {
        let is_new = self.errors.write(error);
        self.counters.refused.add(u64::from(is_new));
    }
}
