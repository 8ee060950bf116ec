//! A new publish under load: is any request lost, is any answer of two versions, and what becomes
//! of latency.
//!
//! In: the release binary and a made-up dataset, published in two versions. Out: a table on stdout.
//! See `benches/README.md`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a program that computes with measurements and prints what comes of it"
)]

#[allow(dead_code, reason = "each bench uses a part of it")]
#[path = "../common/mod.rs"]
mod common;
mod publisher;
mod versions;

use std::time::Duration;

use crate::common::flow::{Requests, open};
use crate::common::http::get;
use crate::common::lines::Sources;
use crate::common::process::{Scratch, Server, pin_load};
use crate::common::stats::{median, median_ratio};
use crate::common::world::{self, Size};
use crate::common::{Outcome, histogram, is_quick};
use crate::publisher::Publisher;
use crate::versions::{Expected, Seen, targets};

const CONNECTIONS: usize = 32;

struct Settings {
    size: Size,
    rounds: usize,
    run: Duration,
    /// Between two publishes: longer than the server takes to notice one.
    interval: Duration,
    /// Requests a second.
    rate: f64,
}

const FULL: Settings = Settings {
    size: Size {
        islands: 300_000,
        creators: 60_000,
        days: 2,
    },
    rounds: 7,
    run: Duration::from_secs(4),
    interval: Duration::from_secs(3),
    rate: 10_000.0,
};

const QUICK: Settings = Settings {
    size: Size {
        islands: 400,
        creators: 150,
        days: 2,
    },
    rounds: 1,
    run: Duration::from_millis(900),
    interval: Duration::from_millis(400),
    rate: 1_000.0,
};

/// What one run showed.
struct Run {
    p50: f64,
    p99: f64,
    p999: f64,
}

/// Load for a while, with publishes or without; checks every answer.
fn run(
    server: &Server,
    sources: &mut Sources,
    expected: &Expected,
    settings: &Settings,
    publisher: Option<&mut Publisher>,
) -> Outcome<(Run, Seen)> {
    let mut lines = sources.lines(server.address, CONNECTIONS)?;
    let requests = expected.targets.iter().map(|target| get(target, ""));
    let mut requests = Requests::list(requests.collect(), None, true);
    let mut seen = Seen::new(CONNECTIONS);
    let schedule = (settings.rate, settings.run);
    let mut looping = || {
        open(
            &mut lines,
            &mut requests,
            schedule,
            |line, number, answer| seen.check(expected, line, number, answer),
        )
        .map_err(|error| error.to_string())
    };
    let latencies = match publisher {
        None => looping(),
        Some(publisher) => publisher.during(settings.interval, settings.run, looping)?,
    }?;
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| latencies.quantile_micros(share));
    Ok((Run { p50, p99, p999 }, seen))
}

fn benchmark(settings: &Settings) -> Outcome<()> {
    histogram::check();
    let scratch = Scratch::new()?;
    let mut publisher = Publisher::prepare(scratch.path(), settings.size)?;
    println!("{}", pin_load()?);
    let server = world::serve(publisher.directory(), None, &[])?;
    let targets = targets(server.address)?;
    let expected = publisher.expected(server.address, &targets)?;
    let mut sources = Sources::new()?;
    // Warms up what is not measured.
    run(&server, &mut sources, &expected, settings, None)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut answers, mut swapped, mut taken_in) = (0, 0, 0);
    for round in 0..settings.rounds {
        for turn in 0..2 {
            let swapping = (turn + round) % 2 == 1;
            let before = publisher.published();
            let chosen = swapping.then_some(&mut publisher);
            let (measured, seen) = run(&server, &mut sources, &expected, settings, chosen)?;
            publisher.settle(server.address)?;
            let swaps = publisher.published() - before;
            seen.judge(swaps)?;
            answers += seen.answers();
            if swapping {
                swapped += swaps;
                taken_in += seen.changes();
                with.push(measured);
            } else {
                without.push(measured);
            }
        }
    }
    println!(
        "{} islands, {} days; {:.0} requests/s on {CONNECTIONS} connections, open loop; {} rounds of {:.1?} each way",
        settings.size.islands, settings.size.days, settings.rate, settings.rounds, settings.run
    );
    println!(
        "{answers} answers checked byte for byte: 0 failed, 0 of two versions, none from a version \
         gone by; {swapped} publishes, {taken_in} seen"
    );
    table(&without, &with);
    Ok(())
}

fn table(without: &[Run], with: &[Run]) {
    println!("  {:<18}{:>9}{:>9}{:>9}", "us", "p50", "p99", "p99.9");
    let of = |runs: &[Run], value: fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
    let values: [fn(&Run) -> f64; 3] = [|run| run.p50, |run| run.p99, |run| run.p999];
    for (name, runs) in [("without publishes", without), ("with publishes", with)] {
        let [p50, p99, p999] = values.map(|value| median(of(runs, value)));
        println!("  {name:<18}{p50:>9.0}{p99:>9.0}{p999:>9.0}");
    }
    let [p50, p99, p999] = values.map(|value| median_ratio(&of(with, value), &of(without, value)));
    println!("  {:<18}{p50:>9.2}{p99:>9.2}{p999:>9.2}", "median ratio");
    println!("goal: p99 with publishes at most 1.5 times that without");
}

fn main() -> Outcome<()> {
    benchmark(if is_quick() { &QUICK } else { &FULL })
}
