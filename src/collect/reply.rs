//! Classification of what the upstream answers.
//!
//! A response counts only if it is 200, JSON, complete, and has the expected members. An empty 200 is how
//! the upstream throttles; it never means "no data".

use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER};

use crate::calendar::UnixSeconds;

/// Longest body that is read, in bytes.
pub(super) const MAX_BODY_BYTES: usize = 8 << 20;

/// A response with its body, or the reason why there is none.
pub(super) type Raw = Result<Response<Vec<u8>>, String>;

/// The upstream's id of a response, logged with faults.
const CORRELATION_ID: HeaderName = HeaderName::from_static("x-epic-correlation-id");

/// The class of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Outcome {
    /// Usable; of days: with at least one value.
    Usable,
    /// Days without a value.
    Null,
    /// Days that lack a value that an earlier reply had, one of the newest day, or the peak among other values.
    Vanished,
    /// The upstream's own 404: the island is not public any more, or there is no such series.
    Gone,
    /// A usable reply that is not believed before another one agrees.
    Doubtful,
    /// The upstream requires fewer requests, or a proxy in front of it has no connection to it: 429, an empty 200, 503
    /// with `Retry-After`, 52x, HTML. This and what follows are failures.
    Throttled,
    /// 400: the request was wrong.
    Rejected,
    /// No response, or one that cannot be used: cut short, another type, not JSON, or without what was requested.
    Broken,
}

impl Outcome {
    /// All outcomes with their names.
    pub(super) const ALL: [(Outcome, &str); 8] = [
        (Outcome::Usable, "usable"),
        (Outcome::Null, "null"),
        (Outcome::Vanished, "vanished"),
        (Outcome::Gone, "gone"),
        (Outcome::Doubtful, "doubtful"),
        (Outcome::Throttled, "throttled"),
        (Outcome::Rejected, "rejected"),
        (Outcome::Broken, "broken"),
    ];

    pub(super) fn is_failure(self) -> bool {
        self >= Outcome::Throttled
    }
}

/// An outcome with the reason of a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) reason: String,
    pub(super) retry_after_seconds: Option<u64>,
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Reply {
        Reply::new(outcome, String::new())
    }
}

impl Reply {
    pub(super) fn new(outcome: Outcome, reason: String) -> Reply {
        Reply {
            outcome,
            reason,
            retry_after_seconds: None,
        }
    }
}

/// Returns the content of a response, `None` for the upstream's own 404, or a failure; `parse` reads the body of a 200.
pub(super) fn classify<T>(
    raw: Raw,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, Reply> {
    let raw = raw.map_err(|problem| Reply::new(Outcome::Broken, problem))?;
    let body = raw.body();
    let content_type = header(raw.headers(), &CONTENT_TYPE).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let is_html = media_type.eq_ignore_ascii_case("text/html");
    let throttled = |by: String| (Outcome::Throttled, format!("throttled by {by}"));
    let (outcome, reason) = match raw.status().as_u16() {
        200 if body.iter().all(u8::is_ascii_whitespace) => throttled("an empty 200".to_owned()),
        200 if is_html => throttled("an HTML page".to_owned()),
        200 if !media_type.eq_ignore_ascii_case("application/json") => {
            let problem = format!("the content type must be application/json, got {media_type:?}");
            (Outcome::Broken, problem)
        }
        200 => match parse(body) {
            Ok(content) => return Ok(Some(content)),
            // It may quote a body of megabytes.
            Err(problem) => (Outcome::Broken, problem.chars().take(400).collect()),
        },
        503 if raw.headers().contains_key(RETRY_AFTER) => throttled("status 503".to_owned()),
        status @ (429 | 520..=529) => throttled(format!("status {status}")),
        404 if is_not_found(body) => return Ok(None),
        // Of a proxy: a challenge, or an error of its own.
        status if is_html => throttled(format!("an HTML page with status {status}")),
        400 => (Outcome::Rejected, format!("status 400: {}", excerpt(body))),
        status => {
            let shown = excerpt(body);
            let problem = format!("the status must be 200, got {status}: {shown}");
            (Outcome::Broken, problem)
        }
    };
    Err(Reply {
        outcome,
        reason: with_correlation_id(reason, raw.headers()),
        retry_after_seconds: header(raw.headers(), &RETRY_AFTER)
            .and_then(|value| retry_after(&value)),
    })
}

/// Returns the seconds of a `Retry-After`, which may also be a date.
fn retry_after(value: &str) -> Option<u64> {
    let until = || UnixSeconds::parse_http(value).map(|time| time.0 - UnixSeconds::now().0);
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(value.parse().unwrap_or(u64::MAX));
    }
    u64::try_from(until()?).ok()
}

/// Returns a header's value without what a log line must not contain.
pub(super) fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.chars().take(200).collect())
}

/// Returns whether the body of a 404 is the upstream's, not that of a proxy or of a path that does not exist.
fn is_not_found(body: &[u8]) -> bool {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let code = body["errorCode"].as_str();
    code.is_some_and(|code| code.ends_with("not_found"))
}

/// Adds the upstream's id of a response to a problem.
pub(super) fn with_correlation_id(problem: String, headers: &HeaderMap) -> String {
    match header(headers, &CORRELATION_ID) {
        Some(id) => format!("{problem} (x-epic-correlation-id {id})"),
        None => problem,
    }
}

/// Returns the beginning of a body for a log line, without control characters.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(400)]);
    let letters = text.chars().filter(|letter| !letter.is_control());
    let shown: String = letters.take(160).collect();
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, content_type: &str, body: &str) -> Response<Vec<u8>> {
        let reply = Response::builder().status(status);
        let reply = reply.header(CONTENT_TYPE, content_type);
        reply.body(body.as_bytes().to_vec()).unwrap()
    }

    fn class(raw: Raw) -> &'static str {
        let parse = |body: &[u8]| match body {
            b"{}" => Ok(()),
            _ => Err("members are missing".to_owned()),
        };
        let reply = classify(raw, parse);
        let known = |content: Option<()>| content.map_or(Outcome::Gone, |()| Outcome::Usable);
        let outcome = reply.map_or_else(|reply| reply.outcome, known);
        Outcome::ALL[outcome as usize].1
    }

    #[test]
    fn every_kind_of_response_has_its_class() {
        let json = "application/json; charset=utf-8";
        for (raw, want) in [
            (reply(200, json, "{}"), "usable"),
            (reply(200, "Application/JSON", "{}"), "usable"),
            (reply(200, json, ""), "throttled"),
            (reply(200, "", " \r\n"), "throttled"),
            (reply(200, "text/html", "<html>"), "throttled"),
            (reply(200, "text/plain", "{}"), "broken"),
            (reply(200, json, "{\"data\":"), "broken"),
            (reply(204, json, ""), "broken"),
            (reply(301, json, "{}"), "broken"),
            (reply(400, json, "{}"), "rejected"),
            (reply(401, "text/plain", "Jwt is missing"), "broken"),
            (
                reply(
                    404,
                    json,
                    "{\"errorCode\":\"errors.com.epicgames.x.not_found\"}",
                ),
                "gone",
            ),
            (reply(404, json, "{}"), "broken"),
            (reply(404, "text/plain", "404"), "broken"),
            (
                reply(403, "text/html; charset=utf-8", "<html>"),
                "throttled",
            ),
            (reply(403, json, "{}"), "broken"),
            (reply(429, "text/plain", ""), "throttled"),
            (reply(500, json, "{}"), "broken"),
            (reply(503, "text/plain", "x"), "broken"),
            (reply(503, "text/html", "<html>"), "throttled"),
            (reply(520, json, "{}"), "throttled"),
            (reply(522, "text/html", "<html>"), "throttled"),
        ] {
            assert_eq!(class(Ok(raw.clone())), want, "{raw:?}");
        }
        assert_eq!(class(Err("connection reset".to_owned())), "broken");
    }

    #[test]
    fn a_fault_names_its_correlation_id_and_no_control_characters() {
        let other = reply(200, "application/json", "{}");
        let reply_503 = reply(503, "text/plain", "");
        let mut raw = reply(400, "application/json", "a\u{7}\nb");
        raw.headers_mut()
            .insert(CORRELATION_ID, "FN-1".parse().unwrap());
        let reply = classify(Ok(raw), |_| Ok(())).unwrap_err();
        assert_eq!(reply.outcome, Outcome::Rejected);
        assert_eq!(
            reply.reason,
            "status 400: \"ab\" (x-epic-correlation-id FN-1)"
        );
        for (value, seconds) in [
            ("8", Some(8)),
            ("99999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
            ("-1", None),
            ("", None),
        ] {
            let mut raw = reply_503.clone();
            let value = value.parse().unwrap();
            raw.headers_mut().insert(RETRY_AFTER, value);
            let reply = classify(Ok(raw), |_| Ok(())).unwrap_err();
            assert_eq!(reply.outcome, Outcome::Throttled);
            assert_eq!(reply.retry_after_seconds, seconds);
        }
        let reply = classify(Ok(other), |_| Err::<(), _>("x".repeat(1000))).unwrap_err();
        assert_eq!(reply.reason.len(), 400);
    }
}
