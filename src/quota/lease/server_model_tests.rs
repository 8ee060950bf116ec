//! A server of a simulation: its leases, its counters, and its way to the store.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::calendar::{RequestTime, UnixSeconds, UtcDay};
use crate::quota::Decision;
use crate::sync::{Mutex, lock};

pub(super) const NOW: RequestTime = RequestTime {
    day: UtcDay(20_000),
    moment: UtcDay(20_000).start(),
};

/// Answers a request of which this server gets `granted` credits, and all servers have `others` more.
pub(super) fn answer(table: &LeaseTable, request: &LeaseRequest, granted: u32, others: u32) {
    let answer = LeaseAnswer {
        granted,
        total: granted + others,
        limit: 200,
    };
    table.answer(request, answer, UnixSeconds(0));
}

/// The way between a server and the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Link {
    Up,
    /// The store handles requests, and the server gets no answer.
    Mute,
    Down,
}

/// A server, or a stopped one, of which the state directory and the counters stay.
pub(super) struct Server {
    pub(super) directory: u32,
    pub(super) table: Arc<LeaseTable>,
    pub(super) outbox: Arc<Mutex<Vec<LeaseRequest>>>,
    pub(super) counts: Arc<Counts>,
    pub(super) start: u32,
    pub(super) is_running: bool,
    pub(super) link: Link,
    pub(super) marker: Option<u32>,
    pub(super) settled: Option<u32>,
    pub(super) pass: Vec<LeaseRequest>,
    pub(super) day: UtcDay,
    /// The smallest number of remaining requests shown, by client and day.
    pub(super) shown: HashMap<(LeaseClient, UtcDay), u32>,
}

impl Server {
    pub(super) fn new(
        directory: u32,
        start: u32,
        counts: Arc<Counts>,
        day: UtcDay,
        settings: SharingSettings,
    ) -> Server {
        let outbox = Arc::new(Mutex::new(Vec::new()));
        let sent = Arc::clone(&outbox);
        let push = move |request| lock(&sent).push(request);
        Server {
            directory,
            table: Arc::new(LeaseTable::new(settings, push)),
            outbox,
            counts,
            start,
            is_running: true,
            link: Link::Up,
            marker: None,
            settled: None,
            pass: Vec::new(),
            day,
            shown: HashMap::new(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts(pub(super) Mutex<HashMap<(LeaseClient, UtcDay), u32>>);

pub(super) struct Counter<'a>(pub(super) &'a Counts, pub(super) (LeaseClient, UtcDay));

impl ClientCounter for Counter<'_> {
    fn admit(&self, limit: u32) -> Result<Decision, NoLease> {
        let mut counts = lock(&self.0.0);
        let count = counts.entry(self.1).or_default();
        if *count >= limit {
            return Ok(Decision::Refuse);
        }
        *count += 1;
        let remaining = limit - *count;
        Ok(Decision::Admit { remaining })
    }

    fn peek(&self, limit: u32) -> Option<u32> {
        let counts = lock(&self.0.0);
        Some(limit.saturating_sub(counts.get(&self.1).copied().unwrap_or(0)))
    }
}

/// A table without leases, and the requests that it sends.
pub(super) fn table(
    servers: u32,
    outage: OutagePolicy,
) -> (LeaseTable, Arc<Mutex<Vec<LeaseRequest>>>) {
    let settings = SharingSettings {
        servers,
        outage,
        clients_max: 1_000,
    };
    let outbox = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&outbox);
    let table = LeaseTable::new(settings, move |request| lock(&sent).push(request));
    (table, outbox)
}

#[test]
fn a_grant_under_way_is_given_back_when_the_server_stops() {
    let (table, sent) = table(2, OutagePolicy::Refuse);
    table.set_state(StoreState::Ready);
    let counts = Counts::default();
    let now = NOW;
    let client = LeaseClient::Key(1);
    let counter = Counter(&counts, (client, now.day));
    let waits = table.admit(client, 60, now, None, &counter);
    assert!(matches!(waits, Err(NoLease::Wait(_))));
    assert_eq!(lock(&sent).len(), 1);
    let given = table.give_back();
    let given = given.map(|request| (request.client, request.action));
    assert!(given.eq([(client, LeaseAction::Return)]));
}
