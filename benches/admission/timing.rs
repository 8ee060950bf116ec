//! Interleaved rounds, their medians, and a test that kinds of keys take the same time.

use std::hint::black_box;

use island_metrics::keys::{KeyPrefix, KeyRecords, KeyStatus, KeyTable};

use crate::common::prelude::*;
use crate::keys::{known, unknown, wrong_secret};

/// Prints the medians of all rounds, and the medians of each round's ratio to the first kind.
pub(crate) fn report(names: &[&str], all: &[Vec<f64>]) {
    println!("{:<46} {:>8} {:>12}", "", "ns", "cache misses");
    for (name, rounds) in names.iter().zip(all) {
        let ratio = median_ratio(rounds, &all[0]);
        let each = median(rounds);
        println!("{name:<46} {each:>8.1} {ratio:>12.2}");
    }
}

/// A walk through memory far larger than the caches; each step depends on the one before.
pub(crate) struct Chase(Vec<u32>);

impl Chase {
    pub(crate) fn new() -> Chase {
        // A single cycle, by Sattolo's shuffle.
        let mut next: Vec<u32> = (0..1 << 26).collect();
        let mut random = Random(1);
        for at in (1..next.len()).rev() {
            next.swap(at, random.next() % at);
        }
        Chase(next)
    }

    /// Nanoseconds of a step.
    pub(crate) fn round(&self) -> f64 {
        const STEPS: usize = 100_000;
        nanos_each(STEPS, || {
            let mut at = 0;
            for _ in 0..STEPS {
                at = self.0[at as usize];
            }
            black_box(at);
        })
    }
}

/// Kinds of keys whose verification has to take the same time. The last two are of one kind, and
/// show the measurement's own variation.
const KINDS: [&str; 4] = [
    "unknown id",
    "revoked id, wrong secret",
    "known id, wrong secret",
    "known id, wrong secret (again)",
];

/// Prints the verification time of each kind, and Welch's t against the last: `count` measurements
/// of each, in random order, without the slowest hundredth of all.
pub(crate) fn same_time(records: &KeyRecords, count: usize) {
    let ring = KeyTable::new(KeyPrefix::default(), records.clone(), 0..);
    let keys = records.as_slice().len() as u32;
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut random = Random(2);
    let mut buffer = known(0).into_bytes();
    while times.iter().any(|times| times.len() < count) {
        let kind = random.next() % 4;
        // Any key with the same probability: its place in memory matters more than its kind.
        let any = random.next() as u32 % (keys / 3 - 1) * 3;
        let text = match kind {
            0 => unknown(any + random.next() as u32 % 3),
            1 => wrong_secret(any),
            2 => wrong_secret(any + 1),
            _ => wrong_secret(any + 2),
        };
        // All kinds are read from one buffer.
        buffer.copy_from_slice(text.as_bytes());
        let begun = Instant::now();
        let verdict = ring.verify(black_box(&buffer));
        let took = begun.elapsed();
        assert_eq!(black_box(verdict), KeyStatus::Unknown);
        times[kind].push(took.as_secs_f64() * 1e9);
    }
    let all = sorted(times.concat());
    let cut = all[all.len() * 99 / 100];
    for times in &mut times {
        times.retain(|time| *time <= cut);
    }
    println!(
        "\n{:<46} {:>8} {:>8} {:>12}",
        "", "median", "mean", "Welch's t"
    );
    let (last, error_last) = moments(&times[3]);
    for (name, times) in KINDS.iter().zip(&times) {
        let (mean, error) = moments(times);
        let t = (mean - last) / (error + error_last).sqrt();
        println!(
            "{name:<46} {:>8.0} {mean:>8.2} {t:>12.2}",
            median(times.clone())
        );
    }
}

/// The mean, and the square of its standard error.
fn moments(times: &[f64]) -> (f64, f64) {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, variance / count)
}
