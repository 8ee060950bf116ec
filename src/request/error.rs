//! `RouteError`: why a path or its parameters are invalid, and how messages quote what was sent.

use std::fmt;

use super::loggable::has_key;

/// Characters of a sent text that a message repeats (CONTRACT section 5).
const QUOTED_CHARS: usize = 40;

/// The reason why a path or its parameters are invalid: the message for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// 400
    BadRequest(String),
    /// 404
    NotFound(String),
}

impl RouteError {
    /// 400 for a value that is not what it must be.
    pub(super) fn invalid(name: &str, wanted: impl fmt::Display, sent: &str) -> RouteError {
        RouteError::BadRequest(format!("{name} must be {wanted}, got {}", Quoted(sent)))
    }
}

/// Displays a sent text in quotes, cut at 40 characters with `…`; only that if a key is in it.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if has_key(self.0.as_bytes()) {
            return f.write_str("\"…\"");
        }
        match self.0.char_indices().nth(QUOTED_CHARS) {
            None => write!(f, "\"{}\"", self.0),
            Some((end, _)) => write!(f, "\"{}…\"", &self.0[..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_cut_after_forty_characters() {
        let forty = "é".repeat(40);
        assert_eq!(Quoted(&forty).to_string(), format!("\"{forty}\""));
        assert_eq!(
            Quoted(&format!("{forty}x")).to_string(),
            format!("\"{forty}…\"")
        );
        assert_eq!(Quoted("").to_string(), "\"\"");
        for sent in ["im_live_a_b", "/v1/IM%5fLIVE_a", "Bearer x_live_a"] {
            assert_eq!(Quoted(sent).to_string(), "\"…\"", "{sent}");
        }
    }
}
