//! `ConnectionRegistry`: the connections of one worker with their phases. Closes those that exceed
//! the timeout of their phase, and notifies all of a shutdown.
//!
//! A connection records its phase with one store. The time comes from [`ConnectionRegistry::tick`],
//! which another thread calls; so no request registers a timer, and a worker's runtime has none.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use tokio::sync::Notify;

use crate::observe::{CloseReason, LogBuffer, WorkerMetrics};
use crate::request::Endpoint;
use crate::server::conn::connection_state::{ConnectionPhase, ConnectionState};
use crate::server::settings::ConnectionLimits;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// How often [`ConnectionRegistry::tick`] is to be called: often enough that a listener which waits
/// for a descriptor retries soon, and a few microseconds of work each time.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Ticks between two checks of all connections. An overdue one is closed within half a second. A check of fifteen
/// thousand takes a millisecond, during which none begins or ends.
const CHECK_TICKS: u64 = 2;
const HEARTBEAT_TICKS: u64 = 10;
/// Ticks from the start of a connection to the end of its TLS handshake.
const HANDSHAKE_TICKS: u64 = 100;
/// Ticks to wait for the disk to deliver a piece of a response: ten minutes, as for a mount that comes back.
const DISK_TICKS: u64 = 6000;
/// Ticks that a client has to notice that its connection is closed, after it has read its last
/// response.
const CLOSING_TICKS: u64 = 10;
/// Timeouts in ticks during a shutdown, by phase. A client that sends requests again and again has
/// sent one within a second, and its response was marked as the last.
const SHUTDOWN_TICKS: [u64; 7] = [10, 10, 50, u64::MAX, u64::MAX, 10, 50];
/// Maximum ticks of the time for what a client has taken at once: otherwise one that has read megabytes could stop for
/// an hour.
const READING_TICKS_MAX: u64 = 600;
/// One in this many of the connections that can be evicted is closed to free permits.
const EVICTED_OF: usize = 64;
/// Ticks after which a connection that waits for its client can be one of those. The request of a
/// newer one may have come and not been read yet.
const EVICTED_AFTER_TICKS: u64 = 5;
/// Ticks after which a client that takes a response at less than [`SPARED_RATES`] times the minimum rate is evicted,
/// before all others. For a client with a tiny window that reads 5 KB/s, the kernel reports progress once in 6.6
/// seconds.
const SLOW_AFTER_TICKS: u64 = 80;
/// A client that takes this many times the minimum rate is not evicted.
const SPARED_RATES: u64 = 4;

/// Connections by their addresses in memory.
type Connections = HashMap<usize, Arc<ConnectionState>, RandomState>;

/// The connections of one worker, and what they share.
#[derive(Debug)]
pub(crate) struct ConnectionRegistry {
    pub(crate) limits: ConnectionLimits,
    pub(crate) metrics: WorkerMetrics,
    /// `None` where there is no access log.
    pub(crate) access_log: Option<LogBuffer>,
    timeouts: [u64; ConnectionPhase::ALL.len()],
    connections: Mutex<Connections>,
    ticks: AtomicU64,
    /// The tick of the worker's last heartbeat.
    heartbeat: AtomicU64,
    is_stopping: AtomicBool,
    /// Notified when a shutdown begins, and when the last connection has ended after that.
    shutdown: Notify,
    /// Notified when a descriptor or a permit may have become free.
    pub(crate) freed: Notify,
    pub(crate) heartbeat_due: Notify,
}

impl ConnectionRegistry {
    pub(crate) fn new(
        limits: ConnectionLimits,
        access_log: Option<LogBuffer>,
    ) -> ConnectionRegistry {
        ConnectionRegistry {
            limits,
            metrics: WorkerMetrics::new(Endpoint::LABELS.len()),
            access_log,
            timeouts: [
                HANDSHAKE_TICKS,
                ticks(limits.first_byte),
                ticks(limits.head),
                DISK_TICKS,
                ticks(limits.send),
                ticks(limits.idle),
                CLOSING_TICKS,
            ],
            connections: Mutex::default(),
            ticks: AtomicU64::new(0),
            heartbeat: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
            shutdown: Notify::new(),
            freed: Notify::new(),
            heartbeat_due: Notify::new(),
        }
    }

    pub(in crate::server) fn join(&self) -> Arc<ConnectionState> {
        let state = Arc::new(ConnectionState::new(self.now()));
        let address = Arc::as_ptr(&state).addr();
        self.connections().insert(address, Arc::clone(&state));
        state
    }

    pub(in crate::server) fn leave(&self, state: &ConnectionState) {
        let mut connections = self.connections();
        connections.remove(&ptr::from_ref(state).addr());
        let is_empty = connections.is_empty();
        drop(connections);
        self.freed.notify_one();
        if is_empty && self.is_stopping() {
            self.shutdown.notify_one();
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.connections().len() as u64
    }

    /// Advances the time to `ticks` since the start, and closes connections that are overdue.
    pub(crate) fn tick(&self, ticks: u64) {
        let before = self.ticks.swap(ticks, Ordering::Relaxed);
        self.freed.notify_one();
        let passes = |every: u64| before / every != ticks / every;
        if passes(HEARTBEAT_TICKS) {
            self.heartbeat_due.notify_one();
        }
        if passes(CHECK_TICKS) {
            self.check(ticks);
        }
    }

    /// Closes connections that are overdue.
    fn check(&self, ticks: u64) {
        for state in self.connections().values() {
            let (phase, since) = state.phase();
            // The tick that was recorded may have been an old one.
            let is_overdue = ticks.saturating_sub(since) > self.timeout(phase, state) + 1;
            state.check(is_overdue, phase.close_reason());
        }
    }

    /// Ticks that a connection may stay in a phase.
    fn timeout(&self, phase: ConnectionPhase, state: &ConnectionState) -> u64 {
        let mut timeout = self.timeouts[phase as usize];
        if matches!(phase, ConnectionPhase::Sending | ConnectionPhase::Closing) {
            let grace = state.grace.load(Ordering::Relaxed);
            timeout = timeout.saturating_add(grace.min(READING_TICKS_MAX));
        }
        if self.is_stopping() {
            timeout = timeout.min(SHUTDOWN_TICKS[phase as usize]);
        }
        timeout
    }

    /// Closes 1/64 of the connections that can be evicted, to free permits: those whose clients are slow to take
    /// their responses, or, if there are none, those that wait for their clients; the longest-waiting first.
    /// An honest client sends its head in a moment, so during a flood its connection is not among them.
    pub(crate) fn evict(&self) {
        let now = self.now();
        let connections = self.connections();
        let (mut slow, mut waiting) = (Vec::new(), Vec::new());
        for state in connections.values().filter(|state| !state.is_closing()) {
            let (phase, since) = state.phase();
            let spared = SLOW_AFTER_TICKS + state.grace.load(Ordering::Relaxed) / SPARED_RATES;
            if phase == ConnectionPhase::Sending && since + spared <= now {
                slow.push((since, state));
            } else if phase.waits_for_client() && since + EVICTED_AFTER_TICKS <= now {
                waiting.push((since, state));
            }
        }
        let evictable = if slow.is_empty() { waiting } else { slow };
        let mut evictable: Vec<(u64, &Arc<ConnectionState>)> = evictable;
        let count = evictable.len().div_ceil(EVICTED_OF);
        if count > 0 {
            evictable.select_nth_unstable_by_key(count - 1, |(since, _)| *since);
        }
        for (_, state) in &evictable[..count] {
            state.close(CloseReason::Evicted);
        }
    }

    /// Begins a shutdown of the worker and all its connections.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.shutdown.notify_one();
    }

    /// Whether the server shuts down: each response is its connection's last.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(crate) async fn stopped(&self) {
        while !self.is_stopping() {
            self.shutdown.notified().await;
        }
    }

    /// Completes when the last connection has ended, during a shutdown in which none is added.
    pub(crate) async fn emptied(&self) {
        while !self.connections().is_empty() {
            self.shutdown.notified().await;
        }
    }

    pub(crate) fn beat(&self) {
        self.heartbeat.store(self.now(), Ordering::Relaxed);
    }

    pub(crate) fn silent_for(&self) -> Duration {
        duration(
            self.now()
                .saturating_sub(self.heartbeat.load(Ordering::Relaxed)),
        )
    }

    /// Ticks since the start.
    pub(in crate::server) fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        lock(&self.connections)
    }
}

pub(in crate::server) fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX)
}

pub(in crate::server) fn duration(ticks: u64) -> Duration {
    TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
