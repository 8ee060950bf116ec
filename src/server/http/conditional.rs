//! Conditional requests and ranges of what has a strong entity tag, a date and a length (RFC 9110
//! sections 13 and 14).

use bytes::Bytes;
use hyper::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use hyper::{HeaderMap, Method};

use crate::calendar::UnixSeconds;
use crate::server::http::api_error::ApiError;
use crate::server::http::negotiate::is_known;

/// What a client may make conditions about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// Strong, quotes included.
    pub(crate) etag: &'a str,
    pub(crate) modified: UnixSeconds,
    pub(crate) bytes: u64,
}

/// What a request gets of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// 200
    Whole,
    /// 206
    Part(Part),
    /// 304
    Known,
}

/// Some bytes of a thing, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Part {
    /// All of something, unless that is nothing.
    pub(crate) fn all(bytes: u64) -> Option<Part> {
        let last = bytes.checked_sub(1)?;
        Some(Part { first: 0, last })
    }

    pub(crate) fn bytes(self) -> u64 {
        self.last - self.first + 1
    }

    /// These bytes of all.
    pub(crate) fn of(self, all: &Bytes) -> Bytes {
        let place = |at: u64| usize::try_from(at).expect("a place in memory");
        all.slice(place(self.first)..=place(self.last))
    }
}

/// Judges the conditions in the order of RFC 9110 section 13.2.2. The method is GET or HEAD.
pub(crate) fn select(
    method: &Method,
    headers: &HeaderMap,
    thing: Validators<'_>,
) -> Result<Selection, ApiError> {
    let unchanged = if headers.contains_key(IF_MATCH) {
        matches(headers, thing.etag)
    } else {
        date(headers, &IF_UNMODIFIED_SINCE).is_none_or(|since| thing.modified <= since)
    };
    if !unchanged {
        return Err(ApiError::PreconditionFailed);
    }
    let known = if headers.contains_key(IF_NONE_MATCH) {
        is_known(headers, thing.etag.as_bytes())
    } else {
        date(headers, &IF_MODIFIED_SINCE).is_some_and(|since| thing.modified <= since)
    };
    if known {
        return Ok(Selection::Known);
    }
    // Ranges are defined for GET alone.
    if *method != Method::GET || !is_in_range(headers, thing) {
        return Ok(Selection::Whole);
    }
    match sole(headers, &RANGE).and_then(Range::parse) {
        Some(range) => range.select(thing.bytes),
        None => Ok(Selection::Whole),
    }
}

/// Whether `If-Match` names the entity tag: strongly, so that a weak one never does.
fn matches(headers: &HeaderMap, etag: &str) -> bool {
    headers.get_all(IF_MATCH).iter().any(|value| {
        let mut tags = value.as_bytes().split(|byte| *byte == b',');
        tags.any(|tag| matches!(tag.trim_ascii(), tag if tag == b"*" || tag == etag.as_bytes()))
    })
}

/// Whether a range may be cut out of what there is now: `If-Range` names it, by tag or date, or is not
/// there. Anything else makes the client start over.
fn is_in_range(headers: &HeaderMap, thing: Validators<'_>) -> bool {
    if !headers.contains_key(IF_RANGE) {
        return true;
    }
    sole(headers, &IF_RANGE).is_some_and(|value| {
        value == thing.etag || UnixSeconds::parse_http(value) == Some(thing.modified)
    })
}

/// The moment that a header names. One that is malformed, or there twice, counts as not there.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<UnixSeconds> {
    UnixSeconds::parse_http(sole(headers, name)?)
}

/// The value of a header that is there once.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value.trim_ascii())
}

/// A range as sent.
#[derive(Clone, Copy, Debug)]
enum Range {
    /// `first-last` or `first-`
    From { first: u64, last: u64 },
    /// `-bytes`
    Suffix { bytes: u64 },
}

impl Range {
    /// Reads one range of bytes. A list of them, another unit and what is malformed give `None`: a server
    /// may leave a range out of account, and many ranges would make more work than the whole.
    fn parse(value: &str) -> Option<Range> {
        let (unit, range) = value.split_once('=')?;
        let (first, last) = range.split_once('-')?;
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !unit.eq_ignore_ascii_case("bytes") || !are_digits(first) || !are_digits(last) {
            return None;
        }
        match (first, last) {
            ("", "") => None,
            ("", bytes) => Some(Range::Suffix {
                bytes: position(bytes),
            }),
            (first, "") => Some(Range::From {
                first: position(first),
                last: u64::MAX,
            }),
            // Longer numbers than fit are compared too: a range that ends before it begins is malformed.
            (first, last) if significant(last) < significant(first) => None,
            (first, last) => Some(Range::From {
                first: position(first),
                last: position(last),
            }),
        }
    }

    /// The part of a thing of this length.
    fn select(self, bytes: u64) -> Result<Selection, ApiError> {
        let outside = Err(ApiError::RangeNotSatisfiable { bytes });
        let Some(end) = bytes.checked_sub(1) else {
            // Nothing has no first byte; its last ones are all of it.
            return match self {
                Range::Suffix { bytes: 1.. } => Ok(Selection::Whole),
                _ => outside,
            };
        };
        match self {
            Range::From { first, .. } if first > end => outside,
            Range::From { first, last } => Ok(Selection::Part(Part {
                first,
                last: last.min(end),
            })),
            Range::Suffix { bytes: 0 } => outside,
            Range::Suffix { bytes: wanted } => Ok(Selection::Part(Part {
                first: bytes.saturating_sub(wanted),
                last: end,
            })),
        }
    }
}

/// The value of digits; the greatest there is for more than fit, which is beyond any file's end.
fn position(digits: &str) -> u64 {
    digits.parse().unwrap_or(u64::MAX)
}

/// Digits in a form that compares as their value does.
fn significant(digits: &str) -> (usize, &str) {
    let digits = digits.trim_start_matches('0');
    (digits.len(), digits)
}

#[cfg(test)]
#[path = "conditional_tests.rs"]
mod tests;
