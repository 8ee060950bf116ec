//! The nine metrics of an island on a day, and their units.

use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;

use super::text::count;

/// A metric of an island on a day. Templates use it as the API's bodies.
#[derive(Serialize)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    /// Its name on pages.
    pub(super) label: &'static str,
    #[serde(skip)]
    pub(super) unit: Unit,
}

/// The unit of a number on pages.
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

/// Returns the names of the metrics to choose from; the first is the default.
pub fn metric_names() -> [&'static str; 9] {
    METRICS.each_ref().map(|metric| metric.name)
}

impl Metric {
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
    let metric = METRICS.iter().find(|metric| metric.name == name);
    let metric = metric.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "no such metric"))?;
    let parts = metric.in_parts(value)?;
    Ok(parts.map_or_else(|| "\u{2013}".to_owned(), |parts| metric.unit.text(parts)))
}
