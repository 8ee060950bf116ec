//! Strict percent-decoding: a `%` without two hex digits, and bytes that are not UTF-8, are errors.
//!
//! Text without anything to decode is returned as it is, without an allocation. Also the characters to
//! encode.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str};

/// All but the unreserved characters of RFC 3986.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Decodes one path segment, in which `+` stands for itself. `None` if its encoding is broken.
pub(super) fn decode_segment(text: &str) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'%', text.as_bytes()).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.ok().filter(|_| has_whole_escapes(text))
}

/// Decodes a name or value of a form-encoded query, in which `+` is a space. `None` if its encoding
/// is broken.
pub(super) fn decode_form(text: &str) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(Cow::Borrowed(text));
    }
    if !text.contains('+') {
        return decode_segment(text);
    }
    let decoded = decode_segment(&text.replace('+', " "))?.into_owned();
    Some(Cow::Owned(decoded))
}

/// Returns whether two hex digits follow every `%`.
pub(super) fn has_whole_escapes(text: &str) -> bool {
    let is_escape = |rest: &str| {
        let digits = rest.bytes().take(2).filter(u8::is_ascii_hexdigit);
        digits.count() == 2
    };
    text.split('%').skip(1).all(is_escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious decoder: one position at a time, hex digits by the standard library.
    fn slow(text: &str, plus_is_space: bool) -> Option<String> {
        let bytes = text.as_bytes();
        let (mut at, mut decoded) = (0, Vec::new());
        while at < bytes.len() {
            if bytes[at] == b'%' {
                let digits = bytes.get(at + 1..at + 3)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                let digits = std::str::from_utf8(digits).ok()?;
                decoded.push(u8::from_str_radix(digits, 16).ok()?);
                at += 3;
            } else {
                let space = plus_is_space && bytes[at] == b'+';
                decoded.push(if space { b' ' } else { bytes[at] });
                at += 1;
            }
        }
        String::from_utf8(decoded).ok()
    }

    #[test]
    fn decoding_agrees_with_the_oracle() {
        const PIECES: [&str; 14] = [
            "%",
            "+",
            "2",
            "F",
            "f",
            "C3",
            "%C3",
            "%A9",
            "%20",
            "%2f",
            "%E2%82%AC",
            "é",
            "g",
            "%00",
        ];
        arbtest::arbtest(|u| {
            let mut text = String::new();
            for _ in 0..u.int_in_range(0..=12)? {
                text.push_str(u.choose::<&str>(&PIECES)?);
            }
            assert_eq!(
                decode_segment(&text).map(Cow::into_owned),
                slow(&text, false),
                "{text}"
            );
            assert_eq!(
                decode_form(&text).map(Cow::into_owned),
                slow(&text, true),
                "{text}"
            );
            Ok(())
        });
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(decode_segment("a+b"), Some(Cow::Borrowed("a+b"))));
        assert!(matches!(decode_form("aé"), Some(Cow::Borrowed("aé"))));
        assert_eq!(decode_form("a+b").unwrap(), "a b");
    }

    #[test]
    fn decoding_happens_once() {
        assert_eq!(decode_segment("%252F").unwrap(), "%2F");
    }
}
