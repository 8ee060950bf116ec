//! Several servers that share their quotas by a store (CONTRACT section 9).
//!
//! Some outcomes are exact only if the store answers within 20 ms. A trial with a later answer, as on a
//! loaded machine, is repeated.

use crate::prelude::*;
use crate::store::{LIMIT, Peer, Store, await_all, password_file};
use crate::support::copy_keys;

pub(crate) const TARGET: &str = "/v1/islands?limit=1";
/// Trials until the store answers each request in time.
const TRIALS: usize = 20;

/// Requests to a server until it admits no more: those admitted, and the status of the last.
pub(crate) fn spend(peer: &Peer, target: &str) -> (u32, u16) {
    let mut client = peer.connect();
    let (mut admitted, mut shown) = (0, LIMIT);
    loop {
        let reply = client.get(target);
        if reply.status != 200 {
            return (admitted, reply.status);
        }
        admitted += 1;
        let remaining = reply.left();
        assert!(
            remaining < shown,
            "{remaining} requests remain after {shown}"
        );
        shown = remaining;
    }
}

/// Requests to all servers in turn until all of them answer 429: those admitted. A server that admits
/// only what it was granted may answer 503 while the store is slow; then it is asked again.
pub(crate) fn spend_in_turn(peers: &[Peer], target: &str) -> u32 {
    let mut clients: Vec<Client> = peers.iter().map(Peer::connect).collect();
    let mut shown = vec![LIMIT; peers.len()];
    let mut admitted = 0;
    wait_for("429 of all servers", || {
        let mut refusals = 0;
        for (client, shown) in clients.iter_mut().zip(&mut shown) {
            let reply = client.get(target);
            match reply.status {
                200 => admitted += 1,
                503 => assert_eq!(reply.expect("retry-after"), "1"),
                429 => refusals += 1,
                other => panic!("status {other}: {}", reply.text()),
            }
            let remaining = reply.left();
            assert!(
                remaining <= *shown,
                "{remaining} requests remain after {shown}"
            );
            *shown = remaining;
        }
        refusals == peers.len()
    });
    admitted
}

/// Repeats a trial with a new store until this has answered all requests in time. Then exactly `wanted` of them were
/// admitted.
pub(crate) fn admits_exactly(wanted: u32, trial: impl Fn(Store, &TempDir) -> (u32, bool)) {
    for tried in 0..TRIALS {
        let Some(store) = Store::start(&[]) else {
            assert_eq!(tried, 0, "the store starts again");
            return;
        };
        let (admitted, was_answered_in_time) = trial(store, &TempDir::new());
        // Each server admits at most its share without the store.
        assert!(admitted <= 2 * LIMIT, "{admitted}");
        if was_answered_in_time {
            return assert_eq!(admitted, wanted);
        }
    }
    panic!("the store was late in each of {TRIALS} trials");
}

/// Sends so many requests, and returns how many were admitted.
pub(crate) fn admitted_of(count: u32, client: &mut Client, target: &str) -> u32 {
    let admitted = (0..count).filter(|_| client.get(target).status == 200);
    u32::try_from(admitted.count()).unwrap()
}

pub(crate) fn all_in_time(peers: &[Peer]) -> bool {
    peers.iter().all(Peer::was_answered_in_time)
}

#[test]
fn all_servers_together_admit_exactly_the_limit_of_addresses_and_keys() {
    admits_exactly(LIMIT, |store, directory| {
        let first = directory.join("state-0");
        let key = issue(&first, "ann@x.test", "free");
        for at in 1..3 {
            copy_keys(&first, &directory.join(&format!("state-{at}")));
        }
        let mut peers = store.peers(&directory.join(""), 3, &[]);
        let by_key = spend_in_turn(&peers, &format!("{TARGET}&key={key}"));
        let by_address = spend_in_turn(&peers, TARGET);
        // A server that was not asked before has nothing left for them.
        peers.push(store.peer(&directory.join("late"), 3, &[]));
        let (late, status) = spend(&peers[3], TARGET);
        assert_eq!(status, 429);
        let in_time = all_in_time(&peers);
        assert!(!in_time || by_key == LIMIT, "{by_key} of a key");
        (by_address + late, in_time)
    });
}

#[test]
fn the_first_request_of_a_client_at_each_server_needs_no_store() {
    admits_exactly(LIMIT, |store, directory| {
        let peers = store.peers(&directory.join(""), 3, &[]);
        peers[0].server.wait_for_a_day_with(60);
        await_all(&peers, true);
        for peer in &peers {
            let reply = peer.connect().get(TARGET);
            assert_eq!(reply.status, 200);
            assert_eq!(reply.left(), LIMIT - 1);
        }
        if !all_in_time(&peers) {
            return (3, false);
        }
        for (peer, result) in peers.iter().zip(["answered", "late", "failed"]) {
            let requests = peer.metric(&format!("requests_total{{result=\"{result}\"}}"));
            assert!(requests.eq(&0.0), "{requests} {result}");
        }
        assert_eq!(store.credits_key("127.0.0.1"), "");
        (3 + spend_in_turn(&peers, TARGET), all_in_time(&peers))
    });
}

#[test]
fn without_the_store_a_server_admits_its_share_once_and_settles_it_later() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peers = store.peers(&directory.join(""), 2, &[]);
    assert_eq!(peers[0].connect().get(TARGET).status, 200);
    store.kill();
    await_all(&peers, false);
    // The first has credits left, and its share of the rest.
    let (first, status) = spend(&peers[0], TARGET);
    assert_eq!(status, 503);
    let reply = peers[0].connect().get(TARGET);
    assert_eq!(reply.expect("retry-after"), "1");
    assert!(reply.text().contains("\"not_ready\""));
    assert!(first < LIMIT / 2 + LIMIT / 8, "{first} admitted alone");
    assert_eq!(spend(&peers[1], TARGET), (LIMIT / 2, 503));
    // It returns empty: both settle before credits are granted.
    assert!(store.run());
    await_all(&peers, true);
    // The second did not know what the first had been granted: an eighth, twice at most.
    let admitted = 1 + first + LIMIT / 2 + spend_in_turn(&peers, TARGET);
    assert!(
        (LIMIT..=LIMIT + LIMIT / 4).contains(&admitted),
        "{admitted}"
    );
}

#[test]
fn a_server_that_refuses_alone_admits_what_it_was_granted() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let more = ["--shared-quota-outage", "refuse"];
    let peers = store.peers(&directory.join(""), 2, &more);
    // The first request needs no lease. The second one may be refused where the store is slow.
    peers[0].await_up(true);
    assert_eq!(peers[0].connect().get(TARGET).status, 200);
    wait_for("a lease", || peers[0].connect().get(TARGET).status == 200);
    store.kill();
    await_all(&peers, false);
    let (granted, status) = spend(&peers[0], TARGET);
    assert!(granted <= LIMIT / 8 * 2 && status == 503, "{granted}");
    assert_eq!(spend(&peers[1], TARGET), (0, 503));
    assert_eq!(peers[1].connect().get("/v1/health").status, 200);
}

#[test]
fn a_replica_that_takes_the_place_of_the_primary_is_used_and_gives_no_client_its_day_again() {
    admits_exactly(LIMIT, |mut primary, directory| {
        let port = primary.port.to_string();
        let replica = Store::start(&["--replicaof", "127.0.0.1", &port]).unwrap();
        wait_for("the replica", || {
            let answer = primary.command("WAIT 1 100");
            answer == ":1"
        });
        let url = replica.url();
        let more = ["--shared-quota", &url, "--shared-quota-outage", "refuse"];
        let peers = primary.peers(&directory.join(""), 2, &more);
        let mut admitted = 0;
        for peer in &peers {
            admitted += admitted_of(LIMIT / 4, &mut peer.connect(), TARGET);
        }
        // The replica lacks what the primary learns from now on.
        replica.signal("-STOP");
        admitted += admitted_of(LIMIT / 4, &mut peers[0].connect(), TARGET);
        primary.kill();
        replica.signal("-CONT");
        await_all(&peers, false);
        assert_eq!(replica.command("REPLICAOF NO ONE"), "+OK");
        await_all(&peers, true);
        admitted += spend_in_turn(&peers, TARGET);
        assert!(admitted <= LIMIT, "{admitted}");
        (admitted, all_in_time(&peers))
    });
}

#[test]
fn a_frozen_store_delays_no_request_and_is_used_again_later() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peer = store.peer(&directory.join("state"), 1, &[]);
    peer.await_up(true);
    store.signal("-STOP");
    for client in 1..9 {
        let mut client = Client::connect_from(&format!("127.0.0.{client}"), peer.server.addr());
        let begun = Stopwatch::start();
        assert_eq!(client.get(TARGET).status, 200);
        let waited = begun.running();
        // 20 ms, and the time that a loaded machine needs for a request.
        assert!(waited < Duration::from_secs(2), "{waited:?}");
    }
    peer.await_line("the store is unusable");
    store.signal("-CONT");
    peer.await_up(true);
}

/// Threads that are not supervised: the one that supervises, those of single blocking calls, and the writers of logs.
const OTHER_THREADS: [&str; 3] = ["island-metrics", "tokio-rt-worker", "log"];

#[test]
fn every_thread_that_must_not_end_is_supervised() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peer = store.peer(&directory.join("state"), 1, &["--shared-keys"]);
    peer.await_up(true);
    let names = peer.server.thread_names();
    let polled = metrics(peer.admin);
    let polled = polled.keys().filter_map(|name| {
        let source = name.strip_prefix("island_metrics_poll_age_seconds{what=\"")?;
        Some(format!("poll-{}", source.trim_end_matches("\"}")))
    });
    let polled: Vec<String> = polled.collect();
    for name in &names {
        // Linux keeps 15 bytes of a name.
        let is_polled = polled
            .iter()
            .any(|polled| polled[..polled.len().min(15)] == **name);
        let is_other = ["shared-quota"]
            .iter()
            .chain(&OTHER_THREADS)
            .any(|other| name == other);
        assert!(
            is_polled || is_other || name.starts_with("worker"),
            "{name} of {names:?}"
        );
    }
    assert!(names.contains("poll-shared-key"), "{names:?}");
}

#[test]
fn a_loss_of_data_that_all_servers_settle_at_once_is_no_outage() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peer = store.peer(&directory.join("state"), 1, &[]);
    peer.await_up(true);
    // Servers have this time to settle, which does not begin with the connection.
    thread::sleep(Duration::from_secs(4));
    assert_eq!(store.command("FLUSHALL"), "+OK");
    wait_for("a new marker", || {
        store.command("HEXISTS imq:3:service marker") == ":1"
    });
    peer.await_up(true);
    thread::sleep(Duration::from_secs(1));
    let outages = peer.metric("outages_total");
    assert_eq!(
        (peer.count_lines("grants credits again"), outages),
        (0, 0.0)
    );
}

#[test]
fn nodes_that_cannot_be_used_are_named_with_their_problem() {
    let Some(primary) = Store::start(&["--requirepass", "sesame"]) else {
        return;
    };
    let directory = TempDir::new();
    let state = directory.join("state");
    let peer = primary.peer(&state, 1, &[]);
    peer.await_line("NOAUTH");
    // Without the store, the whole limit is the share of the only server.
    assert_eq!(spend(&peer, TARGET).0, LIMIT);
    let password = password_file(&directory, &"x".repeat(1025));
    let words = ["--shared-quota-password-file", password.to_str().unwrap()];
    set_mode(&password, 0o644);
    let peer = primary.peer(&state, 1, &words);
    peer.await_line("a password has at most 1024 bytes");
    write_file(&password, "sesame\n");
    peer.await_line("others can read the password");
    set_mode(&password, 0o600);
    peer.await_up(true);

    let evicting = Store::start(&["--maxmemory-policy", "allkeys-lru"]).unwrap();
    let replica = Store::start(&["--replicaof", "127.0.0.1", &evicting.port.to_string()]).unwrap();
    let more = ["--shared-quota", &replica.url()];
    let peer = evicting.peer(&state, 1, &more);
    peer.await_line("set noeviction");
    // The first node is a replica: the other one is used.
    let more = ["--shared-quota", &evicting.url()];
    let peer = replica.peer(&state, 1, &more);
    peer.await_up(true);
    let peer = replica.peer(&state, 1, &[]);
    peer.await_line("its role is slave, which accepts no writes");
}

/// Waits until the problem of a peer's store is logged, and checks that all requests are served.
fn assert_serves_without_store(peer: &Peer, problem: &str) {
    peer.await_any_line(&format!("{problem}; until it grants credits"));
    peer.await_any_line(&format!("{problem}; the known keys stay valid"));
    peer.await_up(false);
    assert!(peer.keys_metric("up").eq(&0.0));
    // The whole limit is the share of the only server.
    assert_eq!(spend(peer, TARGET).0, LIMIT);
}

#[test]
fn a_cluster_a_wrong_password_and_an_unknown_name_are_logged_and_requests_are_served() {
    let directory = TempDir::new();
    let nodes = directory.join("nodes.conf");
    let bus = address().0.port().to_string();
    let words = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let file = ["--cluster-config-file", nodes.to_str().unwrap()];
    let Some(cluster) = Store::start(&[&words[..], &file].concat()) else {
        return;
    };
    let follow = ["--shared-keys"];
    let peer = cluster.peer(&directory.join("of-cluster"), 1, &follow);
    let problem = "the node is part of a cluster, which is not supported; use a single node, or a \
                   primary with replicas";
    assert_serves_without_store(&peer, problem);

    let protected = Store::start(&["--requirepass", "sesame"]).unwrap();
    let password = password_file(&directory, "mustard\n");
    let file = ["--shared-quota-password-file", password.to_str().unwrap()];
    let more = [&follow[..], &file].concat();
    let peer = protected.peer(&directory.join("of-protected"), 1, &more);
    let problem = "it refuses the login: a wrong user name or password, or too many clients";
    assert_serves_without_store(&peer, problem);
    assert_eq!(peer.count_lines("mustard"), 0);
    write_file(&password, "sesame\n");
    peer.await_up(true);

    let state = directory.join("of-unknown");
    let peer = Peer::start("redis://store.invalid", &state, 1, &follow);
    peer.await_any_line("redis://store.invalid:6379: failed to lookup address information: ");
    peer.await_up(false);
    assert_eq!(spend(&peer, TARGET).0, LIMIT);
}

#[test]
fn another_problem_in_an_outage_is_logged_too() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peer = store.peer(&directory.join("state"), 1, &["--shared-keys"]);
    peer.await_up(true);
    wait_for("an exchange", || peer.keys_metric("up").eq(&1.0));
    store.kill();
    peer.await_up(false);
    peer.await_any_line("the known keys stay valid");
    store
        .more
        .extend(["--requirepass", "sesame"].map(str::to_owned));
    assert!(store.run());
    peer.await_any_line("NOAUTH Authentication required.; until it grants credits");
    peer.await_any_line("NOAUTH Authentication required.; the known keys stay valid");
    // One line for each cause.
    for end in ["until it grants credits", "the known keys stay valid"] {
        assert_eq!(peer.count_lines(end), 2);
        assert_eq!(
            peer.count_lines(&format!("Connection refused (os error 111); {end}")),
            1
        );
    }
    assert!(peer.metric("outages_total").eq(&1.0));
}

#[test]
fn the_documented_access_list_suffices() {
    let text = include_str!("../../data/README.md");
    let mut lines = text.lines();
    let rules = lines.find_map(|line| line.strip_prefix("user island-metrics on >PASSWORD "));
    let mut words = vec!["--user", "ann", "on", ">sesame"];
    words.extend(rules.unwrap().split_whitespace());
    words.extend(["--user", "default", "off"]);
    let Some(store) = Store::start(&words) else {
        return;
    };
    let directory = TempDir::new();
    let password = password_file(&directory, "sesame\n");
    let password = password.to_str().unwrap();
    let url = format!("redis://ann@127.0.0.1:{}", store.port);
    let start = |name: &str| {
        let more = ["--shared-quota-password-file", password, "--shared-keys"];
        Peer::start(&url, &directory.join(name), 2, &more)
    };
    let peers = ["one", "other"].map(start);
    await_all(&peers, true);
    let other = &peers[1];
    let key = issue(&directory.join("one"), "ann@x.test", "free");
    let target = format!("{TARGET}&key={key}");
    wait_for("leases", || {
        other.connect().get(&target);
        other.metric("requests_total{result=\"answered\"}") >= 1.0
    });
    assert!(other.metric("requests_total{result=\"failed\"}").eq(&0.0));
}
