//! Counts at equal steps of time, drawn as a curve in SVG by `templates/_chart.html`. An unknown value is a
//! gap, never a zero.

use std::fmt::Write as _;

use minijinja::{Value, context};

use super::metrics::Unit;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

// The picture in its own units. The script reads the box of the curve from the attributes.
const WIDTH: u16 = 720;
const HEIGHT: u16 = 240;
const LEFT: u16 = 52;
const TOP: u16 = 8;
const CURVE_WIDTH: u16 = WIDTH - LEFT - 8;
const CURVE_HEIGHT: u16 = HEIGHT - TOP - 24;
/// Maximum number of horizontal lines above zero.
const LINES_MAX: u64 = 4;
/// Maximum number of steps, of which the newest are drawn: eleven years of days.
const STEPS_MAX: i64 = 4_000;
/// Maximum number of times below the curve, few enough not to touch.
const LABELS_MAX: usize = 6;
/// Days from which on the times below the curve are the starts of months.
const MONTHS_FROM: usize = 60;
/// Hours between times below a curve of less than a day each, of which the smallest that fits is used.
const HOURS: [i64; 6] = [1, 2, 3, 6, 12, 24];
/// Months between the starts of months below a curve.
const MONTHS: [i32; 7] = [1, 2, 3, 6, 12, 24, 48];
/// A text that is centred nearer than this to the right end would leave the picture.
const EDGE: f64 = 24.0;
/// The newest days that a chart of days can be limited to.
const RANGES: [usize; 2] = [30, 90];

/// A curve of counts.
pub(super) struct Chart<'a> {
    /// The subject of the description.
    what: &'a str,
    /// The time of the first value.
    first: i64,
    /// Seconds between two values.
    step: i64,
    /// At least one of them is known.
    values: Vec<Option<u64>>,
    /// The text of a time.
    name: fn(i64) -> String,
    unit: Unit,
}

/// Larger values are drawn as this one. The line above the highest value fits a `u64`.
const VALUE_MAX: u64 = u64::MAX / 4;

impl<'a> Chart<'a> {
    /// Returns the chart of points in time order, whose times are multiples of `step` apart; `None`
    /// without points, or if they are not in order.
    pub(super) fn new(
        what: &'a str,
        points: &[(i64, u64)],
        step: i64,
        name: fn(i64) -> String,
        unit: Unit,
    ) -> Option<Chart<'a>> {
        let last = points.last()?.0;
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
            first,
            step,
            values,
            name,
            unit,
        })
    }

    /// Returns the charts of the newest days, each with its name, from the shortest to all days.
    pub(super) fn ranges(self) -> Value {
        let mut ranges = Vec::new();
        for days in RANGES {
            if let Some(skipped) = self.values.len().checked_sub(days).filter(|some| *some > 0) {
                let newest = Chart {
                    first: self.time(skipped),
                    values: self.values[skipped..].to_vec(),
                    ..self
                };
                ranges.push(context! { name => format!("{days} days"), chart => newest.values() });
            }
        }
        ranges.push(context! { name => "All", chart => self.values() });
        ranges.into_iter().collect()
    }

    pub(super) fn values(&self) -> Value {
        let highest = self.values.iter().copied().flatten().max().unwrap_or(0);
        let Unit { parts, suffix } = self.unit;
        let scale = Scale::up_to(highest, parts);
        let lines = (0..=scale.lines).map(|line| {
            let value = line * scale.step;
            let y = scale.y(value);
            let [y, below] = [y, y + 4.0].map(|y| format!("{y:.1}"));
            context! { y, below, text => short(value / parts) }
        });
        let values: Vec<String> = (self.values.iter())
            .map(|value| value.map_or_else(String::new, |value| value.to_string()))
            .collect();
        context! {
            size => [WIDTH, HEIGHT],
            left => LEFT,
            top => TOP,
            width => CURVE_WIDTH,
            height => CURVE_HEIGHT,
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
            curve => self.curve(&scale),
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
                let _ = write!(path, "{command}{x:.1} {y:.1}");
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
            1 => f64::from(LEFT) + f64::from(CURVE_WIDTH) / 2.0,
            count => f64::from(LEFT) + at as f64 * f64::from(CURVE_WIDTH) / (count - 1) as f64,
        }
    }

    /// Returns the times below the curve.
    fn labels(&self) -> Value {
        let ticks = self.round_times().unwrap_or_else(|| self.even_times());
        let right = f64::from(LEFT + CURVE_WIDTH) - EDGE;
        let labels = ticks.into_iter().map(|(at, time)| {
            let x = self.x(at);
            let anchor = if x > right { "end" } else { "middle" };
            context! { x => format!("{x:.1}"), anchor, time }
        });
        labels.collect()
    }

    /// Times at equal distances, the first and the last among them.
    fn even_times(&self) -> Vec<(usize, String)> {
        let last = self.values.len() - 1;
        let last_label = last.min(LABELS_MAX - 1);
        let labels = (0..=last_label).map(|label| label * last / last_label.max(1));
        labels.map(|at| (at, (self.name)(self.time(at)))).collect()
    }

    /// Whole hours, or starts of months; `None` if the curve has less than two of them.
    fn round_times(&self) -> Option<Vec<(usize, String)>> {
        if self.step >= DAY_SECONDS {
            return self.month_starts();
        }
        let at_hours = |hours: i64| {
            let all = 0..self.values.len();
            let round = all.filter(move |at| self.time(*at).rem_euclid(hours * 3_600) == 0);
            round.map(|at| (at, (self.name)(self.time(at))))
        };
        let hours = HOURS.into_iter();
        let mut times = hours.filter(|hours| at_hours(*hours).count() <= LABELS_MAX);
        let times: Vec<_> = at_hours(times.next()?).collect();
        (times.len() >= 2).then_some(times)
    }

    /// Starts of months, each with its month as text; `None` for a curve of few days.
    fn month_starts(&self) -> Option<Vec<(usize, String)>> {
        let last = self.values.len() - 1;
        let ends = [0, last].map(|at| UnixSeconds(self.time(at)));
        if last < MONTHS_FROM || self.step != DAY_SECONDS || !ends.iter().all(|end| end.has_text())
        {
            return None;
        }
        let [first, last] = ends.map(UnixSeconds::day);
        // The number of the month since the year 0.
        let number = |day: UtcDay| {
            let text = day.to_string();
            Some(text[..4].parse::<i32>().ok()? * 12 + text[5..7].parse::<i32>().ok()? - 1)
        };
        let text = |month: i32| format!("{:04}-{:02}", month / 12, month % 12 + 1);
        let starts = (number(first)?..=number(last)?).filter_map(|month| {
            let day = UtcDay::parse(&format!("{}-01", text(month)))?;
            let at = usize::try_from(day.0 - first.0).ok()?;
            Some((month, at))
        });
        let starts: Vec<(i32, usize)> = starts.collect();
        let chosen = |stride: i32| {
            let starts = starts.iter();
            starts.filter(move |(month, _)| month % stride == 0)
        };
        let mut strides = MONTHS.into_iter();
        let stride = strides.find(|stride| chosen(*stride).count() <= LABELS_MAX)?;
        let labels = chosen(stride).map(|(month, at)| (*at, text(*month)));
        Some(labels.collect())
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
            format!(
                "{} {preposition} {}",
                self.unit.text(value),
                (self.name)(time)
            )
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
        let share = value as f64 * f64::from(CURVE_HEIGHT) / (self.step * self.lines) as f64;
        f64::from(TOP + CURVE_HEIGHT) - share
    }
}

/// Returns a round number in few characters.
#[expect(clippy::cast_precision_loss, reason = "a round number has few digits")]
fn short(value: u64) -> String {
    let units = [(1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")];
    match units.into_iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{}{name}", (value / (unit / 10)) as f64 / 10.0),
        None => value.to_string(),
    }
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
