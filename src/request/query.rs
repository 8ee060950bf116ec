//! The raw query string: its pairs, the `key` among them, and what a client is told of a bad one.

use std::borrow::Cow;
use std::fmt;

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

/// The value of the first `key` parameter, if there is one.
///
/// A value that does not decode is given as the empty key, which no key equals; a broken pair
/// elsewhere does not hide the key, since keys are judged before parameters.
pub fn key(raw: Option<&str>) -> Option<Cow<'_, str>> {
    let mut pairs = RawPairs { rest: raw? };
    let (_, value) = pairs.find(|(name, _)| decode_form(name).is_ok_and(|name| name == "key"))?;
    Some(decode_form(value).unwrap_or_default())
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
    fn the_first_key_counts_however_it_is_spelled() {
        assert_eq!(key(None), None);
        assert_eq!(key(Some("keys=1&Key=2")), None);
        assert_eq!(key(Some("a=%zz&%6Bey=x%2By&key=2")).unwrap(), "x+y");
        assert_eq!(key(Some("%zz=1&key=%ff&key=2")).unwrap(), "");
        assert_eq!(key(Some("key")).unwrap(), "");
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
