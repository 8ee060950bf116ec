//! Hints of messages: the change that makes a refused value valid, for common mistakes of exports.

/// Texts that programs write where there is no value: pandas, databases, spreadsheets.
const NULLS: [&str; 9] = [
    "null", "nan", "none", "nil", "na", "n/a", "<na>", "\\N", "-",
];
/// Longer corrections are not quoted.
const CORRECTED_MAX: usize = 20;

/// Returns a hint for a text that `parse` refuses, as the end of a message; empty if the mistake is not a
/// common one. Every correction that it names was accepted by `parse`.
pub(super) fn hint<T>(text: &str, is_optional: bool, parse: impl Fn(&str) -> Option<T>) -> String {
    let is_valid = |corrected: &str| parse(corrected).is_some();
    if is_optional && NULLS.iter().any(|null| null.eq_ignore_ascii_case(text)) {
        return "; leave the field empty if there is no value".to_owned();
    }
    if is_valid(text.trim()) {
        return "; remove the spaces around it".to_owned();
    }
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    if is_optional && number.is_some_and(f64::is_sign_negative) {
        return "; leave the field empty if the value is unknown".to_owned();
    }
    // In some countries 1.000 is a thousand.
    let is_grouped = text.split('.').skip(1).any(|group| group.len() == 3);
    let corrected = number
        .filter(|_| !is_grouped)
        .map(|number| number.to_string());
    let corrected = corrected.filter(|corrected| corrected.len() <= CORRECTED_MAX);
    match corrected.filter(|corrected| is_valid(corrected)) {
        Some(whole) if text.strip_prefix(&*whole) == Some(".0") => {
            "; write whole numbers without .0".to_owned()
        }
        Some(corrected) => format!("; write {corrected}"),
        None => text.parse().map_or("", unit_hint).to_owned(),
    }
}

/// Returns a hint for a time that is too large to be one in seconds.
pub(super) fn unit_hint(time: i64) -> &'static str {
    // 2001 to 2128. The ranges do not overlap, and counts of the dataset reach none but the first two.
    let is_time = |per_second: i64| (1_000_000_000..5_000_000_000).contains(&(time / per_second));
    if is_time(1_000) {
        "; the number is a time in milliseconds"
    } else if is_time(1_000_000) {
        "; the number is a time in microseconds"
    } else if is_time(1_000_000_000) {
        "; the number is a time in nanoseconds"
    } else {
        ""
    }
}
