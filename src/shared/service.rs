//! The thread that talks to the store: joins the service, and sends counts and requests for credits in batches.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use redis::RedisError;
use tokio::sync::{mpsc::UnboundedReceiver, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::day_counts::{BATCH, DayCounts, SettlingPass};
use super::node::{NodeConnection, connect, problem};
use super::outage_log::OutageLog;
use super::pace::Pace;
use super::script::{Joined, Joining, Scripts};
use super::settings::SharedQuotaSettings;
use crate::calendar::{Clock, UtcDay};
use crate::observe::Log;
use crate::quota::{LeaseRequest, LeaseTable, OutagePolicy, STORE_WAIT_MAX, StoreState};
use crate::sync::Ordering;

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);
/// A store that has not answered for this long is away.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Between two calls that register this server, by which a lost connection and a loss of data are noticed.
const HEARTBEAT: Duration = Duration::from_millis(250);
/// The same while not all servers have sent their counts.
const HEARTBEAT_SETTLING: Duration = Duration::from_millis(50);
/// Heartbeats between two readings of the store's memory.
const HEARTBEATS_PER_READING: u64 = 60;
/// For giving back credits when the server stops.
const STOP_MAX: Duration = Duration::from_secs(1);
/// Leases of yesterday are removed at this second of a day, when no request of yesterday is left.
const SWEEP_SECOND: i64 = 600;
/// Logged once, at the first answer that names another limit.
const OTHER_LIMITS: &str = "shared quota: another server has different daily limits; set the same --limit-* on all servers";
/// Servers that run send their counts in less time after a loss of data.
const SETTLING_MAX: Duration = Duration::from_secs(3);
/// A problem of the store.
const UNSETTLED: &str = "it is new, or has lost data, and not all servers have sent their counts; start those that \
                         are missing, or others in their place";

pub(super) struct Service {
    settings: SharedQuotaSettings,
    scripts: Arc<Scripts>,
    leases: Arc<LeaseTable>,
    counts: DayCounts,
    clock: Arc<Clock>,
    outage: OutageLog,
    pace: Pace,
    /// The state of the service at the last heartbeat.
    joined: Option<Joined>,
    /// The last day for which the store grants nothing.
    blocked: UtcDay,
    /// The marker for which all counts were sent.
    settled: String,
    heartbeats: u64,
    /// There may be counts by the tag seed of this server.
    is_seed_used: bool,
    /// The log says that the store grants credits.
    is_up: bool,
}

/// The problem for which a connection is given up; `None` if the server stops.
type Lost = Option<String>;

impl Service {
    pub(super) fn new(
        settings: SharedQuotaSettings,
        leases: Arc<LeaseTable>,
        counts: DayCounts,
        clock: Arc<Clock>,
        log: Log,
    ) -> Service {
        let (directory, servers) = (counts.anonymous.directory_id(), settings.sharing.servers);
        let (clients, _) = counts.anonymous.in_use(clock.now().day);
        Service {
            settings,
            scripts: Arc::new(Scripts::new(directory, random(), servers)),
            leases,
            counts,
            clock,
            outage: OutageLog::new(log.clone()),
            pace: Pace::new(log),
            joined: None,
            blocked: UtcDay(i32::MAX),
            settled: String::new(),
            heartbeats: 0,
            is_seed_used: clients > 0,
            is_up: false,
        }
    }

    /// Runs until `stopped` receives a message. Drops `first_attempt` when the start of the server may continue.
    pub(super) async fn run(
        mut self,
        mut requests: UnboundedReceiver<LeaseRequest>,
        mut stopped: oneshot::Receiver<()>,
        first_attempt: mpsc::Sender<()>,
    ) {
        let mut first_attempt = Some(first_attempt);
        loop {
            let connected = tokio::select! {
                connected = connect(&self.settings) => connected,
                _ = &mut stopped => return,
            };
            let lost = match connected {
                Ok(node) => {
                    let served = self.serve(&node, &mut requests, &mut stopped, &mut first_attempt);
                    let served = served.await;
                    served.map(|problem| format!("{}: {problem}", node.node))
                }
                Err(problem) => Some(problem),
            };
            first_attempt = None;
            self.leases.set_away();
            self.pace.end(&self.leases.metrics);
            // They are sent again with the figures of then.
            while requests.try_recv().is_ok() {}
            let Some(problem) = lost else { return };
            self.report_down(&problem);
            tokio::select! {
                () = sleep(RETRY) => {}
                _ = &mut stopped => return,
            }
        }
    }

    /// Joins, and passes requests to the store until the connection fails.
    async fn serve(
        &mut self,
        node: &NodeConnection,
        requests: &mut UnboundedReceiver<LeaseRequest>,
        stopped: &mut oneshot::Receiver<()>,
        first_attempt: &mut Option<mpsc::Sender<()>>,
    ) -> Lost {
        // After an outage, the store does not know what was admitted in it.
        let mut pass = SettlingPass::new(&self.counts, &self.leases, self.today());
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_due, connected) = (true, Instant::now());
        self.is_up = false;
        loop {
            if is_due {
                if let Err(problem) = self.heartbeat(node, &mut pass).await {
                    return Some(problem);
                }
                heartbeat.reset_after(if self.leases.state() == StoreState::Settling {
                    HEARTBEAT_SETTLING
                } else {
                    HEARTBEAT
                });
            }
            if self.report(node, connected) && first_attempt.is_some() {
                // If this server was the last, the others find at their next heartbeat that credits are granted.
                sleep(2 * HEARTBEAT_SETTLING).await;
                *first_attempt = None;
            }
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                _ = &mut *stopped => {
                    self.leases.set_state(StoreState::Away);
                    // What cannot be given back in time is lost for the day.
                    let _ = timeout(STOP_MAX, self.give_back(node)).await;
                    return None;
                }
                _ = heartbeat.tick() => {
                    is_due = true;
                    continue;
                }
                _ = requests.recv_many(&mut batch, BATCH) => {}
                () = std::future::ready(()), if !pass.is_over() => {}
            }
            let leases = batch.len();
            let more = BATCH - leases;
            batch.extend(pass.step(&self.counts, &self.leases, more));
            if !batch.is_empty()
                && let Err(problem) = self.lease(node, &batch, leases).await
            {
                return Some(problem);
            }
            is_due = self.joined.is_none() || pass.is_over() && self.mark_settled();
        }
    }

    fn today(&self) -> UtcDay {
        self.clock.now().day
    }

    /// Records that all counts were sent; returns `true` if the store does not know that yet.
    fn mark_settled(&mut self) -> bool {
        let marker = self.joined.as_ref().map(|joined| &joined.marker);
        let is_news = marker.is_some_and(|marker| *marker != self.settled);
        if let Some(marker) = marker.filter(|_| is_news) {
            self.settled.clone_from(marker);
        }
        is_news
    }

    /// Sets the state of a store that has answered in time.
    fn set_state(&self) {
        let today = self.today();
        self.leases.set_state(if self.blocked >= today {
            StoreState::Settling
        } else if self.pace.is_late {
            StoreState::Late
        } else {
            StoreState::Ready
        });
    }

    /// Registers this server. If the store has lost data, or this is the first time, `pass` begins with all counts.
    async fn heartbeat(
        &mut self,
        node: &NodeConnection,
        pass: &mut SettlingPass,
    ) -> Result<(), String> {
        self.sweep();
        if self.heartbeats.is_multiple_of(HEARTBEATS_PER_READING) {
            let memory = node.memory();
            let memory = in_time(&mut self.pace, &self.leases, &[], memory).await?;
            self.leases
                .metrics
                .store_bytes
                .store(memory.used, Ordering::Relaxed);
            self.leases
                .metrics
                .store_bytes_max
                .store(memory.max, Ordering::Relaxed);
        }
        self.heartbeats += 1;
        let (scripts, marker) = (Arc::clone(&self.scripts), format!("{:016x}", random()));
        let joining = Joining {
            new_marker: &marker,
            run_id: &node.run_id,
            tag_seed: self.counts.anonymous.tag_seed(),
            day: self.today(),
            settled: &self.settled,
            silence_max: ANSWER_MAX,
            is_seed_used: self.is_seed_used,
        };
        let joined = scripts.join(node.connection.clone(), &joining);
        let joined = in_time(&mut self.pace, &self.leases, &[], joined).await?;
        let joined = joined.ok_or("the answer to a join is not one of the script")?;
        self.is_seed_used = true;
        let anonymous = &self.counts.anonymous;
        if anonymous.tag_seed() != joined.tag_seed
            && let Err(error) = anonymous.adopt_tag_seed(joined.tag_seed)
        {
            self.outage.log.write(&format!("shared quota: {error}"));
        }
        if self
            .joined
            .as_ref()
            .is_none_or(|known| known.marker != joined.marker)
        {
            *pass = SettlingPass::new(&self.counts, &self.leases, self.today());
        }
        self.blocked = joined.blocked();
        self.joined = Some(joined);
        self.set_state();
        Ok(())
    }

    /// Passes a batch of requests to the store. The first `leases` of them may have waiting clients.
    async fn lease(
        &mut self,
        node: &NodeConnection,
        batch: &[LeaseRequest],
        leases: usize,
    ) -> Result<(), String> {
        let Some(joined) = &self.joined else {
            return Err("requests were sent before the join".to_owned());
        };
        let scripts = Arc::clone(&self.scripts);
        let connection = node.connection.clone();
        let answers = scripts.lease(connection, &joined.marker, batch);
        let waiting = &batch[..leases];
        let answers = in_time(&mut self.pace, &self.leases, waiting, answers).await?;
        let Some(answers) = answers else {
            // The next heartbeat finds another marker, and a pass sends all leases.
            self.joined = None;
            self.leases.set_late(waiting);
            return Ok(());
        };
        if answers.answers.len() != batch.len() {
            return Err("the answer is not one of the script".to_owned());
        }
        self.blocked = answers.blocked;
        self.set_state();
        let now = self.clock.now().moment();
        for (request, answer) in batch.iter().zip(answers.answers) {
            let other_limits = &self.leases.metrics.other_limits;
            if ![0, request.limit].contains(&answer.limit)
                && request.limit > 0
                && other_limits.fetch_add(1, Ordering::Relaxed) == 0
            {
                self.outage.log.write(OTHER_LIMITS);
            }
            self.leases.answer(request, answer, now);
        }
        Ok(())
    }

    /// Gives the unspent credits back.
    async fn give_back(&mut self, node: &NodeConnection) {
        for batch in self.leases.give_back().chunks(BATCH) {
            if self.lease(node, batch, 0).await.is_err() {
                break;
            }
        }
    }

    /// Removes leases of past days.
    fn sweep(&self) {
        let now = self.clock.now();
        let second = now.moment().0 - now.day.end().0 + 86_400;
        if second >= SWEEP_SECOND && self.heartbeats.is_multiple_of(HEARTBEATS_PER_READING) {
            self.leases.sweep(now.day);
        }
    }

    /// Logs that the store grants credits, or that it grants none for too long since a connection began. Returns
    /// `true` if it has begun to grant.
    fn report(&mut self, node: &NodeConnection, connected: Instant) -> bool {
        let grants = self.leases.state().grants();
        let has_begun = grants && !self.is_up;
        if has_begun {
            self.outage.end();
            self.is_up = true;
            let line = format!("shared quota: {} grants credits", node.node);
            self.outage.log.write(&line);
            if let Some(warning) = &node.warning {
                self.outage.log.write(warning);
            }
        } else if !grants && connected.elapsed() > SETTLING_MAX {
            self.report_down(&format!("{}: {UNSETTLED}", node.node));
        }
        has_begun
    }

    /// Logs the problem of an outage.
    fn report_down(&mut self, problem: &str) {
        self.is_up = false;
        let servers = self.settings.sharing.servers;
        let rule = match self.settings.sharing.outage {
            OutagePolicy::Share => {
                format!(
                    "until it grants credits, each client gets 1/{servers} of its remaining quota"
                )
            }
            OutagePolicy::Refuse => {
                "until it grants credits, clients without credits here get a 503".to_owned()
            }
        };
        let line = |why: &str| format!("shared quota: the store is unusable: {why}; {rule}");
        if self.outage.report(problem, line) {
            self.leases.metrics.outages.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Awaits an answer. After [`STORE_WAIT_MAX`] the waiting requests continue; after [`ANSWER_MAX`] the store is away.
async fn in_time<T>(
    pace: &mut Pace,
    leases: &LeaseTable,
    waiting: &[LeaseRequest],
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, String> {
    let begun = Instant::now();
    tokio::pin!(answer);
    let answer = if let Ok(answer) = timeout(STORE_WAIT_MAX, &mut answer).await {
        pace.in_time(&leases.metrics);
        answer
    } else {
        pace.late(&leases.metrics);
        leases.set_late(waiting);
        let left = ANSWER_MAX.saturating_sub(begun.elapsed());
        let answer = timeout(left, answer).await;
        answer.map_err(|_| format!("no answer within {} s", ANSWER_MAX.as_secs()))?
    };
    answer.map_err(problem)
}

fn random() -> u64 {
    getrandom::u64().expect("the system gives random numbers")
}
