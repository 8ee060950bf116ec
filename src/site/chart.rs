//! `Chart`: counts at equal steps of time as a curve in SVG. A step that is not known is a gap, never
//! a zero.

use std::fmt::Write as _;

use super::html::{Count, Escaped};
use crate::calendar::DAY_SECONDS;

/// Sizes of the picture, in its own units: the script has the same.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;
/// Lines across, above that of zero, at most.
const LINES_MAX: u64 = 4;
/// Steps that are shown, the newest: of days, eleven years.
const STEPS_MAX: i64 = 4_000;
/// Names below it, so many that they do not touch.
const NAMES: usize = 5;

/// A curve of counts.
#[derive(Clone, Debug)]
pub(super) struct Chart<'a> {
    /// What is counted, as it stands in a sentence.
    pub(super) what: &'a str,
    /// The time of the first value.
    pub(super) first: i64,
    /// Seconds between two values.
    pub(super) step: i64,
    pub(super) values: Vec<Option<u64>>,
    /// How a time is named below the curve, and in words.
    pub(super) name: fn(i64) -> String,
}

impl<'a> Chart<'a> {
    /// The chart of points in time order; `None` without points. Those between two steps do not occur.
    pub(super) fn new(
        what: &'a str,
        points: &[(i64, u64)],
        step: i64,
        name: fn(i64) -> String,
    ) -> Option<Chart<'a>> {
        let last = points.last()?.0;
        let shown = last.saturating_sub(step.saturating_mul(STEPS_MAX));
        let points = &points[points.partition_point(|point| point.0 < shown)..];
        let first = points.first()?.0;
        let steps = last.checked_sub(first)?.checked_div(step)?;
        let mut values = vec![None; usize::try_from(steps).ok()? + 1];
        for (time, count) in points {
            let at = usize::try_from(time.checked_sub(first)? / step).ok()?;
            *values.get_mut(at)? = Some(*count);
        }
        Some(Chart {
            what,
            first,
            step,
            values,
            name,
        })
    }

    /// The figure: the picture, and below it a place where the script tells the point under a pointer.
    pub(super) fn figure(&self) -> String {
        let top = scale(self.values.iter().copied().flatten().max().unwrap_or(0));
        let mut lines = String::new();
        for line in 0..=top.lines {
            let value = line * top.step;
            let y = height_of(value, top);
            let _ = write!(
                lines,
                "<path class=grid d=\"M{LEFT} {y:.1}H{}\"/><text x={} y={:.1} text-anchor=end>{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                short(value)
            );
        }
        self.names(&mut lines);
        let words = Escaped(&self.words()).to_string();
        format!(
            "<figure class=chart><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img tabindex=0 aria-label=\"{words}\" \
             data-first={} data-step={} data-left={LEFT} data-width={} data-top={TOP} data-height={} \
             data-max={} data-values=\"{}\">{lines}<path class=at /><path class=curve d=\"{}\"/></svg>\
             <figcaption class=soft><output>{words}</output></figcaption></figure>",
            self.first,
            self.step,
            WIDTH - LEFT - RIGHT,
            HEIGHT - TOP - BOTTOM,
            top.lines * top.step,
            self.listed(),
            self.curve(top),
        )
    }

    /// The curve: a line through each run of known values, a dot for one that stands alone.
    fn curve(&self, top: Scale) -> String {
        let mut path = String::new();
        let mut before = false;
        for (at, value) in self.values.iter().enumerate() {
            let next = self.values.get(at + 1).copied().flatten().is_some();
            if let Some(value) = value {
                let (x, y) = (self.place_of(at), height_of(*value, top));
                let way = if before { 'L' } else { 'M' };
                let _ = write!(path, "{way}{x:.1} {y:.1}");
                if !before && !next {
                    path.push_str("h0");
                }
            }
            before = value.is_some();
        }
        path
    }

    #[expect(clippy::cast_precision_loss, reason = "a place on a picture")]
    fn place_of(&self, at: usize) -> f64 {
        let width = WIDTH - LEFT - RIGHT;
        match self.values.len() {
            0 | 1 => LEFT + width / 2.0,
            many => LEFT + at as f64 * width / (many - 1) as f64,
        }
    }

    /// Times below the curve, the first and the last among them.
    fn names(&self, out: &mut String) {
        let last = self.values.len() - 1;
        let count = NAMES.min(self.values.len());
        for name in 0..count {
            let at = if count == 1 {
                0
            } else {
                name * last / (count - 1)
            };
            let anchor = match name {
                _ if count == 1 => "middle",
                0 => "start",
                _ if name == count - 1 => "end",
                _ => "middle",
            };
            let _ = write!(
                out,
                "<text class=x x={:.1} y={} text-anchor={anchor}>{}</text>",
                self.place_of(at),
                HEIGHT - 8.0,
                (self.name)(self.time_of(at))
            );
        }
    }

    fn time_of(&self, at: usize) -> i64 {
        self.first + i64::try_from(at).unwrap_or(i64::MAX) * self.step
    }

    /// The curve in a sentence.
    fn words(&self) -> String {
        let known = || {
            let times = self.values.iter().enumerate();
            times.filter_map(|(at, value)| value.map(|value| (value, self.time_of(at))))
        };
        let (Some(low), Some(high)) = (known().min(), known().max_by_key(|(value, _)| *value))
        else {
            return format!("{}: nothing is known.", self.what);
        };
        let when = if self.step < DAY_SECONDS { "at" } else { "on" };
        let told = |(value, time)| format!("{} {when} {}", Count(Some(value)), (self.name)(time));
        format!(
            "{}: highest {}, lowest {}.",
            self.what,
            told(high),
            told(low)
        )
    }

    /// The values between commas, nothing for one that is not known.
    fn listed(&self) -> String {
        let texts: Vec<String> = self
            .values
            .iter()
            .map(|value| value.map_or_else(String::new, |value| value.to_string()))
            .collect();
        texts.join(",")
    }
}

/// The lines across a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    /// Between two of them.
    step: u64,
    /// How many there are above zero.
    lines: u64,
}

/// Lines at round numbers, the highest of them not below `max`.
fn scale(max: u64) -> Scale {
    let mut power: u64 = 1;
    loop {
        for round in [1, 2, 5] {
            let step = power.saturating_mul(round);
            let lines = max.div_ceil(step).max(1);
            if lines <= LINES_MAX {
                return Scale { step, lines };
            }
        }
        power = power.saturating_mul(10);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place on a picture")]
fn height_of(value: u64, top: Scale) -> f64 {
    let height = HEIGHT - TOP - BOTTOM;
    TOP + height - value as f64 * height / (top.step * top.lines) as f64
}

/// A round number in little room.
fn short(value: u64) -> String {
    for (unit, name) in [(1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")] {
        if value >= unit {
            let (whole, tenth) = (value / unit, value % unit / (unit / 10));
            return if tenth == 0 {
                format!("{whole}{name}")
            } else {
                format!("{whole}.{tenth}{name}")
            };
        }
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(i64, u64)]) -> Chart<'static> {
        Chart::new("Players", points, 600, |time| format!("t{time}")).unwrap()
    }

    /// The points of a drawn curve, in runs, by what its numbers say.
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
    fn every_point_is_drawn_where_it_belongs_and_gaps_stay_gaps() {
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
            let top = scale(highest);
            let runs = drawn(&chart.curve(top));
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
                    let full = (top.step * top.lines) as f64;
                    assert!((y - (216.0 - *value as f64 / full * 208.0)).abs() < 0.06);
                }
            }
            Ok(())
        });
    }

    #[test]
    fn lines_are_round_and_few_and_none_too_low() {
        arbtest::arbtest(|u| {
            let max = u.int_in_range(0..=1_u64 << 60)? >> u.int_in_range(0..=60)?;
            let Scale { step, lines } = scale(max);
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
    fn a_figure_tells_its_points_in_words_too() {
        let figure = chart(&[(600, 5), (1_200, 2_500), (2_400, 7)]).figure();
        let words = "Players: highest 2,500 at t1200, lowest 5 at t600.";
        assert_eq!(figure.matches(words).count(), 2, "{figure}");
        assert!(figure.contains("data-values=\"5,2500,,7\""), "{figure}");
        assert!(Chart::new("Players", &[], 600, |_| String::new()).is_none());
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
