//! Texts in HTML: escaped, and numbers with separated thousands.

use std::fmt;

/// Displays text escaped for an element, or for an attribute in double quotes.
#[derive(Clone, Copy)]
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                _ => "&quot;",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// Letters without a shape.
const FILLERS: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Whether a link with this text can be seen: it is not all white space, fillers, and characters that `Debug` escapes
/// because they have no width.
pub(super) fn is_visible(text: &str) -> bool {
    text.chars().any(|one| {
        let is_escaped = one.is_whitespace() || one.escape_debug().len() > 1;
        one.is_ascii_graphic() || !is_escaped && !FILLERS.contains(&one)
    })
}

/// Returns a number with separated thousands.
pub(super) fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Divides a number by the largest power of a thousand that it fills. Returns the power, at most the fifth, the quotient
/// and its first decimal.
pub(super) fn in_thousands(number: u64) -> (usize, u64, u64) {
    let power = number.max(1).ilog(1_000).min(5);
    let unit = 1_000_u64.pow(power);
    (power as usize, number / unit, number % unit * 10 / unit)
}

pub(super) fn grouped(digits: &str) -> String {
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_a_visible_character_are_found() {
        let visible = [
            "a",
            "'",
            "\u{200b}\u{e9}",
            "\u{1f3dd}\u{fe0f}",
            "\u{5d0}",
            "\u{4e00}",
        ];
        assert!(visible.into_iter().all(is_visible));
        let invisible = [
            "",
            " \u{a0}\u{3000}",
            "\u{200b}\u{202e}\u{2066}\u{feff}\u{ad}",
            "\u{3164}\u{2800}",
        ];
        assert!(!invisible.into_iter().any(is_visible));
    }
}
