//! The scripts of leases, and their arguments and answers.

use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;

use super::cached_script::CachedScript;
use crate::calendar::UtcDay;
use crate::quota::{GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest};

/// The key of the service. The number is the version of the keys and of the scripts: servers of versions
/// that do not understand each other use different keys.
const SERVICE: &str = "imq:2:service";

/// The scripts, prepared for a server.
#[derive(Debug)]
pub(super) struct Scripts {
    lease: CachedScript,
    join: CachedScript,
    /// The state directory, as its name in the store.
    directory: String,
    /// The start of this server. Random: the counters of a machine that lost its power may be older than the
    /// figures in the store.
    start: String,
    servers: u32,
}

/// The state that a server joins with.
#[derive(Debug)]
pub(super) struct Joining<'a> {
    /// The marker that begins if the store has lost data.
    pub(super) new_marker: &'a str,
    /// The store's run id.
    pub(super) run_id: &'a str,
    /// By which this server names its clients.
    pub(super) tag_seed: u64,
    pub(super) day: UtcDay,
    /// The marker for which all counts were sent; empty if there is none.
    pub(super) settled: &'a str,
    /// A server without a heartbeat for this long does not count as one that has sent its counts.
    pub(super) silence_max: Duration,
    /// This server has counts by its tag seed.
    pub(super) is_seed_used: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Differs after each loss of data.
    pub(super) marker: String,
    /// By which all servers name clients.
    pub(super) tag_seed: u64,
    pub(super) day: UtcDay,
    /// All servers have sent their counts since the marker began.
    pub(super) has_all: bool,
}

impl Joined {
    /// The last day for which nothing is granted.
    pub(super) fn blocked(&self) -> UtcDay {
        UtcDay((self.day.0 - i32::from(self.has_all)).max(0))
    }
}

/// The answers to a batch of requests, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answers {
    /// The last day for which nothing is granted.
    pub(super) blocked: UtcDay,
    pub(super) answers: Vec<LeaseAnswer>,
}

impl Scripts {
    pub(super) fn new(directory: u64, start: u64, servers: u32) -> Scripts {
        Scripts {
            lease: CachedScript::new(include_str!("lease.lua")),
            join: CachedScript::new(include_str!("join.lua")),
            directory: format!("{directory:016x}"),
            start: format!("{start:016x}"),
            servers,
        }
    }

    /// Registers this server. `None` is an answer that the script does not give.
    pub(super) async fn join(
        &self,
        connection: MultiplexedConnection,
        joining: &Joining<'_>,
    ) -> Result<Option<Joined>, RedisError> {
        let answer = self.join.call(connection, 1, |command| {
            command.arg(SERVICE).arg(joining.new_marker);
            command.arg(joining.run_id);
            command.arg(format!("{:016x}", joining.tag_seed));
            command.arg(if joining.is_seed_used { "used" } else { "new" });
            command.arg(&self.directory).arg(joining.day.0);
            command.arg(joining.settled).arg(self.servers);
            command.arg(joining.silence_max.as_millis());
        });
        let answer: Vec<String> = answer.await?;
        Ok(parse_joined(&answer))
    }

    /// Passes a batch of requests to the store. `None`: the store has lost data, and nothing was done.
    pub(super) async fn lease(
        &self,
        connection: MultiplexedConnection,
        marker: &str,
        requests: &[LeaseRequest],
    ) -> Result<Option<Answers>, RedisError> {
        let answer = self.lease.call(connection, 1 + requests.len(), |command| {
            command.arg(SERVICE);
            for request in requests {
                command.arg(key(request));
            }
            command.arg(marker).arg(&self.directory).arg(&self.start);
            command.arg(self.servers).arg(GRANT_MAX);
            for request in requests {
                command.arg(request.granted).arg(request.counted);
                command.arg(request.limit).arg(request.day.0);
                match request.action {
                    LeaseAction::Grant(wanted) => command.arg(wanted),
                    LeaseAction::Settle => command.arg("settle"),
                    LeaseAction::Return => command.arg("return"),
                };
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

fn parse_joined(answer: &[String]) -> Option<Joined> {
    let [marker, tag_seed, day, has_all] = answer else {
        return None;
    };
    Some(Joined {
        marker: marker.clone(),
        tag_seed: u64::from_str_radix(tag_seed, 16).ok()?,
        day: day.parse().ok().map(UtcDay)?,
        has_all: has_all == "1",
    })
}

/// The name of a client's day in the store.
fn key(request: &LeaseRequest) -> String {
    let day = request.day;
    match request.client {
        LeaseClient::Anonymous(tag) => format!("imq:2:{day}:a:{tag:x}"),
        LeaseClient::Key(id) => format!("imq:2:{day}:k:{id}"),
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
