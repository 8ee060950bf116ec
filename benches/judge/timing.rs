//! Interleaved rounds, their medians, and a test that kinds of keys take the same time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use island_metrics::keys::{KeyPrefix, KeyStatus, KeyStore, KeyTable};

use crate::common::stats::{median, median_ratio};
use crate::keys::{KeyFile, known, unknown, wrong_secret};

/// One measurement of one kind of work.
pub(crate) struct Round {
    begun: Instant,
    each: f64,
}

impl Round {
    pub(crate) fn start() -> Round {
        Round {
            begun: Instant::now(),
            each: 0.0,
        }
    }

    pub(crate) fn stop(&mut self, count: impl TryInto<u32>) {
        let count: u32 = count.try_into().ok().unwrap();
        self.each = self.begun.elapsed().as_secs_f64() * 1e9 / f64::from(count);
    }
}

/// Prints the medians, and the medians of each round's ratio to the first kind.
pub(crate) fn report(names: &[&str], all: &[Vec<Round>]) {
    println!("{:<46} {:>8} {:>12}", "", "ns", "cache misses");
    let each = |rounds: &[Round]| rounds.iter().map(|round| round.each).collect::<Vec<_>>();
    let misses = each(&all[0]);
    for (name, rounds) in names.iter().zip(all) {
        let rounds = each(rounds);
        let ratio = median_ratio(&rounds, &misses);
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
        let mut state = 1_u64;
        for at in (1..next.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            next.swap(at, (state >> 33) as usize % at);
        }
        Chase(next)
    }

    pub(crate) fn round(&self) -> Round {
        let mut at = 0;
        let mut round = Round::start();
        for _ in 0..100_000 {
            at = self.0[at as usize];
        }
        round.stop(100_000_u32);
        black_box(at);
        round
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
pub(crate) fn same_time(keys: &KeyFile<'_>, count: usize) {
    let records = KeyStore::new(keys.directory()).read().unwrap();
    let ring = KeyTable::new(KeyPrefix::default(), &records);
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut state = 88_172_645_463_325_252_u64;
    let mut buffer = known(0).into_bytes();
    while times.iter().any(|times| times.len() < count) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let kind = (state >> 40 & 3) as usize;
        // Any key with the same probability: its place in memory matters more than its kind.
        let any = state as u32 % (keys.len() / 3 - 1) * 3;
        let text = match kind {
            0 => unknown(any + (state >> 50) as u32 % 3),
            1 => wrong_secret(any),
            2 => wrong_secret(any + 1),
            _ => wrong_secret(any + 2),
        };
        // All kinds are read from one buffer.
        buffer.copy_from_slice(text.as_bytes());
        let begun = Instant::now();
        let verdict = ring.verify(black_box(&buffer));
        let took: Duration = begun.elapsed();
        assert_eq!(black_box(verdict), KeyStatus::Unknown);
        times[kind].push(took.as_secs_f64() * 1e9);
    }
    let mut all: Vec<f64> = times.concat();
    all.sort_by(f64::total_cmp);
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
