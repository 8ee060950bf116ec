//! `Histogram`: how often something took how long, written by one thread.

use std::time::Duration;

use super::Count;

/// Upper bounds of the buckets, in microseconds. An answer from memory takes some tens of
/// microseconds, so that is where they begin.
const BOUNDS_MICROS: [u32; 18] = [
    50, 100, 200, 300, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Counts of durations by bucket. Only one thread may write.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Those of each bound, and those above all.
    buckets: [Count; BOUNDS_MICROS.len() + 1],
    sum_nanos: Count,
}

impl Histogram {
    /// The upper bounds, in seconds.
    pub fn bounds() -> impl Iterator<Item = f64> {
        BOUNDS_MICROS.iter().map(|micros| f64::from(*micros) / 1e6)
    }

    /// Counts a duration.
    pub fn observe(&self, took: Duration) {
        let micros = took.as_nanos().div_ceil(1000);
        let at = BOUNDS_MICROS.partition_point(|bound| u128::from(*bound) < micros);
        self.buckets[at].add(1);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.add(nanos);
    }

    /// Durations in the bucket at a place; the last is of those above all bounds.
    pub fn bucket(&self, at: usize) -> u64 {
        self.buckets[at].get()
    }

    /// All durations together, in nanoseconds.
    pub fn sum_nanos(&self) -> u64 {
        self.sum_nanos.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::default();
        let nanos = [0, 50_000, 50_001, 99_999, 10_000_000_000, 10_000_000_001];
        for nanos in nanos {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let counted: Vec<u64> = (0..19).map(|at| histogram.bucket(at)).collect();
        let mut want = [0; 19];
        (want[0], want[1], want[17], want[18]) = (2, 2, 1, 1);
        assert_eq!(counted, want);
        assert_eq!(histogram.sum_nanos(), nanos.iter().sum::<u64>());
    }
}
