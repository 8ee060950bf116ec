//! The script that runs in the store, and its arguments.

use std::net::{Ipv4Addr, Ipv6Addr};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind};

use crate::quota::{GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest};

const TEXT: &str = include_str!("lease.lua");
/// Version of the keys and of the script: servers of different versions use different keys if the two
/// do not understand each other.
const VERSION: u32 = 1;
/// Time after the end of a day at which its figures are removed: clocks differ by less.
const KEPT_SECONDS: i64 = 3_600;

/// The script, prepared for a server.
#[derive(Debug)]
pub(super) struct LeaseScript {
    /// SHA-1 of the text, by which the store knows it.
    hash: String,
    /// Field of this server in a client's day. Random for each start: the counters of a machine that
    /// lost its power may be older than the figures in the store.
    field: String,
    servers: u32,
}

impl LeaseScript {
    pub(super) fn new(server: &str, servers: u32) -> LeaseScript {
        LeaseScript {
            hash: redis::Script::new(TEXT).get_hash().to_owned(),
            field: format!("s:{server}"),
            servers,
        }
    }

    /// Passes a request to the store.
    pub(super) async fn call(
        &self,
        mut connection: MultiplexedConnection,
        request: &LeaseRequest,
    ) -> Result<LeaseAnswer, RedisError> {
        let command = |name, script: &str| {
            let expiry = request.day.end().0 + KEPT_SECONDS;
            let mut command = redis::cmd(name);
            command.arg(script).arg(1).arg(key(request));
            command.arg(&self.field).arg(request.granted);
            command.arg(request.counted).arg(request.limit);
            command.arg(self.servers).arg(GRANT_MAX).arg(expiry);
            match request.action {
                LeaseAction::Grant(wanted) => command.arg(wanted),
                LeaseAction::Settle => command.arg("settle"),
                LeaseAction::Return => command.arg("return"),
            };
            command
        };
        let known: Cmd = command("EVALSHA", &self.hash);
        let figures = match known.query_async(&mut connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                command("EVAL", TEXT).query_async(&mut connection).await
            }
            other => other,
        };
        let (granted, total, limit) = figures?;
        Ok(LeaseAnswer {
            granted,
            total,
            limit,
        })
    }
}

/// The name of a client's day in the store.
fn key(request: &LeaseRequest) -> String {
    let client = match request.client {
        LeaseClient::V4(address) => format!("a:{}", Ipv4Addr::from_bits(address)),
        LeaseClient::V6(network) => format!("a:{}", Ipv6Addr::from_bits(u128::from(network) << 64)),
        LeaseClient::Key(id) => format!("k:{id}"),
    };
    format!("imq:{VERSION}:{}:{client}", request.day)
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
