//! Measurement: in each round, each server of each case.

use crate::cases::{Case, Contestant, Kind, round_count};
use crate::common::prelude::*;

const CONNECTIONS: usize = 32;
/// Rate of the open loop, as a share of the highest rate of the slowest server of a case.
pub(crate) const RATE_SHARE: f64 = 0.5;
/// No round begins later, so that a slow machine ends too.
const DEADLINE: Duration = Duration::from_mins(6);

/// Result of one server in one case of one round.
pub(crate) struct Record {
    pub(crate) round: usize,
    pub(crate) case: usize,
    pub(crate) kind: Kind,
    pub(crate) busy: Busy,
    /// Microseconds in the open loop: p50, p99, p99.9.
    pub(crate) latencies: [f64; 3],
}

/// Result of the closed loop.
pub(crate) struct Busy {
    /// Server CPU microseconds a request, user and system.
    pub(crate) cpu: f64,
    /// Share of the time that the server waited for its core.
    pub(crate) waited: f64,
    /// Requests per second.
    pub(crate) throughput: f64,
}

/// Runs a closed loop.
fn busy(sources: &mut Sources, contestant: &mut Contestant) -> Outcome<Busy> {
    let run = Duration::from_millis(full_or_quick(100, 20));
    let server = &contestant.server;
    let mut pool = sources.pool(server.address, CONNECTIONS)?;
    // The first requests on a connection cost more.
    let first = contestant.warm_up.as_mut();
    let first = first.unwrap_or(&mut contestant.requests);
    closed(&mut pool, first, run / 10)?;
    let (before, mut responses, mut seconds) = (server.waited_nanos(), 0, 0.0);
    let cpu = server.cpu_micros_each(|| {
        (responses, seconds) = closed(&mut pool, &mut contestant.requests, run)?;
        Ok(responses)
    })?;
    let waited = server.waited_nanos().saturating_sub(before) as f64 / 1e9;
    Ok(Busy {
        cpu,
        waited: waited / seconds,
        throughput: responses as f64 / seconds,
    })
}

/// Warms all servers up, and sets the rate of each case by its slowest.
pub(crate) fn warm(sources: &mut Sources, cases: &mut [Case]) -> Outcome<()> {
    for case in cases {
        let mut slowest = f64::INFINITY;
        for contestant in &mut case.contestants {
            let throughput = busy(sources, contestant)?.throughput;
            slowest = slowest.min(throughput / contestant.requests.depth as f64);
        }
        case.rate = slowest * RATE_SHARE;
    }
    Ok(())
}

/// All rounds, or those that begin before [`DEADLINE`].
pub(crate) fn measure(
    sources: &mut Sources,
    cases: &mut [Case],
    begun: Instant,
) -> Outcome<Vec<Record>> {
    let mut records = Vec::new();
    for round in 0..round_count() {
        if begun.elapsed() > DEADLINE && round > 0 {
            break;
        }
        for (at, case) in cases.iter_mut().enumerate() {
            let rate = case.rate;
            let count = case.contestants.len();
            // The first server finds a cooler core, so the order changes.
            for turn in 0..count {
                let contestant = &mut case.contestants[(turn + round) % count];
                let busy = busy(sources, contestant)?;
                let mut pool = sources.pool(contestant.server.address, CONNECTIONS)?;
                let requests = &mut contestant.requests;
                let run = Duration::from_millis(full_or_quick(50, 20));
                let latencies = open(&mut pool, requests, rate, run)?;
                records.push(Record {
                    round,
                    case: at,
                    kind: contestant.kind,
                    busy,
                    latencies: latencies.percentiles_micros(),
                });
            }
        }
    }
    Ok(records)
}
