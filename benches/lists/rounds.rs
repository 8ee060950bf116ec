//! Kinds of work measured in rounds that take turns, and their medians.

use std::time::{Duration, Instant};

/// How long a kind of work is repeated in one round, if once takes less.
const REPEAT: Duration = Duration::from_micros(200);

/// Work that is measured. What it returns keeps it from being left out.
pub(crate) type Work<'a> = Box<dyn Fn() -> usize + 'a>;

/// Nanoseconds that each kind takes in each of the rounds, in which all take turns.
pub(crate) fn measure(kinds: &[Work<'_>], rounds: usize) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); kinds.len()];
    let repeats: Vec<u32> = kinds.iter().map(repeats).collect();
    for _ in 0..rounds {
        for ((kind, repeats), times) in kinds.iter().zip(&repeats).zip(&mut times) {
            times.push(time(kind, *repeats));
        }
    }
    times
}

/// The median of each kind.
pub(crate) fn medians(kinds: &[Work<'_>], rounds: usize) -> Vec<f64> {
    measure(kinds, rounds).into_iter().map(median).collect()
}

/// How many times as long as the other a kind takes: the median of the rounds, each by itself.
pub(crate) fn ratio(kind: &[f64], other: &[f64]) -> f64 {
    median(
        kind.iter()
            .zip(other)
            .map(|(one, other)| one / other)
            .collect(),
    )
}

fn repeats(work: &Work<'_>) -> u32 {
    // The least of a few: one that was interrupted would have all rounds measured cold.
    let once = (0..5).map(|_| time(work, 1)).fold(f64::MAX, f64::min);
    (REPEAT.as_nanos() as f64 / once.max(20.0)) as u32 + 1
}

fn time(work: &Work<'_>, repeats: u32) -> f64 {
    let begun = Instant::now();
    for _ in 0..repeats {
        std::hint::black_box(work());
    }
    begun.elapsed().as_nanos() as f64 / f64::from(repeats)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
