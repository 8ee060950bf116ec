//! Latency histogram: constant size, relative error at most 1/128.

/// Counts of values in nanoseconds.
pub(crate) struct Histogram(hdrhistogram::Histogram<u32>);

impl Default for Histogram {
    fn default() -> Histogram {
        // 2^40 ns are 18 minutes, longer than any latency.
        let counts = hdrhistogram::Histogram::new_with_max(1 << 40, 2);
        Histogram(counts.expect("the bounds are valid"))
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.len()
    }

    /// Number of values that are larger than this, or in the same bucket.
    pub(crate) fn count_above(&self, nanos: u64) -> u32 {
        self.0.count_between(nanos, u64::MAX) as u32
    }

    /// The median, 99 % and 99.9 % by [`Histogram::quantile_micros`].
    pub(crate) fn percentiles_micros(&self) -> [f64; 3] {
        [0.5, 0.99, 0.999].map(|share| self.quantile_micros(share))
    }

    /// The smallest value in microseconds that a share of all values does not exceed; 0 without
    /// values.
    pub(crate) fn quantile_micros(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1000.0
    }
}
