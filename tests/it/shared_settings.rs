//! A store with the settings of `data/README.md`.

use crate::prelude::*;
use crate::store::{Peer, Store, await_all, password_file};

const TARGET: &str = "/v1/islands?limit=1";
const PASSWORD: &str = "sesame";

/// The lines for the file of the store, as arguments of its program.
fn arguments() -> Vec<String> {
    let guide = fs::read_to_string("data/README.md").unwrap();
    let (_, settings) = guide.split_once("\nbind 10.0.0.10\n").unwrap();
    let (settings, _) = settings.split_once("\n```").unwrap();
    let settings = settings.replace("PASSWORD", PASSWORD);
    let of_line = |line: &str| format!("--{line}").split(' ').map(str::to_owned).collect();
    settings
        .lines()
        .flat_map::<Vec<String>, _>(of_line)
        .collect()
}

#[test]
fn a_store_that_restarts_has_all_counts_and_keys() {
    let directory = TempDir::new();
    let mut words = arguments();
    words.extend(["--dir".to_owned(), directory.join("").display().to_string()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(mut store) = Store::start(&words) else {
        return;
    };
    let url = format!("redis://island-metrics@127.0.0.1:{}", store.port);
    let password = password_file(&directory, PASSWORD);
    let more = [
        "--shared-keys",
        "--shared-quota-password-file",
        password.to_str().unwrap(),
    ];
    let state = |name: &str, at: usize| directory.join(&format!("{name}-{at}"));
    let start = |name: &str| -> Vec<Peer> {
        let peers = (0..2).map(|at| Peer::start(&url, &state(name, at), 2, &more));
        let peers: Vec<Peer> = peers.collect();
        await_all(&peers, true);
        peers
    };
    let key = issue(&state("first", 0), "a@x.test", "free");
    let with_key = format!("{TARGET}&key={key}");
    let peers = start("first");
    for peer in &peers {
        let mut client = peer.connect();
        wait_for("the key", || client.get(&with_key).status == 200);
        wait_for("the limit", || client.get(TARGET).status == 429);
    }
    drop(peers);
    store.kill();
    assert!(store.run());
    // Others in their place know nothing; each has a reserve of one request.
    for peer in start("second") {
        let mut client = peer.connect();
        client.get(TARGET);
        assert_eq!(client.get(TARGET).status, 429);
        assert_eq!(client.get(&with_key).status, 200);
    }
}
