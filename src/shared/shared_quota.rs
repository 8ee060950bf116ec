//! [`SharedQuota`]: starts and stops the thread that talks to the store.

use std::future::pending;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::select;
use tokio::sync::{mpsc::unbounded_channel, oneshot};
use tokio::time::sleep;

use super::counts::CountSharing;
use super::day_counts::DayCounts;
use super::key_exchange::KeyExchange;
use super::node::connect;
use super::settings::SharedQuotaSettings;
use crate::calendar::Clock;
use crate::observe::Log;
use crate::quota::LeaseTable;

/// Time that a start waits for the store.
const START_MAX: Duration = Duration::from_millis(2_500);
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);

/// Limits shared with other servers, and keys if these are shared too. The thread ends when this is stopped.
#[derive(Debug)]
pub(crate) struct SharedQuota {
    pub(crate) leases: Arc<LeaseTable>,
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
        mut keys: Option<KeyExchange>,
    ) -> io::Result<SharedQuota> {
        let (sender, requests) = unbounded_channel();
        let send = move |request| {
            // The thread has ended: the server stops.
            let _ = sender.send(request);
        };
        let leases = Arc::new(LeaseTable::new(settings.sharing, send));
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        if let Some(keys) = &mut keys {
            keys.started = Some(started.clone());
        }
        let credits = (Arc::clone(&leases), requests);
        let counts = CountSharing::new(settings.sharing, credits, counts, clock, started, log);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared-quota".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(run(settings, counts, keys, stopped));
            runtime.shutdown_background();
        })?;
        // The thread drops the senders. After the timeout the server starts all the same.
        let _ = starting.recv_timeout(START_MAX);
        Ok(SharedQuota {
            leases,
            stop,
            thread,
        })
    }

    /// Gives the unspent credits back to the store, for at most a second, and ends the thread.
    pub(crate) fn stop(self) {
        // The thread has ended by itself only if it panicked.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Connects to the store, and shares counts and keys, until `stopped` receives a message.
async fn run(
    settings: SharedQuotaSettings,
    mut counts: CountSharing,
    mut keys: Option<KeyExchange>,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        let connected = select! {
            connected = connect(&settings) => connected,
            _ = &mut stopped => return,
        };
        let problem = match connected {
            Err(problem) => {
                if let Some(keys) = &mut keys {
                    keys.report(Err(problem.clone()));
                }
                problem
            }
            Ok(node) => select! {
                biased;
                _ = &mut stopped => return counts.give_back(&node).await,
                problem = counts.serve(&node) => problem,
                never = async {
                    match &mut keys {
                        Some(keys) => keys.serve(&node).await,
                        None => pending().await,
                    }
                } => match never {},
            },
        };
        counts.set_away(&problem);
        select! {
            () = sleep(RETRY) => {}
            _ = &mut stopped => return,
        }
    }
}
