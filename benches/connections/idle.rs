//! Connections that have had one answer and stay: memory each, and what is left when all have gone.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::flow::{Requests, closed};
use crate::common::http::get;
use crate::common::lines::{Lines, Sources};
use crate::common::process::Server;
use crate::common::{Outcome, STALL};
use crate::{Pair, TARGET};

/// More than once, for a leak shows when it goes on.
const CYCLES: usize = 6;
/// Growth in the last cycle that is a leak, as a share of what all connections took at first.
const LEAK_SHARE: f64 = 0.03;
/// Growth that says nothing, since memory comes in pages and heaps.
const LEAK_KIB: u64 = 1024;
/// Connections from one address: an address may open many, but not all.
const PER_ADDRESS: usize = 100;
/// What the project wants an idle connection to stay below.
const GOAL_KIB: f64 = 12.0;

/// What a server holds.
#[derive(Clone, Copy)]
struct Held {
    resident_kib: u64,
    descriptors: usize,
}

fn held(server: &Server) -> Outcome<Held> {
    Ok(Held {
        resident_kib: server.resident_kib()?,
        descriptors: server.descriptors()?,
    })
}

/// Opens connections that each have one answer.
fn opened(sources: &mut Sources, server: &Server, count: usize) -> Outcome<Lines> {
    let mut streams = Vec::new();
    let mut from = sources.fresh();
    for number in 0..count {
        if number % PER_ADDRESS == 0 {
            from = sources.fresh();
        }
        streams.push(sources.connect(from, server.address)?);
    }
    let mut lines = Lines::new(streams)?;
    let mut requests = Requests::same(&get(TARGET, ""), 1, 200);
    let (answers, _) = closed(&mut lines, &mut requests, Duration::ZERO)?;
    if answers as usize == count {
        Ok(lines)
    } else {
        Err(format!("{answers} answers on {count} connections").into())
    }
}

/// Waits until the server has noticed that they are gone.
fn settled(server: &Server, descriptors: usize) -> Outcome<Held> {
    let begun = Instant::now();
    loop {
        let now = held(server)?;
        if now.descriptors <= descriptors || begun.elapsed() > STALL {
            return Ok(now);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Opens and closes in cycles; prints what each server held.
pub(crate) fn measure(pair: &Pair, sources: &mut Sources, count: usize) -> Outcome<()> {
    println!(
        "\n{count} idle connections, each with one answer had (goal: at most {GOAL_KIB} KiB each)"
    );
    println!(
        "  {:<16}{:>6}{:>12}{:>12}{:>12}{:>10}{:>8}{:>8}{:>8}",
        "", "cycle", "KiB before", "KiB with", "KiB after", "KiB each", "fds", "with", "after"
    );
    let (mut each, mut leaks) = (Vec::new(), Vec::new());
    for (name, server) in &pair.servers {
        let cycles = cycles(name, server, sources, count)?;
        each.push(cycles.iter().map(|cycle| cycle.each).collect::<Vec<f64>>());
        leaks.extend(leak(name, &cycles));
    }
    for (when, at) in [("in the first cycle", 0), ("in the last", CYCLES - 1)] {
        let (ours, hyper) = (each[0][at], each[1][at]);
        let ratio = ours / hyper;
        println!("  {when}: {ours:.2} KiB each, bare hyper {hyper:.2}, ratio {ratio:.2}");
    }
    if leaks.is_empty() {
        println!(
            "  descriptors are back, and memory grows by less than a leak of 3 % would make it"
        );
        return Ok(());
    }
    Err(leaks.join("; ").into())
}

/// What a server held in one cycle.
struct Cycle {
    before: Held,
    with: Held,
    after: Held,
    /// KiB for each connection over what the server held before the first cycle.
    each: f64,
}

fn cycles(name: &str, server: &Server, sources: &mut Sources, count: usize) -> Outcome<Vec<Cycle>> {
    // What the first connection of all brings is not counted to any.
    drop(opened(sources, server, 1)?);
    thread::sleep(Duration::from_millis(100));
    let start = held(server)?;
    let mut all = Vec::new();
    for number in 1..=CYCLES {
        let before = held(server)?;
        let lines = opened(sources, server, count)?;
        let with = held(server)?;
        drop(lines);
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
        all.push(Cycle {
            before,
            with,
            after,
            each,
        });
    }
    Ok(all)
}

/// What stays behind, if anything does. An allocator keeps what it has had, and needs some cycles
/// until its holes fit; a leak would add as much each time.
fn leak(name: &str, cycles: &[Cycle]) -> Option<String> {
    let (first, last) = (cycles.first()?, cycles.last()?);
    if last.after.descriptors > first.before.descriptors {
        let stay = last.after.descriptors - first.before.descriptors;
        return Some(format!("{name} keeps {stay} descriptors"));
    }
    let taken = first
        .with
        .resident_kib
        .saturating_sub(first.before.resident_kib);
    let grown = last
        .after
        .resident_kib
        .saturating_sub(last.before.resident_kib);
    let leaks = grown as f64 > taken as f64 * LEAK_SHARE && grown > LEAK_KIB;
    leaks.then(|| format!("{name} still grows, by {grown} KiB in the last cycle"))
}
