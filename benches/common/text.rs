//! Members of JSON texts, and percent-encoding.

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
pub(crate) fn encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
