//! Classification of what the upstream answers.
//!
//! A response counts only if it is 200, JSON, complete, and has the expected members. An empty 200 is how
//! the upstream throttles; it never means "no data".

/// Longest body that is read, in bytes.
pub(super) const MAX_BODY_BYTES: usize = 8 << 20;

/// A complete HTTP response.
#[derive(Clone, Debug, Default)]
pub(super) struct RawReply {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) retry_after_seconds: Option<u64>,
    /// `x-epic-correlation-id`, logged with faults.
    pub(super) correlation_id: Option<String>,
    pub(super) body: Vec<u8>,
}

/// The content of a response, or the reason why there is none.
pub(super) type Reply<T> = Result<T, ReplyError>;

/// The reason why a response has no usable content.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyError {
    /// The upstream wants fewer requests, or a proxy in front of it has no connection to it: 429, an empty
    /// 200, 5xx, HTML.
    Throttled {
        reason: String,
        retry_after_seconds: Option<u64>,
    },
    /// 404: the island is not public any more.
    Gone,
    /// 400: the request was wrong.
    Rejected(String),
    /// No response, or one that cannot be used: cut short, another type, not JSON, members missing.
    Broken(String),
}

/// Returns whether the upstream answered the request, also if with 404.
pub(super) fn is_answered<T>(reply: &Reply<T>) -> bool {
    matches!(reply, Ok(_) | Err(ReplyError::Gone))
}

/// Classifies a response; `parse` reads the body of a 200.
pub(super) fn classify<T>(
    raw: Result<RawReply, String>,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Reply<T> {
    let raw = raw.map_err(ReplyError::Broken)?;
    let with_id = |problem| with_correlation_id(problem, raw.correlation_id.as_deref());
    let throttled = |reason: String| ReplyError::Throttled {
        reason: with_id(reason),
        retry_after_seconds: raw.retry_after_seconds,
    };
    let broken = |problem: String| ReplyError::Broken(with_id(problem));
    let media_type = raw.content_type.split(';').next();
    let media_type = media_type.unwrap_or_default().trim();
    Err(match raw.status {
        200 if raw.body.iter().all(u8::is_ascii_whitespace) => throttled("an empty 200".to_owned()),
        200 if media_type.eq_ignore_ascii_case("text/html") => throttled("an HTML page".to_owned()),
        200 if !media_type.eq_ignore_ascii_case("application/json") => broken(format!(
            "the content type must be application/json, got {media_type:?}"
        )),
        200 => return parse(&raw.body).map_err(broken),
        429 | 500..=599 => throttled(format!("status {}", raw.status)),
        404 => ReplyError::Gone,
        // Of a proxy: a challenge, or an error of its own.
        status if media_type.eq_ignore_ascii_case("text/html") => {
            throttled(format!("an HTML page with status {status}"))
        }
        400 => ReplyError::Rejected(with_id(format!("status 400: {}", excerpt(&raw.body)))),
        status => broken(format!(
            "the status must be 200, got {status}: {}",
            excerpt(&raw.body)
        )),
    })
}

/// Adds the upstream's id of a response to a problem.
pub(super) fn with_correlation_id(problem: String, id: Option<&str>) -> String {
    match id {
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

    fn reply(status: u16, content_type: &str, body: &str) -> RawReply {
        RawReply {
            status,
            content_type: content_type.to_owned(),
            body: body.as_bytes().to_vec(),
            ..RawReply::default()
        }
    }

    fn class(raw: Result<RawReply, String>) -> &'static str {
        let parse = |body: &[u8]| match body {
            b"{}" => Ok(()),
            _ => Err("members are missing".to_owned()),
        };
        match classify(raw, parse) {
            Ok(()) => "usable",
            Err(ReplyError::Throttled { .. }) => "throttled",
            Err(ReplyError::Gone) => "gone",
            Err(ReplyError::Rejected(_)) => "rejected",
            Err(ReplyError::Broken(_)) => "broken",
        }
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
            (reply(404, json, "{}"), "gone"),
            (reply(404, "text/plain", "404"), "gone"),
            (
                reply(403, "text/html; charset=utf-8", "<html>"),
                "throttled",
            ),
            (reply(403, json, "{}"), "broken"),
            (reply(429, "text/plain", ""), "throttled"),
            (reply(500, json, "{}"), "throttled"),
            (reply(522, "text/html", "<html>"), "throttled"),
        ] {
            assert_eq!(class(Ok(raw.clone())), want, "{raw:?}");
        }
        assert_eq!(class(Err("connection reset".to_owned())), "broken");
    }

    #[test]
    fn a_fault_names_its_correlation_id_and_no_control_characters() {
        let mut raw = reply(400, "application/json", "a\u{7}\nb");
        raw.correlation_id = Some("FN-1".to_owned());
        let Err(ReplyError::Rejected(problem)) = classify(Ok(raw), |_| Ok(())) else {
            panic!("rejected");
        };
        assert_eq!(problem, "status 400: \"ab\" (x-epic-correlation-id FN-1)");
    }
}
