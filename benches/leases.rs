//! A simulated day of shared quotas, with the lease tables of the servers. See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a program that prints its results"
)]

mod common;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};

use island_metrics::calendar::{RequestTime, UnixSeconds, UtcDay};
use island_metrics::quota::{
    ClientCounter, Decision, GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest,
    LeaseTable, NoLease, OutagePolicy, SharingSettings, StoreState,
};

use crate::common::prelude::*;

const DAY: UtcDay = UtcDay(20_777);
const NOW: RequestTime = RequestTime {
    day: DAY,
    moment: DAY.start(),
};
/// Daily limits of an address and of a free key (SPEC section 6).
const ADDRESS: u32 = 100;
const KEY: u32 = 1_000;
/// One client in this many has a key.
const KEYED: u32 = 20;
/// Servers start anew after this many clients, whose figures are independent of each other.
const BATCH: u32 = 10_000;

/// One server: its leases, its counter of the present client, and what it sends to the store.
struct Server {
    leases: Arc<LeaseTable>,
    sent: Receiver<LeaseRequest>,
    count: Counter,
}

#[derive(Default)]
struct Counter(Cell<u32>);

impl ClientCounter for Counter {
    fn admit(&self, limit: u32) -> Result<Decision, NoLease> {
        let count = self.0.get();
        if count >= limit {
            return Ok(Decision::Refuse);
        }
        self.0.set(count + 1);
        let remaining = limit - count - 1;
        Ok(Decision::Admit { remaining })
    }

    fn peek(&self, limit: u32) -> Option<u32> {
        Some(limit - self.0.get().min(limit))
    }
}

/// A client's day in the store, by the rule of `src/shared/counts.lua`.
#[derive(Default)]
struct ClientDay {
    total: u32,
    granted: HashMap<usize, u32>,
}

impl ClientDay {
    fn handle(&mut self, server: usize, servers: u32, request: &LeaseRequest) -> LeaseAnswer {
        let known = self.granted.len() + usize::from(!self.granted.contains_key(&server));
        let granted = self.granted.entry(server).or_insert_with(|| {
            // The request that the reserve of this server has admitted.
            self.total += request.counted;
            0
        });
        let has_reserves = request.limit / 10 >= servers;
        let kept = if has_reserves {
            servers - known as u32
        } else {
            0
        };
        if let LeaseAction::Grant(wanted) = request.action
            && *granted == request.granted
        {
            let left = request.limit - self.total - kept;
            let usual = left.div_ceil(4 * servers).clamp(1, GRANT_MAX);
            let grant = usual.max(wanted).min(left);
            self.total += grant;
            *granted += grant;
        }
        LeaseAnswer {
            granted: *granted,
            total: self.total + kept,
            limit: request.limit,
        }
    }
}

/// Sums over all clients of a day.
#[derive(Default)]
struct Sums {
    requests: u64,
    admitted: u64,
    /// Requests that the limit allowed.
    allowed: u64,
    calls: u64,
    /// Requests that waited for the store.
    waited: u64,
    /// Fields of servers in the store, which are also the leases of all servers.
    leases: u64,
}

/// A hash of a few numbers, for reproducible choices.
fn hash(numbers: [u32; 2]) -> u32 {
    let mut x = (u64::from(numbers[0]) << 32 | u64::from(numbers[1])) ^ 0x9e37_79b9_7f4a_7c15;
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    (x >> 32) as u32
}

/// Requests of a client on the day: mostly few, some beyond the limit.
fn requests_of(client: u32, limit: u32) -> u32 {
    let uniform = f64::from(hash([client, 1])) / 2_f64.powi(32);
    let mean = f64::from(limit) / 4.0;
    ((-mean * (1.0 - uniform).ln()) as u32).clamp(1, 2 * limit)
}

/// A request reaches any server if `is_random`, else the same one as all others of its client.
fn simulate(servers: u32, clients: u32, is_random: bool) -> Sums {
    let settings = SharingSettings {
        servers,
        outage: OutagePolicy::Share,
        // No part of a table is full by chance.
        clients_max: 2 * u64::from(BATCH),
    };
    let start = |_| {
        let (to_store, sent) = channel();
        let deliver = move |request| {
            let sending = to_store.send(request);
            sending.expect("the receiver is in the server");
        };
        let leases = Arc::new(LeaseTable::new(settings, deliver));
        leases.set_state(StoreState::Ready);
        leases.set_reserve_day(Some(DAY));
        Server {
            leases,
            sent,
            count: Counter::default(),
        }
    };
    let mut running: Vec<Server> = (0..servers).map(start).collect();
    let mut sums = Sums::default();
    for client in 0..clients {
        let is_keyed = client % KEYED == 0;
        let (limit, name) = if is_keyed {
            (KEY, LeaseClient::Key(u64::from(client)))
        } else {
            (ADDRESS, LeaseClient::Anonymous(u64::from(client)))
        };
        let requests = requests_of(client, limit);
        let mut day = ClientDay::default();
        for number in 0..requests {
            let at = hash([client, if is_random { 3 + number } else { 2 }]);
            request(
                &running,
                at as usize % running.len(),
                name,
                limit,
                &mut day,
                &mut sums,
            );
        }
        sums.requests += u64::from(requests);
        sums.allowed += u64::from(requests.min(limit));
        sums.leases += day.granted.len() as u64;
        for server in &running {
            server.count.0.set(0);
        }
        if client % BATCH == BATCH - 1 {
            running = (0..servers).map(start).collect();
        }
    }
    sums
}

/// One request of a client at a server, and the calls to the store that follow from it.
fn request(
    servers: &[Server],
    at: usize,
    client: LeaseClient,
    limit: u32,
    day: &mut ClientDay,
    sums: &mut Sums,
) {
    let server = &servers[at];
    let mut has_waited = false;
    loop {
        let admitted = server.leases.admit(client, limit, NOW, None, &server.count);
        while let Ok(request) = server.sent.try_recv() {
            sums.calls += 1;
            let answer = day.handle(at, servers.len() as u32, &request);
            server.leases.answer(&request, answer, UnixSeconds(0));
        }
        match admitted {
            Ok(Decision::Admit { .. }) => sums.admitted += 1,
            Ok(Decision::Refuse) => {}
            Err(NoLease::Wait(_)) => {
                has_waited = true;
                continue;
            }
            Err(NoLease::Unavailable) => unreachable!("the store answers"),
        }
        sums.waited += u64::from(has_waited);
        return;
    }
}

fn main() {
    let clients = if is_quick() { 2_000 } else { 1_000_000 };
    println!("{clients} clients, one in {KEYED} with a key; limits {ADDRESS} and {KEY}\n");
    println!(
        "{:>7}  {:<10}{:>10}{:>14}{:>14}{:>12}{:>16}",
        "servers",
        "balancer",
        "requests",
        "calls/1,000",
        "waited/1,000",
        "admitted",
        "leases/client"
    );
    for servers in [2, 10, 100] {
        for (name, is_random) in [("by client", false), ("random", true)] {
            let sums = simulate(servers, clients, is_random);
            assert!(sums.admitted <= sums.allowed, "more than the limits allow");
            let per_thousand = |count: u64| count as f64 * 1_000.0 / sums.requests as f64;
            println!(
                "{servers:>7}  {name:<10}{:>10}{:>14.1}{:>14.1}{:>10.2} %{:>16.2}",
                sums.requests,
                per_thousand(sums.calls),
                per_thousand(sums.waited),
                sums.admitted as f64 * 100.0 / sums.allowed as f64,
                sums.leases as f64 / f64::from(clients),
            );
        }
    }
}
