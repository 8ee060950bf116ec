//! Servers that share their keys by a store: one leads, the others follow (CONTRACT section 9).

use std::path::Path;
use std::time::{Duration, Instant};

use crate::admin::metrics;
use crate::processes::{stderr_of, wait_for};
use crate::sign_up::{make, shown};
use crate::store::{Peer, Store};
use crate::support::{Reply, TempDir, id, issue, run, try_issue};

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
    // A follower that begins with an empty state directory.
    let late = store.peer(&state("late"), 3, &FOLLOW);
    assert_eq!(status(&late, &key), 200, "the first response");
}

/// The page of keys, as a browser gets it.
fn page(peer: &Peer) -> Reply {
    let lines = [("Accept", "text/html")];
    peer.connect().request("GET", "/keys", &lines)
}

/// Waits until the page of keys of a server leads to another one, and checks that it has no form.
#[track_caller]
fn assert_leads_elsewhere(peer: &Peer, part: &str) {
    wait_for(part, || page(peer).text().contains(part));
    let page = page(peer);
    assert_eq!(page.status, 200);
    assert!(page.text().contains("by another server of this service"));
    assert!(!page.text().contains("<form") && !page.text().contains("name=pass"));
}

#[test]
fn the_page_of_a_follower_has_no_form_and_leads_to_the_leader() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let start = |name: &str, role: [&str; 2], more: &[&str]| {
        store.peer(&directory.join(name), 4, &[&role[..], more].concat())
    };
    let form = ["--signup", "ip"];
    let leader = start(
        "leader",
        LEAD,
        &[&form[..], &["--base-url", "https://lead.test/"]].concat(),
    );
    leader.await_line("this server leads in term 1");
    let follower = start("follower", FOLLOW, &form);
    let closed = start("closed", FOLLOW, &[]);
    for peer in [&follower, &closed] {
        assert_leads_elsewhere(peer, "<a href=\"https://lead.test/keys\">");
    }
    // A form of the leader's page that arrives at another server.
    let with_form = leader.connect().get("/keys");
    let reply = make(&mut follower.connect(), &with_form);
    assert_eq!((reply.status, shown(&reply)), (503, None));
    assert!(reply.text().contains("by another server of this service"));
    assert_eq!(make(&mut closed.connect(), &with_form).status, 405);
    assert_eq!(closed.connect().get("/keys").status, 404);
    let reply = make(&mut leader.connect(), &with_form);
    let key = shown(&reply).unwrap();
    await_status(&[&follower, &closed], &key, 200);

    // Other servers lead, one after the other: nothing is restarted.
    let second = start("second", LEAD, &["--base-url", "https://second.test"]);
    for peer in [&leader, &follower, &closed] {
        assert_leads_elsewhere(peer, "<a href=\"https://second.test/keys\">");
    }
    let reply = make(&mut leader.connect(), &with_form);
    assert_eq!((reply.status, shown(&reply)), (503, None));
    // Without a base URL, the leader is named.
    let _third = start("third", LEAD, &form);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let name = format!("<code>{}</code>", host.trim());
    for peer in [&leader, &second, &follower, &closed] {
        assert_leads_elsewhere(peer, &name);
    }
}

#[test]
fn roles_and_exchanges_are_metrics() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let peer = |name: &str, more: &[&str]| store.peer(&directory.join(name), 3, more);
    let (leader, follower) = (peer("leader", &LEAD), peer("follower", &FOLLOW));
    let await_role = |peer: &Peer, wanted: &str| {
        wait_for(wanted, || {
            let roles = ["leads", "waits", "follows", "deposed"];
            roles.iter().all(|role| {
                let value = peer.keys_metric(&format!("role{{role=\"{role}\"}}"));
                value.eq(&f64::from(u8::from(*role == wanted)))
            })
        });
    };
    let is_up = |peer: &Peer, wanted: f64| peer.keys_metric("up").eq(&wanted);
    for (peer, role) in [(&leader, "leads"), (&follower, "follows")] {
        await_role(peer, role);
        wait_for("an exchange", || is_up(peer, 1.0));
        wait_for("exchanges", || {
            peer.keys_metric("exchange_age_seconds") < 1.0
        });
    }
    let second = peer("second", &LEAD);
    await_role(&second, "leads");
    await_role(&leader, "deposed");
    let alone = peer("alone", &[]);
    let samples = metrics(alone.admin);
    assert!(!samples.keys().any(|name| name.contains("shared_keys_")));

    store.kill();
    for peer in [&leader, &follower, &second] {
        wait_for("the outage", || is_up(peer, 0.0));
        wait_for("its age", || peer.keys_metric("exchange_age_seconds") > 1.5);
    }
    await_role(&second, "leads");
}

#[test]
fn a_leader_begins_a_term_with_each_start_so_a_copy_of_its_state_is_noticed() {
    let Some(store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |name: &str| directory.join(name);
    let leader = store.peer(&state("leader"), 2, &LEAD);
    leader.await_line("this server leads in term 1");
    issued_in(&state("leader"), 0);
    assert!(leader.server.terminate().success());
    let leader = store.peer(&state("leader"), 2, &LEAD);
    leader.await_line("this server leads in term 2");

    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([state("leader"), state("copy")])
        .status();
    assert!(copied.unwrap().success());
    let before = issued_in(&state("leader"), 1);
    wait_for("the key in the store", || {
        let fields = store.command("HSTRLEN imq:1:keys file");
        let bytes: usize = fields.trim_start_matches(':').parse().unwrap();
        bytes
            == std::fs::read(state("leader").join("keys.jsonl"))
                .unwrap()
                .len()
    });
    let copy = store.peer(&state("copy"), 2, &LEAD);
    copy.await_line("this server leads in term 3");
    leader.await_line("has taken the lead from this server");
    let refused = try_issue(&state("leader"), "ann@x.test", "free");
    assert_eq!(refused.status.code(), Some(69));
    let after = issued_in(&state("copy"), 2);
    for key in [&before, &after] {
        await_status(&[&leader, &copy], key, 200);
    }
}

#[test]
fn without_the_store_the_known_keys_stay_valid_and_later_changes_arrive() {
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
    follower.await_line("shared keys: exchanged with the store again");
    // A leader that has not led before changes nothing until the store has confirmed it.
    store.kill();
    let waiting = store.peer(&state("waiting"), 2, &LEAD);
    let refused = try_issue(&state("waiting"), "ann@x.test", "free");
    assert_eq!(refused.status.code(), Some(69));
    drop(waiting);
}

#[test]
fn a_leader_that_lacks_the_keys_of_a_follower_is_reported_until_the_follower_leads() {
    let Some(mut store) = Store::start(&[]) else {
        return;
    };
    let directory = TempDir::new();
    let state = |name: &str| directory.join(name);
    let first = store.peer(&state("leader"), 2, &LEAD);
    first.await_line("this server leads in term 1");
    assert!(first.server.terminate().success());
    let again = store.peer(&state("leader"), 2, &LEAD);
    again.await_line("this server leads in term 2");
    let key = issued_in(&state("leader"), 0);
    let follower = store.peer(&state("follower"), 2, &FOLLOW);
    await_status(&[&follower], &key, 200);
    // The store and the leader lose their data.
    assert!(again.server.terminate().success());
    store.kill();
    assert!(store.run());
    let empty = store.peer(&state("empty"), 2, &LEAD);
    empty.await_line("this server leads in term 1");
    follower.await_any_line("is in term 1 and lacks the keys of term 2, which this server has; ");
    wait_for("the metric", || follower.keys_metric("up").eq(&0.0));
    assert_eq!(status(&follower, &key), 200);
    assert!(follower.server.terminate().success());
    let promoted = store.peer(&state("follower"), 2, &LEAD);
    promoted.await_line("this server leads in term 3");
    await_status(&[&promoted, &empty], &key, 200);
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
    assert_eq!(change("revoke", &state("former"), &old).0, Some(0));
    let former = store.peer(&state("former"), 3, &LEAD);
    former.await_line("has taken the lead from this server");
    former.await_line("8 keys of this server are unknown to the leader and were dropped: ");
    let lines = former.server.lines();
    let lines: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("dropped"))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(&format!(", {}; issue new ones", id(&lost))));
    let again = format!("1 key that was revoked here is valid again: {}; ", id(&old));
    assert!(lines[0].contains(&again), "{lines:?}");
    await_status(&[&former], &new, 200);
    await_status(&[&former], &lost, 401);
    let refused = try_issue(&state("former"), "ann@x.test", "free");
    assert_eq!(refused.status.code(), Some(69));
    // It does not lead after another restart either, and does after it has followed.
    assert!(former.server.terminate().success());
    let former = store.peer(&state("former"), 3, &LEAD);
    former.await_line("has taken the lead from this server");
    assert!(former.server.terminate().success());
    let former = store.peer(&state("former"), 3, &FOLLOW);
    former.await_line("this server follows another one");
    assert!(former.server.terminate().success());
    let former = store.peer(&state("former"), 3, &LEAD);
    former.await_line("this server leads in term 3");
    promoted.await_line("has taken the lead from this server");
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
        let message = stderr_of(&output, 78);
        assert!(message.contains(expected), "{message}");
    }
}
