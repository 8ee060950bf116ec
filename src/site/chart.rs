//! Counts at equal steps of time, drawn as a curve in SVG by `templates/_chart.html`. An unknown value is a
//! gap, never a zero.

use std::fmt::Write as _;

use minijinja::{Value, context};

use super::metrics::Unit;
use crate::calendar::DAY_SECONDS;

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
const LABELS_MAX: usize = 5;

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
    /// without points.
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
        let index = |time: i64| usize::try_from(time.checked_sub(first)?.checked_div(step)?).ok();
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

    /// Returns the values of the template.
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

    /// Returns the times below the curve, the first and the last among them.
    fn labels(&self) -> Value {
        let last = self.values.len() - 1;
        let last_label = last.min(LABELS_MAX - 1);
        let labels = (0..=last_label).map(|label| {
            let at = label * last / last_label.max(1);
            let anchor = match label {
                0 if last_label > 0 => "start",
                _ if label == last_label && last_label > 0 => "end",
                _ => "middle",
            };
            let x = format!("{:.1}", self.x(at));
            context! { x, anchor, time => (self.name)(self.time(at)) }
        });
        labels.collect()
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
mod tests {
    use super::*;
    use crate::site::templates::filled;

    fn chart(points: &[(i64, u64)]) -> Chart<'static> {
        Chart::new(
            "Players",
            points,
            600,
            |time| format!("t{time}"),
            Unit::COUNT,
        )
        .unwrap()
    }

    /// The figure as a page has it.
    fn figure(chart: &Chart<'_>) -> String {
        filled("_chart.html", context! { chart => chart.values() }).unwrap()
    }

    /// The points of a drawn curve, in runs, parsed from its path.
    fn drawn(path: &str) -> Vec<Vec<(f64, f64)>> {
        let mut runs = Vec::new();
        for run in path.split('M').skip(1) {
            let run = run.trim_end_matches("h0");
            let points = run.split('L').map(|point| {
                let (x, y) = point.split_once(' ').unwrap();
                (x.parse().unwrap(), y.parse().unwrap())
            });
            runs.push(points.collect());
        }
        runs
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "a place on a picture")]
    fn every_point_is_at_its_position_and_gaps_stay_gaps() {
        arbtest::arbtest(|u| {
            let max = *u.choose(&[0, 9, 1_000, 1 << 53])?;
            let mut points = Vec::new();
            for at in 0..u.int_in_range(1..=40)? {
                if u.ratio(3, 4)? {
                    points.push((7_200 + at * 600, u.int_in_range(0..=max)?));
                }
            }
            if points.is_empty() {
                return Ok(());
            }
            let chart = chart(&points);
            let highest = points.iter().map(|point| point.1).max().unwrap();
            let scale = Scale::up_to(highest, 1);
            let runs = drawn(&chart.curve(&scale));
            // Plainly: a new run wherever a step is missing.
            let mut want: Vec<Vec<(i64, u64)>> = Vec::new();
            for point in &points {
                match want.last_mut() {
                    Some(run) if run.last().unwrap().0 + 600 == point.0 => run.push(*point),
                    _ => want.push(vec![*point]),
                }
            }
            assert_eq!(runs.len(), want.len());
            let (begin, end) = (points[0].0, points.last().unwrap().0);
            for (run, want) in runs.iter().zip(&want) {
                assert_eq!(run.len(), want.len());
                for ((x, y), (time, value)) in run.iter().zip(want) {
                    let part = if begin == end {
                        0.5
                    } else {
                        (time - begin) as f64 / (end - begin) as f64
                    };
                    assert!((x - (52.0 + part * 660.0)).abs() < 0.06);
                    let full = (scale.step * scale.lines) as f64;
                    assert!((y - (216.0 - *value as f64 / full * 208.0)).abs() < 0.06);
                }
            }
            Ok(())
        });
    }

    #[test]
    fn lines_are_few_at_round_numbers_up_to_the_maximum() {
        arbtest::arbtest(|u| {
            let max = u.int_in_range(0..=1_u64 << 60)? >> u.int_in_range(0..=60)?;
            let Scale { step, lines } = Scale::up_to(max, 1);
            assert!((1..=LINES_MAX).contains(&lines) && step * lines >= max);
            assert!(
                max == 0 || step * (lines - 1) < max,
                "a line more than it takes"
            );
            let digits = step.to_string();
            assert!(matches!(digits.trim_end_matches('0'), "1" | "2" | "5"));
            Ok(())
        });
    }

    #[test]
    fn a_figure_describes_its_extremes() {
        let figure = figure(&chart(&[(600, 5), (1_200, 2_500), (2_400, 7)]));
        let description = "Players: highest 2,500 at t1200, lowest 5 at t600.";
        assert_eq!(figure.matches(description).count(), 2, "{figure}");
        assert!(figure.contains("data-values=\"5,2500,,7\""), "{figure}");
        assert!(Chart::new("Players", &[], 600, |_| String::new(), Unit::COUNT).is_none());
    }

    #[test]
    fn the_largest_values_are_drawn() {
        for unit in [Unit::COUNT, Unit::tenths("%")] {
            let points = [(0, u64::MAX), (600, 1 << 53)];
            let chart = Chart::new("Minutes", &points, 600, |time| format!("t{time}"), unit);
            assert!(figure(&chart.unwrap()).contains("d=\"M52.0 "));
        }
    }

    #[test]
    fn tenths_have_lines_at_whole_numbers() {
        let name = |_| String::new();
        let chart = Chart::new(
            "Minutes",
            &[(600, 125), (1_200, 7)],
            600,
            name,
            Unit::tenths("%"),
        );
        let figure = figure(&chart.unwrap());
        assert!(
            figure.contains("highest 12.5% at ") && figure.contains("lowest 0.7%"),
            "{figure}"
        );
        assert!(
            figure.contains("data-max=150") && figure.contains(">15%</text>"),
            "{figure}"
        );
    }

    #[test]
    fn large_numbers_are_short() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1_500, "1.5k"),
            (20_000, "20k"),
            (2_000_000, "2M"),
            (2_500_000_000, "2.5B"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
