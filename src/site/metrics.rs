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
    /// Its name in a table.
    short: &'static str,
    #[serde(skip)]
    pub(super) unit: Unit,
    /// Parts of the unit per 1 in responses.
    #[serde(skip)]
    scale: f64,
}

/// The unit of a number on pages.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Values per unit: 1, or 10 for values in tenths.
    pub(super) parts: u64,
    pub(super) suffix: &'static str,
}

impl Unit {
    pub(super) const COUNT: Unit = Unit {
        parts: 1,
        suffix: "",
    };

    /// Tenths, with a text after the number.
    pub(super) const fn tenths(suffix: &'static str) -> Unit {
        Unit { parts: 10, suffix }
    }

    pub(super) fn text(self, value: u64) -> String {
        match self.parts {
            1 => count(value),
            parts => format!("{}.{}{}", count(value / parts), value % parts, self.suffix),
        }
    }
}

/// The metrics in the order of responses. Lists can be sorted by the first six.
pub(super) const METRICS: [Metric; 9] = [
    counts("peakCCU", "Peak players", "Peak"),
    counts("uniquePlayers", "Unique players", "Players"),
    counts("minutesPlayed", "Minutes played", "Minutes"),
    counts("favorites", "Favorites", "Favorites"),
    counts("plays", "Plays", "Plays"),
    counts("recommendations", "Recommendations", "Recs"),
    Metric {
        unit: Unit::tenths(""),
        scale: 10.0,
        ..counts(
            "averageMinutesPerPlayer",
            "Minutes per player",
            "Min/player",
        )
    },
    share("retentionD1", "Retention after 1 day", "D1"),
    share("retentionD7", "Retention after 7 days", "D7"),
];

const fn counts(name: &'static str, label: &'static str, short: &'static str) -> Metric {
    Metric {
        name,
        label,
        short,
        unit: Unit::COUNT,
        scale: 1.0,
    }
}

/// Returns a metric whose values are shares, which pages show as percentages.
const fn share(name: &'static str, label: &'static str, short: &'static str) -> Metric {
    Metric {
        unit: Unit::tenths("%"),
        scale: 1_000.0,
        ..counts(name, label, short)
    }
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
        f64::try_from(value).map(|value| Some(rounded(value * self.scale)))
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
