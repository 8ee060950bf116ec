//! Servers, a store and the network between them: all histories of a few events, and random long ones.

use std::collections::HashMap;
use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::model_tests::{JoinModel, StoreModel};
use super::server_model_tests::{Counter, Counts, Link, Server};
use super::{LeaseClient, LeaseRequest, NoLease, OutagePolicy, SharingSettings, StoreState};
use crate::calendar::{RequestTime, UnixSeconds, UtcDay};
use crate::quota::Decision;
use crate::sync::lock;

/// An event of a history; numbers are of servers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A client sends some requests to a server.
    Spend(usize, u32),
    /// A server registers, and sends some of its counts if it has not sent all.
    Heartbeat(usize),
    Stop(usize),
    Kill(usize),
    Start(usize),
    Cut(usize, Link),
    /// The store is emptied, in the same run or in a new one.
    Empty(bool),
    /// A copy of the store is made.
    Copy,
    /// The store starts with the copy.
    Restore,
    /// The next day begins at a server.
    Midnight(usize),
    /// A machine is lost with its state directory, and another one takes its place.
    Replace(usize),
}

struct World {
    limit: u32,
    settings: SharingSettings,
    store: StoreModel,
    copy: StoreModel,
    /// Number of the store's run; of the next marker and the next start.
    run: u32,
    next: u32,
    seconds: u32,
    servers: Vec<Server>,
    clients: Vec<LeaseClient>,
    admitted: HashMap<(LeaseClient, UtcDay), u32>,
    events: Vec<Event>,
    /// Requests that servers admitted alone.
    shares: HashMap<(LeaseClient, UtcDay), u32>,
    /// Requests that lost state directories had counted.
    lost: HashMap<(LeaseClient, UtcDay), u32>,
}

impl World {
    fn new(limit: u32, servers: u32, outage: OutagePolicy) -> World {
        let settings = SharingSettings {
            servers,
            outage,
            clients_max: 1_000,
        };
        let mut world = World {
            limit,
            settings,
            store: StoreModel::default(),
            copy: StoreModel::default(),
            run: 1,
            next: 1,
            seconds: 0,
            servers: Vec::new(),
            clients: vec![LeaseClient::Anonymous(7), LeaseClient::Key(7)],
            admitted: HashMap::new(),
            events: Vec::new(),
            shares: HashMap::new(),
            lost: HashMap::new(),
        };
        for directory in 0..servers {
            let day = UtcDay(20_000);
            let server = world.server(directory, Arc::default(), day);
            world.servers.push(server);
            world.settle(directory as usize);
        }
        // All are granted credits.
        (0..servers as usize).for_each(|at| world.settle(at));
        world
    }

    fn server(&mut self, directory: u32, counts: Arc<Counts>, day: UtcDay) -> Server {
        self.next += 1;
        Server::new(directory, self.next, counts, day, self.settings)
    }

    fn reaches(&self, at: usize) -> bool {
        self.servers[at].is_running && self.servers[at].link == Link::Up
    }

    /// A server joins; if it finds another marker, a pass over its counts begins.
    fn join(&mut self, at: usize) {
        self.next += 1;
        // Clocks differ by less than an hour.
        let day = self.servers[at].day;
        let ends_soon = self.servers.iter().any(|server| server.day > day);
        let server = &mut self.servers[at];
        let (marker, has_reserves) = self.store.join(&JoinModel {
            new_marker: self.next,
            run: self.run,
            directory: server.directory,
            day: server.day,
            servers: self.settings.servers,
            settled: server.settled,
            has_counts: server.settled.is_some() || !lock(&server.counts.0).is_empty(),
            ends_soon,
        });
        let reserve_day = has_reserves.then_some(server.day);
        server.table.set_reserve_day(reserve_day);
        if server.marker != Some(marker) {
            server.marker = Some(marker);
            server.pass = server.table.settlements().collect();
            for ((client, day), counted) in &*lock(&server.counts.0) {
                if *day == server.day {
                    let settlement = server.table.settlement(*client, *day, *counted);
                    server.pass.push(settlement);
                }
            }
        }
        self.set_state(at);
    }

    fn set_state(&self, at: usize) {
        let server = &self.servers[at];
        let is_blocked = self.store.blocked() >= server.day;
        let states = [StoreState::Ready, StoreState::Settling];
        server.table.set_state(states[usize::from(is_blocked)]);
    }

    /// The store handles a request, and the server gets the answer.
    fn deliver(&mut self, at: usize, request: &LeaseRequest) {
        let now = self.now(at).moment;
        let server = &mut self.servers[at];
        let Some(marker) = server.marker else {
            return self.join(at);
        };
        let from = (marker, server.directory, server.start);
        let answer = self.store.handle(from, request, self.settings.servers);
        let Some(answer) = answer else {
            server.marker = None;
            server.table.set_late();
            return self.join(at);
        };
        if server.link == Link::Up {
            self.set_state(at);
            self.servers[at]
                .table
                .answer(request, answer, UnixSeconds(now.0));
        }
    }

    /// Sends the rest of a pass, at most `count` requests.
    fn step(&mut self, at: usize, count: usize) {
        for _ in 0..count {
            let Some(request) = self.servers[at].pass.pop() else {
                break;
            };
            self.deliver(at, &request);
        }
        let server = &mut self.servers[at];
        if server.pass.is_empty() && server.settled != server.marker {
            server.settled = server.marker;
            self.join(at);
        }
    }

    fn settle(&mut self, at: usize) {
        if self.reaches(at) {
            self.join(at);
            self.step(at, usize::MAX);
        }
    }

    fn now(&self, at: usize) -> RequestTime {
        let day = self.servers[at].day;
        let moment = UnixSeconds(day.start().0 + i64::from(self.seconds));
        RequestTime { day, moment }
    }

    /// A server passes on what it has to send.
    fn exchange(&mut self, at: usize) {
        let sent = std::mem::take(&mut *lock(&self.servers[at].outbox));
        let link = self.servers[at].link;
        if link != Link::Down {
            for request in &sent {
                self.deliver(at, request);
            }
        }
        if link == Link::Mute {
            self.servers[at].table.set_late();
        }
    }

    /// The credits of a client's day that a server has taken without the store.
    fn taken_alone(&self, at: usize, (client, day): (LeaseClient, UtcDay)) -> u32 {
        let shard = self.servers[at].table.shard(client);
        let credits = shard.leases.get(&client);
        let credits = credits.filter(|credits| credits.day == day);
        credits.map_or(0, |credits| credits.taken_alone)
    }

    /// A client sends a request; returns `None` if the server refuses alone.
    fn request(&mut self, at: usize, client: LeaseClient) -> Option<Decision> {
        let (now, mut waited) = (self.now(at), None);
        let of_day = (client, now.day);
        loop {
            let before = self.taken_alone(at, of_day);
            let server = &self.servers[at];
            let (table, counts) = (Arc::clone(&server.table), Arc::clone(&server.counts));
            let counter = Counter(&counts, of_day);
            let outcome = table.admit(client, self.limit, now, waited, &counter);
            let after = self.taken_alone(at, of_day);
            if after > before {
                *self.shares.entry(of_day).or_default() += after - before;
            }
            self.exchange(at);
            let (decision, remaining) = match outcome {
                Ok(Decision::Admit { remaining }) => {
                    *self.admitted.entry(of_day).or_default() += 1;
                    (Some(Decision::Admit { remaining }), remaining)
                }
                Ok(Decision::Refuse) => (Some(Decision::Refuse), 0),
                Err(NoLease::Unavailable) => {
                    let left = table.peek(client, self.limit, now.day, &counter);
                    (None, left.unwrap_or(0))
                }
                Err(NoLease::Wait(wait)) => {
                    let mut context = Context::from_waker(Waker::noop());
                    let _ = pin!(table.wait(wait)).poll(&mut context);
                    waited = Some(wait);
                    continue;
                }
            };
            let shown = self.servers[at].shown.entry(of_day).or_insert(self.limit);
            assert!(remaining <= *shown, "{remaining} remain after {shown}");
            *shown = remaining;
            return decision;
        }
    }

    fn apply(&mut self, event: Event) {
        self.events.push(event);
        match event {
            Event::Spend(at, count) => {
                for number in 0..count {
                    let client = self.clients[number as usize % self.clients.len()];
                    if self.servers[at].is_running {
                        let _ = self.request(at, client);
                    }
                }
            }
            Event::Heartbeat(at) => {
                if self.reaches(at) {
                    self.join(at);
                    self.step(at, 1);
                }
            }
            Event::Stop(at) | Event::Kill(at) => {
                if matches!(event, Event::Stop(_)) && self.reaches(at) {
                    let returned: Vec<_> = self.servers[at].table.give_back().collect();
                    for request in returned {
                        self.deliver(at, &request);
                    }
                }
                self.servers[at].is_running = false;
            }
            Event::Start(at) => {
                if !self.servers[at].is_running {
                    let stopped = &self.servers[at];
                    let counts = Arc::clone(&stopped.counts);
                    let (directory, day, link) = (stopped.directory, stopped.day, stopped.link);
                    self.servers[at] = self.server(directory, counts, day);
                    self.servers[at].link = link;
                    if self.reaches(at) {
                        self.join(at);
                    }
                }
            }
            Event::Replace(at) => self.replace(at),
            Event::Cut(at, link) => {
                self.servers[at].table.set_away();
                lock(&self.servers[at].outbox).clear();
                self.servers[at].link = link;
                if self.reaches(at) {
                    self.servers[at].marker = None;
                    self.join(at);
                }
            }
            Event::Empty(is_new_run) => {
                self.store = StoreModel::default();
                if is_new_run {
                    self.new_run();
                }
            }
            Event::Copy => self.copy = self.store.clone(),
            Event::Restore => {
                self.store = self.copy.clone();
                self.new_run();
            }
            Event::Midnight(at) => {
                // The clocks of servers differ by less than an hour.
                let day = self.servers[at].day;
                if self.servers.iter().all(|server| server.day >= day) {
                    self.servers[at].day = UtcDay(day.0 + 1);
                }
            }
        }
        self.check();
    }

    /// Replaces a server by one on a new machine.
    fn replace(&mut self, at: usize) {
        let counts = Arc::clone(&self.servers[at].counts);
        for (of_day, count) in &*lock(&counts.0) {
            *self.lost.entry(*of_day).or_default() += count;
        }
        // It has no heartbeats any more.
        self.store.sent.remove(&self.servers[at].directory);
        self.copy.sent.remove(&self.servers[at].directory);
        self.next += 1;
        let (directory, day) = (self.next, self.servers[at].day);
        self.servers[at] = self.server(directory, Arc::default(), day);
        (0..self.servers.len()).for_each(|at| self.settle(at));
    }

    /// The store starts again: connections are lost, and servers join on new ones.
    fn new_run(&mut self) {
        self.run += 1;
        for at in 0..self.servers.len() {
            let server = &mut self.servers[at];
            server.table.set_away();
            lock(&server.outbox).clear();
            server.marker = None;
        }
    }

    fn check(&self) {
        for (of_day, admitted) in &self.admitted {
            let of = |counts: &HashMap<_, u32>| counts.get(of_day).copied().unwrap_or(0);
            let (shares, lost, limit) = (of(&self.shares), of(&self.lost), self.limit);
            assert!(
                *admitted <= limit + shares + lost,
                "{admitted} of {limit}, {shares} alone and {lost} lost: {:?}",
                self.events
            );
        }
    }

    /// All servers run, reach the store and send their counts; then the clients send until all are refused.
    fn end(&mut self) {
        let days = self.servers.iter().map(|server| server.day);
        let day = days.fold(UtcDay(0), Ord::max);
        for at in 0..self.servers.len() {
            self.servers[at].day = day;
            self.apply(Event::Start(at));
            self.apply(Event::Cut(at, Link::Up));
        }
        for _ in 0..2 {
            (0..self.servers.len()).for_each(|at| self.settle(at));
        }
        // A server looks a client up again after some seconds.
        self.seconds += 6;
        for client in self.clients.clone() {
            for at in (0..self.servers.len()).chain(0..self.servers.len()) {
                let mut unavailable = 0;
                while unavailable < 3 {
                    match self.request(at, client) {
                        Some(Decision::Refuse) => break,
                        Some(Decision::Admit { .. }) => unavailable = 0,
                        None => unavailable += 1,
                    }
                }
                assert!(
                    unavailable < 3,
                    "the store grants nothing: {:?}",
                    self.events
                );
            }
        }
        self.check();
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod histories;
