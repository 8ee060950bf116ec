//! Servers that share quotas, around midnight, with clocks that differ by seconds.
//!
//! Each server is on a clock of its own, set by libfaketime. See `midnight`.

use crate::midnight::Time;
use crate::prelude::*;
use crate::shared_quota::{TARGET, admits_exactly, all_in_time, spend, spend_in_turn};
use crate::store::{LIMIT, Peer, Store, await_all};

/// Seconds by which the clock of each server is ahead.
const AHEAD: [i64; 3] = [-3, 0, 3];
/// Past days: the clock of the store is ahead by more than a year, and figures expire by the clocks of the servers.
const DAYS: [&str; 2] = ["2025-03-14", "2025-03-15"];
const DAY_SECONDS: i64 = 86_400;

/// A clock's text, so many seconds after midnight.
fn moment(seconds: i64) -> String {
    let day = DAYS[usize::from(seconds >= 0)];
    let second = seconds.rem_euclid(DAY_SECONDS);
    let (minute, hour) = (second / 60 % 60, second / 3600);
    format!("{day} {hour:02}:{minute:02}:{:02}", second % 60)
}

/// Three servers and their clocks.
struct Cluster {
    peers: Vec<Peer>,
    clocks: Vec<Time>,
}

impl Cluster {
    /// Starts the servers so many seconds after midnight. `None` without libfaketime.
    fn start(store: &Store, seconds: i64) -> Option<Cluster> {
        let clocks: Option<Vec<Time>> = AHEAD.iter().map(|_| Time::new()).collect();
        let mut cluster = Cluster {
            peers: Vec::new(),
            clocks: clocks?,
        };
        cluster.set(seconds);
        for clock in &cluster.clocks {
            let (command, state) = (clock.command(), clock.state());
            let peer = Peer::start_as(command, &store.url(), &state, AHEAD.len(), &[]);
            cluster.peers.push(peer);
        }
        Some(cluster)
    }

    /// Sets the clock of each server, for a moment so many seconds after midnight.
    fn set(&self, seconds: i64) {
        for (clock, ahead) in self.clocks.iter().zip(AHEAD) {
            clock.set(&moment(seconds + ahead));
        }
    }
}

/// A client of one server: the responses on its way from one day to the next.
struct Visitor {
    client: Client,
    ahead: i64,
    /// Requests admitted on each day.
    admitted: [u32; 2],
    /// `Remaining` of the response before, and how often it has risen.
    shown: u32,
    rises: u32,
}

impl Visitor {
    /// Sends a request so many seconds after midnight, and returns the status.
    fn request(&mut self, seconds: i64) -> u16 {
        let clock = seconds + self.ahead;
        let reply = self.client.get(TARGET);
        let expected = if clock < 0 {
            -clock
        } else {
            DAY_SECONDS - clock
        };
        assert_eq!(i64::from(reply.number("x-ratelimit-reset")), expected);
        let remaining = reply.left();
        self.rises += u32::from(remaining > self.shown);
        self.shown = remaining;
        match reply.status {
            200 => self.admitted[usize::from(clock >= 0)] += 1,
            429 => assert_eq!(i64::from(reply.number("retry-after")), expected),
            503 => assert_eq!(reply.number("retry-after"), 1),
            other => panic!("{other}: {}", reply.text()),
        }
        reply.status
    }
}

/// A client that sends requests to all servers from six seconds before midnight to six seconds
/// after it. Returns what was admitted on each day.
fn through_midnight(cluster: &Cluster) -> [u32; 2] {
    let visitor = |(peer, ahead): (&Peer, i64)| Visitor {
        client: peer.connect(),
        ahead,
        admitted: [0; 2],
        shown: LIMIT,
        rises: 0,
    };
    let mut visitors: Vec<Visitor> = cluster.peers.iter().zip(AHEAD).map(visitor).collect();
    for seconds in -6..=6 {
        cluster.set(seconds);
        for _ in 0..4 {
            for visitor in &mut visitors {
                visitor.request(seconds);
            }
        }
    }
    // All servers are in the new day.
    while visitors.iter_mut().any(|visitor| visitor.request(6) == 200) {}
    for visitor in &visitors {
        assert_eq!(visitor.rises, 1, "{} s ahead", visitor.ahead);
    }
    [0, 1].map(|day| visitors.iter().map(|visitor| visitor.admitted[day]).sum())
}

#[test]
fn with_clocks_that_differ_by_seconds_each_day_has_its_limit() {
    let Some(_) = Time::new() else { return };
    admits_exactly(LIMIT, |store, _| {
        let cluster = Cluster::start(&store, -6).unwrap();
        let [before, after] = through_midnight(&cluster);
        // Without the store, each of the three admits at most a third on each day.
        assert!(before <= 2 * LIMIT, "{before}");
        let is_exact = all_in_time(&cluster.peers);
        // What two servers had leased and not spent when their day ended is lost to the client.
        let least = LIMIT * 2 / 3;
        assert!(!is_exact || (least..=LIMIT).contains(&before), "{before}");
        (after, is_exact)
    });
}

#[test]
fn what_was_admitted_without_the_store_before_midnight_is_not_charged_to_the_new_day() {
    let Some(_) = Time::new() else { return };
    admits_exactly(LIMIT, |mut store, _| {
        let cluster = Cluster::start(&store, -60).unwrap();
        store.kill();
        await_all(&cluster.peers, false);
        let alone = spend_in_turn_alone(&cluster);
        assert_eq!(alone, LIMIT / 3 * 3, "the shares of all servers");
        cluster.set(60);
        assert!(store.run());
        await_all(&cluster.peers, true);
        let late = |peer: &Peer| peer.metric("requests_total{result=\"late\"}");
        let before: f64 = cluster.peers.iter().map(late).sum();
        let admitted = spend_in_turn(&cluster.peers, TARGET);
        assert!(admitted >= LIMIT, "{admitted}");
        let after: f64 = cluster.peers.iter().map(late).sum();
        (admitted, after.eq(&before))
    });
}

/// Requests to each server until it admits no more without the store: those admitted.
fn spend_in_turn_alone(cluster: &Cluster) -> u32 {
    let spent = cluster.peers.iter().map(|peer| {
        let (admitted, status) = spend(peer, TARGET);
        assert_eq!(status, 503);
        admitted
    });
    spent.sum()
}
