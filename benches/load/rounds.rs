//! The measuring: each server of each case in turn, round after round.

use std::time::{Duration, Instant};

use crate::cases::{Case, Contestant, Kind};
use crate::common::Outcome;
use crate::common::flow::{closed, open};
use crate::common::lines::Sources;
use crate::settings::{CONNECTIONS, DEADLINE, RATE_SHARE, Settings};

/// What one server did in one case of one round.
pub(crate) struct Record {
    pub(crate) round: usize,
    pub(crate) case: usize,
    pub(crate) kind: Kind,
    /// Server CPU microseconds a request, user and system, in the closed loop.
    pub(crate) cpu: f64,
    /// The share of the closed loop's time that the server waited for its core.
    pub(crate) waited: f64,
    /// Requests a second, in the closed loop.
    pub(crate) throughput: f64,
    /// Microseconds at the open loop's rate: p50, p99, p99.9.
    pub(crate) latencies: [f64; 3],
}

/// What a server did in the closed loop, as in [`Record`].
struct Busy {
    cpu: f64,
    waited: f64,
    throughput: f64,
}

/// Keeps a server busy for a while.
fn busy(sources: &mut Sources, contestant: &mut Contestant, run: Duration) -> Outcome<Busy> {
    let server = &contestant.server;
    let mut lines = sources.lines(server.address, CONNECTIONS)?;
    // What a connection costs once is another bench's; not of requests that are asked for once only.
    if !contestant.requests.are_distinct() {
        closed(&mut lines, &mut contestant.requests, run / 10)?;
    }
    let (before, waited) = (server.cpu_nanos()?, server.waited_nanos());
    let (answers, seconds) = closed(&mut lines, &mut contestant.requests, run)?;
    let micros = (server.cpu_nanos()? - before) as f64 / 1000.0;
    let waited = server.waited_nanos().saturating_sub(waited) as f64 / 1e9;
    Ok(Busy {
        cpu: micros / answers as f64,
        waited: waited / seconds,
        throughput: answers as f64 / seconds,
    })
}

/// Warms every server, and chooses each case's rate by the slowest.
pub(crate) fn warm(sources: &mut Sources, cases: &mut [Case], run: Duration) -> Outcome<()> {
    for case in cases {
        let mut slowest = f64::INFINITY;
        for contestant in &mut case.contestants {
            let throughput = busy(sources, contestant, run)?.throughput;
            slowest = slowest.min(throughput / contestant.requests.depth as f64);
        }
        case.rate = slowest * RATE_SHARE;
    }
    Ok(())
}

/// All rounds; fewer where the machine is slow.
pub(crate) fn measure(
    sources: &mut Sources,
    cases: &mut [Case],
    settings: &Settings,
    begun: Instant,
) -> Outcome<Vec<Record>> {
    let mut records = Vec::new();
    for round in 0..settings.rounds {
        if begun.elapsed() > DEADLINE && round > 0 {
            break;
        }
        for (at, case) in cases.iter_mut().enumerate() {
            let rate = case.rate;
            let count = case.contestants.len();
            // Who goes first finds a cooler core: each round another.
            for turn in 0..count {
                let contestant = &mut case.contestants[(turn + round) % count];
                let busy = busy(sources, contestant, settings.closed)?;
                let mut lines = sources.lines(contestant.server.address, CONNECTIONS)?;
                let schedule = (rate, settings.open);
                let requests = &mut contestant.requests;
                let latencies = open(&mut lines, requests, schedule, |_, _, _| Ok(()))?;
                records.push(Record {
                    round,
                    case: at,
                    kind: contestant.kind,
                    cpu: busy.cpu,
                    waited: busy.waited,
                    throughput: busy.throughput,
                    latencies: [0.5, 0.99, 0.999].map(|share| latencies.quantile_micros(share)),
                });
            }
        }
    }
    Ok(records)
}
