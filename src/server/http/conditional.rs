//! Conditional requests and ranges for files, which have a strong entity tag, a date and a length
//! (RFC 9110 sections 13 and 14).

use std::ops::Range;

use hyper::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use hyper::{HeaderMap, Method, StatusCode};

use crate::calendar::UnixSeconds;
use crate::server::http::api_error::ApiError;
use crate::server::http::request_head::is_not_modified;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// Strong, quotes included.
    pub(crate) etag: &'a str,
    pub(crate) modified: UnixSeconds,
    pub(crate) bytes: u64,
}

/// Evaluates the conditions in the order of RFC 9110 section 13.2.2. The method is GET or HEAD.
/// Returns 200 or 304, or 206 and the part of the file that the response carries.
pub(crate) fn select(
    method: &Method,
    headers: &HeaderMap,
    file: Validators<'_>,
) -> Result<(StatusCode, Option<Range<u64>>), ApiError> {
    let holds = if headers.contains_key(IF_MATCH) {
        if_match(headers, file.etag)
    } else {
        date(headers, &IF_UNMODIFIED_SINCE).is_none_or(|since| file.modified <= since)
    };
    if !holds {
        return Err(ApiError::PreconditionFailed);
    }
    let is_not_modified = if headers.contains_key(IF_NONE_MATCH) {
        is_not_modified(headers, file.etag.as_bytes())
    } else {
        // A later date does not count: the date of a file is the time at which its publish began, and clients got the
        // file before it until the publish ended.
        date(headers, &IF_MODIFIED_SINCE) == Some(file.modified)
    };
    if is_not_modified {
        return Ok((StatusCode::NOT_MODIFIED, None));
    }
    // Ranges are defined for GET alone.
    let may_be_part = *method == Method::GET && if_range(headers, file);
    let range = sole(headers, &RANGE).filter(|_| may_be_part);
    let part = range.map_or(Ok(None), |range| select_range(range, file.bytes))?;
    let status = part
        .as_ref()
        .map_or(StatusCode::OK, |_| StatusCode::PARTIAL_CONTENT);
    Ok((status, part))
}

/// Whether `If-Match` names the entity tag by strong comparison, so that a weak tag never matches.
fn if_match(headers: &HeaderMap, etag: &str) -> bool {
    headers.get_all(IF_MATCH).iter().any(|value| {
        let mut tags = value.as_bytes().split(|byte| *byte == b',');
        tags.any(|tag| matches!(tag.trim_ascii(), tag if tag == b"*" || tag == etag.as_bytes()))
    })
}

/// Whether a range may be sent: `If-Range` is absent, or names the current file by tag or date.
/// Otherwise the client gets the whole.
fn if_range(headers: &HeaderMap, file: Validators<'_>) -> bool {
    if !headers.contains_key(IF_RANGE) {
        return true;
    }
    sole(headers, &IF_RANGE).is_some_and(|value| {
        value == file.etag || UnixSeconds::parse_http(value) == Some(file.modified)
    })
}

/// The date in a header. A malformed or repeated one counts as absent.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<UnixSeconds> {
    UnixSeconds::parse_http(sole(headers, name)?)
}

/// The value of a header that is sent exactly once.
fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value.trim_ascii())
}

/// Selects one range of a file of this length. A list of ranges, another unit and a malformed range
/// select the whole (`None`): a server may ignore ranges, and many of them would cost more than the whole.
fn select_range(range: &str, bytes: u64) -> Result<Option<Range<u64>>, ApiError> {
    let parsed = range.split_once('=').and_then(|(unit, range)| {
        let is_bytes = unit.eq_ignore_ascii_case("bytes");
        range.split_once('-').filter(|_| is_bytes)
    });
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (first, last) = match parsed {
        Some((first, last)) if is_digits(first) && is_digits(last) => (first, last),
        _ => return Ok(None),
    };
    let (first, last) = match (first, last) {
        ("", "") => return Ok(None),
        ("", suffix) => match (number(suffix), bytes) {
            // The last bytes of an empty file are all of it.
            (1.., 0) => return Ok(None),
            (0, _) => (u64::MAX, u64::MAX),
            (suffix, _) => (bytes.saturating_sub(suffix), u64::MAX),
        },
        (first, "") => (number(first), u64::MAX),
        // Compared as digits too, since longer numbers saturate: a range that ends before it begins
        // is malformed.
        (first, last) if significant(last) < significant(first) => return Ok(None),
        (first, last) => (number(first), number(last)),
    };
    if first >= bytes {
        return Err(ApiError::RangeNotSatisfiable { bytes });
    }
    Ok(Some(first..last.saturating_add(1).min(bytes)))
}

/// The value of digits; `u64::MAX` for more than fit, which is beyond the end of every file.
fn number(digits: &str) -> u64 {
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
