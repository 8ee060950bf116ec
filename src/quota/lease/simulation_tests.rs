//! Servers, a store and the network between them, with random faults.

use std::collections::HashMap;
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use arbtest::arbitrary::{Result, Unstructured};

use super::model_tests::{Counter, LIMIT, Link, Server, StoreModel};
use super::{
    LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest, NoLease, OutagePolicy, SharingSettings,
    StoreState,
};
use crate::calendar::{RequestTime, UnixSeconds, UtcDay};
use crate::quota::Decision;
use crate::sync::lock;

const DAY: UtcDay = UtcDay(20_000);

struct World {
    settings: SharingSettings,
    store: StoreModel,
    losses: u32,
    servers: Vec<Server>,
    names: u32,
    seconds: u32,
    clients: Vec<LeaseClient>,
    admitted: HashMap<LeaseClient, u32>,
    /// Requests that may be admitted beyond the limit.
    excess: HashMap<LeaseClient, u32>,
    /// Requests of stopped servers. Their figures are not sent again.
    orphaned: HashMap<LeaseClient, u32>,
    last_sent: Option<(u32, LeaseRequest)>,
}

impl World {
    fn new(u: &mut Unstructured<'_>, outage: OutagePolicy) -> Result<World> {
        let servers = u.int_in_range(1..=4)?;
        let settings = SharingSettings {
            servers,
            outage,
            clients_max: 100,
        };
        let mut world = World {
            settings,
            store: StoreModel::default(),
            losses: 0,
            servers: Vec::new(),
            names: servers,
            seconds: 0,
            clients: vec![LeaseClient::V4(7), LeaseClient::Key(7)],
            admitted: HashMap::new(),
            excess: HashMap::new(),
            orphaned: HashMap::new(),
            last_sent: None,
        };
        for name in 0..servers {
            let server = Server::new(name, Arc::default(), settings);
            world.servers.push(server);
            world.connect(name as usize);
        }
        Ok(world)
    }

    fn now(&self) -> RequestTime {
        RequestTime {
            day: DAY,
            reset_seconds: 86_400 - self.seconds,
        }
    }

    /// The store handles a request, and the server gets the answer.
    fn deliver(&mut self, at: usize, request: &LeaseRequest) {
        let server = &self.servers[at];
        let answer = self
            .store
            .handle(server.name, request, self.settings.servers);
        self.last_sent = Some((server.name, *request));
        let now = UnixSeconds(self.now().moment().0);
        self.servers[at].table.answer(request, answer, now);
    }

    fn sent(&self, at: usize) -> Vec<LeaseRequest> {
        std::mem::take(&mut *lock(&self.servers[at].outbox))
    }

    /// A server reaches the store, settles, and gets credits again.
    fn connect(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.link = Link::Up;
        let has_lost_data = server.losses != self.losses;
        server.losses = self.losses;
        server.table.set_state(StoreState::Settling);
        for request in server.table.settlements(has_lost_data) {
            self.deliver(at, &request);
        }
        self.servers[at].table.set_state(StoreState::Ready);
    }

    fn disconnect(&mut self, at: usize, u: &mut Unstructured<'_>) -> Result<()> {
        self.servers[at].link = Link::Down;
        for request in self.sent(at) {
            if u.arbitrary()? {
                let name = self.servers[at].name;
                let _ = self.store.handle(name, &request, self.settings.servers);
            }
        }
        self.servers[at].table.set_away();
        Ok(())
    }

    /// The credits of a client that a server has received, and those that it took alone.
    fn shares(&self, at: usize, client: LeaseClient) -> (u32, bool) {
        let shard = self.servers[at].table.shard(client);
        let credits = shard.credits.get(&client);
        credits.map_or((0, false), |credits| {
            (credits.granted, credits.has_taken_share)
        })
    }

    /// A client requests something of a server.
    fn request(&mut self, at: usize, client: LeaseClient) -> Option<Decision> {
        let (mut tries, now) = (0, self.now());
        loop {
            let before = self.shares(at, client);
            let server = &self.servers[at];
            let counter = Counter(&server.counts, (client, DAY));
            let may_wait = tries < 50;
            let outcome = server.table.admit(client, LIMIT, now, may_wait, &counter);
            let after = self.shares(at, client);
            if after.1 && !before.1 {
                *self.excess.entry(client).or_default() += after.0 - before.0;
            }
            if self.servers[at].link == Link::Up {
                for request in self.sent(at) {
                    self.deliver(at, &request);
                }
            }
            match outcome {
                Ok(decision) => {
                    let mut left = 0;
                    if let Decision::Admit { remaining } = decision {
                        *self.admitted.entry(client).or_default() += 1;
                        left = remaining;
                    }
                    self.servers[at].show(client, left);
                    return Some(decision);
                }
                Err(NoLease::Unavailable) => {
                    let server = &mut self.servers[at];
                    let counter = Counter(&server.counts, (client, DAY));
                    let remaining = server.table.peek(client, LIMIT, DAY, &counter);
                    server.show(client, remaining);
                    return None;
                }
                Err(NoLease::Wait(client)) => {
                    let server = &self.servers[at];
                    let mut context = Context::from_waker(Waker::noop());
                    let polled = pin!(server.table.wait(client)).poll(&mut context);
                    if polled.is_pending() {
                        assert_eq!(server.link, Link::Frozen);
                        for request in &*lock(&server.outbox) {
                            server.table.set_overdue(request);
                        }
                    }
                }
            }
            tries += 1;
        }
    }

    /// Replaces a server that has stopped; its counters stay.
    fn restart(&mut self, at: usize) {
        for client in self.clients.clone() {
            *self.orphaned.entry(client).or_default() += self.shares(at, client).0;
        }
        let counts = Arc::clone(&self.servers[at].counts);
        self.servers[at] = Server::new(self.names, counts, self.settings);
        self.servers[at].losses = self.losses;
        self.names += 1;
    }

    /// The store loses what it knows, or what it has learned since `backup`.
    fn lose(&mut self, backup: StoreModel) {
        let lost = std::mem::replace(&mut self.store, backup);
        self.losses += 1;
        for client in self.clients.clone() {
            // Credits that are not sent again before others get credits, also those that a server has not
            // received: an older backup that is restored later grants them again.
            let mut unknown = self.orphaned.get(&client).copied().unwrap_or(0);
            let day = lost.days.get(&(client, DAY));
            for (at, server) in self.servers.iter().enumerate() {
                let stored = day.and_then(|day| day.granted.get(&server.name));
                let (stored, known) = (stored.copied().unwrap_or(0), self.shares(at, client).0);
                unknown += if server.link == Link::Up {
                    stored.saturating_sub(known)
                } else {
                    stored.max(known)
                };
            }
            *self.excess.entry(client).or_default() += unknown;
        }
        for at in 0..self.servers.len() {
            if self.servers[at].link == Link::Up {
                self.connect(at);
            }
        }
    }

    fn fault(&mut self, u: &mut Unstructured<'_>, backup: &StoreModel) -> Result<()> {
        let at = u.choose_index(self.servers.len())?;
        match u.int_in_range(0..=7)? {
            0 | 1 => self.disconnect(at, u)?,
            2 | 3 => {
                self.disconnect(at, u)?;
                self.connect(at);
            }
            4 => self.servers[at].link = Link::Frozen,
            5 => {
                if let Some((name, request)) = self.last_sent {
                    // A message that the network doubled: its answer goes nowhere.
                    if request.action != LeaseAction::Return {
                        let _ = self.store.handle(name, &request, self.settings.servers);
                    }
                }
            }
            6 => {
                self.disconnect(at, u)?;
                if u.arbitrary()? {
                    for request in self.servers[at].table.give_back() {
                        self.deliver(at, &request);
                    }
                }
                self.restart(at);
                if u.arbitrary()? {
                    self.connect(at);
                }
            }
            _ => self.lose(if u.arbitrary()? {
                StoreModel::default()
            } else {
                backup.clone()
            }),
        }
        Ok(())
    }

    /// Credits in the store of servers that have stopped, which may not have received them.
    fn unknown(&self, client: LeaseClient) -> u32 {
        let day = self.store.days.get(&(client, DAY));
        let granted = day.iter().flat_map(|day| &day.granted);
        let is_gone = |name: u32| self.servers.iter().all(|server| server.name != name);
        granted
            .filter(|(name, _)| is_gone(**name))
            .map(|(_, granted)| granted)
            .sum()
    }

    fn check(&self) {
        for client in &self.clients {
            let admitted = self.admitted.get(client).copied().unwrap_or(0);
            let excess = self.excess.get(client).copied().unwrap_or(0);
            assert!(
                admitted <= LIMIT + excess,
                "{admitted} of {LIMIT} and {excess} were admitted"
            );
        }
    }
}

fn simulate(outage: OutagePolicy, has_faults: bool) {
    arbtest::arbtest(|u| {
        let mut world = World::new(u, outage)?;
        let mut backup = StoreModel::default();
        for _ in 0..u.int_in_range(0..=400)? {
            if has_faults && u.ratio(1, 12)? {
                world.fault(u, &backup)?;
            }
            if u.ratio(1, 20)? {
                backup = world.store.clone();
                world.seconds += 3;
            }
            let at = u.choose_index(world.servers.len())?;
            let client = *u.choose(&world.clients)?;
            let _ = world.request(at, client);
            world.check();
        }
        for at in 0..world.servers.len() {
            if has_faults {
                world.disconnect(at, u)?;
                world.connect(at);
            }
        }
        // The clients continue until no server admits more: exactly the limit is admitted, or with faults
        // at least the limit, without what stopped servers may have lost. A server that knew of more
        // credits than the store does after a loss of data looks them up again, at the first request.
        world.seconds += 6;
        for client in world.clients.clone() {
            for at in (0..world.servers.len()).chain(0..world.servers.len()) {
                while matches!(world.request(at, client), Some(Decision::Admit { .. })) {}
            }
            let lost = world.orphaned.get(&client).copied().unwrap_or(0) + world.unknown(client);
            let admitted = world.admitted.get(&client).copied().unwrap_or(0);
            assert!(admitted + lost >= LIMIT, "{admitted} with {lost} lost");
            assert!(has_faults || admitted == LIMIT, "{admitted}");
        }
        world.check();
        Ok(())
    })
    .budget_ms(if std::env::var_os("IM_TEST_SLOW").is_some() {
        20_000
    } else {
        2_000
    });
}

#[test]
fn restarts_without_the_store_give_no_further_share() {
    let settings = SharingSettings {
        servers: 3,
        outage: OutagePolicy::Share,
        clients_max: 100,
    };
    let counts = Arc::default();
    let now = RequestTime {
        day: DAY,
        reset_seconds: 9,
    };
    let client = LeaseClient::V4(7);
    let mut admitted = 0;
    for name in 0..5 {
        let server = Server::new(name, Arc::clone(&counts), settings);
        let counter = Counter(&counts, (client, DAY));
        // Some of the share in the first runs, and as much as possible in the last.
        for _ in 0..if name < 3 { 3 } else { LIMIT } {
            let outcome = server.table.admit(client, LIMIT, now, true, &counter);
            admitted += u32::from(matches!(outcome, Ok(Decision::Admit { .. })));
        }
    }
    assert_eq!(admitted, LIMIT / 3);
}

#[test]
fn a_share_taken_while_servers_settle_depends_on_what_was_known_before() {
    let settings = SharingSettings {
        servers: 4,
        outage: OutagePolicy::Share,
        clients_max: 100,
    };
    let now = RequestTime {
        day: DAY,
        reset_seconds: 9,
    };
    let client = LeaseClient::V4(7);
    let server = Server::new(0, Arc::default(), settings);
    let counter = Counter(&server.counts, (client, DAY));
    let admit = |may_wait| {
        let table = &server.table;
        let outcome = table.admit(client, LIMIT, now, may_wait, &counter);
        matches!(outcome, Ok(Decision::Admit { .. }))
    };
    let answer = |request: &LeaseRequest, total| {
        let answer = LeaseAnswer {
            granted: 1,
            total,
            limit: LIMIT,
        };
        server.table.answer(request, answer, UnixSeconds(0));
    };
    server.table.set_state(StoreState::Ready);
    assert!(!admit(true));
    let sent = std::mem::take(&mut *lock(&server.outbox));
    // The store has granted all but eight credits, most of them to other servers.
    answer(&sent[0], LIMIT - 8);
    // It loses its data, and this server is the first that settles.
    server.table.set_away();
    server.table.set_state(StoreState::Settling);
    let settlements = server.table.settlements(true);
    assert_eq!(settlements.len(), 1);
    answer(&settlements[0], 1);
    let admitted = (0..LIMIT).filter(|_| admit(true)).count();
    assert_eq!(admitted, 1 + 8 / 4);
}

#[test]
fn without_faults_all_servers_together_admit_exactly_the_limit() {
    simulate(OutagePolicy::Share, false);
}

#[test]
fn faults_admit_no_more_than_the_shares_of_servers_that_were_cut_off() {
    simulate(OutagePolicy::Share, true);
}

#[test]
fn servers_that_refuse_alone_admit_no_more_than_the_limit() {
    simulate(OutagePolicy::Refuse, true);
}
