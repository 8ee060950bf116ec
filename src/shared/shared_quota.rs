//! [`SharedQuota`]: starts the threads that talk to the store, and stops the one of quotas.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::select;
use tokio::sync::oneshot;

use super::counts::CountSharing;
use super::day_counts::DayCounts;
use super::key_exchange::{KeyExchange, OwnKeys};
use super::settings::SharedQuotaSettings;
use crate::calendar::Clock;
use crate::keys::KeySharing;
use crate::observe::Log;
use crate::quota::LeaseTable;

/// Time that a start waits for the store.
const START_MAX: Duration = Duration::from_millis(2_500);

/// Limits shared with other servers. The thread ends when this is stopped.
#[derive(Debug)]
pub(crate) struct SharedQuota {
    pub(crate) leases: Arc<LeaseTable>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl SharedQuota {
    /// Starts the thread, and the exchange of keys if these are shared too. Returns when the store grants credits and
    /// has answered for all clients of this day, and keys were exchanged; when it cannot be reached; or after a few
    /// seconds.
    pub(crate) fn start(
        settings: SharedQuotaSettings,
        counts: DayCounts,
        clock: Arc<Clock>,
        log: Log,
        keys: Option<OwnKeys>,
    ) -> io::Result<(SharedQuota, Option<KeySharing>)> {
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let exchange =
            |keys| KeyExchange::start(keys, settings.clone(), started.clone(), log.clone());
        let keys = keys.map(exchange).transpose()?;
        let mut counts = CountSharing::new(settings.sharing, counts, clock, started, log);
        let leases = Arc::clone(&counts.leases);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared-quota".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                select! {
                    biased;
                    _ = stopped => counts.give_back().await,
                    never = counts.run(&settings) => match never {},
                }
            });
            runtime.shutdown_background();
        })?;
        // The thread drops the senders. After the timeout the server starts all the same.
        let _ = starting.recv_timeout(START_MAX);
        let quota = SharedQuota {
            leases,
            stop,
            thread,
        };
        Ok((quota, keys))
    }

    /// Returns `true` if the thread has panicked.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Gives the unspent credits back to the store, for at most a second, and ends the thread.
    pub(crate) fn stop(self) {
        // The thread has ended by itself only if it panicked.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}
