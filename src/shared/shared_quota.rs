//! [`SharedQuota`]: starts and stops the thread that talks to the store.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{mpsc::unbounded_channel, oneshot};

use super::day_counts::DayCounts;
use super::key_exchange::SharedKeys;
use super::service::Service;
use super::settings::SharedQuotaSettings;
use crate::calendar::Clock;
use crate::keys::SharedKeysState;
use crate::observe::Log;
use crate::quota::LeaseTable;
use crate::sync::Replicated;

/// Time that a start waits for the store.
const START_MAX: Duration = Duration::from_millis(2_500);

/// Limits shared with other servers. The thread ends when this is stopped.
#[derive(Debug)]
pub(crate) struct SharedQuota {
    leases: Arc<LeaseTable>,
    /// The thread that shares the keys, if they are shared.
    keys: Option<SharedKeys>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl SharedQuota {
    /// Starts the thread. Returns when the store grants credits and keys were exchanged, when it cannot be
    /// reached, or after a few seconds.
    pub(crate) fn start(
        settings: SharedQuotaSettings,
        counts: DayCounts,
        clock: Arc<Clock>,
        log: Log,
        keys: Option<SharedKeys>,
    ) -> io::Result<SharedQuota> {
        let (sender, requests) = unbounded_channel();
        let send = move |request| {
            // The thread has ended: the server stops.
            let _ = sender.send(request);
        };
        let leases = Arc::new(LeaseTable::new(settings.sharing, send));
        let (stop, stopped) = oneshot::channel();
        let (first_attempt, attempted) = mpsc::channel();
        let service = Service::new(settings, Arc::clone(&leases), counts, clock, log);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared-quota".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(service.run(requests, stopped, first_attempt));
            runtime.shutdown_background();
        })?;
        // The thread drops the sender. After the timeout the server starts all the same.
        let _ = attempted.recv_timeout(START_MAX);
        if let Some(keys) = &keys {
            keys.await_first_exchange(START_MAX);
        }
        Ok(SharedQuota {
            leases,
            keys,
            stop,
            thread,
        })
    }

    /// Returns the leases of this server, and the state of the keys if they are shared.
    pub(crate) fn shared(&self) -> (&Arc<LeaseTable>, Option<Arc<Replicated<SharedKeysState>>>) {
        let keys = self.keys.as_ref().map(|keys| Arc::clone(&keys.state));
        (&self.leases, keys)
    }

    /// Gives the unspent credits back to the store, for at most a second, and ends the thread.
    pub(crate) fn stop(self) {
        // The thread has ended by itself only if it panicked.
        let _ = self.stop.send(());
        let _ = self.thread.join();
        if let Some(keys) = self.keys {
            keys.stop();
        }
    }
}
