//! Distributions that synthetic datasets follow, and the random numbers they are drawn with.

use crate::calendar::{DAY_SECONDS, UtcDay};

/// Parameters of a synthetic dataset.
#[derive(Clone, Debug)]
pub struct SyntheticSpec {
    /// Number of islands in the catalogue.
    pub islands: u32,
    /// Number of creators, some of them without an island.
    pub creators: u32,
    /// Number of days with daily rows.
    pub days: u32,
    /// Number of days with long-run peaks before those.
    pub long_run_days: u32,
    /// Islands with a row per day, if that many exist; 30 % if not given.
    pub rows: Option<u32>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Latest day with daily rows; the live steps end at 12:00 UTC on the day after.
    pub last_day: UtcDay,
}

/// A piecewise linear curve: pairs of position (ascending) and value.
pub(super) type Curve = [(f64, f64)];

/// Peaks of islands with data, by rank from the lowest. Measured, except for the points between p99,
/// p99.5, p99.9 and the maximum: straight lines across those gaps are far too high.
#[rustfmt::skip] // a table: pairs side by side
pub(super) const PEAK: [(f64, f64); 18] = [
    (0.0, 1.0), (0.05, 2.0), (0.10, 2.0), (0.25, 3.0), (0.50, 7.0), (0.62, 20.0),
    (0.75, 45.0), (0.90, 169.0), (0.95, 283.0), (0.97, 410.0), (0.99, 760.0), (0.995, 1_600.0),
    (0.9975, 3_600.0), (0.9990, 9_761.0), (0.9995, 14_000.0), (0.9998, 21_000.0), (0.9999, 26_000.0), (1.0, 32_428.0),
];

/// A curve of five points: minimum, p10, p50, p90 and maximum.
type Spread = [(f64, f64); 5];

#[rustfmt::skip] // a row of a table
const fn spread(min: f64, p10: f64, p50: f64, p90: f64, max: f64) -> Spread {
    [(0.0, min), (0.1, p10), (0.5, p50), (0.9, p90), (1.0, max)]
}

/// Parameters of the rows of one size class: the measured p10, p50 and p90 of the ratios per unique
/// player, with an estimated minimum and maximum.
pub(super) struct SizeClass {
    pub(super) peak_below: u32,
    pub(super) unique_per_peak: Spread,
    pub(super) plays_per_unique: Spread,
    pub(super) minutes_per_unique: Spread,
    pub(super) favorites_per_unique: Spread,
    pub(super) recommendations_per_unique: Spread,
    pub(super) d1_null_share: f64,
    pub(super) d7_null_share: f64,
}

pub(super) const CLASSES: [SizeClass; 4] = [
    SizeClass {
        peak_below: 10,
        unique_per_peak: spread(1.5, 2.0, 4.5, 10.5, 16.0),
        plays_per_unique: spread(1.0, 1.0, 1.186, 1.615, 2.4),
        minutes_per_unique: spread(0.5, 5.6, 15.8, 30.8, 75.0),
        favorites_per_unique: spread(0.0, 0.0, 0.055, 0.286, 0.5),
        recommendations_per_unique: spread(0.0, 0.0, 0.0, 0.04, 0.12),
        d1_null_share: 0.655,
        d7_null_share: 0.925,
    },
    SizeClass {
        peak_below: 100,
        unique_per_peak: spread(1.3, 1.88, 7.83, 24.8, 32.0),
        plays_per_unique: spread(1.0, 1.05, 1.197, 1.595, 2.4),
        minutes_per_unique: spread(3.0, 8.5, 19.6, 38.2, 90.0),
        favorites_per_unique: spread(0.0, 0.029, 0.069, 0.167, 0.3),
        recommendations_per_unique: spread(0.0, 0.0, 0.005, 0.0274, 0.06),
        d1_null_share: 0.27,
        d7_null_share: 0.60,
    },
    SizeClass {
        peak_below: 1_000,
        unique_per_peak: spread(1.3, 1.73, 2.92, 25.4, 34.0),
        plays_per_unique: spread(1.0, 1.06, 1.156, 1.588, 2.4),
        minutes_per_unique: spread(6.0, 13.2, 19.4, 41.9, 90.0),
        favorites_per_unique: spread(0.01, 0.030, 0.052, 0.089, 0.2),
        recommendations_per_unique: spread(0.0, 0.0, 0.0051, 0.0165, 0.04),
        d1_null_share: 0.10,
        d7_null_share: 0.35,
    },
    SizeClass {
        peak_below: u32::MAX,
        unique_per_peak: spread(5.0, 10.7, 29.2, 42.1, 60.0),
        plays_per_unique: spread(1.05, 1.2, 1.419, 2.008, 2.8),
        minutes_per_unique: spread(12.0, 21.2, 27.9, 49.5, 80.0),
        favorites_per_unique: spread(0.002, 0.0063, 0.0285, 0.0685, 0.12),
        recommendations_per_unique: spread(0.0, 0.0011, 0.0062, 0.0195, 0.04),
        d1_null_share: 0.0,
        d7_null_share: 0.1,
    },
];

/// Retention after one and seven days, in hundredths, as measured.
#[rustfmt::skip] // a table: pairs side by side
pub(super) const RETENTION_D1: [(f64, f64); 8] = [
    (0.0, 0.0), (0.1, 0.0), (0.25, 5.0), (0.5, 10.0), (0.75, 18.0), (0.9, 29.0), (0.99, 67.0), (1.0, 100.0),
];
#[rustfmt::skip] // a table: pairs side by side
pub(super) const RETENTION_D7: [(f64, f64); 7] = [
    (0.0, 0.0), (0.25, 0.0), (0.5, 2.0), (0.75, 5.0), (0.9, 12.0), (0.99, 37.0), (1.0, 100.0),
];

/// Weekday factors, Monday to Sunday, as measured over 78 islands with three full weeks.
pub(super) const WEEKDAY: [f64; 7] = [1.011, 0.858, 1.003, 0.857, 1.202, 1.079, 0.991];

/// Players by hour of the UTC day relative to the mean; hours 2 and 5 are interpolated.
pub(super) const HOUR: [f64; 24] = [
    0.748, 0.735, 0.759, 0.783, 0.736, 0.795, 0.854, 0.798, 0.827, 0.932, 0.895, 1.029, 1.185,
    1.318, 1.425, 1.375, 1.229, 1.171, 1.129, 1.101, 1.058, 0.960, 0.814, 0.769,
];

/// Maximum of [`HOUR`]: the hour of the daily peak.
pub(super) const HOUR_MAX: f64 = 1.425;

/// Islands per creator by rank from the lowest: 58.5 % have one.
#[rustfmt::skip] // a table: pairs side by side
pub(super) const HOLDING: [(f64, f64); 13] = [
    (0.0, 1.0), (0.585, 1.0), (0.586, 2.0), (0.766, 2.0), (0.767, 3.0), (0.844, 3.0),
    (0.884, 4.0), (0.911, 5.0), (0.95, 9.0), (0.99, 22.0), (0.999, 49.0), (0.9998, 90.0), (1.0, 153.0),
];

/// Followers by rank: an estimated heavy tail, not measured.
#[rustfmt::skip] // a table: pairs side by side
pub(super) const FOLLOWERS: [(f64, f64); 6] = [
    (0.0, 0.0), (0.5, 40.0), (0.9, 1_500.0), (0.99, 40_000.0), (0.999, 400_000.0), (1.0, 6_000_000.0),
];

/// Share of new islands per day: 1.5 % per week.
pub(super) const LAUNCHES_PER_DAY: f64 = 0.015 / 7.0;

/// Seconds between two live steps.
pub(super) const STEP_SECONDS: i64 = 600;

/// `SplitMix64`: small, fast, and identical on every machine.
#[derive(Clone, Debug)]
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates the stream of a purpose and number. With separate streams, one more draw in one place
    /// changes nothing elsewhere.
    pub(super) fn new(seed: u64, purpose: u64, number: u64) -> SplitMix64 {
        let mut random = SplitMix64(seed ^ purpose.wrapping_mul(0xA076_1D64_78BD_642F));
        random.0 = random.next() ^ number.wrapping_mul(0xE703_7ED1_A0B4_28DB);
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        float(self.next() >> 12) / float(1 << 52)
    }

    /// Uniform in [0, `bound`); `bound` is at least 1.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound as u64)).expect("smaller than a usize")
    }

    /// Approximately normal with mean 0 and deviation 1: the sum of four uniform draws.
    pub(super) fn bell(&mut self) -> f64 {
        let draw = self.next();
        let sum: u64 = (0..4).map(|part| draw >> (16 * part) & 0xFFFF).sum();
        (float(sum) / 65_536.0 - 2.0) * 1.732
    }

    /// Approximately exponential in base 2: the tail halves with each unit.
    pub(super) fn doublings(&mut self) -> f64 {
        let draw = self.next() | 1;
        let mantissa = float((draw << draw.leading_zeros()) >> 12) / float(1 << 52);
        f64::from(draw.leading_zeros()) + 2.0 - 2.0 * mantissa
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "every count here lies below 2^53"
)]
pub(super) const fn float(count: u64) -> f64 {
    count as f64
}

/// Rounds to the nearest count; negative values become 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates"
)]
pub(super) const fn count(value: f64) -> u64 {
    (value + 0.5) as u64
}

/// Interpolates a curve; positions beyond its ends have the value of the end.
pub(super) fn at(curve: &Curve, position: f64) -> f64 {
    let after = curve.partition_point(|point| point.0 < position);
    let before = after.checked_sub(1).map(|before| curve[before]);
    match (before, curve.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (position - x0) / (x1 - x0),
        (Some((_, value)), None) | (None, Some(&(_, value))) => value,
        (None, None) => 0.0,
    }
}

/// Returns the hour factor at a time, interpolated between hours.
pub(super) fn hour_factor(unix_seconds: i64) -> f64 {
    let second = unix_seconds.rem_euclid(DAY_SECONDS).unsigned_abs();
    let hour = usize::try_from(second / 3600).expect("below 24");
    let (now, next) = (HOUR[hour], HOUR[(hour + 1) % 24]);
    now + (next - now) * float(second % 3600) / 3600.0
}
