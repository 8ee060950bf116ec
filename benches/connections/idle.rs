//! Idle connections after one response: memory of each, and leaks after all are closed.

use crate::common::prelude::*;
use crate::{Pair, TARGET};

/// A leak shows as growth in each cycle.
const CYCLES: usize = 6;
/// Growth in the last cycle that is a leak, as a share of the memory of all connections.
const LEAK_SHARE: f64 = 0.03;
/// Growth below this is ignored: memory is taken in pages and heaps.
const LEAK_KIB: u64 = 1024;
/// Connections from one address, which may not open all.
const PER_ADDRESS: usize = 100;
/// Goal for an idle connection.
const GOAL_KIB: f64 = 12.0;

/// Opens connections and sends one request on each.
fn open(sources: &mut Sources, server: &Server, count: usize) -> Outcome<Pool> {
    let addresses = sources.many(count.div_ceil(PER_ADDRESS));
    let froms = (0..count).map(|number| addresses[number / PER_ADDRESS]);
    let mut pool = Pool::connect(froms, server.address)?;
    let mut requests = Requests::same(&get(TARGET, ""), 1, 200);
    let (responses, _) = closed(&mut pool, &mut requests, Duration::ZERO)?;
    if responses as usize == count {
        Ok(pool)
    } else {
        Err(format!("{responses} responses on {count} connections").into())
    }
}

/// Waits until the server has closed its ends.
fn settled(server: &Server, descriptors: usize) -> Outcome<Usage> {
    wait_for(STALL, Duration::from_millis(20), || {
        let now = server.usage()?;
        Ok((now.descriptors <= descriptors).then_some(()))
    })?;
    server.usage()
}

/// Opens and closes connections in cycles; prints the usage of each server.
pub(crate) fn measure(pair: &Pair, sources: &mut Sources, count: usize) -> Outcome<()> {
    println!(
        "\n{count} idle connections after one response each (goal: at most {GOAL_KIB} KiB each)"
    );
    println!(
        "  {:<16}{:>6}{:>12}{:>12}{:>12}{:>10}{:>8}{:>8}{:>8}",
        "", "cycle", "KiB before", "KiB with", "KiB after", "KiB each", "fds", "with", "after"
    );
    let (mut each, mut leaks) = (Vec::new(), Vec::new());
    for (name, server) in pair {
        let cycles = cycles(name, server, sources, count)?;
        each.push(cycles.iter().map(|(_, each)| *each).collect::<Vec<f64>>());
        leaks.extend(leak(name, &cycles));
    }
    for (when, at) in [("in the first cycle", 0), ("in the last", CYCLES - 1)] {
        let (ours, hyper) = (each[0][at], each[1][at]);
        let ratio = ours / hyper;
        println!("  {when}: {ours:.2} KiB each, bare hyper {hyper:.2}, ratio {ratio:.2}");
    }
    if leaks.is_empty() {
        println!(
            "  descriptors are as before, and memory grows by less than 3 % of that of all connections"
        );
        return Ok(());
    }
    Err(leaks.join("; ").into())
}

/// Usage before, with and after the connections of a cycle; KiB for each connection above the usage
/// before the first cycle.
type Cycle = ([Usage; 3], f64);

fn cycles(name: &str, server: &Server, sources: &mut Sources, count: usize) -> Outcome<Vec<Cycle>> {
    // Memory taken for the first connection of all is not counted.
    drop(open(sources, server, 1)?);
    thread::sleep(Duration::from_millis(100));
    let start = server.usage()?;
    let mut all = Vec::new();
    for number in 1..=CYCLES {
        let before = server.usage()?;
        let pool = open(sources, server, count)?;
        let with = server.usage()?;
        drop(pool);
        let after = settled(server, start.descriptors)?;
        let grown = with.resident_kib.saturating_sub(start.resident_kib);
        let each = grown as f64 / count as f64;
        println!(
            "  {name:<16}{number:>6}{:>12}{:>12}{:>12}{each:>10.2}{:>8}{:>8}{:>8}",
            before.resident_kib,
            with.resident_kib,
            after.resident_kib,
            before.descriptors,
            with.descriptors,
            after.descriptors
        );
        all.push(([before, with, after], each));
    }
    Ok(all)
}

/// The leak, if there is one. An allocator keeps freed memory and needs some cycles until it reuses
/// all; a leak would add as much in each cycle.
fn leak(name: &str, cycles: &[Cycle]) -> Option<String> {
    let (([start, with, _], _), ([before, _, end], _)) = (cycles.first()?, cycles.last()?);
    if end.descriptors > start.descriptors {
        let stay = end.descriptors - start.descriptors;
        return Some(format!("{name} keeps {stay} descriptors"));
    }
    let growth = |to: &Usage, from: &Usage| to.resident_kib.saturating_sub(from.resident_kib);
    let (taken, grown) = (growth(with, start), growth(end, before));
    let leaks = grown as f64 > taken as f64 * LEAK_SHARE && grown > LEAK_KIB;
    leaks.then(|| format!("{name} still grows, by {grown} KiB in the last cycle"))
}
