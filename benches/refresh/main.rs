//! A refresh every second under full load, for ten minutes: does any request fail, is any answer of two
//! versions, does memory grow, is any file left behind?
//!
//! In: the release binary and a made-up dataset that goes on. Out: a report on stdout, and an error if
//! anything is not as it should be. See `benches/README.md`.
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
mod controls;
mod memory;
mod report;
mod settings;

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::common::judged::feed::Feed;
use crate::common::judged::judge::Judge;
use crate::common::judged::ledger::Ledger;
use crate::common::judged::load::{CONNECTIONS, Flow, Load, released};
use crate::common::judged::publisher::Publisher;
use crate::common::judged::targets::Target;
use crate::common::process::{Scratch, Server, pin_load};
use crate::common::{Outcome, histogram, is_quick, judged, world};
use crate::memory::Memory;
use crate::settings::Settings;

/// Clients that the load comes from: what two of them ask for stays in the server's caches.
const KEYS: usize = 4;
/// How often a load looks at the clock where nobody looks at anything else.
const STILL: Duration = Duration::from_secs(1);

/// What the rounds with publishes and those without came to, by turns.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) without: Vec<Flow>,
    pub(crate) with: Vec<Flow>,
}

/// Has the judge tried with answers of two versions.
fn try_judge(
    publisher: &mut Publisher,
    ledger: &Ledger,
    address: SocketAddr,
    targets: &[Target],
) -> Outcome<()> {
    let first = controls::samples(address, targets)?;
    publisher.refresh(true)?;
    publisher.settle(address)?;
    let second = controls::samples(address, targets)?;
    let caught = controls::check(ledger, targets, &first, &second)?;
    println!(
        "the judge lets {} real answers pass and catches {caught} doctored ones",
        first.len() + second.len()
    );
    Ok(())
}

/// Full load for the whole time, while something is published again and again.
fn soak(
    load: &mut Load<'_>,
    publisher: &mut Publisher,
    server: &Server,
    settings: &Settings,
) -> Outcome<Memory> {
    let mut memory = Memory::default();
    let spent = || {
        server
            .cpu_nanos()
            .map(|nanos| [nanos, server.waited_nanos()])
    };
    let before = spent()?;
    let flow = publisher.during(&settings.pace, || {
        let mut look = |at| memory.look(server, at);
        load.run(settings.length, settings.look_every(), &mut look)
            .map_err(|error| error.to_string())
    })??;
    let after = spent()?;
    let [busy, waiting] = [0, 1].map(|which| {
        let nanos = after[which].saturating_sub(before[which]);
        nanos as f64 / flow.seconds / 1e7
    });
    println!(
        "{:.0} s of full load on {CONNECTIONS} connections: {} answers, {:.0} a second, p99 {:.0} us; the server had \
         its core {busy:.0} % of the time, and waited for it {waiting:.0} %",
        flow.seconds,
        flow.answers,
        flow.answers as f64 / flow.seconds,
        flow.latencies.quantile_micros(0.99),
    );
    Ok(memory)
}

/// The same load with publishes and without, in turns.
fn compare(
    load: &mut Load<'_>,
    publisher: &mut Publisher,
    address: SocketAddr,
    settings: &Settings,
) -> Outcome<Rounds> {
    let mut rounds = Rounds::default();
    for round in 0..settings.rounds {
        for turn in 0..2 {
            let mut run = || {
                load.run(settings.round, STILL, &mut |_| Ok(()))
                    .map_err(|error| error.to_string())
            };
            if (turn + round) % 2 == 1 {
                rounds.with.push(publisher.during(&settings.pace, run)??);
                publisher.settle(address)?;
            } else {
                rounds.without.push(run()?);
            }
        }
    }
    Ok(rounds)
}

fn benchmark(settings: &Settings) -> Outcome<()> {
    histogram::check();
    let scratch = Scratch::new()?;
    let [dataset, directory, state] =
        ["dataset", "published", "state"].map(|name| scratch.path().join(name));
    world::synthesize(&dataset, settings.size)?;
    let feed = Feed::new(&dataset, &scratch.path().join("aside"))?;
    println!("{}, publishes too, at low priority", pin_load()?);
    let ledger = Ledger::default();
    let mut publisher = Publisher::new(feed, ledger.clone(), &dataset, &directory)?;
    let keys = keys(&state)?;
    let mut server = world::serve(&directory, Some(&state), &[])?;
    let listening = server.listen()?;
    let address = server.address;
    let targets = judged::targets::targets(address, &settings.counts)?;
    settings.describe(targets.len());
    try_judge(&mut publisher, &ledger, address, &targets)?;
    let judge = Judge::new(ledger, &targets, CONNECTIONS);
    let mut load = Load::new(address, keys, &targets, judge)?;
    load.run(settings.round, STILL, &mut |_| Ok(()))?;
    let open = released(&mut load, &server, 0)?;
    let from = publisher.refreshes.len();
    let memory = soak(&mut load, &mut publisher, &server, settings)?;
    let soaked = from..publisher.refreshes.len();
    publisher.settle(address)?;
    let rounds = compare(&mut load, &mut publisher, address, settings)?;
    let still_open = released(&mut load, &server, open)?;
    publisher.look_deep()?;
    drop(server);
    let said = listening.join().map_err(|_| "the listener panicked")?;
    let mut faults = report::answers(&load);
    faults.extend(report::publishes(&publisher, &load.judge, soaked, &said));
    faults.extend(memory.report(settings.length));
    println!("descriptors: {open} at the beginning, {still_open} at the end");
    if open != still_open {
        faults.push("the server has other descriptors open than before".to_owned());
    }
    report::costs(&publisher);
    report::rounds(&rounds);
    if faults.is_empty() {
        println!("nothing is wrong");
        return Ok(());
    }
    for fault in faults.iter().take(report::TOLD_MAX) {
        println!("wrong: {fault}");
    }
    Err(format!("{} faults", faults.len()).into())
}

fn keys(state: &Path) -> Outcome<Vec<String>> {
    let keys = (0..KEYS).map(|number| {
        let address = format!("bench{number}@example.com");
        world::issue_key(state, &address)
    });
    keys.collect()
}

fn main() -> Outcome<()> {
    let mut numbers = env::args().skip(1).filter_map(|word| word.parse().ok());
    let seconds: Option<u64> = numbers.next();
    benchmark(&match seconds.map(Duration::from_secs) {
        None if is_quick() => settings::QUICK,
        None => settings::FULL,
        Some(length) => settings::FULL.of(length),
    })
}
