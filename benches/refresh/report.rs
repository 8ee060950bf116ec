//! What came of it, on stdout; what is wrong with it, for the bench to end with.

use std::ops::Range;
use std::time::Instant;

use crate::Rounds;
use crate::common::judged::judge::Judge;
use crate::common::judged::load::{Flow, Load};
use crate::common::judged::publisher::{Publisher, Refresh};
use crate::common::stats::{median, median_ratio};

/// A refresh of the live payload may cost the first publish divided by this.
const GOAL: f64 = 50.0;
/// A running server shows a publish within a second.
const SHOWN_WITHIN_MILLIS: f64 = 1000.0;
/// Faults that are told one by one.
pub(crate) const TOLD_MAX: usize = 20;
/// What the server says when it has taken a publish in.
const TAKEN_IN: &str = "serving the publish of ";

/// All answers of all runs.
pub(crate) fn answers(load: &Load<'_>) -> Vec<String> {
    let (answers, faults) = (load.judge.answers, &load.faults);
    let (failed, mixed) = (faults.failed, faults.mixed);
    println!(
        "{answers} answers judged: {failed} failed, {mixed} of two versions or from one gone by"
    );
    let has_faults = failed + mixed > 0;
    let fault = has_faults.then(|| format!("{failed} answers failed, {mixed} were mixed"));
    fault.into_iter().collect()
}

/// Publishes made and taken in, all of them, with the lateness of those under full load.
pub(crate) fn publishes(
    publisher: &Publisher,
    judge: &Judge<'_>,
    soaked: Range<usize>,
    said: &[String],
) -> Vec<String> {
    let refreshes = &publisher.refreshes;
    let soak = &refreshes[soaked.clone()];
    let histories = soak.iter().filter(|refresh| refresh.has_history).count();
    let (lags, stood) = seen(refreshes, judge, soaked);
    let longest = |millis: &[f64]| millis.iter().copied().fold(0.0, f64::max);
    println!(
        "{} publishes under full load, {histories} with another history; {} seen in answers, {:.0} ms after their end \
         (median), {:.0} at the latest; {} not seen, replaced after {:.0} ms at the latest; {} beats missed by \
         publishes that took longer",
        soak.len(),
        lags.len(),
        median(lags.iter().copied()),
        longest(&lags),
        stood.len(),
        longest(&stood),
        publisher.missed
    );
    let is_complaint = |line: &&String| !line.starts_with(TAKEN_IN);
    let mut faults: Vec<String> = said.iter().filter(is_complaint).cloned().collect();
    let taken_in = said.len() - faults.len();
    println!(
        "{} publishes in all, {taken_in} taken in after the first; {} stray or missing files, or other faults of \
         publishing; {} complaints of the server",
        refreshes.len(),
        publisher.faults.len(),
        faults.len()
    );
    faults.extend(publisher.faults.iter().cloned());
    if longest(&stood) > SHOWN_WITHIN_MILLIS {
        faults.push("a publish was not shown within a second".to_owned());
    }
    for (number, sum) in &judge.page_sums {
        let history = &refreshes[*number].history;
        if format!("{sum:08x}") != *history {
            faults.push(format!(
                "pages of publish {number} have {sum:08x} in their tags, not {history}"
            ));
        }
    }
    faults
}

/// How long after its end each publish was first seen in an answer; how long those stood that were
/// not. Milliseconds.
fn seen(refreshes: &[Refresh], judge: &Judge<'_>, soaked: Range<usize>) -> (Vec<f64>, Vec<f64>) {
    let millis =
        |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
    let (mut lags, mut stood) = (Vec::new(), Vec::new());
    for number in soaked {
        let ended = refreshes[number].ended;
        if let Some(seen) = judge.first_seen.get(&number) {
            lags.push(millis(ended, *seen));
        } else if let Some(next) = refreshes.get(number + 1) {
            stood.push(millis(ended, next.ended));
        }
    }
    (lags, stood)
}

/// What publishes cost.
pub(crate) fn costs(publisher: &Publisher) {
    let (first, later) = publisher.refreshes.split_at(1);
    let of = |has_history: bool, value: fn(&Refresh) -> f64| {
        let chosen = later
            .iter()
            .filter(|refresh| refresh.has_history == has_history);
        median(chosen.map(value))
    };
    let cpu = |refresh: &Refresh| refresh.cpu_millis;
    let wall = |refresh: &Refresh| refresh.wall_millis;
    println!("  {:<22}{:>10}{:>10}", "publish, ms", "CPU", "wall");
    let first_cpu = median(first.iter().map(cpu));
    let rows = [
        (
            "first, of everything",
            [first_cpu, median(first.iter().map(wall))],
        ),
        ("another history", [of(true, cpu), of(true, wall)]),
        ("live only", [of(false, cpu), of(false, wall)]),
    ];
    for (name, [cpu, wall]) in rows {
        println!("  {name:<22}{cpu:>10.0}{wall:>10.0}");
    }
    println!(
        "live only is 1/{:.0} of the first in CPU; goal at scale: at most 1/{GOAL:.0}",
        first_cpu / of(false, cpu)
    );
}

/// Load with publishes against load without.
pub(crate) fn rounds(rounds: &Rounds) {
    let of =
        |flows: &[Flow], value: fn(&Flow) -> f64| flows.iter().map(value).collect::<Vec<f64>>();
    let rate = |flow: &Flow| flow.answers as f64 / flow.seconds;
    let p99 = |flow: &Flow| flow.latencies.quantile_micros(0.99);
    println!("  {:<18}{:>12}{:>10}", "", "requests/s", "p99 us");
    for (name, flows) in [
        ("without publishes", &rounds.without),
        ("with publishes", &rounds.with),
    ] {
        let [rate, p99] = [median(of(flows, rate)), median(of(flows, p99))];
        println!("  {name:<18}{rate:>12.0}{p99:>10.0}");
    }
    let [rate, p99] = [rate, p99]
        .map(|value| median_ratio(&of(&rounds.with, value), &of(&rounds.without, value)));
    println!("  {:<18}{rate:>12.2}{p99:>10.2}", "median ratio");
}
