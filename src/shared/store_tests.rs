//! A store of tests without files: `redis-server` or `valkey-server`, or the program that `IM_TEST_STORE` names.

use std::ffi::OsString;
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::Duration;

use redis::RedisError;

use super::node::{NodeConnection, QUOTA_PROBE, open};
use super::settings::{SharedQuotaSettings, StoreNode};
use crate::quota::{OutagePolicy, SharingSettings};

pub(super) struct TestStore {
    process: Child,
    port: u16,
}

impl TestStore {
    /// Starts a store. `None`, with a line that names what to install, if there is no program.
    #[expect(clippy::print_stderr, reason = "the test names what it needs")]
    pub(super) fn start() -> Option<TestStore> {
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let port = listener.local_addr().ok()?.port();
        drop(listener);
        let programs = match std::env::var_os("IM_TEST_STORE") {
            Some(program) => vec![program],
            None => ["redis-server", "valkey-server"].map(OsString::from).into(),
        };
        let mut started = programs.iter().map(|program| {
            let mut command = Command::new(program);
            command.args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--port",
                &port.to_string(),
            ]);
            command.args(["--logfile", "/dev/null"]).spawn()
        });
        let Some(process) = started.find_map(Result::ok) else {
            eprintln!("skipped: needs redis-server, `apt-get install redis-server`");
            return None;
        };
        Some(TestStore { process, port })
    }

    /// Connects as soon as the store accepts connections.
    pub(super) async fn connect(&self) -> NodeConnection {
        let node = format!("redis://127.0.0.1:{}", self.port);
        let node = node.parse().expect("the URL is valid");
        for _ in 0..500 {
            if let Ok(connection) = open(&node, &settings(&node), &QUOTA_PROBE).await {
                return connection;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the store does not accept connections");
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a command to a store.
pub(super) async fn run(node: &NodeConnection, words: &[&str]) -> Result<(), RedisError> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let _: redis::Value = command.query_async(&mut node.connection.clone()).await?;
    Ok(())
}

/// Returns the settings of a server that uses one node.
pub(super) fn settings(node: &StoreNode) -> SharedQuotaSettings {
    SharedQuotaSettings {
        nodes: vec![node.clone()],
        password_file: None,
        ca_file: None,
        sharing: SharingSettings {
            servers: 2,
            outage: OutagePolicy::Share,
            clients_max: 1,
        },
        has_keys: true,
    }
}
