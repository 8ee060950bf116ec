//! Servers of several versions that share a store.
//!
//! There is one release, so the tests write what a server of a later version may store: fields and
//! credits of its own, another limit, and keys of another version.

use crate::prelude::*;
use crate::shared_quota::{TARGET, admits_exactly, admitted_of, all_in_time, spend, spend_in_turn};
use crate::store::{LIMIT, Store};
use crate::support::copy_keys;

/// Credits that the later version has leased.
const LEASED: u32 = 20;

/// The field of a start of a server of the later version.
const SERVER: &str = "00000000feedfeed:1";

/// A field of a hash that is a number; 0 if it is absent.
fn field(store: &Store, key: &str, name: &str) -> u32 {
    let answer = store.command(&format!("HINCRBY {key} {name} 0"));
    let digits = answer
        .strip_prefix(':')
        .unwrap_or_else(|| panic!("{answer}"));
    digits.parse().unwrap()
}

#[test]
fn credits_of_a_later_version_count_and_its_fields_and_keys_stay() {
    admits_exactly(LIMIT - LEASED, |store, directory| {
        let peers = store.peers(&directory.join(""), 2, &[]);
        peers[0].server.wait_for_a_day_with(60);
        // The name of a key of today, by a request of another client.
        let mut other = Client::connect_from("127.0.0.9", peers[0].server.addr());
        wait_for("a lease", || {
            other.get(TARGET);
            !store.credits_key("127.0.0.9").is_empty()
        });
        let key = store
            .credits_key("127.0.0.9")
            .replace("7f000009", "7f000001");
        let key = key.strip_prefix("imq:3:").unwrap();
        let (ours, later) = (format!("imq:3:{key}"), format!("imq:4:{key}"));
        let figures = format!("{SERVER} {LEASED} limit 90 window 3600");
        for key in [&ours, &later] {
            assert_eq!(store.command(&format!("HSET {key} {figures}")), ":3");
        }
        let admitted = spend_in_turn(&peers, TARGET);
        if !all_in_time(&peers) {
            return (admitted, false);
        }
        for peer in &peers {
            peer.await_line("another server has different daily limits");
            assert!(peer.metric("other_limits_total") >= 1.0);
        }
        for (name, value) in [(SERVER, LEASED), ("window", 3600), ("limit", 90)] {
            assert_eq!(field(&store, &ours, name), value);
        }
        assert_eq!(field(&store, &later, SERVER), LEASED);
        assert_eq!(store.credits("127.0.0.1"), LIMIT);
        (admitted, all_in_time(&peers))
    });
}

#[test]
fn servers_with_different_limits_admit_at_most_the_largest_and_log_it() {
    let small = LIMIT / 2;
    admits_exactly(LIMIT, |store, directory| {
        let [first, second] = ["first", "second"].map(|name| directory.join(name));
        let key = issue(&first, "ann@x.test", "starter");
        copy_keys(&first, &second);
        let start = |state, limit: u32| {
            let limit = limit.to_string();
            store.peer(state, 2, &["--limit-starter", &limit])
        };
        let peers = [start(&first, LIMIT), start(&second, small)];
        let target = format!("{TARGET}&key={key}");
        let before = admitted_of(small / 2, &mut peers[0].connect(), &target);
        let (of_second, _) = spend(&peers[1], &target);
        let (of_first, _) = spend(&peers[0], &target);
        let (more, _) = spend(&peers[1], &target);
        let admitted = before + of_second + of_first + more;
        if !all_in_time(&peers) {
            return (admitted, false);
        }
        assert!(
            before + of_second <= small && more == 0,
            "{before}, {of_second} and {more}"
        );
        // The first server's limit is the one that the store knows.
        peers[1].await_line("another server has different daily limits");
        assert!(peers[1].metric("other_limits_total") >= 1.0);
        (admitted, true)
    });
}
