//! Oracle of paths and query strings, from CONTRACT sections 5 and 6 alone.

use std::fmt::Write as _;

use island_metrics::request::Endpoint;

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

/// The undeclared parameters that a response names: in the order sent, each once, at most eight.
pub(crate) fn ignored(target: &str) -> Option<String> {
    let (path, query) = target.split_once('?')?;
    let declared: &[&str] = match path {
        "/v1/islands" => Endpoint::Islands.query_parameters(),
        "/v1/creators" => Endpoint::Creators.query_parameters(),
        _ => &[],
    };
    let mut names: Vec<String> = Vec::new();
    for piece in query.split('&') {
        let name = decode(piece.split('=').next()?, true).unwrap_or_default();
        let mut encoded = String::new();
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                write!(encoded, "%{byte:02X}").unwrap();
            }
        }
        let is_listed = name.is_empty() || name == "key" || names.contains(&encoded);
        if !is_listed && !declared.contains(&&*name) && names.len() < 8 {
            names.push(encoded);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
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

/// A search, of at most 1,024 bytes; an empty one is ignored.
pub(crate) fn search(pairs: &[(String, String)]) -> Result<Option<&str>, Refusal> {
    match filter(pairs, "q")? {
        Some(text) if text.len() > 1024 => Err(BAD),
        other => Ok(other),
    }
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

/// Both sides of a `q`: the case of each character, whatever is beside it, then without U+0307. The contract
/// says upper case, then lower case; ẞ, the one letter of which this is not the lower case of ss, is written out.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::new();
    for letter in text.chars() {
        for capital in letter.to_uppercase() {
            if capital == 'ẞ' {
                folded += "ss";
            } else {
                folded += &capital.to_lowercase().to_string();
            }
        }
    }
    folded.replace('\u{307}', "")
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
