//! Servers that share their keys by a store: one leads, the others follow (CONTRACT section 9).

use std::path::Path;
use std::time::{Duration, Instant};

use crate::sign_up::{make, shown};
use crate::store::{Peer, Store, wait_for};
use crate::support::{TempDir, id, issue, run, try_issue};

/// The contract's time for a change to reach every server.
const CHANGE_MAX: Duration = Duration::from_secs(2);
/// Tries of which one has to be within this time: a loaded machine may be late.
const TRIES: u32 = 5;

const LEAD: [&str; 2] = ["--shared-keys", "lead"];
const FOLLOW: [&str; 2] = ["--shared-keys", "follow"];

/// The response to a key: 200 for a valid one, also if its quota is spent or cannot be known.
fn status(peer: &Peer, key: &str) -> u16 {
    let status = peer.connect().get(&format!("/v1?key={key}")).status;
    if [429, 503].contains(&status) {
        200
    } else {
        status
    }
}

fn await_status(peers: &[&Peer], key: &str, wanted: u16) {
    for peer in peers {
        wait_for("the key", || status(peer, key) == wanted);
    }
}

/// A change of a key by the command line: the exit code and the message.
fn change(word: &str, state: &Path, key: &str) -> (Option<i32>, String) {
    let output = run(&["keys", word, id(key), "--state", state.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), message)
}

fn issued_in(state: &Path, number: u32) -> String {
    issue(state, &format!("user{number}@x.test"), "free")
}

#[test]
fn changes_on_the_leader_reach_all_servers_and_followers_refuse_changes() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |name: &str| directory.join(name);
    let leader = store.peer(&state("leader"), 3, &LEAD);
    leader.await_line("this server leads in term 1");
    let first = store.peer(&state("first"), 3, &FOLLOW);
    let second = store.peer(&state("second"), 3, &FOLLOW);
    let all = [&leader, &first, &second];
    let mut fastest = Duration::MAX;
    for number in 0..TRIES {
        let key = issued_in(&state("leader"), number);
        await_status(&all, &key, 200);
        let begun = Instant::now();
        assert_eq!(change("revoke", &state("leader"), &key).0, Some(0));
        await_status(&all, &key, 403);
        fastest = fastest.min(begun.elapsed());
        assert_eq!(change("restore", &state("leader"), &key).0, Some(0));
        await_status(&all, &key, 200);
    }
    assert!(fastest <= CHANGE_MAX, "{fastest:?}");

    let key = issued_in(&state("leader"), TRIES);
    await_status(&all, &key, 200);
    for word in ["revoke", "restore"] {
        let (code, message) = change(word, &state("first"), &key);
        assert_eq!(code, Some(69));
        assert!(message.contains("change keys on the leader, "), "{message}");
    }
    let refused = try_issue(&state("second"), "ann@x.test", "free");
    assert_eq!(refused.status.code(), Some(69));
    assert_eq!(status(&first, &key), 200);
    let signing = store.peer(
        &state("signing"),
        3,
        &[FOLLOW[0], FOLLOW[1], "--signup", "ip"],
    );
    let mut browser = signing.connect();
    let page = browser.get("/keys");
    let reply = make(&mut browser, &page);
    assert_eq!((reply.status, shown(&reply)), (503, None));
    assert!(reply.text().contains("by another server of this service"));
    // A follower that begins with an empty state directory.
    let late = store.peer(&state("late"), 3, &FOLLOW);
    await_status(&[&late], &key, 200);
}

#[test]
fn without_the_store_the_known_keys_hold_and_later_changes_arrive() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |name: &str| directory.join(name);
    let leader = store.peer(&state("leader"), 2, &LEAD);
    leader.await_line("this server leads in term 1");
    let follower = store.peer(&state("follower"), 2, &FOLLOW);
    let known = issued_in(&state("leader"), 0);
    await_status(&[&leader, &follower], &known, 200);
    store.kill();
    leader.await_line("the known keys stay valid");
    follower.await_line("the known keys stay valid");
    let new = issued_in(&state("leader"), 1);
    await_status(&[&leader], &new, 200);
    assert_eq!(status(&follower, &known), 200);
    assert_eq!(status(&follower, &new), 401);
    // A restart of the follower keeps the keys.
    assert!(follower.server.terminate().success());
    let follower = store.peer(&state("follower"), 2, &FOLLOW);
    assert_eq!(status(&follower, &known), 200);
    // The store returns empty: the leader stores its file again.
    assert!(store.run());
    await_status(&[&follower], &new, 200);
    // A leader that has not led before changes nothing until the store has confirmed it.
    store.kill();
    let waiting = store.peer(&state("waiting"), 2, &LEAD);
    let refused = try_issue(&state("waiting"), "ann@x.test", "free");
    assert_eq!(refused.status.code(), Some(69));
    drop(waiting);
}

#[test]
fn a_promoted_follower_leads_and_the_former_leader_follows_it() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |name: &str| directory.join(name);
    let former = store.peer(&state("former"), 3, &LEAD);
    former.await_line("this server leads in term 1");
    let promoted = store.peer(&state("promoted"), 3, &FOLLOW);
    let other = store.peer(&state("other"), 3, &FOLLOW);
    let old = issued_in(&state("former"), 0);
    await_status(&[&promoted, &other], &old, 200);

    assert!(former.server.terminate().success());
    assert!(promoted.server.terminate().success());
    let promoted = store.peer(&state("promoted"), 3, &LEAD);
    promoted.await_line("this server leads in term 2");
    let new = issued_in(&state("promoted"), 1);
    await_status(&[&promoted, &other], &new, 200);
    // Changes at the former leader, which has not noticed: they never replace those of its successor.
    for number in 2..9 {
        issued_in(&state("former"), number);
    }
    let lost = issued_in(&state("former"), 9);
    let former = store.peer(&state("former"), 3, &LEAD);
    former.await_line("leads since this server was the leader");
    await_status(&[&former], &new, 200);
    await_status(&[&former], &lost, 401);
    let refused = try_issue(&state("former"), "ann@x.test", "free");
    assert_eq!(refused.status.code(), Some(69));
    // It does not lead after another restart either, and does after it has followed.
    assert!(former.server.terminate().success());
    let former = store.peer(&state("former"), 3, &LEAD);
    former.await_line("leads since this server was the leader");
    assert!(former.server.terminate().success());
    let former = store.peer(&state("former"), 3, &FOLLOW);
    former.await_line("this server follows another one");
    assert!(former.server.terminate().success());
    let former = store.peer(&state("former"), 3, &LEAD);
    former.await_line("this server leads in term 3");
    promoted.await_line("leads since this server was the leader");
    for key in [&old, &new] {
        await_status(&[&former, &promoted, &other], key, 200);
    }
    // Without the flag, the keys are a server's own again.
    assert!(former.server.terminate().success());
    let alone = store.peer(&state("former"), 3, &[]);
    let own = issued_in(&state("former"), 10);
    await_status(&[&alone], &own, 200);
    assert_eq!(status(&other, &own), 401);
}

#[test]
fn sharing_keys_requires_a_store_and_a_state_directory() {
    let store = ["serve", "--shared-quota", "redis://h", "--shared-keys"];
    for (words, expected) in [
        (
            &["serve", "--shared-keys", "lead"][..],
            "requires --shared-quota",
        ),
        (
            &[store[0], store[1], store[2], store[3], "follow"],
            "requires --state",
        ),
        (
            &[store[0], store[1], store[2], store[3], "both"],
            "lead or follow",
        ),
    ] {
        let output = run(words);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(78), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
