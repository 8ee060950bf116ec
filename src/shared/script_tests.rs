//! The script in a real store, compared with the plain rule. Requires `redis-server` or
//! `valkey-server`.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Child, Command};

use redis::aio::MultiplexedConnection;
use tokio::runtime::Builder;

use super::*;
use crate::calendar::UtcDay;
use crate::quota::StoreModel;

struct Store {
    process: Child,
    port: u16,
}

impl Store {
    /// Starts a store without files. `None`, with a line that names what to install, if there is none.
    #[expect(clippy::print_stderr, reason = "the test names what it needs")]
    fn start() -> Option<Store> {
        let port = TcpListener::bind("127.0.0.1:0")
            .ok()?
            .local_addr()
            .ok()?
            .port();
        let started = ["redis-server", "valkey-server"]
            .iter()
            .find_map(|program| {
                Command::new(program)
                    .args([
                        "--port",
                        &port.to_string(),
                        "--save",
                        "",
                        "--bind",
                        "127.0.0.1",
                        "--logfile",
                        "/dev/null",
                    ])
                    .spawn()
                    .ok()
            });
        let Some(process) = started else {
            eprintln!("skipped: needs redis-server, `apt-get install redis-server`");
            return None;
        };
        Some(Store { process, port })
    }

    async fn connect(&self) -> MultiplexedConnection {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let client = redis::Client::open(url).unwrap();
        for _ in 0..200 {
            if let Ok(connection) = client.get_multiplexed_async_connection().await {
                return connection;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the store does not accept connections");
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A request of a day in the future.
const REQUEST: LeaseRequest = LeaseRequest {
    client: LeaseClient::V4(0x7f00_0001),
    day: UtcDay(40_000),
    granted: 0,
    counted: 0,
    limit: 9,
    action: LeaseAction::Grant(1),
};

#[test]
fn the_script_agrees_with_the_plain_rule() {
    let Some(store) = Store::start() else { return };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connection = store.connect().await;
        let mut seed = Vec::new();
        std::fs::File::open("/dev/urandom")
            .unwrap()
            .take(20_000)
            .read_to_end(&mut seed)
            .unwrap();
        let mut model = StoreModel::default();
        // Each step takes five random bytes.
        for bytes in seed.chunks_exact(5) {
            let [server, client, granted, action, limit] = bytes.try_into().unwrap();
            let server = u32::from(server % 3);
            let servers = 1 + u32::from(limit % 4);
            let request = LeaseRequest {
                client: match client % 3 {
                    0 => LeaseClient::V4(u32::from(client)),
                    1 => LeaseClient::V6(u64::from(client)),
                    _ => LeaseClient::Key(u64::from(client)),
                },
                // In the future, so that nothing expires during the test.
                day: UtcDay(40_000 + i32::from(client % 2)),
                granted: u32::from(granted) / 4,
                counted: u32::from(granted % 4),
                limit: 100 + 100 * u32::from(limit % 2),
                action: match action % 5 {
                    0 => LeaseAction::Settle,
                    1 => LeaseAction::Return,
                    wanted => LeaseAction::Grant(u32::from(wanted)),
                },
            };
            let script = LeaseScript::new(&server.to_string(), servers);
            let answer = script.call(connection.clone(), &request).await.unwrap();
            assert_eq!(
                answer,
                model.handle(server, &request, servers),
                "{request:?}"
            );
        }
        let mut connection = connection;
        let mut ask = async |name: &str, key: &str| -> i64 {
            redis::cmd(name)
                .arg(key)
                .query_async(&mut connection)
                .await
                .unwrap()
        };
        let script = LeaseScript::new("x", 2);
        script.call(store.connect().await, &REQUEST).await.unwrap();
        let name = key(&REQUEST);
        assert_eq!(name, "imq:1:2079-07-08:a:127.0.0.1");
        assert_eq!(ask("EXPIRETIME", &name).await, 40_001 * 86_400 + 3_600);
    });
}

#[test]
fn a_key_of_another_type_is_replaced() {
    let Some(store) = Store::start() else { return };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = store.connect().await;
        let mut set = redis::cmd("SET");
        set.arg(key(&REQUEST)).arg("text");
        let () = set.query_async(&mut connection).await.unwrap();
        let script = LeaseScript::new("x", 2);
        let answer = script.call(connection.clone(), &REQUEST).await.unwrap();
        assert_eq!((answer.granted, answer.total, answer.limit), (1, 1, 9));
        let mut of_type = redis::cmd("TYPE");
        of_type.arg(key(&REQUEST));
        let found: String = of_type.query_async(&mut connection).await.unwrap();
        assert_eq!(found, "hash");
    });
}

#[test]
fn a_start_that_claims_again_keeps_its_term() {
    let Some(store) = Store::start() else { return };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = store.connect().await;
        let mut terms = Vec::new();
        for (start, smallest) in [("a", 1), ("a", 1), ("b", 1), ("b", 9), ("a", 1), ("c", 9)] {
            let mut claim = redis::cmd("EVAL");
            claim.arg(include_str!("claim_keys.lua")).arg(1).arg("keys");
            claim.arg(smallest).arg("name").arg("url").arg(start);
            let term: u32 = claim.query_async(&mut connection).await.unwrap();
            terms.push(term);
        }
        // The second claim of a start finds its term; another start begins a new one.
        assert_eq!(terms, [1, 1, 2, 2, 3, 9]);
    });
}
