//! Kinds of work measured in interleaved rounds.

use crate::common::prelude::*;

/// Work that takes less is repeated in a round.
const REPEAT: Duration = Duration::from_micros(200);

/// Work to measure. Its result keeps it from being optimized away.
pub(crate) type Work<'a> = Box<dyn Fn() -> usize + 'a>;

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

pub(crate) fn medians(kinds: &[Work<'_>], rounds: usize) -> Vec<f64> {
    measure(kinds, rounds).into_iter().map(median).collect()
}

fn repeats(work: &Work<'_>) -> u32 {
    // The least of a few: an interrupted one would have all rounds measured with cold caches.
    let once = (0..5).map(|_| time(work, 1)).fold(f64::MAX, f64::min);
    (REPEAT.as_nanos() as f64 / once.max(20.0)) as u32 + 1
}

fn time(work: &Work<'_>, repeats: u32) -> f64 {
    nanos_each(repeats as usize, || {
        for _ in 0..repeats {
            std::hint::black_box(work());
        }
    })
}
