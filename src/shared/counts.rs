//! [`CountSharing`]: registers this server, and sends counts and requests for credits in batches. A call to the store
//! does not wait for the answer to another one.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::day_counts::{BATCH, DayCounts};
use super::node::{NodeConnection, QUOTA_PROBE, connect};
use super::outage_log::OutageLog;
use super::script::{Answer, StoreClient};
use super::settings::SharedQuotaSettings;
use crate::calendar::Clock;
use crate::observe::Log;
use crate::quota::{
    LeaseRequest, LeaseTable, OutagePolicy, STORE_WAIT_MAX, SharingSettings, StoreState,
};
use crate::sync::Ordering;

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);
/// Calls after which requests are gathered until an answer comes. A store needs a few milliseconds for the largest
/// one, so an answer does not wait for long behind those of others.
const CALLS_MAX: usize = 8;
/// A call without requests is made when there was none for this long. It shows a lost connection, a loss of data, and
/// that all servers have sent their counts.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Wait after the first request of a batch, for others that arrive at the same moment: the store then handles a third
/// as many calls.
const GATHERING: Duration = Duration::from_micros(250);
/// Late answers in a row after which the store is slow.
const LATE_MAX: u32 = 3;
/// A store is slow until no answer has been late for this long.
const STEADY: Duration = Duration::from_secs(1);
/// For giving back credits when the server stops.
const STOP_MAX: Duration = Duration::from_secs(1);
/// Logged once, at the first answer that names another limit.
const OTHER_LIMITS: &str = "shared quota: another server has different daily limits; set the same --limit-* on all servers";
/// Servers that run send their counts in less time after a loss of data.
const SETTLING_MAX: Duration = Duration::from_secs(3);
/// A problem of the store.
const UNSETTLED: &str = "it is new, or has lost data, and not all servers have sent their counts; start those that are \
                         missing, or others in their place; if all run, set the clock that is a day ahead and empty \
                         the store, and give each a state directory of its own: copies of one count as one server";

/// A batch of requests that the store has answered.
struct Answered {
    batch: Vec<LeaseRequest>,
    /// They are those of a pass over all counts.
    is_of_pass: bool,
    answer: Answer,
    is_late: bool,
}

pub(super) struct CountSharing {
    server: StoreClient,
    /// The connection, while there is one.
    node: Option<Arc<NodeConnection>>,
    pub(super) leases: Arc<LeaseTable>,
    counts: DayCounts,
    clock: Arc<Clock>,
    requests: UnboundedReceiver<LeaseRequest>,
    /// Dropped when the start of the server may continue.
    started: Option<mpsc::Sender<()>>,
    outage: OutageLog,
    /// Late answers in a row, and when the last one came.
    late: (u32, Instant),
    /// All counts, which are sent once for each connection and marker.
    pass: Receiver<LeaseRequest>,
    /// Since then the store answers and grants nothing.
    settling: Option<Instant>,
}

impl CountSharing {
    pub(super) fn new(
        sharing: SharingSettings,
        counts: DayCounts,
        clock: Arc<Clock>,
        started: mpsc::Sender<()>,
        log: Log,
    ) -> CountSharing {
        let (sender, requests) = unbounded_channel();
        let send = move |request| {
            // The thread has ended: the server stops.
            let _ = sender.send(request);
        };
        let servers = sharing.servers;
        let rule = match sharing.outage {
            OutagePolicy::Share => {
                format!("each client gets 1/{servers} of its remaining quota")
            }
            OutagePolicy::Refuse => "clients without credits here get a 503".to_owned(),
        };
        CountSharing {
            server: StoreClient {
                directory: counts.anonymous.directory_id(),
                start: random(),
                servers,
                marker: String::new(),
                is_settled: false,
                has_counts: counts.of_day(clock.now().day).next().is_some(),
            },
            node: None,
            leases: Arc::new(LeaseTable::new(sharing, send)),
            counts,
            clock,
            requests,
            started: Some(started),
            outage: OutageLog::new(
                log,
                (
                    "shared quota: the store is unusable: ",
                    format!("; until it grants credits, {rule}"),
                ),
            ),
            late: (0, Instant::now()),
            pass: channel(1).1,
            settling: None,
        }
    }

    /// Connects to the store and shares counts, again and again.
    pub(super) async fn run(&mut self, settings: &SharedQuotaSettings) -> ! {
        loop {
            let problem = match connect(settings, &QUOTA_PROBE).await {
                Err(problem) => problem,
                Ok(node) => {
                    self.node = Some(Arc::clone(&node));
                    self.serve(&node).await
                }
            };
            self.node = None;
            self.started = None;
            self.leases.set_away();
            self.late.0 = 0;
            self.leases.metrics.slow.store(0, Ordering::Relaxed);
            // Each lease sends a new request, with its current figures, after the connection is back.
            while self.requests.try_recv().is_ok() {}
            let begins = self.outage.down(&problem);
            let outages = &self.leases.metrics.outages;
            outages.fetch_add(begins.into(), Ordering::Relaxed);
            sleep(RETRY).await;
        }
    }

    /// Passes requests to the store until the connection fails. Returns the problem.
    async fn serve(&mut self, node: &Arc<NodeConnection>) -> String {
        // After an outage, the store does not know what was admitted in it.
        self.server.is_settled = false;
        self.server.marker.clear();
        let mut calls: JoinSet<Result<Answered, String>> = JoinSet::new();
        self.settling = None;
        let mut heartbeat = pin!(sleep(Duration::ZERO));
        let mut pass_is_under_way = false;
        loop {
            let has_room = calls.len() < CALLS_MAX;
            let can_send = has_room && !self.server.marker.is_empty();
            let can_pass = can_send && !pass_is_under_way && !self.server.is_settled;
            let (batch, is_of_pass) = tokio::select! {
                biased;
                Some(answered) = calls.join_next() => {
                    match answered.map_err(|error| error.to_string()).flatten() {
                        Err(problem) => return problem,
                        Ok(answered) => {
                            pass_is_under_way &= !answered.is_of_pass;
                            self.take(answered);
                        }
                    }
                    self.report(node);
                    continue;
                }
                () = &mut heartbeat, if has_room => (Vec::new(), false),
                counts = next_counts(&mut self.pass), if can_pass => {
                    self.server.is_settled = counts.is_empty();
                    pass_is_under_way = !counts.is_empty();
                    (counts, pass_is_under_way)
                }
                requests = gather(&mut self.requests), if can_send => (requests, false),
            };
            calls.spawn(self.call(node, batch, is_of_pass));
            heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
        }
    }

    /// Passes a batch of requests to the store: those of a pass, or those of clients, which may wait.
    fn call(
        &mut self,
        node: &Arc<NodeConnection>,
        batch: Vec<LeaseRequest>,
        is_of_pass: bool,
    ) -> impl Future<Output = Result<Answered, String>> + use<> {
        let (node, server, leases) = (
            Arc::clone(node),
            self.server.clone(),
            Arc::clone(&self.leases),
        );
        let (tag_seed, now) = (self.counts.anonymous.tag_seed(), self.clock.now());
        async move {
            let (answer, is_late) = {
                let mut answer = pin!(server.call(&node, random(), tag_seed, now, &batch));
                if let Ok(answer) = timeout(STORE_WAIT_MAX, &mut answer).await {
                    (answer, false)
                } else {
                    // From now on no request begins to wait for the store.
                    leases.set_late();
                    (answer.await, true)
                }
            };
            Ok(Answered {
                batch,
                is_of_pass,
                answer: answer?,
                is_late,
            })
        }
    }

    /// Passes the answers to a batch to its clients. If the store has lost data, or this is the first answer, a pass
    /// over all counts begins.
    fn take(&mut self, answered: Answered) {
        let (answer, is_late) = (answered.answer, answered.is_late);
        self.set_pace(is_late);
        self.server.has_counts = true;
        if let Err(error) = self.counts.anonymous.adopt_tag_seed(answer.tag_seed) {
            self.outage.problems.write(format!("shared quota: {error}"));
        }
        // Before a pass: the counters that it reads have all requests that earlier reserves admitted.
        let (today, now) = (self.clock.now().day, self.clock.now().moment);
        self.leases.set_reserve_day(answer.reserve_day);
        let metrics = &self.leases.metrics;
        let figure = |name| answer.memory.get(name);
        if let Some(used) = figure("used_memory") {
            metrics.store_bytes.store(used, Ordering::Relaxed);
            let limits = ["maxmemory", "total_system_memory"].into_iter();
            let max = limits.filter_map(figure).find(|max| *max > 0);
            let max = max.unwrap_or(0);
            metrics.store_bytes_max.store(max, Ordering::Relaxed);
        }
        if self.server.marker != answer.marker {
            self.pass = self.counts.pass(Arc::clone(&self.leases), today);
            (self.server.marker, self.server.is_settled) = (answer.marker, false);
        }
        self.leases.set_state(if answer.blocked >= today {
            StoreState::Settling
        } else if is_late {
            StoreState::Late
        } else {
            StoreState::Ready
        });
        for (request, lease) in answered.batch.iter().zip(answer.leases) {
            if ![0, request.limit].contains(&lease.limit)
                && request.limit > 0
                && metrics.other_limits.fetch_add(1, Ordering::Relaxed) == 0
            {
                self.outage.problems.log.write(OTHER_LIMITS);
            }
            self.leases.answer(request, lease, now);
        }
    }

    /// Records an answer, and whether it came later than [`STORE_WAIT_MAX`].
    fn set_pace(&mut self, is_late: bool) {
        let (count, latest) = &mut self.late;
        *count = if is_late { *count + 1 } else { 0 };
        let slow = &self.leases.metrics.slow;
        let was_slow = slow.load(Ordering::Relaxed) == 1;
        if is_late {
            *latest = Instant::now();
        }
        let most = STORE_WAIT_MAX.as_millis();
        if !was_slow && *count >= LATE_MAX {
            slow.store(1, Ordering::Relaxed);
            self.outage.problems.log.write(&format!(
                "shared quota: the store is slow: {LATE_MAX} answers in a row took over {most} ms; requests do not \
                 wait for it"
            ));
        } else if was_slow && latest.elapsed() >= STEADY {
            slow.store(0, Ordering::Relaxed);
            let line = "shared quota: the store answers in time again";
            self.outage.problems.log.write(line);
        }
    }

    /// Logs that the store grants credits, or that it has granted none for too long.
    fn report(&mut self, node: &NodeConnection) {
        if !self.leases.state().grants() {
            let since = self.settling.get_or_insert_with(Instant::now);
            if since.elapsed() > SETTLING_MAX {
                let begins = self.outage.unusable(&format!("{}: {UNSETTLED}", node.node));
                let outages = &self.leases.metrics.outages;
                outages.fetch_add(begins.into(), Ordering::Relaxed);
            }
            return;
        }
        self.settling = None;
        if let Some(again) = self.outage.up() {
            let (name, log) = (&node.node, &self.outage.problems.log);
            log.write(&format!("shared quota: {name} grants credits{again}"));
            if let Some(warning) = &node.warning {
                log.write(warning);
            }
        }
        // Now the store has answered for all clients that were counted before a restart.
        if self.server.is_settled
            && let Some(started) = self.started.take()
        {
            tokio::spawn(async {
                // If this server was the last, the others find at their next heartbeat that credits are granted.
                sleep(2 * HEARTBEAT).await;
                drop(started);
            });
        }
    }

    /// Gives the unspent credits back. What cannot be given back in time is lost for the day.
    pub(super) async fn give_back(&mut self) {
        let Some(node) = self.node.take() else {
            return;
        };
        self.leases.set_state(StoreState::Away);
        let leases = Arc::clone(&self.leases);
        let mut requests = leases.give_back().peekable();
        let sent = async {
            while requests.peek().is_some() {
                let batch = requests.by_ref().take(BATCH).collect();
                if self.call(&node, batch, false).await.is_err() {
                    break;
                }
            }
        };
        let _ = timeout(STOP_MAX, sent).await;
    }
}

/// Returns the next counts of a pass; none at its end.
async fn next_counts(pass: &mut Receiver<LeaseRequest>) -> Vec<LeaseRequest> {
    let mut counts = Vec::new();
    pass.recv_many(&mut counts, BATCH).await;
    counts
}

/// Waits for a request, and gathers others of the same moment.
async fn gather(requests: &mut UnboundedReceiver<LeaseRequest>) -> Vec<LeaseRequest> {
    let mut batch = Vec::new();
    requests.recv_many(&mut batch, BATCH).await;
    std::thread::sleep(GATHERING);
    while batch.len() < BATCH
        && let Ok(request) = requests.try_recv()
    {
        batch.push(request);
    }
    batch
}

fn random() -> u64 {
    getrandom::u64().expect("the system gives random numbers")
}
