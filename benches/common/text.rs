//! Members of JSON texts, and percent-encoding.

use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// Sort fields of the list of islands.
pub(crate) const SORTS: [&str; 6] = [
    "peakCCU",
    "uniquePlayers",
    "minutesPlayed",
    "favorites",
    "plays",
    "recommendations",
];

/// All values of a JSON member, at any depth; the values are plain strings.
pub(crate) fn values<'a>(json: &'a str, member: &str) -> Vec<&'a str> {
    let name = format!("\"{member}\":\"");
    let rest = json.split(name.as_str()).skip(1);
    rest.filter_map(|rest| rest.split('"').next()).collect()
}

/// Percent-encodes all bytes but letters and digits.
pub(crate) fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}
