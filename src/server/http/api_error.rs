//! `ApiError`: the reason why a request fails, with its status, code and message (SPEC section 7).

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use hyper::StatusCode;

use crate::request::{Argument, Payload, Quoted, Route, RouteError};
use crate::server::http::identity::KeyError;

/// Seconds after which a client should retry a 500 or 503; a publisher refreshes every ten minutes.
const RETRY_SECONDS: u32 = 60;

/// The reason why a request fails. Messages are for developers and may change.
#[derive(Debug)]
pub(crate) enum ApiError {
    BadRequest(String),
    InvalidKey(&'static str),
    KeyRevoked,
    NotFound(String),
    /// The method is not allowed; POST is where the path takes forms.
    MethodNotAllowed {
        method: String,
        takes_forms: bool,
    },
    RateLimited {
        has_key: bool,
        limit: u32,
        reset_seconds: u32,
        /// The page that issues free keys and their limit, if that helps the client.
        free_key: Option<(String, u32)>,
    },
    NotReady(Payload),
    NoDumps,
    /// Hyper could not parse the head; the status is the reason.
    UnreadableHead(StatusCode),
    Damaged,
    /// The limit of concurrent downloads is reached, in all or for one address.
    Busy,
    /// The file belongs to an earlier publish, and the server has not loaded the current one yet.
    Superseded,
    /// The store of shared quotas does not answer, and this server may admit nothing alone; or the key has no counter.
    NoQuotaStore,
    /// The client opens pages at too high a rate; the seconds after which to retry.
    TooManyPages(u32),
    /// A refusal of sign-up, with the seconds after which to retry, where time alone helps.
    SignUp {
        status: StatusCode,
        message: String,
        retry_after: Option<u32>,
    },
    /// `If-Match` or `If-Unmodified-Since` does not hold.
    PreconditionFailed,
    /// The range lies behind the end of a file of this length.
    RangeNotSatisfiable {
        bytes: u64,
    },
}

impl ApiError {
    /// The error of a route that names nothing published.
    pub(crate) fn not_tracked(route: &Route) -> ApiError {
        ApiError::NotFound(match &route.argument {
            Argument::Code(code) => format!("island {code} is not tracked"),
            Argument::Slug(slug) => format!("creator {} is not tracked", Quoted(slug)),
            Argument::Day(day) => {
                let index = route.endpoint.label().trim_end_matches("/{date}");
                format!("day {day} is not available; the available days are listed at {index}")
            }
            _ => "not tracked".to_owned(),
        })
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.kind().0
    }

    fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            ApiError::BadRequest(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            ApiError::UnreadableHead(status) => (*status, "bad_request"),
            ApiError::InvalidKey(_) => (StatusCode::UNAUTHORIZED, "invalid_key"),
            ApiError::KeyRevoked => (StatusCode::FORBIDDEN, "key_revoked"),
            ApiError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            ApiError::MethodNotAllowed { .. } => {
                (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed")
            }
            ApiError::RateLimited { .. } | ApiError::TooManyPages(_) => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited")
            }
            ApiError::NotReady(_)
            | ApiError::NoDumps
            | ApiError::Busy
            | ApiError::Superseded
            | ApiError::NoQuotaStore => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
            ApiError::SignUp { status, .. } => (*status, sign_up_code(*status)),
            ApiError::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            ApiError::PreconditionFailed => {
                (StatusCode::PRECONDITION_FAILED, "precondition_failed")
            }
            ApiError::RangeNotSatisfiable { .. } => {
                (StatusCode::RANGE_NOT_SATISFIABLE, "range_not_satisfiable")
            }
        }
    }

    /// Seconds after which to retry, where time alone helps.
    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        match self {
            ApiError::RateLimited {
                reset_seconds: seconds,
                ..
            }
            | ApiError::TooManyPages(seconds) => Some(*seconds),
            ApiError::NotReady(_) | ApiError::NoDumps | ApiError::Busy | ApiError::Damaged => {
                Some(RETRY_SECONDS)
            }
            ApiError::Superseded | ApiError::NoQuotaStore => Some(1),
            ApiError::SignUp { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(crate) fn message(&self) -> Cow<'_, str> {
        let message = match self {
            ApiError::BadRequest(message)
            | ApiError::NotFound(message)
            | ApiError::SignUp { message, .. } => message,
            ApiError::InvalidKey(message) => *message,
            ApiError::KeyRevoked => {
                "this key is revoked; the publisher of the service can restore it"
            }
            ApiError::MethodNotAllowed {
                method,
                takes_forms,
            } => {
                let allowed = if *takes_forms { "HEAD, POST" } else { "HEAD" };
                let method = Quoted(method);
                return format!("method {method} is not allowed; use GET, {allowed} or OPTIONS")
                    .into();
            }
            ApiError::RateLimited {
                has_key,
                limit,
                reset_seconds,
                free_key,
            } => {
                let sent = if *has_key { "a key" } else { "no key" };
                let advice = match free_key {
                    Some((page, limit)) => format!("a free key from {page} allows {limit} a day"),
                    None => format!("it resets at 00:00 UTC, in {reset_seconds} seconds"),
                };
                return format!(
                    "the daily quota of {limit} requests is spent ({sent} was sent); {advice}"
                )
                .into();
            }
            ApiError::NotReady(payload) => {
                let payload = payload.as_str();
                return format!("{payload} has not been published; see /v1/health").into();
            }
            ApiError::NoDumps => "no dumps have been published",
            ApiError::Busy => "too many downloads are in progress; try again in a minute",
            ApiError::Superseded => {
                "a newer publish has replaced or removed the file; try again in a second"
            }
            ApiError::TooManyPages(_) => {
                "your address has opened too many pages in a short time; try again in a few seconds; \
                 programs should use the API or the dumps"
            }
            ApiError::NoQuotaStore => {
                "your remaining quota cannot be determined at the moment; try again in a second"
            }
            ApiError::UnreadableHead(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) => {
                "the request line and headers together exceed 8 KiB or 100 lines"
            }
            // The cause is not known here.
            ApiError::UnreadableHead(_) => {
                "the request is not well-formed HTTP/1.1; a common cause is a target in which spaces, \", <, >, `, control \
                 characters or bytes that are not UTF-8 are not percent-encoded: %20 is a space, %22 is \""
            }
            ApiError::Damaged => {
                "the published response is damaged and cannot be sent; the publisher must publish it again"
            }
            ApiError::PreconditionFailed => {
                "the file is not the one that If-Match or If-Unmodified-Since names"
            }
            ApiError::RangeNotSatisfiable { bytes } => {
                return format!("the range lies outside the file, which has {bytes} bytes").into();
            }
        };
        message.into()
    }

    /// The body of SPEC section 7.
    pub(crate) fn body(&self) -> Bytes {
        let (_, code) = self.kind();
        let message = self.message();
        let error = BTreeMap::from([("code", code), ("message", &message)]);
        serde_json::to_vec(&BTreeMap::from([("error", error)]))
            .expect("two strings serialize")
            .into()
    }
}

/// The code of a refusal of sign-up (SPEC section 7).
fn sign_up_code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::TOO_MANY_REQUESTS => "rate_limited",
        StatusCode::SERVICE_UNAVAILABLE => "not_ready",
        _ => "bad_request",
    }
}

impl From<RouteError> for ApiError {
    fn from(error: RouteError) -> ApiError {
        match error {
            RouteError::BadRequest(message) => ApiError::BadRequest(message),
            RouteError::NotFound(message) => ApiError::NotFound(message),
        }
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> ApiError {
        ApiError::InvalidKey(match error {
            KeyError::Revoked => return ApiError::KeyRevoked,
            KeyError::Scheme => {
                "the Authorization header must have the form Bearer KEY; omit it to use the service anonymously"
            }
            KeyError::Twice => {
                "the Authorization header and the query parameter key must each be sent only once"
            }
            KeyError::Misplaced => {
                "a key must be sent in the header Authorization: Bearer KEY, or as the query parameter key; X-API-Key and parameters such as api_key or token are not read"
            }
            KeyError::Invalid => "this key is not valid; omit it to use the service anonymously",
        })
    }
}
