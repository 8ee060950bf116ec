//! The leases of all clients at this server.

use std::collections::hash_map::Entry;
use std::fmt;

use ahash::RandomState;

use super::step::Step;
use super::{
    Credits, LeaseAction, LeaseAnswer, LeaseClient, LeaseMetrics, LeaseRequest, OutagePolicy,
    PendingRequest, Shard, SharingSettings, StoreState, has_reserves,
};
use crate::calendar::{RequestTime, UnixSeconds, UtcDay};
use crate::quota::Decision;
use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering, lock};

const SHARDS: usize = 64;

/// The reason why a request is neither admitted nor refused.
#[derive(Debug)]
pub enum NoLease {
    /// Credits have been requested. The request can be repeated after [`LeaseTable::wait`].
    Wait(LeaseWait),
    /// The remaining quota is unknown: the store has not answered in time and no credits are left here, or the client
    /// has no counter.
    Unavailable,
}

/// A wait for the store, with the number of the request that was under way when it began.
#[derive(Clone, Copy, Debug)]
pub struct LeaseWait {
    client: LeaseClient,
    request: u32,
}

/// The counter of a client at this server, which survives a restart.
pub trait ClientCounter {
    /// Counts a request if the limit allows it. [`NoLease::Unavailable`] for a client without a counter.
    fn admit(&self, limit: u32) -> Result<Decision, NoLease>;
    /// Requests left of a limit; `None` for a client without a counter.
    fn peek(&self, limit: u32) -> Option<u32>;
}

/// How requests of a client are counted.
enum Counting<'a> {
    Lease(&'a mut Credits),
    /// In the counter alone, up to this limit: the first one from the reserve, or all if the table is full.
    Alone(u32),
    /// Not at present: the table is full, or the client has no counter.
    Unavailable,
}

/// The leases of all clients at this server.
pub struct LeaseTable {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    settings: SharingSettings,
    state: AtomicU32,
    /// The day on which this server has a reserve for each client, as its number.
    reserve_day: AtomicU32,
    pub metrics: LeaseMetrics,
    /// Requests sent to the store so far.
    sent: AtomicU32,
    /// Sends a request to the store, without blocking.
    send: Box<dyn Fn(LeaseRequest) + Send + Sync>,
}

impl LeaseTable {
    /// Creates a table without leases, for a store that does not answer yet. `send` must not block.
    pub fn new(
        settings: SharingSettings,
        send: impl Fn(LeaseRequest) + Send + Sync + 'static,
    ) -> LeaseTable {
        LeaseTable {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            settings,
            state: AtomicU32::new(StoreState::Away as u32),
            reserve_day: AtomicU32::new(0),
            metrics: LeaseMetrics::default(),
            sent: AtomicU32::new(0),
            send: Box::new(send),
        }
    }

    /// Returns what the store does at present.
    pub fn state(&self) -> StoreState {
        match self.state.load(Ordering::Relaxed) {
            0 => StoreState::Away,
            1 => StoreState::Settling,
            2 => StoreState::Late,
            _ => StoreState::Ready,
        }
    }

    pub fn set_state(&self, state: StoreState) {
        self.state.store(state as u32, Ordering::Relaxed);
    }

    /// Sets the day on which this server has a reserve for each client, if there is one.
    pub fn set_reserve_day(&self, day: Option<UtcDay>) {
        let day = day.map_or(0, |day| day.0.cast_unsigned());
        self.reserve_day.store(day, Ordering::Relaxed);
    }

    /// Records that the connection to the store is lost.
    pub fn set_away(&self) {
        self.set_state(StoreState::Away);
        for shard in &self.shards {
            for credits in lock(shard).leases.values_mut() {
                credits.end_request(&self.metrics.failed);
                credits.end_waiting();
            }
        }
    }

    pub fn clients(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|shard| lock(shard).leases.len() as u64).sum()
    }

    /// Counts a request of a client against its lease, and in its counter of this server. `waited`: the wait that ended
    /// without credits. While the store answers in time, such a request takes no share: the pending request may have been
    /// sent after its wait began.
    pub fn admit(
        &self,
        client: LeaseClient,
        limit: u32,
        now: RequestTime,
        waited: Option<LeaseWait>,
        counter: &impl ClientCounter,
    ) -> Result<Decision, NoLease> {
        let mut shard = self.shard(client);
        let credits = match self.counting(&mut shard, client, limit, now.day, counter) {
            Counting::Lease(credits) => credits,
            Counting::Alone(limit) => return counter.admit(limit),
            Counting::Unavailable => return Err(NoLease::Unavailable),
        };
        let (state, waited) = (self.state(), waited.map(|wait| wait.request));
        let step = Step::of(credits, state, waited, self.settings.outage);
        match step {
            Step::Spend => return self.spend(client, credits, state, counter),
            Step::Refuse => {
                if credits.is_recheck_due(now.moment) {
                    self.request(client, credits, state);
                }
                credits.shown = 0;
                return Ok(Decision::Refuse);
            }
            Step::TakeShare => {
                credits.take_alone();
                let (is_first, shares) = (credits.taken_alone == 1, &self.metrics.shares);
                shares.fetch_add(is_first.into(), Ordering::Relaxed);
            }
            Step::Wait | Step::Unavailable => {}
        }
        if waited.is_some_and(|request| credits.pending == PendingRequest::InTime(request)) {
            credits.end_request(&self.metrics.late);
        }
        self.request(client, credits, state);
        match (step, credits.pending) {
            (Step::TakeShare, _) => self.spend(client, credits, state, counter),
            (Step::Wait, PendingRequest::InTime(request)) => {
                Err(NoLease::Wait(LeaseWait { client, request }))
            }
            _ => Err(NoLease::Unavailable), // the store is asked for a later request
        }
    }

    /// Waits until a client has credits, or no answer of the store is to be waited for. The request that waits must
    /// then be admitted again.
    pub async fn wait(&self, LeaseWait { client, .. }: LeaseWait) {
        let answered = {
            let mut shard = self.shard(client);
            let credits = shard.leases.get_mut(&client).filter(|credits| {
                credits.unspent() == 0 && matches!(credits.pending, PendingRequest::InTime(_))
            });
            credits.map(|credits| credits.waiting.get_or_insert_default().subscribe())
        };
        if let Some(mut answered) = answered {
            let _ = answered.changed().await; // the error is that the sender was dropped
        }
    }

    /// Returns the requests that a client has left, without counting one, for a response: later ones show
    /// no more. What other servers admit is known once the client has a lease here. Returns `None` if
    /// the remaining quota is unknown, which differs from a quota that is used up.
    pub fn peek(
        &self,
        client: LeaseClient,
        limit: u32,
        day: UtcDay,
        counter: &impl ClientCounter,
    ) -> Option<u32> {
        let left = counter.peek(limit)?;
        let mut shard = self.shard(client);
        let lease = shard.leases.get(&client);
        let lease = lease.filter(|credits| credits.day >= day);
        // A client that has no room gets a share from its first request on.
        if lease.is_none() && limit - left <= 1 && !self.is_full(&shard) {
            return Some(left);
        }
        // A client that was counted before a restart gets a lease, which keeps the figure that is shown.
        match self.counting(&mut shard, client, limit, day, counter) {
            Counting::Lease(credits) => {
                if credits.counted + credits.spent > 0 {
                    credits.shown = credits.remaining();
                }
                Some(credits.shown.min(left))
            }
            Counting::Alone(limit) => counter.peek(limit),
            Counting::Unavailable => None,
        }
    }

    /// Applies an answer of the store. The answer to a settlement of a client that was counted before a restart begins
    /// its lease, but for a client with one request in all: the responses show what all servers have admitted from the
    /// first one on.
    pub fn answer(&self, request: &LeaseRequest, answer: LeaseAnswer, now: UnixSeconds) {
        let (mut shard, servers) = (self.shard(request.client), self.settings.servers);
        shard.begin(request.day);
        let is_new = !shard.leases.contains_key(&request.client) && request.day == shard.day;
        let is_settled = request.action == LeaseAction::Settle && answer.total > 1;
        // A store that does not grant may not know yet what others admitted.
        if is_new && is_settled && self.state().grants() && !self.is_full(&shard) {
            let credits = Credits::new(request.day, request.limit, request.counted, servers);
            shard.leases.insert(request.client, credits);
        }
        let credits = shard.leases.get_mut(&request.client);
        // Unless the client has reached another day.
        if let Some(credits) = credits.filter(|credits| credits.day == request.day) {
            credits.apply(request.action, answer, now.0, servers);
            credits.end_request(&self.metrics.answered);
            credits.end_waiting();
            if credits.is_unsettled {
                self.request(request.client, credits, self.state());
            }
        }
    }

    /// Records that an answer is late: no request begins to wait until the state is set again.
    pub fn set_late(&self) {
        if self.state() == StoreState::Ready {
            self.set_state(StoreState::Late);
        }
    }

    /// Returns the request that settles a client's lease of `day` or a later day, or its counter if it has none.
    pub fn settlement(&self, client: LeaseClient, day: UtcDay, counted: u32) -> LeaseRequest {
        let request = |credits: &Credits| credits.request(client, LeaseAction::Settle);
        let shard = self.shard(client);
        let credits = shard.leases.get(&client);
        let credits = credits.filter(|credits| credits.day >= day);
        let of_counter = || request(&Credits::new(day, 0, counted, self.settings.servers));
        credits.map_or_else(of_counter, request)
    }

    /// Returns the requests that settle all leases.
    pub fn settlements(&self) -> impl Iterator<Item = LeaseRequest> {
        self.requests(|client, credits| Some(credits.request(client, LeaseAction::Settle)))
    }

    /// Takes the unspent credits from all clients. Returns the requests that give them back, also for clients whose
    /// grant is under way.
    pub fn give_back(&self) -> impl Iterator<Item = LeaseRequest> {
        self.requests(|client, credits| {
            let has_some = credits.unspent() > 0 || credits.pending != PendingRequest::None;
            credits.granted = credits.spent;
            has_some.then(|| credits.request(client, LeaseAction::Return))
        })
    }

    /// Returns a request for each lease. There is memory for those of one shard at a time.
    fn requests(
        &self,
        request: impl Fn(LeaseClient, &mut Credits) -> Option<LeaseRequest>,
    ) -> impl Iterator<Item = LeaseRequest> {
        self.shards.iter().flat_map(move |shard| {
            let mut shard = lock(shard);
            let leases = shard.leases.iter_mut();
            let requests = leases.filter_map(|(client, credits)| request(*client, credits));
            requests.collect::<Vec<_>>()
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low bits choose")]
    pub(super) fn shard(&self, client: LeaseClient) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.hasher.hash_one(client) as usize % SHARDS])
    }

    /// Returns how requests of a client on `day`, or on a later day that it has reached already, are counted.
    fn counting<'a>(
        &self,
        shard: &'a mut Shard,
        client: LeaseClient,
        limit: u32,
        day: UtcDay,
        counter: &impl ClientCounter,
    ) -> Counting<'a> {
        // The store has nothing to say, however often such a client sends requests.
        if limit == 0 {
            return Counting::Alone(0);
        }
        shard.begin(day);
        let is_full = self.is_full(shard);
        let entry = match shard.leases.entry(client) {
            Entry::Occupied(entry) if entry.get().day >= day => {
                let credits = entry.into_mut();
                if credits.limit == 0 {
                    credits.set_limit(limit, self.settings.servers);
                }
                return Counting::Lease(credits);
            }
            entry => entry,
        };
        let Some(left) = counter.peek(limit) else {
            return Counting::Unavailable;
        };
        let known = limit.saturating_sub(left);
        if known == 0 && self.has_reserve(limit, day) {
            return Counting::Alone(limit);
        }
        if is_full && matches!(entry, Entry::Vacant(_)) {
            return match self.settings.outage {
                OutagePolicy::Share => Counting::Alone(limit / self.settings.servers),
                OutagePolicy::Refuse => Counting::Unavailable,
            };
        }
        let credits = Credits::new(day, limit, known, self.settings.servers);
        Counting::Lease(entry.insert_entry(credits).into_mut())
    }

    /// Returns `true` if a shard has its part of the leases that the table may have, and the most that chance adds: the
    /// standard deviation is the square root of the part.
    fn is_full(&self, shard: &Shard) -> bool {
        let part = self.settings.clients_max.div_ceil(SHARDS as u64);
        shard.leases.len() as u64 >= part + 8 * part.isqrt()
    }

    /// Returns `true` if this server may admit the first request of a client on `day` from its reserve.
    fn has_reserve(&self, limit: u32, day: UtcDay) -> bool {
        self.reserve_day.load(Ordering::Relaxed) == day.0.cast_unsigned()
            && self.state().grants()
            && has_reserves(limit, self.settings.servers)
    }

    /// Spends a credit, and requests more before the last one is spent.
    fn spend(
        &self,
        client: LeaseClient,
        credits: &mut Credits,
        state: StoreState,
        counter: &impl ClientCounter,
    ) -> Result<Decision, NoLease> {
        let Decision::Admit { remaining } = counter.admit(credits.limit)? else {
            return Ok(Decision::Refuse);
        };
        credits.spent += 1;
        credits.shown = credits.remaining().min(remaining);
        if credits.is_low() {
            self.request(client, credits, state);
        }
        Ok(Decision::Admit {
            remaining: credits.shown,
        })
    }

    /// Sends a request for a client, if the store answers and none is under way.
    fn request(&self, client: LeaseClient, credits: &mut Credits, state: StoreState) {
        let action = match state {
            StoreState::Away => return,
            StoreState::Settling if !credits.is_unsettled => return,
            StoreState::Settling => LeaseAction::Settle,
            StoreState::Late | StoreState::Ready => LeaseAction::Grant(credits.wanted),
        };
        if credits.pending == PendingRequest::None {
            let number = self.sent.fetch_add(1, Ordering::Relaxed);
            credits.pending = PendingRequest::InTime(number);
            (self.send)(credits.request(client, action));
        }
    }
}

impl fmt::Debug for LeaseTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseTable")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(island_metrics_loom)))]
#[path = "restart_tests.rs"]
mod restart_tests;
#[cfg(all(test, not(island_metrics_loom)))]
#[path = "room_tests.rs"]
mod room_tests;
#[cfg(all(test, not(island_metrics_loom)))]
#[path = "wait_tests.rs"]
mod tests;
