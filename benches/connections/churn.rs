//! Short connections, each with one request: connections a second, and the server's CPU time for each.

use crate::common::http::exchange;
use crate::common::prelude::*;
use crate::{Pair, TARGET};

const CLIENTS: usize = 32;

/// Makes so many visits; returns the server's CPU microseconds for each, and visits a second.
fn visits(sources: &mut Sources, server: &Server, count: usize) -> Outcome<(f64, f64)> {
    let (each, to) = (count / CLIENTS, server.address);
    let (begun, done) = (Instant::now(), each * CLIENTS);
    let (froms, request) = (sources.many(CLIENTS), get(TARGET, ""));
    let visit = |client: usize| -> Outcome<()> {
        for _ in 0..each {
            require_ok(&exchange(froms[client], to, &request)?)?;
        }
        Ok(())
    };
    let micros = server.cpu_micros_each(|| {
        in_parallel(CLIENTS, visit)?;
        Ok(done as u64)
    })?;
    Ok((micros, done as f64 / begun.elapsed().as_secs_f64()))
}

/// Measures both servers in turns; prints medians.
pub(crate) fn measure(
    pair: &Pair,
    sources: &mut Sources,
    count: usize,
    rounds: usize,
) -> Outcome<()> {
    let mut visits = |side: usize| visits(sources, &pair[side].1, count);
    // Both warm up.
    in_turns(1, &mut visits)?;
    let [ours, hyper] = in_turns(rounds, &mut visits)?;
    println!("\nconnect, one request, close: {count} times in each of {rounds} interleaved rounds");
    println!("  {:<16}{:>10}{:>16}", "", "CPU us", "connections/s");
    for ((name, _), rounds) in pair.iter().zip([&ours, &hyper]) {
        let micros = median(rounds.iter().map(|(micros, _)| *micros));
        let rate = median(rounds.iter().map(|(_, rate)| *rate));
        println!("  {name:<16}{micros:>10.1}{rate:>16.0}");
    }
    let cpu = |rounds: &[(f64, f64)]| rounds.iter().map(|round| round.0).collect::<Vec<_>>();
    let ratio = median_ratio(&cpu(&ours), &cpu(&hyper));
    println!("  ratio of CPU {ratio:.2}");
    Ok(())
}
