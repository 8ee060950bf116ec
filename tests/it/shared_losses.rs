//! Each way in which a real store loses its data, also after a server has restarted: no client gets its day
//! again (CONTRACT section 9). The histories of all such events are in `quota/lease/history_tests.rs`, where a
//! model of the store takes its place.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::processes::wait_for;
use crate::shared_quota::{TARGET, all_in_time, await_up, spend_in_turn, undisturbed};
use crate::store::{LIMIT, Peer, Store};
use crate::support::TempDir;

const SERVERS: usize = 3;
/// A server requests credits again so long after the store has refused them, and a little more.
const RECHECK: Duration = Duration::from_secs(7);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// The store is killed, and starts without data.
    Restart,
    /// It loses its data while it runs.
    Flush,
    /// It follows an empty store for a moment, and loses its data while it runs.
    Follow,
    /// It loses the key with the marker alone.
    Marker,
    /// It is killed, and starts with an old copy.
    OldCopy,
}

impl Loss {
    const ALL: [Loss; 5] = [
        Loss::Restart,
        Loss::Flush,
        Loss::Follow,
        Loss::Marker,
        Loss::OldCopy,
    ];

    fn cause(self, store: &mut Store, copy: &Path) {
        match self {
            Loss::Restart => {
                store.kill();
                assert!(store.run());
            }
            Loss::Flush => assert_eq!(store.command("FLUSHALL"), "+OK"),
            Loss::Follow => {
                let empty = Store::start(&[]).unwrap();
                let follow = format!("REPLICAOF 127.0.0.1 {}", empty.port);
                assert_eq!(store.command(&follow), "+OK");
                let link = "redis.call('info','replication'):match('master_link_status:(%a+)')";
                let link = format!("EVAL \"return {{ok={link}}}\" 0");
                wait_for("the data of the empty store", || {
                    store.command(&link) == "+up"
                });
                assert_eq!(store.command("REPLICAOF NO ONE"), "+OK");
            }
            Loss::Marker => assert_eq!(store.command("DEL imq:3:service"), ":1"),
            Loss::OldCopy => {
                store.kill();
                fs::copy(copy, copy.with_file_name("dump.rdb")).unwrap();
                assert!(store.run());
            }
        }
    }
}

/// What is admitted to a client that sends a part of its requests before a loss, and whether the store has
/// answered in time.
fn trial(mut store: Store, directory: &TempDir, loss: Loss, has_restart: bool) -> (u32, bool) {
    let data = directory.join("store");
    fs::create_dir(&data).unwrap();
    store.kill();
    store.more = vec!["--dir".to_owned(), data.to_str().unwrap().to_owned()];
    assert!(store.run());
    let more = ["--shared-quota-outage", "refuse"];
    let mut peers = store.peers(&directory.join(""), SERVERS, &more);
    await_up(&peers, true);
    peers[0].server.wait_for_a_day_with(120);
    let part = |peer: &Peer| {
        let mut client = peer.connect();
        let requests = (0..LIMIT / 5).filter(|_| client.get(TARGET).status == 200);
        u32::try_from(requests.count()).unwrap()
    };
    let mut admitted = part(&peers[0]);
    let copy = data.join("copy.rdb");
    if loss == Loss::OldCopy {
        assert_eq!(store.command("SAVE"), "+OK");
        fs::rename(data.join("dump.rdb"), &copy).unwrap();
    }
    admitted += peers[1..].iter().map(part).sum::<u32>();
    let mut in_time = all_in_time(&peers);
    if has_restart {
        let stopped = peers.remove(SERVERS - 1);
        assert!(stopped.server.terminate().success());
        let state = directory.join(&format!("state-{}", SERVERS - 1));
        peers.push(store.peer(&state, SERVERS, &more));
        await_up(&peers, true);
    }
    loss.cause(&mut store, &copy);
    let begun = Instant::now();
    while admitted < LIMIT && begun.elapsed() < RECHECK {
        admitted += spend_in_turn(&peers, TARGET);
        thread::sleep(Duration::from_millis(200));
    }
    admitted += spend_in_turn(&peers, TARGET);
    assert!(admitted <= LIMIT, "{admitted} after {loss:?}");
    in_time &= all_in_time(&peers);
    (admitted, in_time)
}

/// Each loss has stores and servers of its own, which mostly wait.
fn lose_all(has_restart: bool) {
    thread::scope(|scope| {
        for loss in Loss::ALL {
            scope.spawn(move || {
                undisturbed(LIMIT, |store, directory| {
                    trial(store, directory, loss, has_restart)
                });
            });
        }
    });
}

#[test]
fn no_loss_of_the_stores_data_gives_a_client_its_day_again() {
    lose_all(false);
}

#[test]
fn no_loss_after_a_restart_gives_a_client_its_day_again() {
    lose_all(true);
}
