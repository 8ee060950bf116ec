//! A publish every second under full load, for ten minutes: no response fails, none is of two
//! versions, memory does not grow, no file is left behind.

use std::collections::BTreeMap;
use std::ops::Range;

use super::load::{Flow, Load};
use super::memory::Memory;
use super::publisher::{Pace, Publish, Publisher};
use super::targets::targets;
use super::validator::Validator;
use super::{
    CONNECTIONS, Chore, Column, Faults, Platform, SERVING, STOPPING, Subject, feed, length,
    report_rounds, run_beside, trial,
};
use crate::common::prelude::*;

/// The longest part of a run whose median is compared, and the longest left out before the first.
const MINUTE: Duration = Duration::from_mins(1);
/// Highest growth of resident and of anonymous memory.
const GROWTH_MAX: [f64; 2] = [1.05; 2];
/// A publish of live data alone has to cost the first publish divided by this.
const GOAL: f64 = 50.0;
/// A running server has to serve a publish within a second.
const SERVED_WITHIN_MILLIS: f64 = 1000.0;

pub(super) fn run(scratch: &Path, faults: &Faults) -> Outcome<()> {
    let length = length(Duration::from_mins(10), Duration::from_secs(5));
    let round = (length / 60).clamp(Duration::from_secs(1), Duration::from_secs(10));
    let pace = Pace {
        interval: full_or_quick(Duration::from_secs(1), Duration::from_millis(400)),
        // Histories change more often in a short run.
        history_every: (length.as_secs() as usize / 8).clamp(4, 30),
    };
    let mut platform = Platform::new(scratch, pace)?;
    let subject = Subject::start(|serve| {
        serve.arg("--published").arg(&platform.publisher.directory);
        serve.arg("--state").arg(scratch.join("state"));
    })?;
    let address = subject.address;
    let targets = targets(address)?;
    println!(
        "{}, {} live steps; {} targets, each with gzip and without; a publish every {:.1} s, one in {} \
         with another history",
        platform.size,
        feed::STEPS,
        targets.len(),
        pace.interval.as_secs_f64(),
        pace.history_every
    );
    trial::run(&mut platform, address, &targets)?;
    let mut load = platform.load(address, &targets)?;
    let publisher = &mut platform.publisher;
    load.run_for(round)?;
    let open = subject.settled(&mut load, None)?.descriptors;
    let from = publisher.publishes.len();
    let memory = full_load(&mut load, publisher, &subject.server, length, faults)?;
    let under_load = from..publisher.publishes.len();
    publisher.settle(address)?;
    let rounds = in_turns(full_or_quick(4, 1), |side| {
        if side == 0 {
            return load.run_for(round);
        }
        let flow = run_beside(&mut load, round, vec![publisher.chore()], faults)?;
        publisher.settle(address)?;
        Ok(flow)
    })?;
    let still_open = subject.settled(&mut load, Some(open))?.descriptors;
    publisher.check_dumps()?;
    faults.add_load(&load.total);
    report_publishes(publisher, &load.validator, under_load, faults);
    let log = subject.end(&[SERVING, STOPPING], faults)?;
    let loaded = log.iter().filter(|line| line.starts_with(SERVING)).count();
    println!("{loaded} publishes loaded after the first");
    let (warm, part) = (MINUTE.min(length / 10), MINUTE.min(length / 5));
    let parts = [warm..warm + part, length.saturating_sub(part)..length];
    memory.report(parts, length, GROWTH_MAX, faults);
    println!("descriptors: {open} at the beginning, {still_open} at the end");
    let fault = "the number of open descriptors has changed";
    faults.require(open == still_open, fault);
    report_costs(publisher);
    let columns: [Column; 2] = [
        ("requests/s", Flow::responses_per_second),
        ("p99 us", |flow| flow.latencies.quantile_micros(0.99)),
    ];
    report_rounds(&rounds, &columns);
    Ok(())
}

/// The whole length under full load with publishes.
fn full_load(
    load: &mut Load<Validator<'_>>,
    publisher: &mut Publisher,
    server: &Server,
    length: Duration,
    faults: &Faults,
) -> Outcome<Memory> {
    let mut memory = Memory::default();
    let times = || server.cpu_nanos().map(|cpu| [cpu, server.waited_nanos()]);
    let (before, begun) = (times()?, Instant::now());
    let sample = || memory.sample(&begun, server);
    let interval = Duration::from_secs(1).min(length / 50);
    let chores = vec![publisher.chore(), Chore::new("memory", interval, sample)];
    let flow = run_beside(load, length, chores, faults)?;
    let after = times()?;
    let [busy, waiting] = [0, 1].map(|which| {
        let nanos = after[which].saturating_sub(before[which]);
        nanos as f64 / flow.seconds / 1e7
    });
    println!(
        "{:.0} s of full load on {CONNECTIONS} connections: {} responses, {:.0} a second, p99 {:.0} us; the server had \
         its core {busy:.0} % of the time, and waited for it {waiting:.0} %",
        flow.seconds,
        flow.valid,
        flow.responses_per_second(),
        flow.latencies.quantile_micros(0.99),
    );
    Ok(memory)
}

/// All publishes, and how soon those under full load were served.
fn report_publishes(
    publisher: &Publisher,
    validator: &Validator<'_>,
    under_load: Range<usize>,
    faults: &Faults,
) {
    let all = &publisher.publishes;
    let measured = &all[under_load.clone()];
    let histories = measured.iter().filter(|one| one.has_history).count();
    let millis =
        |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
    // From the end of a publish to the first response of it; of one never seen, to the next publish.
    let (mut lags, mut unseen) = (Vec::new(), Vec::new());
    for number in under_load {
        let ended = all[number].ended;
        if let Some(seen) = validator.first_seen.get(&number) {
            lags.push(millis(ended, *seen));
        } else if let Some(next) = all.get(number + 1) {
            unseen.push(millis(ended, next.ended));
        }
    }
    println!(
        "{} publishes under full load, {histories} with another history; {} seen in responses, {:.0} ms after their \
         end (median), {:.0} at most; {} not seen, replaced after {:.0} ms at most; {} intervals missed by publishes \
         that took longer",
        measured.len(),
        lags.len(),
        median(&lags),
        largest(&lags),
        unseen.len(),
        largest(&unseen),
        publisher.missed
    );
    println!(
        "{} publishes in all; {} stray or missing files, or other faults of publishing",
        all.len(),
        publisher.faults.len(),
    );
    faults.add_all(publisher.faults.iter().cloned());
    // A short run may be one of many programs on its machine.
    let is_served = is_quick() || largest(&unseen) <= SERVED_WITHIN_MILLIS;
    faults.require(is_served, "a publish was not served within a second");
    // The checksum of pages is that of the history XOR a number that changes only with the program.
    let mut differences = BTreeMap::<u32, Vec<usize>>::new();
    for (number, checksum) in &validator.page_checksums {
        let difference = checksum ^ all[*number].history;
        differences.entry(difference).or_default().push(*number);
    }
    faults.require(
        differences.len() <= 1,
        format_args!("tags of pages do not follow the history: {differences:08x?}"),
    );
}

fn report_costs(publisher: &Publisher) {
    let (first, later) = publisher.publishes.split_at(1);
    let of = |has_history: bool| {
        let chosen = later.iter().filter(|one| one.has_history == has_history);
        chosen.collect::<Vec<&Publish>>()
    };
    println!("  {:<22}{:>10}{:>10}", "publish, ms", "CPU", "wall");
    let rows = [
        ("first, of everything", first.iter().collect()),
        ("another history", of(true)),
        ("live only", of(false)),
    ];
    let cpus = rows.map(|(name, publishes)| {
        let cpu = median(publishes.iter().map(|one| one.cpu_millis));
        let wall = median(publishes.iter().map(|one| one.wall_millis));
        println!("  {name:<22}{cpu:>10.0}{wall:>10.0}");
        cpu
    });
    println!(
        "live only is 1/{:.0} of the first in CPU; goal at scale: at most 1/{GOAL:.0}",
        cpus[0] / cpus[2]
    );
}
