//! Latency histogram with log-linear buckets: constant size, relative error at most 1/128.

/// Each power of two has `PARTS` buckets.
const PARTS_BITS: u32 = 7;
const PARTS: usize = 1 << PARTS_BITS;
/// 2^40 ns are 18 minutes, longer than any latency.
const POWERS: usize = 40;

/// Counts of values in nanoseconds.
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u32,
}

/// The bucket of a value. Values below `PARTS` have a bucket each.
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min((1 << POWERS) - 1);
    let shift = (nanos | 1).ilog2().saturating_sub(PARTS_BITS);
    (shift as usize) * PARTS + (nanos >> shift) as usize
}

/// The smallest value of a bucket.
fn floor(bucket: usize) -> u64 {
    let shift = (bucket / PARTS).saturating_sub(1);
    ((bucket - shift * PARTS) as u64) << shift
}

impl Default for Histogram {
    fn default() -> Histogram {
        let counts = vec![0; PARTS * (POWERS + 1)];
        Histogram { counts, total: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Number of values that are larger than this, or in the same bucket.
    pub(crate) fn count_above(&self, nanos: u64) -> u32 {
        self.counts[bucket(nanos)..].iter().sum()
    }

    /// The median, 99 % and 99.9 % by [`Histogram::quantile_micros`].
    pub(crate) fn percentiles_micros(&self) -> [f64; 3] {
        [0.5, 0.99, 0.999].map(|share| self.quantile_micros(share))
    }

    /// The smallest value in microseconds that a share of all values does not exceed; 0 without
    /// values.
    pub(crate) fn quantile_micros(&self, share: f64) -> f64 {
        let target = (f64::from(self.total) * share).ceil() as u32;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= target.max(1) {
                return (floor(at + 1) - 1) as f64 / 1000.0;
            }
        }
        0.0
    }
}

/// Self-test of the buckets, run at the start of each bench that uses them: a bench has no tests.
pub(crate) fn check() {
    for nanos in (0..100_000).chain((1..39).map(|power| (1 << power) + 12_345)) {
        let at = bucket(nanos);
        assert!(floor(at) <= nanos && nanos < floor(at + 1), "{nanos} ns");
    }
    let mut latencies = Histogram::default();
    (1..=1000).for_each(|micros| latencies.record(micros * 1000));
    let middle = latencies.quantile_micros(0.5);
    assert!((500.0..505.0).contains(&middle), "median {middle}");
    let above = latencies.count_above(900_500);
    assert!((100..110).contains(&above), "{above} above");
}
