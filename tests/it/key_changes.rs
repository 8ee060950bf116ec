//! Keys issued and revoked while a server runs, and many requested concurrently.

use crate::prelude::*;
use crate::support::{copy_keys, printed_key, try_issue};

/// Time for a change of the keys to be effective everywhere.
const SOON: Duration = Duration::from_secs(1);

fn serve(state: &Path) -> Server {
    let state = state.to_str().unwrap();
    let few = ["--workers", "2", "--quota-clients", "9999"];
    Server::start(&[&["--state", state], &few[..]].concat())
}

fn ask(client: &mut Client, key: &str) -> Reply {
    let line = format!("Bearer {key}");
    client.request("GET", "/v1", &[("Authorization", &line)])
}

/// A client with a key, on connections that stay open.
struct Holder {
    key: String,
    clients: Vec<Client>,
    /// `Remaining` of the newest response.
    left: Option<u32>,
}

impl Holder {
    fn new(server: &Server, key: String) -> Self {
        let clients = (0..3).map(|_| server.connect()).collect();
        Self {
            key,
            clients,
            left: None,
        }
    }

    /// Asserts that each connection gets this status for every request sent a second or more after the
    /// change, which was durable before this call, and for every request after the first such one.
    #[track_caller]
    fn gets_soon(&mut self, status: u16) {
        let start = Stopwatch::start();
        for client in &mut self.clients {
            let mut in_a_row = 0;
            while in_a_row < 3 {
                let late = start.running() >= SOON;
                let reply = ask(client, &self.key);
                if reply.status == 200 {
                    // A key keeps its count through all changes.
                    let left = reply.left();
                    let want = self.left.map_or(left, |left| left - 1);
                    assert_eq!(left, want, "counted by one");
                    self.left = Some(left);
                }
                if reply.status == status {
                    in_a_row += 1;
                    continue;
                }
                assert_eq!(in_a_row, 0, "{status}, then {}", reply.status);
                assert!(!late, "{} and not {status} after a second", reply.status);
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_revocation_counts_more_than_earlier_restorations_that_it_does_not_know() {
    let dir = TempDir::new();
    let [one, other] = ["one", "other"].map(|name| dir.join(name));
    let key = issue(&one, "a@x.test", "free");
    copy_keys(&one, &other);
    for _ in 0..3 {
        change_key("revoke", &one, &key);
        change_key("restore", &one, &key);
    }
    change_key("revoke", &other, &key);
    let server = serve(&other);
    // Merged with the file that the server has read.
    fs::copy(one.join("keys.jsonl"), other.join("keys.jsonl")).unwrap();
    let mut holder = Holder::new(&server, key);
    holder.gets_soon(403);
    thread::sleep(2 * SOON);
    holder.gets_soon(403);
}

#[test]
fn issuing_revoking_and_restoring_reach_a_server_within_a_second() {
    let dir = TempDir::new();
    let state = dir.join("state");
    let server = serve(&state);
    server.wait_for_a_day_with(60);
    // Concurrently, so that changes overlap.
    thread::scope(|scope| {
        for person in 0..5 {
            let (server, state) = (&server, &state);
            scope.spawn(move || {
                for round in 0..4 {
                    let address = format!("{person}-{round}@x.test");
                    let mut holder = Holder::new(server, issue(state, &address, "free"));
                    holder.gets_soon(200);
                    change_key("revoke", state, &holder.key);
                    holder.gets_soon(403);
                    change_key("restore", state, &holder.key);
                    holder.gets_soon(200);
                }
            });
        }
    });
}

#[test]
fn a_hundred_requests_for_keys_at_once_leave_an_address_with_three() {
    let dir = TempDir::new();
    let state = dir.join("state");
    let server = serve(&state);
    let outputs: Vec<_> = thread::scope(|scope| {
        let asking: Vec<_> = (0..100)
            .map(|_| scope.spawn(|| try_issue(&state, "ann@x.test", "free")))
            .collect();
        asking.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let (issued, refused): (Vec<_>, Vec<_>) =
        outputs.iter().partition(|output| output.status.success());
    for output in &refused {
        assert_eq!(output.status.code(), Some(65), "{output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    assert_eq!((issued.len(), refused.len()), (3, 97));
    let keys: Vec<String> = issued.into_iter().map(printed_key).collect();
    let active = |key: &String| (id(key).to_owned(), "active".to_owned());
    let mut want: Vec<_> = keys.iter().map(active).collect();
    let mut got = listed_keys(&state);
    want.sort();
    got.sort();
    assert_eq!(got, want);
    for key in &keys {
        Holder::new(&server, key.clone()).gets_soon(200);
    }
    // Revoking a key permits another, and then it cannot be restored.
    change_key("revoke", &state, &keys[0]);
    let fourth = issue(&state, "ann@x.test", "free");
    Holder::new(&server, fourth).gets_soon(200);
    let again = run(&[
        "keys",
        "restore",
        id(&keys[0]),
        "--state",
        state.to_str().unwrap(),
    ]);
    assert_eq!(again.status.code(), Some(65), "{again:?}");
    Holder::new(&server, keys[0].clone()).gets_soon(403);
}
