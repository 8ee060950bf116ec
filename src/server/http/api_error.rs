//! The failures of SPEC section 7, and 405, 412 and 416.

use bytes::Bytes;
use hyper::StatusCode;
use serde::Serialize;

/// Seconds to wait for a payload that is not published; a publisher refreshes every ten minutes.
const NOT_READY_SECONDS: u32 = 60;

/// Why a request is not answered with 200. The texts are for people and may change.
#[derive(Debug)]
pub(crate) enum ApiError {
    BadRequest(String),
    InvalidKey(&'static str),
    KeyRevoked,
    NotFound(String),
    /// Whether the path takes forms says the member.
    MethodNotAllowed {
        takes_forms: bool,
    },
    RateLimited {
        limit: u32,
    },
    NotReady,
    /// No dumps have been published.
    NoDumps,
    /// The request's head could not be read; the status says why.
    UnreadableHead(StatusCode),
    /// A published body is damaged.
    Damaged,
    /// As many dumps and long bodies are being sent as may be at a time, in all or to one address.
    Busy,
    /// `If-Match` or `If-Unmodified-Since` does not hold.
    PreconditionFailed,
    /// The range lies behind the end of what has this many bytes.
    RangeNotSatisfiable {
        bytes: u64,
    },
}

impl ApiError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            ApiError::BadRequest(_) => StatusCode::BAD_REQUEST,
            ApiError::InvalidKey(_) => StatusCode::UNAUTHORIZED,
            ApiError::KeyRevoked => StatusCode::FORBIDDEN,
            ApiError::NotFound(_) => StatusCode::NOT_FOUND,
            ApiError::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            ApiError::NotReady | ApiError::NoDumps | ApiError::Busy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ApiError::UnreadableHead(status) => *status,
            ApiError::Damaged => StatusCode::INTERNAL_SERVER_ERROR,
            ApiError::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            ApiError::RangeNotSatisfiable { .. } => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            ApiError::BadRequest(_) | ApiError::UnreadableHead(_) => "bad_request",
            ApiError::InvalidKey(_) => "invalid_key",
            ApiError::KeyRevoked => "key_revoked",
            ApiError::NotFound(_) => "not_found",
            ApiError::MethodNotAllowed { .. } => "method_not_allowed",
            ApiError::RateLimited { .. } => "rate_limited",
            ApiError::NotReady | ApiError::NoDumps | ApiError::Busy => "not_ready",
            ApiError::Damaged => "internal",
            ApiError::PreconditionFailed => "precondition_failed",
            ApiError::RangeNotSatisfiable { .. } => "range_not_satisfiable",
        }
    }

    /// When to try again, where time alone helps and no quota is in the way.
    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        match self {
            ApiError::NotReady | ApiError::NoDumps | ApiError::Busy | ApiError::Damaged => {
                Some(NOT_READY_SECONDS)
            }
            _ => None,
        }
    }

    /// The cause in words.
    pub(crate) fn message(&self) -> String {
        match self {
            ApiError::BadRequest(message) | ApiError::NotFound(message) => message.clone(),
            ApiError::InvalidKey(message) => (*message).to_owned(),
            ApiError::KeyRevoked => "this key is disabled; its publisher can restore it".to_owned(),
            ApiError::MethodNotAllowed { takes_forms: true } => {
                "this method is not allowed; want GET, HEAD, POST or OPTIONS".to_owned()
            }
            ApiError::MethodNotAllowed { takes_forms: false } => {
                "this method is not allowed; want GET, HEAD or OPTIONS".to_owned()
            }
            ApiError::RateLimited { limit } => {
                format!(
                    "the daily quota of {limit} requests is spent; retry after the UTC reset, see Retry-After"
                )
            }
            ApiError::NotReady => {
                "this payload has not been published yet; it clears at the next refresh".to_owned()
            }
            ApiError::NoDumps => {
                "no dumps have been published here; publishing makes them, and the sample has none"
                    .to_owned()
            }
            ApiError::Busy => {
                "too many downloads are in progress; try again in a minute".to_owned()
            }
            ApiError::UnreadableHead(StatusCode::URI_TOO_LONG) => {
                "the request target is too long".to_owned()
            }
            ApiError::UnreadableHead(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) => {
                "the request line and headers are longer than 8 KiB together, or more than 100 lines"
                    .to_owned()
            }
            ApiError::UnreadableHead(_) => "the request is not well-formed HTTP/1.1".to_owned(),
            ApiError::Damaged => {
                "the published answer is damaged; it clears when it is published anew".to_owned()
            }
            ApiError::PreconditionFailed => {
                "the file is not the one that If-Match or If-Unmodified-Since names".to_owned()
            }
            ApiError::RangeNotSatisfiable { bytes } => {
                format!("the range lies outside the file, which has {bytes} bytes")
            }
        }
    }

    /// The body of SPEC section 7.
    pub(crate) fn body(&self) -> Bytes {
        #[derive(Serialize)]
        struct Members {
            code: &'static str,
            message: String,
        }
        #[derive(Serialize)]
        struct Envelope {
            error: Members,
        }
        let envelope = Envelope {
            error: Members {
                code: self.code(),
                message: self.message(),
            },
        };
        serde_json::to_vec(&envelope)
            .expect("two strings serialize")
            .into()
    }
}
