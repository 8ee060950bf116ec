//! [`StoreClient`]: a server, as the scripts of counts in the store know it.

use std::sync::LazyLock;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, InfoDict, RedisError};

use super::cached_script::CachedScript;
use crate::calendar::UtcDay;
use crate::quota::{GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest};

/// The key of the service. The number is the version of the keys and of the scripts: servers of versions
/// that do not understand each other use different keys.
const SERVICE: &str = "imq:3:service";
static JOIN: LazyLock<CachedScript> = LazyLock::new(|| CachedScript::new(include_str!("join.lua")));
static LEASE: LazyLock<CachedScript> =
    LazyLock::new(|| CachedScript::new(include_str!("lease.lua")));

/// A start of a server.
#[derive(Clone, Debug)]
pub(super) struct StoreClient {
    /// The state directory.
    pub(super) directory: u64,
    /// Random: the counters of a machine that lost its power may be older than the figures in the store.
    pub(super) start: u64,
    /// Servers that share.
    pub(super) servers: u32,
    /// A server without a heartbeat for this long does not count as one that has sent its counts.
    pub(super) silence_max: Duration,
    /// The marker for which all counts were sent; empty if there is none.
    pub(super) settled: String,
    /// This server may have counts of its day, and by its tag seed.
    pub(super) has_counts: bool,
}

#[derive(Debug)]
pub(super) struct Joined {
    /// Differs after each loss of data.
    pub(super) marker: String,
    /// By which all servers name clients.
    pub(super) tag_seed: u64,
    /// The last day for which nothing is granted.
    pub(super) blocked: UtcDay,
    /// This server has a reserve for each client on its day.
    pub(super) has_reserve: bool,
    /// The answer to `INFO memory`.
    pub(super) memory: InfoDict,
}

/// The answers to a batch of requests, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answers {
    /// The last day for which nothing is granted.
    pub(super) blocked: UtcDay,
    pub(super) answers: Vec<LeaseAnswer>,
}

impl StoreClient {
    /// Registers this server. `new_marker` begins if the store has lost data.
    pub(super) async fn join(
        &self,
        connection: MultiplexedConnection,
        new_marker: u64,
        run_id: &str,
        tag_seed: u64,
        day: UtcDay,
    ) -> Result<Joined, RedisError> {
        let answer = JOIN.call(connection, 1, |command| {
            command.arg(SERVICE).arg(hex(new_marker)).arg(run_id);
            command.arg(hex(tag_seed)).arg(hex(self.directory));
            command.arg(day.0).arg(&self.settled).arg(self.servers);
            command.arg(self.silence_max.as_millis());
            command.arg(u32::from(self.has_counts));
        });
        let (marker, tag_seed, blocked, has_reserve, memory): (_, String, _, _, _) = answer.await?;
        let tag_seed = u64::from_str_radix(&tag_seed, 16)
            .map_err(|_| RedisError::from((ErrorKind::Parse, "the tag seed is no number")))?;
        Ok(Joined {
            marker,
            tag_seed,
            blocked: UtcDay(blocked),
            has_reserve,
            memory,
        })
    }

    /// Passes a batch of requests to the store. `None`: the store has lost data, and nothing was done.
    pub(super) async fn lease(
        &self,
        connection: MultiplexedConnection,
        marker: &str,
        requests: &[LeaseRequest],
    ) -> Result<Option<Answers>, RedisError> {
        let answer = LEASE.call(connection, 1 + requests.len(), |command| {
            command.arg(SERVICE);
            for request in requests {
                command.arg(key(request));
            }
            command.arg(marker).arg(hex(self.directory));
            command
                .arg(hex(self.start))
                .arg(self.servers)
                .arg(GRANT_MAX);
            for request in requests {
                command.arg(figures(request));
            }
        });
        let figures: Vec<u32> = answer.await?;
        let Some((blocked, figures)) = figures.split_first() else {
            return Ok(None);
        };
        let (figures, _) = figures.as_chunks();
        let answers = figures.iter().map(|&[granted, total, limit]| LeaseAnswer {
            granted,
            total,
            limit,
        });
        Ok(Some(Answers {
            blocked: UtcDay((*blocked).cast_signed()),
            answers: answers.collect(),
        }))
    }
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// The figures of a request, in one argument: it takes less CPU time than five.
fn figures(request: &LeaseRequest) -> String {
    let LeaseRequest {
        granted,
        counted,
        limit,
        day,
        action,
        ..
    } = request;
    let action = match action {
        LeaseAction::Grant(wanted) => &wanted.to_string(),
        LeaseAction::Settle => "settle",
        LeaseAction::Return => "return",
    };
    format!("{granted} {counted} {limit} {} {action}", day.0)
}

/// The name of a client's day in the store.
fn key(request: &LeaseRequest) -> String {
    let day = request.day;
    match request.client {
        LeaseClient::Anonymous(tag) => format!("imq:3:{day}:a:{tag:x}"),
        LeaseClient::Key(id) => format!("imq:3:{day}:k:{id}"),
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
