//! Oracle of paths and query strings, from CONTRACT sections 5 and 6 alone.

use crate::oracle::{BAD, Refusal};

/// Percent-decoding, once; `None` where an escape is broken or the bytes are not UTF-8.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let high = char::from(*rest.first()?).to_digit(16)?;
            let low = char::from(*rest.get(1)?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).unwrap());
            rest = &rest[2..];
        } else if first == b'+' && plus_is_space {
            bytes.push(b' ');
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The pairs of a query string, decoded.
pub(crate) fn form(query: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for piece in query.split('&').filter(|piece| !piece.is_empty()) {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        pairs.push((decode(name, true)?, decode(value, true)?));
    }
    Some(pairs)
}

/// A declared parameter: its value if it appears once, an error if it appears more often.
pub(crate) fn once<'a>(
    pairs: &'a [(String, String)],
    name: &str,
) -> Result<Option<&'a str>, Refusal> {
    let found: Vec<_> = pairs.iter().filter(|(n, _)| n == name).collect();
    match found[..] {
        [] => Ok(None),
        [(_, value)] => Ok(Some(value)),
        _ => Err(BAD),
    }
}

/// A filter; an empty one is ignored.
pub(crate) fn filter<'a>(
    pairs: &'a [(String, String)],
    name: &str,
) -> Result<Option<&'a str>, Refusal> {
    Ok(once(pairs, name)?.filter(|value| !value.is_empty()))
}

/// An integer: ASCII digits, leading zeros allowed, from `least` to `most`.
pub(crate) fn integer(
    pairs: &[(String, String)],
    name: &str,
    default: u64,
    (least, most): (u64, u64),
) -> Result<u64, Refusal> {
    let Some(text) = once(pairs, name)? else {
        return Ok(default);
    };
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BAD);
    }
    let mut number: u64 = 0;
    for digit in text.bytes() {
        let tens = number.checked_mul(10).ok_or(BAD)?;
        number = tens.checked_add(u64::from(digit - b'0')).ok_or(BAD)?;
    }
    if number < least || number > most {
        Err(BAD)
    } else {
        Ok(number)
    }
}

/// Both sides of a `q`: lowercase, then without U+0307.
pub(crate) fn fold(text: &str) -> String {
    text.to_lowercase().replace('\u{307}', "")
}

/// Matches digits where the pattern has `d`, and the same character elsewhere.
pub(crate) fn looks_like(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(t, p)| {
            if p == b'd' {
                t.is_ascii_digit()
            } else {
                t == p
            }
        })
}
