//! Times, medians, and ratios that a slow moment does not distort.

use std::borrow::Borrow;

use crate::common::prelude::*;

/// Measures two sides in turns, so many times each. The first of a round finds a cooler core, so the
/// order alternates.
pub(crate) fn in_turns<T>(
    rounds: usize,
    mut measure: impl FnMut(usize) -> Outcome<T>,
) -> Outcome<[Vec<T>; 2]> {
    let mut sides = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..2 {
            let side = (round + turn) % 2;
            sides[side].push(measure(side)?);
        }
    }
    Ok(sides)
}

/// Nanoseconds of each of `count` items of work.
pub(crate) fn nanos_each(count: usize, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// The values in ascending order.
pub(crate) fn sorted(values: impl IntoIterator<Item: Borrow<f64>>) -> Vec<f64> {
    let values = values.into_iter().map(|value| *value.borrow());
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The median; NaN without values.
pub(crate) fn median(values: impl IntoIterator<Item: Borrow<f64>>) -> f64 {
    let values = sorted(values);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median of the ratios of each round: both sides of a ratio were measured within moments.
pub(crate) fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
}

/// The largest value; 0 without values.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
