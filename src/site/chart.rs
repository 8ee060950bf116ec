//! Counts at equal steps of time, drawn as a curve in SVG by `templates/_chart.html`. An unknown value is a
//! gap, never a zero.

use std::fmt::Write as _;

use minijinja::{Value, context};

use super::metrics::Unit;
use super::text::in_thousands;
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::request::CHART_DAYS;

/// The width and the height of the curve: places are percentages of its box.
const SIDE: f64 = 100.0;
/// Maximum number of horizontal lines above zero.
const LINES_MAX: u64 = 4;
/// Maximum number of steps, of which the newest are drawn: eleven years of days.
const STEPS_MAX: i64 = 4_000;
/// Maximum number of times below the curve. Dates do not touch on screens that show all of them.
const LABELS_MAX: usize = 5;
/// Candidate distances between labels, shortest first, in minutes and in days; labels are at multiples of a distance
/// since 1970-01-01. The first distance with at most [`LABELS_MAX`] labels is used.
const MINUTES: [i64; 7] = [10, 30, 60, 120, 180, 360, 720];
const DAYS: [i64; 13] = [1, 2, 5, 10, 20, 30, 60, 90, 120, 180, 365, 730, 1460];

pub(super) struct Chart<'a> {
    /// The subject of the description.
    what: &'a str,
    unit: Unit,
    /// The time of the first value.
    first: i64,
    /// Seconds between two values.
    step: i64,
    /// At least one of them is known.
    values: Vec<Option<u64>>,
}

/// Larger values are drawn as this one. The line above the highest value fits a `u64`.
const VALUE_MAX: u64 = u64::MAX / 4;

impl<'a> Chart<'a> {
    /// Returns the chart of points in time order, whose times are multiples of `step` apart, up to the last of them or
    /// to `end`, if that is later; `None` without points, or if they are not in order.
    pub(super) fn new(
        what: &'a str,
        unit: Unit,
        points: &[(i64, u64)],
        step: i64,
        end: i64,
    ) -> Option<Chart<'a>> {
        let last = points.last()?.0.max(end);
        let shown = last.saturating_sub(step.saturating_mul(STEPS_MAX));
        let points = &points[points.partition_point(|point| point.0 < shown)..];
        let first = points.first()?.0;
        let index = |time: i64| {
            let index = time.checked_sub(first)?.checked_div(step)?;
            usize::try_from(Some(index).filter(|index| *index <= STEPS_MAX)?).ok()
        };
        let mut values = vec![None; index(last)? + 1];
        for (time, value) in points {
            *values.get_mut(index(*time)?)? = Some((*value).min(VALUE_MAX));
        }
        Some(Chart {
            what,
            unit,
            first,
            step,
            values,
        })
    }

    /// Returns the numbers of newest days to which the chart can be limited. One without a known value is left out.
    pub(super) fn ranges(&self) -> Vec<usize> {
        let is_offered = |days: &usize| {
            let skipped = self.values.len().saturating_sub(*days);
            skipped > 0 && self.values[skipped..].iter().any(Option::is_some)
        };
        let days = CHART_DAYS.into_iter().filter_map(|days| days.parse().ok());
        days.filter(is_offered).collect()
    }

    /// Limits the chart to the newest days if that range is offered.
    pub(super) fn limited(mut self, days: Option<usize>) -> Chart<'a> {
        if let Some(days) = days.filter(|days| self.ranges().contains(days)) {
            let skipped = self.values.len() - days;
            self.first = self.time(skipped);
            self.values.drain(..skipped);
        }
        self
    }

    pub(super) fn values(&self) -> Value {
        let highest = self.values.iter().copied().flatten().max().unwrap_or(0);
        let Unit { parts, suffix, .. } = self.unit;
        let scale = Scale::up_to(highest, parts);
        let lines = (0..=scale.lines).map(|line| {
            let value = line * scale.step;
            context! { y => format!("{:.2}", scale.y(value)), text => short(value / parts) }
        });
        let values: Vec<String> = (self.values.iter())
            .map(|value| value.map_or_else(String::new, |value| value.to_string()))
            .collect();
        let curve = self.curve(&scale);
        // Runs of one value, which a thin line would hardly show.
        let runs = curve.split('M').filter(|run| run.ends_with("h0"));
        let dots: String = runs.flat_map(|run| ["M", run]).collect();
        context! {
            suffix,
            description => self.description(),
            first => self.first,
            step => self.step,
            max => scale.lines * scale.step,
            is_in_tenths => parts > 1,
            has_gaps => self.values.contains(&None),
            values => values.join(","),
            lines => lines.collect::<Value>(),
            labels => self.labels(),
            curve,
            dots,
        }
    }

    /// Returns the curve: a line through each run of known values, a dot for a run of one.
    fn curve(&self, scale: &Scale) -> String {
        let mut path = String::new();
        let mut before = false;
        for (at, value) in self.values.iter().enumerate() {
            if let Some(value) = value {
                let (x, y) = (self.x(at), scale.y(*value));
                let command = if before { 'L' } else { 'M' };
                let _ = write!(path, "{command}{x:.2} {y:.2}");
                if !before && self.values.get(at + 1).is_none_or(Option::is_none) {
                    path.push_str("h0");
                }
            }
            before = value.is_some();
        }
        path
    }

    #[expect(clippy::cast_precision_loss, reason = "a position in a picture")]
    fn x(&self, at: usize) -> f64 {
        match self.values.len() {
            1 => SIDE / 2.0,
            count => at as f64 * SIDE / (count - 1) as f64,
        }
    }

    fn labels(&self) -> Value {
        let labels = self.ticks().into_iter().map(|at| {
            let (x, time) = (self.x(at), self.text(self.time(at)));
            context! { x => format!("{x:.2}"), time }
        });
        labels.collect()
    }

    /// Returns the positions of the times below the curve, which are multiples of one distance.
    fn ticks(&self) -> Vec<usize> {
        let ticks_of = |distance: i64| -> Vec<usize> {
            let positions = 0..self.values.len();
            let ticks = positions.filter(|at| self.time(*at) % distance == 0);
            ticks.collect()
        };
        let minutes = MINUTES.into_iter().map(|minutes| minutes * 60);
        let distances = minutes.chain(DAYS.into_iter().map(|days| days * DAY_SECONDS));
        let mut fitting = distances.map(ticks_of);
        let ticks = fitting.find(|ticks| ticks.len() <= LABELS_MAX);
        ticks.unwrap_or_default()
    }

    /// Returns the day of a time, or the time of the day if the steps are shorter. Any time has a text.
    fn text(&self, time: i64) -> String {
        if self.step >= DAY_SECONDS {
            return UnixSeconds(time).day().to_string();
        }
        let minutes = time.rem_euclid(DAY_SECONDS) / 60;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    }

    fn time(&self, at: usize) -> i64 {
        self.first + i64::try_from(at).unwrap_or(i64::MAX) * self.step
    }

    /// Returns a sentence about the extremes of the curve.
    fn description(&self) -> String {
        let values = self.values.iter().enumerate();
        let known = values.filter_map(|(at, value)| Some(((*value)?, self.time(at))));
        let preposition = if self.step < DAY_SECONDS { "at" } else { "on" };
        let point = |point: Option<(u64, i64)>| {
            let (value, time) = point.expect("a chart has a known value");
            let value = self.unit.text(value);
            format!("{value} {preposition} {}", self.text(time))
        };
        let high = point(known.clone().max_by_key(|(value, _)| *value));
        let low = point(known.min());
        format!("{}: highest {high}, lowest {low}.", self.what)
    }
}

/// The horizontal lines of a chart.
struct Scale {
    /// The difference between two of them.
    step: u64,
    /// How many there are above zero.
    lines: u64,
}

impl Scale {
    /// Returns few lines at round numbers of units of some `parts`, the highest of them at `max` or
    /// above.
    fn up_to(max: u64, parts: u64) -> Scale {
        let powers = (0..20).map(|power| 10_u64.saturating_pow(power));
        let steps = powers.flat_map(|power| [1, 2, 5].map(|round| power.saturating_mul(round)));
        let mut scales = steps.map(|step| Scale {
            step: step.saturating_mul(parts),
            lines: max.div_ceil(parts).div_ceil(step).max(1),
        });
        let scale = scales.find(|scale| scale.lines <= LINES_MAX);
        scale.expect("the last step is the largest number")
    }

    #[expect(clippy::cast_precision_loss, reason = "a position in a picture")]
    fn y(&self, value: u64) -> f64 {
        SIDE - value as f64 * SIDE / (self.step * self.lines) as f64
    }
}

/// Returns a round number in few characters.
fn short(value: u64) -> String {
    let (power, whole, tenth) = in_thousands(value);
    let unit = ["", "k", "M", "B", "T", "Q"][power];
    match tenth {
        0 => format!("{whole}{unit}"),
        _ => format!("{whole}.{tenth}{unit}"),
    }
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
