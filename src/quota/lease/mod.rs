//! Leases: several servers share the daily limit of a client, and each spends credits that a common
//! store has granted to it.
//!
//! A server spends its credits without the store, and requests more before they run out. The store
//! keeps, for a client's day, the credits that each start of a server has received so far. The sum is the
//! client's `total`. A server sends the `granted` that it knows, and one rule covers every fault:
//!
//! - The store knows more: an answer was lost. The store sends the same figure again.
//! - The store knows less: the server admitted requests alone, or the store lost data. The figure of the
//!   server is stored.
//! - Both know the same: the store grants more, if the limit is not reached.
//!
//! Requests that earlier starts of a server admitted are in its counters, which survive a restart. A server sends this
//! `counted` too, and if the figures of its earlier starts in the store add up to less, the store adds the
//! difference. So the counters are the figures from which the store is filled again, whatever it has lost.
//!
//! # Reserves
//!
//! The first request of a client at a server needs no store: the server has a reserve of one credit for each client
//! and day. No lease begins with it. The counter of the server counts the request, and the second one, which begins a
//! lease, sends it as `counted`. So a client with one request costs no call.
//!
//! The store keeps the reserves back. It grants up to the limit minus a credit for each server that has a reserve and
//! has sent no credits of this client, whether or not it has lost data. So a client that sends requests to one server
//! only gets the limit minus the reserves of the others. Only as many servers as share the limits have reserves on a
//! day: the first that join on it, or request credits of it. Another one requests the first credit too, and so does
//! each server while the store does not grant. A server that has counted requests of a client, also before a restart,
//! has no reserve for it. A limit below ten requests for each server has no reserves, and no server has any on the
//! day of a loss of data, which the store notices by a server that has counts of the day and is not among those with
//! reserves.
//!
//! # Loss of data
//!
//! The store has a random marker. A store that has none, or that was started again or was a replica since the marker
//! began, may have lost data, and a new marker begins. Then nothing is granted for the day of the marker until as many
//! servers as share the limits have sent all their counts: the leases in memory, and the counters of the clients
//! without a lease. If less than an hour of that day is left, nothing is granted for the next day either, because the
//! clock of another server may be ahead. Nor is a day before granted: a server whose clock has reached the next day has
//! forgotten it. A server that is missing can be replaced by another one. A server sends all its counts on each
//! connection, too, since it may have admitted requests alone before.
//!
//! # Bound
//!
//! While the store answers and keeps its data, no grant raises `total`, with the reserves that are kept back, above
//! the limit, and each server admits at most what it was granted, and one request where its reserve is kept back: all
//! servers together admit at most the limit.
//!
//! A server that the store does not answer, or does not grant credits before all servers have sent their counts, may
//! take its share of a client's day: the smaller of `(limit - total) / servers`, with the `total` of the last answer,
//! and `limit / servers` minus what it admitted before a restart, from its reserve and in earlier outages. It takes
//! single credits, for the requests that come meanwhile, and none once the store answers. So all servers together
//! admit beyond the limit at most what the servers that were cut off on this day admitted then, each at most
//! `limit / servers`. Where all servers are cut off from the beginning of the day, the shares add up to the limit, not
//! beyond it.
//!
//! After a loss of data, `total` is at least what all servers have admitted before anything is granted, as
//! long as their state directories survive. There are two exceptions. Clients that share an overflow word of the
//! counters are counted again when they come back. And IPv6 networks that a new server counted before it first reached
//! the store have another tag there: other servers do not know of these requests until the network uses this server
//! again, and after a restart nor does this one.
//!
//! - `step`: the decision on a request of a client with a lease
//! - `table`: the leases of all clients at this server

mod step;
mod table;

use std::collections::HashMap;
use std::time::Duration;

use ahash::RandomState;
use tokio::sync::watch;

use crate::calendar::{UnixSeconds, UtcDay};
use crate::sync::{AtomicU64, Ordering};

pub use table::{ClientCounter, LeaseTable, LeaseWait, NoLease};

/// The longest time that a request waits for the store (CONTRACT section 9).
pub const STORE_WAIT_MAX: Duration = Duration::from_millis(20);
/// Largest number of credits that a server keeps in stock: what its client loses if it is killed.
pub const GRANT_MAX: u32 = 1_000;
/// Seconds after which a client whose limit is reached is looked up again: a server that stops gives
/// its credits back.
const RECHECK_SECONDS: i64 = 5;

/// Returns `true` if a limit is large enough for reserves: a client of one server gets at least nine tenths of it.
fn has_reserves(limit: u32, servers: u32) -> bool {
    limit / 10 >= servers
}

/// The largest figure of a client's day at the store: the sum of two fits.
const FIGURE_MAX: u32 = i32::MAX.cast_unsigned();

/// The rule for a client's requests while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutagePolicy {
    /// It admits its share of what remains of the day.
    Share,
    /// It admits only what it was granted.
    Refuse,
}

#[derive(Clone, Copy, Debug)]
pub struct SharingSettings {
    /// Servers that share, at least 1.
    pub servers: u32,
    /// The rule while the store does not answer.
    pub outage: OutagePolicy,
    /// Clients for which credits are kept, divided equally among the parts of the table, of which one may be full before
    /// the others. Each further client gets this server's share of its limit, or nothing by the other policy.
    pub clients_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
pub enum StoreState {
    /// It does not answer.
    Away,
    /// It answers, and grants nothing until all servers have sent their counts.
    Settling,
    /// It answers, but no request waits for that, since the last answer took too long.
    Late,
    /// It grants credits.
    Ready,
}

impl StoreState {
    /// The store grants credits, late or in time.
    pub fn grants(self) -> bool {
        self >= StoreState::Late
    }
}

/// A client, as all servers know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseClient {
    /// An address, or a network, by the 33 bits of its tag.
    Anonymous(u64),
    /// The number of a key's id.
    Key(u64),
}

/// The figures that a server sends to the store for a client's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    pub client: LeaseClient,
    pub day: UtcDay,
    /// Credits that the server has received or taken, or that it keeps where it gives some back.
    pub granted: u32,
    /// Requests that this server counted before the lease began: in earlier starts, or from its reserve.
    pub counted: u32,
    /// The client's limit; 0 if it is not known.
    pub limit: u32,
    pub action: LeaseAction,
}

/// An action of the store beside settling the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// Grants credits: this many if they are left, or more.
    Grant(u32),
    /// Nothing more.
    Settle,
    /// Takes back the credits above `granted`.
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAnswer {
    /// Credits that this server has received.
    pub granted: u32,
    /// Credits that all servers have received.
    pub total: u32,
    /// The limit of the client at the server that was first on this day; 0 if none has named one.
    pub limit: u32,
}

/// Counters of a server's use of the store. A request for a client ends once: answered, late or failed.
#[derive(Debug, Default)]
pub struct LeaseMetrics {
    /// Answers within [`STORE_WAIT_MAX`].
    pub answered: AtomicU64,
    /// Requests that a client no longer waits for.
    pub late: AtomicU64,
    /// Requests without an answer when the connection failed.
    pub failed: AtomicU64,
    /// Times that the store was lost.
    pub outages: AtomicU64,
    /// Answers that name another limit than this server's.
    pub other_limits: AtomicU64,
    /// Shares that the server took without the store.
    pub shares: AtomicU64,
    /// 1 while the store answers, but later than [`STORE_WAIT_MAX`].
    pub slow: AtomicU64,
    /// Memory that the store uses, in bytes.
    pub store_bytes: AtomicU64,
    /// Memory that the store may use, in bytes.
    pub store_bytes_max: AtomicU64,
}

/// The request to the store that is under way for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PendingRequest {
    #[default]
    None,
    /// The number of the request among those of this server.
    InTime(u32),
    /// It takes too long to wait for the answer, which may still come.
    Overdue,
}

/// A client's credits at this server on one day.
#[derive(Debug, Default)]
struct Credits {
    day: UtcDay,
    /// 0 until the client's first request, if the lease began with the answer to a settlement.
    limit: u32,
    /// Requests counted here before the lease began: by earlier starts, or from the reserve.
    counted: u32,
    /// Credits received or taken, spent ones included. Never falls.
    granted: u32,
    /// Requests admitted; at most `granted`.
    spent: u32,
    /// Credits that all servers have received, as far as known; `granted` included.
    total: u32,
    /// Size of the last grant.
    grant: u32,
    /// The requests that wait for the answer have receivers, and are woken when this is dropped.
    waiting: Option<watch::Sender<()>>,
    /// Requests that were still waiting after the last grant; at least 1.
    wanted: u32,
    /// The smallest number of remaining requests that was shown, in any response.
    shown: u32,
    /// When a client whose limit is reached is looked up again, in Unix seconds; 0 until the store has answered that it
    /// is reached.
    recheck: i64,
    pending: PendingRequest,
    /// Credits that this server may still take without the store, until the next answer.
    share: u32,
    /// Credits that it has taken without the store.
    taken_alone: u32,
    /// The store may know less than `granted`.
    is_unsettled: bool,
    /// Requests were counted before a restart, and the store has not answered since: what others admitted is not known.
    is_alone: bool,
}

impl Credits {
    fn new(day: UtcDay, limit: u32, counted: u32, servers: u32) -> Credits {
        // More is the count of a damaged file.
        let counted = counted.min(FIGURE_MAX);
        let mut credits = Credits {
            day,
            counted,
            total: counted,
            wanted: 1,
            // The reserve is one request.
            is_alone: counted > 1,
            ..Credits::default()
        };
        credits.set_limit(limit, servers);
        credits
    }

    /// Sets the limit, of which nothing was shown yet.
    fn set_limit(&mut self, limit: u32, servers: u32) {
        self.limit = limit;
        self.shown = limit;
        self.set_share(servers);
    }

    fn unspent(&self) -> u32 {
        self.granted - self.spent
    }

    /// Requests that remain, without what other servers were granted since the last answer. Never
    /// rises. A server that does not know what others admitted shows its share: before the restart, it may have shown
    /// less than all that it has not counted. It never shows 0 then, since the limit may not be reached.
    fn remaining(&self) -> u32 {
        let left = if self.is_alone {
            self.share.max(1)
        } else {
            self.limit.saturating_sub(self.total)
        };
        (self.unspent() + left).min(self.shown)
    }

    /// More seconds than the pause are left only if the clock was set back.
    fn is_recheck_due(&self, now: UnixSeconds) -> bool {
        !(1..=RECHECK_SECONDS).contains(&self.recheck.saturating_sub(now.0))
    }

    fn is_limit_reached(&self) -> bool {
        self.total >= self.limit
    }

    /// Half of the last grant is spent, so that the next one comes before the rest is.
    fn is_low(&self) -> bool {
        self.unspent() <= self.grant / 2 && !self.is_limit_reached()
    }

    /// Sets this server's share of what remains. Requests that were counted before, and credits that were taken
    /// before, are a part of it: a reserve, restarts and outages on one day add up to one share.
    fn set_share(&mut self, servers: u32) {
        let left = self.limit.saturating_sub(self.total) / servers;
        let taken = self.counted + self.taken_alone;
        self.share = left.min((self.limit / servers).saturating_sub(taken));
    }

    /// Takes a credit of the share, which has one. One at a time: what is not spent before the store answers again is
    /// left to all servers.
    fn take_alone(&mut self) {
        self.share -= 1;
        self.taken_alone += 1;
        self.granted += 1;
        self.total += 1;
        self.is_unsettled = true;
    }

    /// Counts how the request under way ended for those that wait for it, if it did not end before.
    fn end_request(&mut self, outcomes: &AtomicU64) {
        if matches!(self.pending, PendingRequest::InTime(_)) {
            self.pending = PendingRequest::Overdue;
            outcomes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that no request to the store is under way. The requests that wait are admitted again.
    fn end_waiting(&mut self) {
        self.pending = PendingRequest::None;
        self.waiting = None;
    }

    /// The request to the store with the figures of now.
    fn request(&self, client: LeaseClient, action: LeaseAction) -> LeaseRequest {
        LeaseRequest {
            client,
            day: self.day,
            granted: self.granted,
            counted: self.counted,
            limit: self.limit,
            action,
        }
    }

    /// Applies the answer to an action. Credits that were taken after its request was sent stay, and the next
    /// request settles them.
    fn apply(&mut self, action: LeaseAction, answer: LeaseAnswer, now: i64, servers: u32) {
        self.grant = answer.granted.saturating_sub(self.granted);
        self.granted = self.granted.max(answer.granted);
        self.is_unsettled = self.granted > answer.granted;
        self.is_alone = false;
        let total = answer.total.saturating_add(self.granted - answer.granted);
        self.total = match action {
            // A store that has lost data does not know yet what other servers send later.
            LeaseAction::Settle => total.max(self.total),
            LeaseAction::Grant(_) | LeaseAction::Return => total,
        };
        self.set_share(servers);
        let waiting = self
            .waiting
            .as_ref()
            .map_or(0, watch::Sender::receiver_count);
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        self.wanted = waiting.saturating_sub(self.unspent()).max(1);
        if self.is_limit_reached() && self.limit > 0 {
            self.recheck = now + RECHECK_SECONDS;
        }
    }
}

/// A part of the leases.
#[derive(Default)]
struct Shard {
    /// The newest day of a lease.
    day: UtcDay,
    leases: HashMap<LeaseClient, Credits, RandomState>,
}

impl Shard {
    /// Removes the leases if they are of days before `day`, and frees their room beyond half.
    fn begin(&mut self, day: UtcDay) {
        if day > self.day {
            self.day = day;
            let before = self.leases.len();
            self.leases.clear();
            self.leases.shrink_to(before / 2);
        }
    }
}

#[cfg(all(test, not(island_metrics_loom)))]
mod model_tests;
#[cfg(all(test, not(island_metrics_loom)))]
mod server_model_tests;
#[cfg(all(test, not(island_metrics_loom)))]
mod simulation_tests;
#[cfg(all(test, not(island_metrics_loom), feature = "shared-quota"))]
pub(crate) use model_tests::{JoinModel, StoreModel};
