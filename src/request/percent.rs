//! Strict percent-decoding: a `%` without two hex digits, or bytes that are not UTF-8, are errors.
//!
//! Text with nothing to decode is handed back as it is, without an allocation.

use std::borrow::Cow;
use std::fmt;

/// A `%` is not followed by two hex digits, or the decoded bytes are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenEncoding;

impl fmt::Display for BrokenEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("want % followed by two hex digits, and UTF-8 once decoded")
    }
}

impl std::error::Error for BrokenEncoding {}

/// Decodes one path segment; `+` stands for itself.
pub fn decode_segment(text: &str) -> Result<Cow<'_, str>, BrokenEncoding> {
    match memchr::memchr(b'%', text.as_bytes()) {
        None => Ok(Cow::Borrowed(text)),
        Some(first) => decode(text, first, false).map(Cow::Owned),
    }
}

/// Decodes a name or a value of a form-encoded query; `+` is a space.
pub fn decode_form(text: &str) -> Result<Cow<'_, str>, BrokenEncoding> {
    match memchr::memchr2(b'%', b'+', text.as_bytes()) {
        None => Ok(Cow::Borrowed(text)),
        Some(first) => decode(text, first, true).map(Cow::Owned),
    }
}

/// Decodes from byte `first` on, before which nothing is encoded.
fn decode(text: &str, first: usize, plus_is_space: bool) -> Result<String, BrokenEncoding> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(&bytes[..first]);
    let mut rest = bytes[first..].iter();
    while let Some(&byte) = rest.next() {
        decoded.push(match byte {
            b'%' => {
                let high = hex(rest.next())?;
                high << 4 | hex(rest.next())?
            }
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).map_err(|_| BrokenEncoding)
}

/// The value of a hex digit in either case.
fn hex(digit: Option<&u8>) -> Result<u8, BrokenEncoding> {
    match digit {
        Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
        Some(digit @ b'a'..=b'f') => Ok(digit - b'a' + 10),
        Some(digit @ b'A'..=b'F') => Ok(digit - b'A' + 10),
        _ => Err(BrokenEncoding),
    }
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
    fn agrees_with_the_obvious_decoder() {
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
                decode_segment(&text).ok().map(Cow::into_owned),
                slow(&text, false),
                "{text}"
            );
            assert_eq!(
                decode_form(&text).ok().map(Cow::into_owned),
                slow(&text, true),
                "{text}"
            );
            Ok(())
        });
    }

    #[test]
    fn text_with_nothing_to_decode_is_borrowed() {
        assert!(matches!(decode_segment("a+b"), Ok(Cow::Borrowed("a+b"))));
        assert!(matches!(decode_form("aé"), Ok(Cow::Borrowed("aé"))));
        assert_eq!(decode_form("a+b").unwrap(), "a b");
    }

    #[test]
    fn decoding_happens_once() {
        assert_eq!(decode_segment("%252F").unwrap(), "%2F");
    }
}
