//! `Answer`: status, headers and body of a response; every header rule of CONTRACT section 6.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::api_error::ApiError;
use crate::snapshot::Encoded;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const EXPOSED: &str =
    "ETag, Link, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset";
const METHODS: &str = "GET, HEAD, OPTIONS";
/// What a browser may send; `*` would not cover `Authorization`.
const REQUEST_HEADERS: &str = "Authorization, If-None-Match";
/// A day: as long as browsers keep a preflight at most.
const PREFLIGHT_SECONDS: &str = "86400";
/// Seconds to wait for a payload that is not published; a publisher refreshes every ten minutes.
const NOT_READY_SECONDS: u32 = 60;

/// A client's figures of the day (SPEC section 8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) reset_seconds: u32,
}

/// Pages change with the program only.
const PAGE_MAX_AGE_SECONDS: u32 = 60;
/// Pages hold their own style and nothing else.
const PAGE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// What a request is answered with, before it is an HTTP message.
#[derive(Debug)]
pub(crate) enum Answer {
    /// 200, or 304 where the client knows the entity tag.
    Found {
        body: Encoded,
        links: Option<Bytes>,
        max_age_seconds: u32,
        known: bool,
    },
    /// A page for people: 200, or 304.
    Page { body: Encoded, known: bool },
    /// 204 to OPTIONS.
    Preflight,
    /// A failure.
    Failed(ApiError),
}

impl Answer {
    /// The HTTP message. `close` ends the connection after it.
    pub(crate) fn into_response(self, limits: Limits, close: bool) -> Response<Full<Bytes>> {
        let mut headers = HeaderMap::with_capacity(20);
        common(&mut headers, limits);
        if close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let (status, body) = match self {
            Answer::Found {
                body,
                links,
                max_age_seconds,
                known,
            } => {
                found(&mut headers, &body, links, max_age_seconds);
                content(
                    &mut headers,
                    body,
                    HeaderValue::from_static("application/json"),
                    known,
                )
            }
            Answer::Page { body, known } => {
                found(&mut headers, &body, None, PAGE_MAX_AGE_SECONDS);
                headers.insert(
                    header::CONTENT_SECURITY_POLICY,
                    HeaderValue::from_static(PAGE_POLICY),
                );
                content(
                    &mut headers,
                    body,
                    HeaderValue::from_static("text/html; charset=utf-8"),
                    known,
                )
            }
            Answer::Preflight => {
                preflight(&mut headers);
                (StatusCode::NO_CONTENT, Bytes::new())
            }
            Answer::Failed(error) => {
                failed(&mut headers, &error, limits);
                (error.status(), error.body())
            }
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Status and body of what was found; a client that knows it gets neither type nor bytes.
fn content(
    headers: &mut HeaderMap,
    body: Encoded,
    kind: HeaderValue,
    known: bool,
) -> (StatusCode, Bytes) {
    if known {
        return (StatusCode::NOT_MODIFIED, Bytes::new());
    }
    headers.insert(header::CONTENT_TYPE, kind);
    if body.gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    (StatusCode::OK, body.bytes)
}

fn common(headers: &mut HeaderMap, limits: Limits) {
    headers.insert(LIMIT, limits.limit.into());
    headers.insert(REMAINING, limits.remaining.into());
    headers.insert(RESET, limits.reset_seconds.into());
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(EXPOSED),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
}

fn found(headers: &mut HeaderMap, body: &Encoded, links: Option<Bytes>, max_age_seconds: u32) {
    headers.insert(header::ETAG, value(body.etag.clone()));
    headers.insert(header::CACHE_CONTROL, max_age(max_age_seconds));
    headers.insert(
        header::VARY,
        HeaderValue::from_static("Accept-Encoding, Authorization"),
    );
    if let Some(links) = links {
        headers.insert(header::LINK, value(links));
    }
}

/// The few ages that are used, so that none is formatted for a request.
fn max_age(seconds: u32) -> HeaderValue {
    match seconds {
        0 => HeaderValue::from_static("private, max-age=0"),
        60 => HeaderValue::from_static("private, max-age=60"),
        _ => value(format!("private, max-age={seconds}").into()),
    }
}

fn preflight(headers: &mut HeaderMap) {
    headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(METHODS),
    );
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(REQUEST_HEADERS),
    );
    headers.insert(
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static(PREFLIGHT_SECONDS),
    );
}

fn failed(headers: &mut HeaderMap, error: &ApiError, limits: Limits) {
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match error {
        ApiError::RateLimited { .. } => {
            headers.insert(header::RETRY_AFTER, limits.reset_seconds.into());
        }
        ApiError::NotReady | ApiError::Damaged => {
            headers.insert(header::RETRY_AFTER, NOT_READY_SECONDS.into());
        }
        ApiError::MethodNotAllowed => {
            headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
        }
        ApiError::InvalidKey(_) => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
}

/// A header value of our own making: entity tags and percent-encoded links are visible ASCII.
fn value(bytes: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(bytes).expect("tags and links are visible ASCII")
}
