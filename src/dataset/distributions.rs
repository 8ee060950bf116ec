//! Distributions that synthetic datasets follow, and the random numbers they are drawn with.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::LazyLock;

use crate::calendar::{DAY_SECONDS, UtcDay};

#[derive(Clone, Debug)]
pub struct SyntheticSpec {
    pub islands: u32,
    /// Number of creators, some of them without an island.
    pub creators: u32,
    /// Number of days with daily rows.
    pub days: u32,
    /// Number of days with long-run peaks before those.
    pub long_run_days: u32,
    /// Islands with a row per day, if that many exist; 30 % if not given.
    pub rows: Option<u32>,
    pub seed: u64,
    /// Latest day with daily rows.
    pub last_day: UtcDay,
    /// Time of the newest live step, in Unix seconds.
    pub newest_step: i64,
}

impl SyntheticSpec {
    /// Returns the number of files of the dataset: those of days, the notice, two of the catalogue, six live steps, and the
    /// totals of the platform.
    pub fn files(&self) -> usize {
        self.days as usize + self.long_run_days as usize + 10
    }
}

/// A piecewise linear curve: pairs of position (ascending) and value.
pub(super) type Curve = [(f64, f64)];

/// Returns the lists of a file of `data/synthetic` by name. A name is in brackets; items are separated by `|`, and an
/// item written `N×text` is in its list N times.
pub(super) fn lists(text: &'static str) -> HashMap<&'static str, Vec<&'static str>> {
    let mut lists: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut name = "";
    let lines = text.lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[') {
            Some(header) => name = header.trim_end_matches(']'),
            None => {
                for word in line.split('|') {
                    let (weight, word) = word.split_once('×').unwrap_or(("1", word));
                    let weight = weight.parse().expect("a test draws from every list");
                    let list = lists.entry(name).or_default();
                    list.extend(repeat_n(word, weight));
                }
            }
        }
    }
    lists
}

/// The curves of `data/synthetic/curves.txt` by name.
static CURVES: LazyLock<HashMap<&str, Vec<(f64, f64)>>> = LazyLock::new(|| {
    let number = |text: &str| text.parse().expect("a test reads every curve");
    let point = |point: &str| {
        let (position, value) = point.split_once(':').unwrap_or_default();
        (number(position), number(value))
    };
    let curves = lists(include_str!("../../data/synthetic/curves.txt")).into_iter();
    let curves = curves.map(|(name, points)| (name, points.into_iter().map(point).collect()));
    curves.collect()
});

pub(super) fn curve(name: &str) -> &'static Curve {
    &CURVES[name]
}

pub(super) struct SizeClass {
    pub(super) peak_below: u32,
    /// Prefix of the names of its curves.
    pub(super) name: &'static str,
    /// Shares of islands without retention after one and after seven days.
    pub(super) null_shares: [f64; 2],
}

#[rustfmt::skip] // a table
pub(super) const CLASSES: [SizeClass; 4] = [
    SizeClass { peak_below: 10, name: "10", null_shares: [0.655, 0.925] },
    SizeClass { peak_below: 100, name: "100", null_shares: [0.27, 0.60] },
    SizeClass { peak_below: 1_000, name: "1000", null_shares: [0.10, 0.35] },
    SizeClass { peak_below: u32::MAX, name: "max", null_shares: [0.0, 0.1] },
];

/// Maximum of the curve `second`: the hour of the daily peak.
pub(super) const SECOND_FACTOR_MAX: f64 = 1.425;

/// Share of new islands per day: 1.5 % per week.
pub(super) const LAUNCHES_PER_DAY: f64 = 0.015 / 7.0;

pub const STEP_SECONDS: i64 = 600;

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
    let after = curve.partition_point(|point| point.0 <= position);
    let before = after.checked_sub(1).map(|before| curve[before]);
    match (before, curve.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (position - x0) / (x1 - x0),
        (Some((_, value)), None) | (None, Some(&(_, value))) => value,
        (None, None) => 0.0,
    }
}

pub(super) fn second_factor(unix_seconds: i64) -> f64 {
    let second = unix_seconds.rem_euclid(DAY_SECONDS).unsigned_abs();
    at(curve("second"), float(second))
}
