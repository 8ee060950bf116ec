//! The nine metrics of an island on a day, and their units.

use std::cmp::Ordering;

use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;

use super::text::{count, grouped};

/// A metric of an island on a day. Serialized, so that templates read it like a body.
#[derive(Serialize)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    #[serde(skip)]
    pub(super) unit: Unit,
}

#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Values per unit: 1, or 10 for values in tenths.
    pub(super) parts: u64,
    pub(super) suffix: &'static str,
    /// Values per 1 in responses.
    scale: f64,
}

impl Unit {
    pub(super) const COUNT: Unit = Unit {
        parts: 1,
        suffix: "",
        scale: 1.0,
    };
    const TENTHS: Unit = Unit {
        parts: 10,
        suffix: "",
        scale: 10.0,
    };
    /// Shares in responses, percentages on pages.
    pub(super) const PERCENT: Unit = Unit {
        parts: 10,
        suffix: "%",
        scale: 1_000.0,
    };

    pub(super) fn text(self, value: u64) -> String {
        match self.parts {
            1 => count(value),
            parts => format!("{}.{}{}", count(value / parts), value % parts, self.suffix),
        }
    }

    /// Returns the change from one value to another: the difference of their texts, and a percentage. A percentage
    /// of nothing, of a percentage, or below 0.1 is left out.
    pub(super) fn change(self, from: u64, to: u64) -> Change {
        let (direction, sign) = match to.cmp(&from) {
            Ordering::Less => ("down", "\u{2212}"),
            Ordering::Equal => ("soft", ""),
            Ordering::Greater => ("up", "+"),
        };
        let (by, base) = (to.abs_diff(from), u128::from(from));
        let tenths = (u128::from(by) * 1_000 + base / 2).checked_div(base);
        let tenths = tenths.filter(|tenths| *tenths > 0 || direction == "soft");
        let amount = match by {
            0 => self.text(0),
            _ if self.suffix.is_empty() => format!("{sign}{}", self.text(by)),
            _ => format!(
                "{sign}{}.{} points",
                count(by / self.parts),
                by % self.parts
            ),
        };
        let text = match tenths.filter(|_| self.suffix.is_empty()) {
            Some(tenths) => {
                let percent = grouped(&(tenths / 10).to_string());
                format!("{amount} ({sign}{percent}.{}%)", tenths % 10)
            }
            None => amount,
        };
        Change { direction, text }
    }
}

/// Returns the rounded average of values; that of none is 0.
pub(super) fn average(values: impl ExactSizeIterator<Item = u64>) -> u64 {
    let count = values.len().max(1) as u128;
    let sum: u128 = values.map(u128::from).sum();
    u64::try_from((sum + count / 2) / count).expect("not above the highest value")
}

#[derive(Serialize)]
pub(super) struct Change {
    /// The class of its style.
    pub(super) direction: &'static str,
    pub(super) text: String,
}

/// The metrics in the order of responses. Lists can be sorted by the first six.
#[rustfmt::skip] // one row per metric
pub(super) const METRICS: [Metric; 9] = [
    metric("peakCCU", "Peak players", Unit::COUNT),
    metric("uniquePlayers", "Unique players", Unit::COUNT),
    metric("minutesPlayed", "Minutes played", Unit::COUNT),
    metric("favorites", "Favorites", Unit::COUNT),
    metric("plays", "Plays", Unit::COUNT),
    metric("recommendations", "Recommendations", Unit::COUNT),
    metric("averageMinutesPerPlayer", "Minutes per player", Unit::TENTHS),
    metric("retentionD1", "Retention after 1 day", Unit::PERCENT),
    metric("retentionD7", "Retention after 7 days", Unit::PERCENT),
];

const fn metric(name: &'static str, label: &'static str, unit: Unit) -> Metric {
    Metric { name, label, unit }
}

impl Metric {
    /// Returns the metric of a name, of which there is one.
    pub(super) fn named(name: &str) -> Result<&'static Metric, Error> {
        let metric = METRICS.iter().find(|metric| metric.name == name);
        metric.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "no such metric"))
    }

    /// Returns a value of a response in parts of the unit, `None` for null.
    pub(super) fn in_parts(&self, value: &Value) -> Result<Option<u64>, Error> {
        if value.is_none() {
            return Ok(None);
        }
        let value = value.clone();
        if self.unit.parts == 1 {
            return u64::try_from(value).map(Some);
        }
        f64::try_from(value).map(|value| Some(rounded(value * self.unit.scale)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are not negative, and a float saturates"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// A filter: returns the text of a metric's value in a response, a dash for null.
pub(super) fn metric_text(value: &Value, name: &str) -> Result<String, Error> {
    let metric = Metric::named(name)?;
    let parts = metric.in_parts(value)?;
    Ok(parts.map_or_else(|| "\u{2013}".to_owned(), |parts| metric.unit.text(parts)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::METRIC_NAMES;

    #[test]
    fn every_metric_has_a_label_and_a_unit() {
        assert_eq!(METRICS.each_ref().map(|metric| metric.name), METRIC_NAMES);
    }

    #[test]
    fn a_change_has_a_sign_and_a_percentage_if_there_is_one() {
        let percent = Unit::PERCENT;
        for (unit, from, to, direction, text) in [
            (Unit::COUNT, 10, 15, "up", "+5 (+50.0%)"),
            (Unit::COUNT, 10, 4, "down", "\u{2212}6 (\u{2212}60.0%)"),
            (Unit::COUNT, 7, 7, "soft", "0 (0.0%)"),
            (Unit::COUNT, 0, 1_000, "up", "+1,000"),
            (Unit::COUNT, 0, 0, "soft", "0"),
            (Unit::COUNT, 1, 20_000, "up", "+19,999 (+1,999,900.0%)"),
            (Unit::TENTHS, 100, 121, "up", "+2.1 (+21.0%)"),
            (percent, 180, 150, "down", "\u{2212}3.0 points"),
            // Rounded, half up.
            (
                Unit::COUNT,
                5_299,
                4_303,
                "down",
                "\u{2212}996 (\u{2212}18.8%)",
            ),
            (Unit::COUNT, 2_000, 2_001, "up", "+1 (+0.1%)"),
            (Unit::COUNT, 2_001, 2_002, "up", "+1"),
        ] {
            let change = unit.change(from, to);
            assert_eq!((change.direction, &*change.text), (direction, text));
        }
        // A product of 64 bits would overflow.
        assert_eq!(
            Unit::COUNT.change(u64::MAX, 0).text,
            "\u{2212}18,446,744,073,709,551,615 (\u{2212}100.0%)"
        );
        assert_eq!(Unit::PERCENT.change(118, 118).text, "0.0%");
    }

    #[test]
    fn averages_are_rounded() {
        let values = [&[][..], &[6, 7], &[22, 22, 23], &[u64::MAX; 3]];
        let averages = values.map(|values| average(values.iter().copied()));
        assert_eq!(averages, [0, 7, 22, u64::MAX]);
    }
}
