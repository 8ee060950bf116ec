//! The raw query string: its pairs, the `key` among them, and what a client is told of a bad one.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;

use super::percent::{BrokenEncoding, decode_form};
use super::shown::Shown;
use crate::model::{CreatedIn, SortField, SortOrder};

/// The pairs of a raw query string in the order sent, names and values decoded.
///
/// Empty pieces are skipped; a piece without `=` has an empty value.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    raw: RawPairs<'a>,
}

impl<'a> Pairs<'a> {
    /// The pairs of `raw`, of which `None` has none.
    pub fn new(raw: Option<&'a str>) -> Pairs<'a> {
        Pairs {
            raw: RawPairs {
                rest: raw.unwrap_or_default(),
            },
        }
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(Cow<'a, str>, Cow<'a, str>), BrokenEncoding>;

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.raw.next()?;
        Some(decode_form(name).and_then(|name| Ok((name, decode_form(value)?))))
    }
}

/// The pairs as sent, undecoded.
#[derive(Clone, Debug)]
struct RawPairs<'a> {
    rest: &'a str,
}

impl<'a> Iterator for RawPairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let (piece, rest) = self.rest.split_once('&').unwrap_or((self.rest, ""));
            self.rest = rest;
            if !piece.is_empty() {
                return Some(piece.split_once('=').unwrap_or((piece, "")));
            }
        }
        None
    }
}

/// Judges the query of an endpoint that declares no parameter: only its encoding can be wrong.
pub fn check(raw: Option<&str>) -> Result<(), BadRequest> {
    for pair in Pairs::new(raw) {
        pair?;
    }
    Ok(())
}

/// The `key` parameter (SPEC section 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentKey<'a> {
    /// There is none.
    None,
    /// Its value. One that does not decode is given as the empty key, which no key equals.
    Once(Cow<'a, str>),
    /// It is there more than once, be it with the same value.
    Twice,
}

/// The `key` of a query string. A broken pair elsewhere does not hide it, since keys are judged
/// before parameters.
pub fn key(raw: Option<&str>) -> SentKey<'_> {
    let Some(raw) = raw else {
        return SentKey::None;
    };
    // Without a percent sign, a name is spelled as it is.
    if memmem::find(raw.as_bytes(), b"key").is_none() && !raw.contains('%') {
        return SentKey::None;
    }
    let is_key = |(name, _): &(&str, &str)| decode_form(name).is_ok_and(|name| name == "key");
    let mut keys = RawPairs { rest: raw }.filter(is_key);
    match (keys.next(), keys.next()) {
        (None, _) => SentKey::None,
        (Some((_, value)), None) => SentKey::Once(decode_form(value).unwrap_or_default()),
        (Some(_), Some(_)) => SentKey::Twice,
    }
}

/// A declared query parameter (SPEC section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// `tag`
    Tag,
    /// `creator`
    Creator,
    /// `createdIn`
    CreatedIn,
    /// `q`
    Q,
    /// `sort`
    Sort,
    /// `order`
    Order,
    /// `limit`
    Limit,
    /// `offset`
    Offset,
}

impl Parameter {
    /// The name in query strings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Parameter::Tag => "tag",
            Parameter::Creator => "creator",
            Parameter::CreatedIn => "createdIn",
            Parameter::Q => "q",
            Parameter::Sort => "sort",
            Parameter::Order => "order",
            Parameter::Limit => "limit",
            Parameter::Offset => "offset",
        }
    }

    /// Writes what values the parameter allows.
    fn write_allowed(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Tag | Parameter::Creator | Parameter::Q => f.write_str("any text"),
            Parameter::CreatedIn => write_names(f, &CreatedIn::ALL.map(CreatedIn::as_str)),
            Parameter::Sort => write_names(f, &SortField::ALL.map(SortField::as_str)),
            Parameter::Order => write_names(f, &SortOrder::ALL.map(SortOrder::as_str)),
            Parameter::Limit => f.write_str("an integer from 1 to 200"),
            Parameter::Offset => write!(f, "an integer from 0 to {}", u64::MAX),
        }
    }
}

fn write_names(f: &mut fmt::Formatter<'_>, names: &[&str]) -> fmt::Result {
    write!(f, "one of {}", names.join(", "))
}

/// What is wrong with a query string. Displays as the message for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// Percent-encoding is broken, or what it encodes is not UTF-8.
    Encoding(BrokenEncoding),
    /// A declared parameter is there more than once.
    Twice(Parameter),
    /// A declared parameter is malformed or out of bounds.
    Value {
        /// Which one.
        parameter: Parameter,
        /// Its decoded value.
        sent: String,
    },
}

impl From<BrokenEncoding> for BadRequest {
    fn from(broken: BrokenEncoding) -> BadRequest {
        BadRequest::Encoding(broken)
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRequest::Encoding(broken) => {
                write!(f, "the query string is not percent-encoded UTF-8; {broken}")
            }
            BadRequest::Twice(parameter) => {
                write!(f, "{} is given twice; want it once", parameter.as_str())
            }
            BadRequest::Value { parameter, sent } => {
                write!(f, "{} is {}; want ", parameter.as_str(), Shown(sent))?;
                parameter.write_allowed(f)
            }
        }
    }
}

impl std::error::Error for BadRequest {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_before_they_are_decoded() {
        let pairs: Vec<_> = Pairs::new(Some("&&a=1%262=3&b&=c&&d+e=%3D&"))
            .map(Result::unwrap)
            .collect();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(pairs, [("a", "1&2=3"), ("b", ""), ("", "c"), ("d e", "=")]);
        assert_eq!(Pairs::new(None).count(), 0);
    }

    #[test]
    fn a_key_is_found_however_it_is_spelled() {
        assert_eq!(key(None), SentKey::None);
        assert_eq!(key(Some("keys=1&Key=2&a=key")), SentKey::None);
        assert_eq!(key(Some("%6bez=1")), SentKey::None);
        let once = |raw| match key(Some(raw)) {
            SentKey::Once(key) => key.into_owned(),
            other => panic!("{raw}: {other:?}"),
        };
        assert_eq!(once("a=%zz&%6Bey=x%2By"), "x+y");
        assert_eq!(once("%zz=1&key=%ff"), "");
        assert_eq!(once("key"), "");
        assert_eq!(key(Some("key=1&a=2&%6bey=1")), SentKey::Twice);
        assert_eq!(key(Some("key=&key")), SentKey::Twice);
    }

    #[test]
    fn only_encoding_is_checked_without_declared_parameters() {
        assert_eq!(check(None), Ok(()));
        assert_eq!(check(Some("limit=x&limit=y&é=%C3%A9")), Ok(()));
        for raw in ["%", "a=%f", "a=1&b%ff=2", "x=%C3"] {
            assert!(
                matches!(check(Some(raw)), Err(BadRequest::Encoding(_))),
                "{raw}"
            );
        }
    }
}
