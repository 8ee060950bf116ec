//! A store that answers, but late, and one without memory left (CONTRACT section 9).
//!
//! Answers are late by the delay of a proxy. The machine adds to it: where a test requires that answers
//! come in time, it repeats a trial with a late one.

use crate::prelude::*;
use crate::shared_quota::TARGET;
use crate::store::{LIMIT, Peer, Store};
use crate::store_proxy::{Mode, StoreProxy};

/// More than the 20 ms that a request waits.
const LATE: Duration = Duration::from_millis(26);
const IN_TIME: Duration = Duration::from_millis(12);
/// The longest that a request waits for the store, and the time that it needs itself.
const WAIT_MAX: Duration = Duration::from_millis(25);
/// Trials until the store answers each request in time.
const TRIALS: usize = 20;

/// A server, which reaches the store through a proxy, and clients.
struct Scene {
    peer: Peer,
    proxy: StoreProxy,
    store: Store,
    client: Client,
    /// Clients so far.
    clients: u32,
    waits: Vec<Duration>,
    other_waits: Vec<Duration>,
    _directory: TempDir,
}

impl Scene {
    fn start(outage: &str) -> Option<Scene> {
        let store = Store::start(&[])?;
        let proxy = StoreProxy::start(store.port);
        let directory = TempDir::new();
        let more = ["--shared-quota-outage", outage];
        let more = [&more[..], &["--trusted-proxy", "127.0.0.0/8"]].concat();
        let peer = Peer::start(&proxy.url(), &directory.join("state"), 1, &more);
        peer.await_up(true);
        Some(Scene {
            client: peer.connect(),
            peer,
            proxy,
            store,
            clients: 0,
            waits: Vec::new(),
            other_waits: Vec::new(),
            _directory: directory,
        })
    }

    /// The status of the second request of a client, which is the first that needs a credit of the store.
    fn lease(&mut self, client: u32) -> u16 {
        let waits = self.waits.len();
        self.request(client);
        self.waits.truncate(waits);
        self.request(client)
    }

    /// The status of a request of a client.
    fn request(&mut self, client: u32) -> u16 {
        let address = format!("198.18.{}.{}", client / 256, client % 256);
        let begun = Instant::now();
        let headers = [("X-Forwarded-For", address.as_str())];
        let reply = self.client.request("GET", TARGET, &headers);
        self.waits.push(begun.elapsed());
        let begun = Instant::now();
        assert_eq!(self.client.get("/v1/health").status, 200);
        self.other_waits.push(begun.elapsed());
        reply.status
    }

    /// Requests of new clients for some time, in which the store is in use throughout. Returns `slow`
    /// after each.
    fn requests_for(
        &mut self,
        time: Duration,
        mut before_each: impl FnMut(&StoreProxy),
    ) -> Vec<f64> {
        let begun = Instant::now();
        let mut slow = Vec::new();
        while begun.elapsed() < time {
            before_each(&self.proxy);
            self.clients += 1;
            assert_eq!(self.lease(self.clients), 200);
            assert!(
                self.peer.metric("up").eq(&1.0),
                "after {:?}",
                begun.elapsed()
            );
            slow.push(self.peer.metric("slow"));
        }
        slow
    }

    fn await_slow(&mut self, is_slow: bool) {
        let wanted = f64::from(u8::from(is_slow));
        wait_for("the store's speed", || {
            let slow = self.requests_for(Duration::from_millis(50), |_| ());
            slow.last().is_some_and(|slow| slow.eq(&wanted))
        });
    }

    /// Checks the lines of the log about slow answers so far.
    fn check_lines(&self, slow: usize, in_time: usize) {
        let counts = ["the store is slow", "in time again"].map(|part| self.peer.count_lines(part));
        assert_eq!(counts, [slow, in_time], "{:#?}", self.peer.server.lines());
        assert!(self.peer.metric("outages_total").eq(&0.0));
    }

    /// The machine's pauses lengthen some requests of both kinds.
    fn check_waits(&mut self) {
        let middle = |waits: &mut Vec<Duration>| {
            waits.sort();
            waits[waits.len() / 2]
        };
        let (wait, other) = (middle(&mut self.waits), middle(&mut self.other_waits));
        assert!(
            wait < WAIT_MAX + other,
            "{wait:?}, without credits {other:?}"
        );
    }
}

#[test]
fn a_store_that_answers_late_is_in_use_and_slow_until_it_answers_in_time() {
    let Some(mut scene) = Scene::start("share") else {
        return;
    };
    scene.proxy.set(Mode::AnswerLate(LATE));
    scene.await_slow(true);
    let slow = scene.requests_for(Duration::from_secs(5), |_| ());
    assert!(slow.iter().all(|slow| slow.eq(&1.0)), "{slow:?}");
    scene.check_lines(1, 0);
    scene.proxy.set(Mode::Pass);
    scene.await_slow(false);
    scene.check_lines(1, 1);
    scene.check_waits();
}

#[test]
fn a_store_that_answers_barely_in_time_is_not_slow() {
    let Some(mut scene) = Scene::start("share") else {
        return;
    };
    scene.proxy.set(Mode::AnswerLate(IN_TIME));
    for _ in 0..TRIALS {
        let slow = scene.requests_for(Duration::from_secs(2), |_| ());
        if slow.iter().all(|slow| slow.eq(&0.0)) {
            return scene.check_waits();
        }
    }
    panic!("the store was slow in each of {TRIALS} trials");
}

#[test]
fn a_lease_reaches_the_store_before_the_answer_to_an_earlier_call() {
    let Some(mut scene) = Scene::start("share") else {
        return;
    };
    // Not so late that the store counts as away.
    let late = Duration::from_millis(800);
    for client in 1..=u32::try_from(TRIALS).unwrap() {
        let delayed = || scene.proxy.disturbed().delayed.load(Ordering::Relaxed);
        let before = delayed();
        scene.proxy.set(Mode::AnswerLate(late));
        wait_for("the late answer to a heartbeat", || delayed() > before);
        let begun = Instant::now();
        assert_eq!(scene.lease(client), 200);
        let address = format!("198.18.0.{client}");
        while begun.elapsed() < late / 2 {
            if !scene.store.credits_key(&address).is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // A pause of the machine, perhaps.
        scene.proxy.set(Mode::Pass);
        scene.peer.await_up(true);
    }
    panic!("the lease waited for another answer in each of {TRIALS} trials");
}

#[test]
fn a_store_that_is_slow_at_times_stays_in_use_and_fills_no_log() {
    let Some(mut scene) = Scene::start("share") else {
        return;
    };
    let mut delays = [LATE, IN_TIME, LATE, LATE, Duration::ZERO]
        .into_iter()
        .cycle();
    let mut changed = Instant::now();
    scene.requests_for(Duration::from_secs(8), |proxy| {
        if changed.elapsed() > Duration::from_millis(150) {
            proxy.set(Mode::AnswerLate(delays.next().unwrap()));
            changed = Instant::now();
        }
    });
    let lines = scene.peer.count_lines("the store is slow");
    assert!(lines <= 2, "{:#?}", scene.peer.server.lines());
    assert!(scene.peer.metric("outages_total").eq(&0.0));
    scene.check_waits();
}

#[test]
fn a_client_that_sends_requests_at_intervals_needs_no_fast_store() {
    let Some(mut scene) = Scene::start("refuse") else {
        return;
    };
    scene.proxy.set(Mode::AnswerLate(LATE));
    assert_eq!(scene.request(0), 200);
    // The first answer comes after the second request was refused.
    wait_for("a lease", || scene.request(0) == 200);
    scene.waits.clear();
    let mut refused = 0;
    for _ in 2..LIMIT {
        thread::sleep(4 * LATE);
        while scene.request(0) != 200 {
            // A pause of the machine delays an answer.
            refused += 1;
            thread::sleep(LATE);
        }
    }
    assert!(refused < LIMIT / 6, "{refused} of {LIMIT} refused");
    let slow = scene.waits.iter().filter(|wait| **wait > LATE / 2).count();
    assert!(
        slow < scene.waits.len() / 6,
        "{slow} of {}",
        scene.waits.len()
    );
    assert_eq!(scene.request(0), 429);
}

#[test]
fn a_store_without_memory_is_away_until_it_has_some_again() {
    let Some(mut scene) = Scene::start("refuse") else {
        return;
    };
    assert_eq!(scene.request(0), 200);
    wait_for("a lease", || scene.request(0) == 200);
    assert_eq!(scene.store.command("CONFIG SET maxmemory 1"), "+OK");
    let mut admitted = 2;
    while scene.request(0) == 200 {
        admitted += 1;
    }
    scene.peer.await_up(false);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        assert_eq!(scene.request(0), 503);
        assert_eq!(scene.request(1), 503);
        assert!(
            scene.peer.metric("up").eq(&0.0),
            "after {:?}",
            begun.elapsed()
        );
        thread::sleep(Duration::from_millis(5));
    }
    // In any wording.
    assert_eq!(
        scene.peer.count_lines("memory"),
        1,
        "{:#?}",
        scene.peer.server.lines()
    );
    assert!(scene.peer.metric("outages_total").eq(&1.0));
    assert_eq!(scene.store.command("CONFIG SET maxmemory 0"), "+OK");
    scene.peer.await_up(true);
    wait_for("the rest of the day", || {
        admitted += u32::from(scene.request(0) == 200);
        admitted == LIMIT
    });
    wait_for("429", || scene.request(0) == 429);
    assert_eq!(admitted, LIMIT);
    scene.check_waits();
}
