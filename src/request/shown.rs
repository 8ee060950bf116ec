//! How text that a client sent is quoted back to it.

use std::fmt;

/// Letters of a sent text that a message repeats (CONTRACT section 5).
const SHOWN_CHARS: usize = 40;

/// Displays a sent text in quotes, cut at 40 characters with `…`.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(SHOWN_CHARS) {
            None => write!(f, "\"{}\"", self.0),
            Some((end, _)) => write!(f, "\"{}…\"", &self.0[..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_characters_are_shown_whole_and_the_rest_is_cut() {
        let forty = "é".repeat(40);
        assert_eq!(Shown(&forty).to_string(), format!("\"{forty}\""));
        assert_eq!(
            Shown(&format!("{forty}x")).to_string(),
            format!("\"{forty}…\"")
        );
        assert_eq!(Shown("").to_string(), "\"\"");
    }
}
