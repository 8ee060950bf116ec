//! Damage in the store of servers that share keys: values that no server has written.

use crate::prelude::*;
use crate::shared_keys::{await_stored, status};
use crate::store::{Peer, Store};

const SHARE: [&str; 1] = ["--shared-keys"];
const RECORDS: &str = "imq:2:keys";
const CHANGES: &str = "imq:2:keys:changes";
/// More than the memory of a server that has read a value of 200 MB, or a page of them.
const MORE_KIB_MAX: u64 = 32 * 1024;

/// Two servers with two keys, one of which is revoked.
struct Scene {
    store: Store,
    directory: TempDir,
    peers: Vec<Peer>,
    keys: [String; 2],
}

impl Scene {
    fn start() -> Option<Scene> {
        let store = Store::start(&[])?;
        let directory = TempDir::new();
        let peers = store.peers(&directory.join(""), 2, &SHARE);
        let state = directory.join("state-0");
        let keys = ["a@x.test", "b@x.test"].map(|address| issue(&state, address, "free"));
        change_key("revoke", &state, &keys[1]);
        let scene = Scene {
            store,
            directory,
            peers,
            keys,
        };
        scene.await_keys();
        for at in 0..scene.peers.len() {
            let state = scene.directory.join(&format!("state-{at}"));
            for (key, status) in scene.keys.iter().zip(["active", "revoked"]) {
                await_stored(&state, key, status);
            }
        }
        Some(scene)
    }

    fn await_keys(&self) {
        for peer in &self.peers {
            for (key, wanted) in self.keys.iter().zip([200, 403]) {
                wait_for("the key", || status(peer, key) == wanted);
            }
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let name = |at| self.directory.join(&format!("state-{at}/keys.jsonl"));
        (0..self.peers.len()).map(name).collect()
    }

    /// Waits until all servers have had some exchanges, as the store counts them.
    fn await_exchanges(&self) {
        let calls = || {
            let script = "local n = string.match(redis.call('INFO', 'commandstats'), \
                          'cmdstat_evalsha:calls=(%d+)') return tonumber(n)";
            let count = self.store.command(&format!("EVAL \"{script}\" 0"));
            count.trim_start_matches(':').parse::<u64>().unwrap()
        };
        let before = calls();
        // Servers that lease credits call scripts too, but no request is sent meanwhile.
        wait_for("exchanges", || {
            calls() >= before + 4 * self.peers.len() as u64
        });
    }

    /// Runs a script in the store, whose argument is the id of the first key.
    fn eval(&self, script: &str) {
        let answer = self
            .store
            .command(&format!("EVAL \"{script}\" 0 {}", id(&self.keys[0])));
        assert!(!answer.starts_with('-'), "{answer}");
    }
}

#[test]
fn no_value_in_the_store_changes_a_key_file_or_takes_memory() {
    let Some(mut scene) = Scene::start() else {
        return;
    };
    let files = scene.files();
    let read = || files.iter().map(|file| fs::read(file).unwrap()).collect();
    let before: Vec<Vec<u8>> = read();
    let peaks: Vec<u64> = scene
        .peers
        .iter()
        .map(|peer| peer.server.peak_kib())
        .collect();
    let long = "string.rep('x', 200 * 1024 * 1024)";
    let overlong = "string.rep('x', 2 * 1024 * 1024)";
    let huge = "18446744073709551616";
    for script in [
        format!("redis.call('DEL', '{RECORDS}') redis.call('SET', '{RECORDS}', {long})"),
        format!("redis.call('DEL', '{CHANGES}') redis.call('SET', '{CHANGES}', {long})"),
        format!(
            "redis.call('HSET', '{RECORDS}', ARGV[1], {long}) redis.call('ZADD', '{CHANGES}', 999, ARGV[1])"
        ),
        format!("redis.call('HSET', '{RECORDS}', 'generation', {overlong})"),
        format!("redis.call('HSET', '{RECORDS}', 'secret', {overlong})"),
        format!("redis.call('ZADD', '{CHANGES}', 2000, {long})"),
        format!("redis.call('ZADD', '{CHANGES}', {huge}, ARGV[1])"),
        format!("redis.call('ZADD', '{CHANGES}', '-inf', ARGV[1])"),
        format!(
            "redis.call('HSET', '{RECORDS}', ARGV[1], '{huge}') redis.call('ZADD', '{CHANGES}', 3000, ARGV[1])"
        ),
        format!("redis.call('HSET', '{RECORDS}', 'generation', '')"),
        format!(
            "for n = 1, 5000 do redis.call('ZADD', '{CHANGES}', 4000 + n, 'abcde' .. 10000 + n) end"
        ),
        format!(
            "for n = 1, 5000 do redis.call('HSET', '{RECORDS}', 'abcde' .. 10000 + n, '[]') end"
        ),
        // Another key in its place, and a state that no clock has.
        format!(
            "local r = redis.call('HGET', '{RECORDS}', ARGV[1]) r = string.gsub(r, 'sha256(...).', 'sha256%10') \
                 redis.call('HSET', '{RECORDS}', ARGV[1], r) redis.call('ZADD', '{CHANGES}', 10000, ARGV[1])"
        ),
        format!(
            "local r = redis.call('HGET', '{RECORDS}', ARGV[1]) r = string.gsub(r, 'changed(..)', 'changed%19{huge}') \
                 redis.call('HSET', '{RECORDS}', ARGV[1], r) redis.call('ZADD', '{CHANGES}', 11000, ARGV[1])"
        ),
    ] {
        scene.eval(&script);
        scene.await_exchanges();
        scene.await_keys();
        let after: Vec<Vec<u8>> = read();
        assert_eq!(after, before, "{script}");
        for (peer, peak) in scene.peers.iter().zip(&peaks) {
            let more = peer.server.peak_kib().saturating_sub(*peak);
            assert!(more <= MORE_KIB_MAX, "{more} KiB: {script}");
        }
        wait_for("an exchange", || {
            scene
                .peers
                .iter()
                .all(|peer| peer.keys_metric("up").eq(&1.0))
        });
    }
    // The records are whole again: a server without any gets all of them.
    let late = scene.store.peer(&scene.directory.join("late"), 2, &SHARE);
    scene.peers.push(late);
    scene.await_keys();
}
