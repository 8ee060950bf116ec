//! [`StoreClient`]: a server, as the script of counts in the store knows it.

use std::sync::LazyLock;

use redis::InfoDict;

use super::node::{ANSWER_MAX, NodeConnection, StoreScript};
use crate::calendar::{RequestTime, UtcDay};
use crate::quota::{GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseRequest};

/// The key of the service. The number is the version of the keys and of the script: servers of versions
/// that do not understand each other use different keys.
const SERVICE: &str = "imq:3:service";
static SCRIPT: LazyLock<StoreScript> =
    LazyLock::new(|| StoreScript::new("", include_str!("counts.lua")));

/// A start of a server.
#[derive(Clone, Debug)]
pub(super) struct StoreClient {
    /// The state directory.
    pub(super) directory: u64,
    /// Random: the counters of a machine that lost its power may be older than the figures in the store.
    pub(super) start: u64,
    /// Servers that share.
    pub(super) servers: u32,
    /// The marker of the last answer. Empty until this connection has one.
    pub(super) marker: String,
    /// All counts were sent for this marker.
    pub(super) is_settled: bool,
    /// This server may have counts of its day, and by its tag seed.
    pub(super) has_counts: bool,
}

#[derive(Debug)]
pub(super) struct Answer {
    /// Differs after each loss of data.
    pub(super) marker: String,
    /// By which all servers name clients.
    pub(super) tag_seed: u64,
    /// The last day for which nothing is granted.
    pub(super) blocked: UtcDay,
    /// The day of the call, if this server has a reserve for each client on it.
    pub(super) reserve_day: Option<UtcDay>,
    /// The answer to `INFO memory`, or nothing.
    pub(super) memory: InfoDict,
    /// Answers to the requests, in their order. None if the store has lost data since the last answer.
    pub(super) leases: Vec<LeaseAnswer>,
}

impl StoreClient {
    /// Registers this server, and passes a batch of requests to the store. `new_marker` begins if the store has lost
    /// data.
    pub(super) async fn call(
        &self,
        node: &NodeConnection,
        new_marker: u64,
        tag_seed: u64,
        now: RequestTime,
        requests: &[LeaseRequest],
    ) -> Result<Answer, String> {
        let answer = node.run(&SCRIPT, 1 + requests.len(), |command| {
            command.arg(SERVICE);
            for request in requests {
                command.arg(key(request));
            }
            command.arg(&self.marker).arg(hex(new_marker));
            command.arg(&node.run_id);
            command.arg(hex(tag_seed)).arg(hex(self.directory));
            command
                .arg(hex(self.start))
                .arg(now.day.0)
                .arg(u32::from(self.is_settled));
            command.arg(self.servers).arg(ANSWER_MAX.as_millis());
            command.arg(u32::from(self.has_counts)).arg(GRANT_MAX);
            command.arg(now.reset_seconds());
            for request in requests {
                command.arg(figures(request));
            }
        });
        let (marker, tag_seed, blocked, has_reserve, memory, figures) = answer.await?;
        let (tag_seed, has_reserve, figures): (String, bool, Vec<u32>) =
            (tag_seed, has_reserve, figures);
        let tag_seed = u64::from_str_radix(&tag_seed, 16)
            .map_err(|_| "the tag seed is no number".to_owned())?;
        let (figures, _) = figures.as_chunks();
        let leases = figures.iter().map(|&[granted, total, limit]| LeaseAnswer {
            granted,
            total,
            limit,
        });
        Ok(Answer {
            marker,
            tag_seed,
            blocked: UtcDay(blocked),
            reserve_day: has_reserve.then_some(now.day),
            memory,
            leases: leases.collect(),
        })
    }
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// The figures of a request, in one argument: it takes less CPU time than five.
fn figures(request: &LeaseRequest) -> String {
    let action = match request.action {
        LeaseAction::Grant(wanted) => &wanted.to_string(),
        LeaseAction::Settle => "settle",
        LeaseAction::Return => "return",
    };
    let (granted, counted, limit) = (request.granted, request.counted, request.limit);
    format!("{granted} {counted} {limit} {} {action}", request.day.0)
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
