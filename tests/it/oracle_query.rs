//! Oracle of query strings, from CONTRACT sections 5 and 6 alone, as is the plain reader of the fuzz targets.

use crate::oracle::{BAD, Refusal};
use crate::plain::{Mistake, Pairs, Plain};
use crate::prelude::*;

pub(crate) const READER: Plain = Plain(Mistake::None);

/// The undeclared parameters that a response names: in the order sent, each once, at most eight.
pub(crate) fn ignored(target: &str) -> Option<String> {
    let (path, query) = target.split_once('?')?;
    let declared = match path {
        "/v1/islands" => Endpoint::Islands.query_parameters(),
        "/v1/creators" => Endpoint::Creators.query_parameters(),
        _ => &[],
    };
    let mut names: Vec<String> = Vec::new();
    for piece in query.split('&') {
        let name = READER.decode(piece.split('=').next()?, true);
        let name = name.unwrap_or_default();
        let mut encoded = String::new();
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                encoded.push(char::from(byte));
            } else {
                write!(encoded, "%{byte:02X}").unwrap();
            }
        }
        let is_listed = name.is_empty() || name == "key" || names.contains(&encoded);
        if !is_listed && declared.iter().all(|one| one.name != name) && names.len() < 8 {
            names.push(encoded);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// A declared parameter: its value if it appears once, an error if it appears more often.
pub(crate) fn once(pairs: &Pairs, name: &str) -> Result<Option<String>, Refusal> {
    READER.once(pairs, name).ok_or(BAD)
}

/// A filter; an empty one is ignored.
pub(crate) fn filter(pairs: &Pairs, name: &str) -> Result<Option<String>, Refusal> {
    Ok(once(pairs, name)?.filter(|value| !value.is_empty()))
}

/// A search, of at most 1,024 bytes, in the form in which case does not count; an empty one is ignored.
pub(crate) fn search(pairs: &Pairs) -> Result<Option<String>, Refusal> {
    match filter(pairs, "q")? {
        Some(text) if text.len() > 1024 => Err(BAD),
        other => Ok(other.map(|text| READER.fold(&text))),
    }
}

/// An integer: ASCII digits, leading zeros allowed, within the bounds.
pub(crate) fn integer(
    pairs: &Pairs,
    name: &str,
    default: u64,
    bounds: (u64, u64),
) -> Result<u64, Refusal> {
    match once(pairs, name)? {
        Some(text) => READER.integer(&text, bounds).ok_or(BAD),
        None => Ok(default),
    }
}
