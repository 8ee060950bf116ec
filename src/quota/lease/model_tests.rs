//! Models: of the store, as the oracle for its script, and of a server with its counters.

use std::collections::HashMap;
use std::sync::Arc;

use super::{
    ClientCounter, GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest, LeaseTable,
    SharingSettings,
};
use crate::calendar::UtcDay;
use crate::quota::Decision;
use crate::sync::{Mutex, lock};

/// The rule of the store, in the plainest form.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreModel {
    pub(super) days: HashMap<(LeaseClient, UtcDay), ClientDay>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ClientDay {
    total: u32,
    limit: Option<u32>,
    pub(super) granted: HashMap<u32, u32>,
}

impl StoreModel {
    pub(crate) fn handle(
        &mut self,
        server: u32,
        request: &LeaseRequest,
        servers: u32,
    ) -> LeaseAnswer {
        let day = self.days.entry((request.client, request.day)).or_default();
        let granted = day.granted.entry(server).or_default();
        day.total = day.total.max(request.counted);
        if *granted < request.granted {
            day.total += request.granted - *granted;
            *granted = request.granted;
        }
        match request.action {
            LeaseAction::Return => {
                day.total -= *granted - request.granted;
                *granted = request.granted;
            }
            LeaseAction::Grant(wanted) if *granted == request.granted => {
                let left = request.limit.saturating_sub(day.total);
                let usual = (left / (4 * servers)).clamp(1, GRANT_MAX);
                let grant = usual.max(wanted).min(left);
                day.total += grant;
                *granted += grant;
            }
            LeaseAction::Grant(_) | LeaseAction::Settle => {}
        }
        LeaseAnswer {
            granted: *granted,
            total: day.total,
            limit: *day.limit.get_or_insert(request.limit),
        }
    }
}

/// Counts by client and day.
#[derive(Default)]
pub(super) struct Counts(Mutex<HashMap<(LeaseClient, UtcDay), u32>>);

pub(super) struct Counter<'a>(pub(super) &'a Counts, pub(super) (LeaseClient, UtcDay));

impl ClientCounter for Counter<'_> {
    fn admit(&self, limit: u32) -> Decision {
        let mut counts = lock(&self.0.0);
        let count = counts.entry(self.1).or_default();
        if *count >= limit {
            return Decision::Refuse;
        }
        *count += 1;
        let remaining = limit - *count;
        Decision::Admit { remaining }
    }

    fn peek(&self, limit: u32) -> u32 {
        let counts = lock(&self.0.0);
        limit.saturating_sub(counts.get(&self.1).copied().unwrap_or(0))
    }
}

/// Daily limit of each client of a simulation.
pub(super) const LIMIT: u32 = 60;

/// The way between a server and the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Link {
    Up,
    /// Requests get no answer; the store may have handled them.
    Frozen,
    Down,
}

/// A server of a simulation.
pub(super) struct Server {
    pub(super) table: Arc<LeaseTable>,
    pub(super) name: u32,
    pub(super) counts: Arc<Counts>,
    pub(super) outbox: Arc<Mutex<Vec<LeaseRequest>>>,
    pub(super) link: Link,
    /// The data losses of the store that this server knows of.
    pub(super) losses: u32,
    /// Smallest number of remaining requests shown, by client.
    pub(super) shown: HashMap<LeaseClient, u32>,
}

impl Server {
    pub(super) fn new(name: u32, counts: Arc<Counts>, settings: SharingSettings) -> Server {
        let outbox = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&outbox);
        Server {
            table: Arc::new(LeaseTable::new(settings, move |request| {
                lock(&sent).push(request);
            })),
            name,
            counts,
            outbox,
            link: Link::Down,
            losses: 0,
            shown: HashMap::new(),
        }
    }

    /// A response shows the remaining requests of a client.
    pub(super) fn show(&mut self, client: LeaseClient, remaining: u32) {
        let shown = self.shown.entry(client).or_insert(LIMIT);
        assert!(remaining <= *shown, "{remaining} remain after {shown}");
        *shown = remaining;
    }
}
