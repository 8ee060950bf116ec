//! The thread that talks to the store.
//!
//! After a connection is opened, figures are settled before credits are granted. A node that has
//! started anew, or another node, may lack data: all figures are sent again, and nothing is granted
//! for [`SETTLING`], so that the other servers can do the same.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc::UnboundedReceiver, mpsc::unbounded_channel, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use super::key_exchange::SharedKeys;
use super::node::{NodeConnection, connect, problem};
use super::outage_log::OutageLog;
use super::script::LeaseScript;
use super::settings::SharedQuotaSettings;
use crate::calendar::Clock;
use crate::keys::SharedKeysState;
use crate::observe::Log;
use crate::quota::{
    LeaseAnswer, LeaseRequest, LeaseTable, OutagePolicy, STORE_WAIT_MAX, StoreState,
};
use crate::sync::{ArcSwap, AtomicU64, Ordering};

/// Time without grants after the store may have lost data.
const SETTLING: Duration = Duration::from_secs(2);
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);
/// Late answers in a row that open the circuit breaker.
const LATE_MAX: u64 = 3;
/// Time for which the open circuit breaker sends nothing.
const BREAK: Duration = Duration::from_secs(1);
/// A request without an answer for this long has failed.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Between two pings, by which a connection without requests is found to be lost.
const PING: Duration = Duration::from_millis(250);
/// Settling requests under way at a time.
const SETTLING_AT_ONCE: usize = 256;
/// For giving back credits when the server stops.
const STOP_MAX: Duration = Duration::from_secs(1);
/// Leases of yesterday are removed at this second of a day, when no request of yesterday is left.
const SWEEP_SECOND: i64 = 600;
/// Between two searches for such leases.
const SWEEP: Duration = Duration::from_mins(1);
/// Logged once, at the first answer that names another limit.
const OTHER_LIMITS: &str = "shared quota: another server has different daily limits; set the same --limit-* on all servers";
/// Time that a start waits for the store.
const START_MAX: Duration = Duration::from_millis(2_500);

/// Limits shared with other servers. The thread ends when this is stopped.
#[derive(Debug)]
pub(crate) struct SharedQuota {
    /// The leases of this server.
    leases: Arc<LeaseTable>,
    /// The thread that shares the keys, if they are shared.
    keys: Option<SharedKeys>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl SharedQuota {
    /// Starts the thread. Returns when the store is ready and keys were exchanged, when it cannot be reached,
    /// or after a few seconds.
    pub(crate) fn start(
        settings: SharedQuotaSettings,
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
        let number = getrandom::u64().expect("the system gives random numbers");
        let name = format!("{number:016x}");
        let (stop, stopped) = oneshot::channel();
        let (first_attempt, attempted) = mpsc::channel();
        let service = Service {
            script: Arc::new(LeaseScript::new(&name, settings.sharing.servers)),
            settings,
            leases: Arc::clone(&leases),
            late: Arc::default(),
            breaker: Arc::default(),
            clock,
            outage: OutageLog::new(log),
            run_id: None,
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("shared-quota".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(service.run(requests, stopped, &first_attempt));
            runtime.shutdown_background();
        })?;
        // An error means that the time has passed; the server starts all the same.
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
    pub(crate) fn shared(&self) -> (&Arc<LeaseTable>, Option<Arc<ArcSwap<SharedKeysState>>>) {
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

struct Service {
    settings: SharedQuotaSettings,
    script: Arc<LeaseScript>,
    leases: Arc<LeaseTable>,
    /// Late answers in a row.
    late: Arc<AtomicU64>,
    /// Notified when the circuit breaker opens.
    breaker: Arc<Notify>,
    clock: Arc<Clock>,
    /// The node that figures were settled with last.
    run_id: Option<String>,
    outage: OutageLog,
}

/// The problem for which a connection is given up, and the pause before the next attempt to connect; `None` if
/// the server stops.
type Lost = Option<(String, Duration)>;

impl Service {
    async fn run(
        mut self,
        mut requests: UnboundedReceiver<LeaseRequest>,
        mut stopped: oneshot::Receiver<()>,
        first_attempt: &mpsc::Sender<()>,
    ) {
        loop {
            let connected = tokio::select! {
                connected = connect(&self.settings) => connected,
                _ = &mut stopped => return,
            };
            let lost = match connected {
                Ok(node) => {
                    let serving = self.serve(node, &mut requests, &mut stopped, first_attempt);
                    serving.await
                }
                Err(problem) => Some((problem, RETRY)),
            };
            // After the start there is no receiver.
            let _ = first_attempt.send(());
            self.leases.set_away();
            // On the next connection, these would be granted before all servers have settled.
            while requests.try_recv().is_ok() {}
            let Some((problem, pause)) = lost else { return };
            self.report_down(&problem);
            tokio::select! {
                () = sleep(pause) => {}
                _ = &mut stopped => return,
            }
        }
    }

    /// Settles, and passes requests to the store until the connection fails.
    async fn serve(
        &mut self,
        node: NodeConnection,
        requests: &mut UnboundedReceiver<LeaseRequest>,
        stopped: &mut oneshot::Receiver<()>,
        first_attempt: &mpsc::Sender<()>,
    ) -> Lost {
        let failed = |problem: String| Some((format!("{}: {problem}", node.node), RETRY));
        let is_other = self.run_id.as_ref().is_some_and(|id| *id != node.run_id);
        let is_fresh = node.uptime < SETTLING;
        let mut ready_at = Instant::now();
        if is_other || is_fresh {
            ready_at += SETTLING;
        }
        self.leases.set_state(StoreState::Settling);
        // The figures that the store may not know.
        let settlements = self.leases.settlements(is_other);
        let now = self.clock.now().moment();
        let settling = self.pass(&node, settlements, |request, answer| {
            self.leases.answer(request, answer, now);
        });
        if let Err(problem) = settling.await {
            return failed(problem);
        }
        self.run_id = Some(node.run_id.clone());
        // Late answers of the connection before may have notified the breaker more than once.
        (self.late, self.breaker) = Default::default();
        let mut calls = JoinSet::new();
        let (mut pings, mut sweeps) = (interval(PING), interval(SWEEP));
        loop {
            let is_ready = self.leases.state() == StoreState::Ready;
            tokio::select! {
                Some(request) = requests.recv() => self.spawn(&mut calls, &node, request),
                Some(called) = calls.join_next() => {
                    if let Ok(Err(problem)) = called {
                        return failed(problem);
                    }
                }
                () = self.breaker.notified() => {
                    let most = STORE_WAIT_MAX.as_millis();
                    let problem = format!("{LATE_MAX} answers in a row took over {most} ms");
                    return Some((problem, BREAK));
                }
                () = sleep_until(ready_at), if !is_ready => {
                    self.leases.set_state(StoreState::Ready);
                    self.report_up(&node);
                    // After the start there is no receiver.
                    let _ = first_attempt.send(());
                }
                _ = pings.tick() => drop(calls.spawn(ping(node.connection.clone()))),
                _ = sweeps.tick() => self.sweep(),
                _ = &mut *stopped => {
                    self.leases.set_state(StoreState::Away);
                    // What cannot be given back in time is lost for the day.
                    let giving_back = self.pass(&node, self.leases.give_back(), |_, _| {});
                    let _ = timeout(STOP_MAX, giving_back).await;
                    return None;
                }
            }
        }
    }

    /// Passes a request to the store in the background. A failure ends the connection.
    fn spawn(
        &mut self,
        calls: &mut JoinSet<Result<(), String>>,
        node: &NodeConnection,
        request: LeaseRequest,
    ) {
        let (script, leases) = (Arc::clone(&self.script), Arc::clone(&self.leases));
        let (late, breaker) = (Arc::clone(&self.late), Arc::clone(&self.breaker));
        let (clock, connection) = (Arc::clone(&self.clock), node.connection.clone());
        let log = self.outage.log.clone();
        calls.spawn(async move {
            let call = script.call(connection, &request);
            tokio::pin!(call);
            let metrics = &leases.metrics;
            let answer = if let Ok(answer) = timeout(STORE_WAIT_MAX, &mut call).await {
                if answer.is_ok() {
                    metrics.answered.fetch_add(1, Ordering::Relaxed);
                }
                late.store(0, Ordering::Relaxed);
                answer
            } else {
                leases.set_overdue(&request);
                metrics.late.fetch_add(1, Ordering::Relaxed);
                if late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE_MAX {
                    breaker.notify_one();
                }
                let Ok(answer) = timeout(ANSWER_MAX, call).await else {
                    leases.set_failed(&request);
                    return Err(format!("no answer within {} s", ANSWER_MAX.as_secs()));
                };
                answer
            };
            match answer {
                Ok(answer) => {
                    if answer.limit != request.limit
                        && metrics.other_limits.fetch_add(1, Ordering::Relaxed) == 0
                    {
                        log.write(OTHER_LIMITS);
                    }
                    leases.answer(&request, answer, clock.now().moment());
                    Ok(())
                }
                Err(error) => {
                    metrics.failed.fetch_add(1, Ordering::Relaxed);
                    leases.set_failed(&request);
                    Err(problem(error))
                }
            }
        });
    }

    /// Passes many requests to the store, some at a time.
    async fn pass(
        &self,
        node: &NodeConnection,
        requests: Vec<LeaseRequest>,
        mut answered: impl FnMut(&LeaseRequest, LeaseAnswer),
    ) -> Result<(), String> {
        let mut calls = JoinSet::new();
        let mut requests = requests.into_iter();
        loop {
            while calls.len() < SETTLING_AT_ONCE
                && let Some(request) = requests.next()
            {
                let (script, connection) = (Arc::clone(&self.script), node.connection.clone());
                calls.spawn(async move {
                    let answer = timeout(ANSWER_MAX, script.call(connection, &request)).await;
                    (request, answer)
                });
            }
            match calls.join_next().await {
                None => return Ok(()),
                Some(Ok((request, Ok(Ok(answer))))) => answered(&request, answer),
                Some(Ok((_, Ok(Err(error))))) => return Err(problem(error)),
                Some(Ok((_, Err(_))) | Err(_)) => return Err("no answer while settling".to_owned()),
            }
        }
    }

    /// Removes leases of past days.
    fn sweep(&self) {
        let now = self.clock.now();
        let second = now.moment().0 - now.day.end().0 + 86_400;
        if second >= SWEEP_SECOND {
            self.leases.sweep(now.day);
        }
    }

    fn report_up(&mut self, node: &NodeConnection) {
        self.outage.end();
        let line = format!("shared quota: {} grants credits", node.node);
        self.outage.log.write(&line);
        if let Some(warning) = &node.warning {
            self.outage.log.write(warning);
        }
    }

    /// Logs the problem of an outage.
    fn report_down(&mut self, problem: &str) {
        let servers = self.settings.sharing.servers;
        let rule = match self.settings.sharing.outage {
            OutagePolicy::Share => {
                format!("until it answers, each client gets 1/{servers} of its remaining quota")
            }
            OutagePolicy::Refuse => {
                "until it answers, clients without credits here get a 503".to_owned()
            }
        };
        let line = |why: &str| format!("shared quota: the store is unusable: {why}; {rule}");
        if self.outage.report(problem, line) {
            self.leases.metrics.outages.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn ping(mut connection: MultiplexedConnection) -> Result<(), String> {
    match timeout(ANSWER_MAX, redis::cmd("PING").query_async(&mut connection)).await {
        Ok(answer) => answer.map_err(problem),
        Err(_) => Err(format!("no answer within {} s", ANSWER_MAX.as_secs())),
    }
}
