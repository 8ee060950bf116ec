//! `ApiResponse`: status, header lines and body of a response, by the header rules of CONTRACT
//! section 6.
//!
//! Header lines are text from the start: most are the same for all responses of a kind, and hyper
//! would hash, store, walk and copy each of them. `TimedIo` puts the text behind the status line.

use std::fmt;
use std::sync::Arc;

use ahash::RandomState;
use bytes::Bytes;
use hyper::StatusCode;

use crate::observe::LocalCounter;
use crate::quota::LeaseWait;
use crate::server::conn::limiter::Permit;
use crate::server::conn::pending::ResponseBody;
use crate::server::http::api_error::ApiError;
use crate::server::http::body::Download;
use crate::server::http::conditional::{Part, Selection};
use crate::server::http::identity::QuotaStatus;
use crate::snapshot::{Content, Dump, DumpContent, Encoded, EntityTag};

/// On every response that pages of other sites may read.
const CROSS_ORIGIN: &str = "access-control-allow-origin: *\r\n\
    access-control-expose-headers: Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Link, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id\r\n\
    x-content-type-options: nosniff\r\n";
/// On all others.
const SAME_ORIGIN: &str = "x-content-type-options: nosniff\r\n";
/// For bodies that stay the same for as long as a refresh may go unnoticed.
pub(in crate::server) const CACHED_A_MINUTE: &str = "cache-control: private, max-age=60\r\n\
    vary: Accept-Encoding, Authorization\r\n";
/// For bodies that are revalidated with each request.
pub(in crate::server) const REVALIDATED: &str = "cache-control: private, max-age=0\r\n\
    vary: Accept-Encoding, Authorization\r\n";
/// For dumps, which are the same for all clients. Their names stay and their bytes change: caches
/// revalidate once a minute, the time for which the index may be older than a file.
const PUBLIC: &str = "cache-control: public, max-age=60, must-revalidate\r\n";
pub(in crate::server) const JSON: &str = "content-type: application/json\r\n";
const GZIP: &str = "content-encoding: gzip\r\n";
/// Headers that a browser may send; `*` would not cover `Authorization`. Browsers cache this for a
/// day at most.
const PREFLIGHT: &str = "access-control-allow-methods: GET, HEAD, OPTIONS\r\n\
    access-control-allow-headers: Authorization, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range\r\n\
    access-control-max-age: 86400\r\n";
const ERROR: &str = "content-type: application/json\r\n\
    cache-control: no-store\r\n";
const ALLOW: &str = "allow: GET, HEAD, OPTIONS\r\n";
const ALLOW_FORMS: &str = "allow: GET, HEAD, OPTIONS, POST\r\n";
const AUTHENTICATE: &str = "www-authenticate: Bearer\r\n";

/// A number that identifies a response, in its head and in the access log: sixteen hexadecimal
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(pub(crate) u64);

impl RequestId {
    fn digits(self) -> [u8; 16] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        std::array::from_fn(|at| {
            let digit = self.0 >> (60 - 4 * at) & 15;
            DIGITS[usize::try_from(digit).expect("below 16")]
        })
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The source of a worker's request ids: a counter, encrypted with a secret, so that an id reveals
/// neither the next one nor the number of responses. No id repeats.
#[derive(Debug)]
pub(crate) struct RequestIds {
    secret: RandomState,
    count: LocalCounter,
}

impl RequestIds {
    pub(crate) fn new() -> RequestIds {
        RequestIds {
            secret: RandomState::new(),
            count: LocalCounter::default(),
        }
    }

    /// The next id. A Feistel network of four rounds: it is a permutation, so different counts stay
    /// different, and with three rounds some structure of the count could still be seen.
    #[inline]
    pub(crate) fn next(&self) -> RequestId {
        self.count.add(1);
        let count = self.count.get();
        let (mut left, mut right) = (count >> 32, count & u64::from(u32::MAX));
        for round in 0..4_u32 {
            let mixed = self.secret.hash_one((round, right)) >> 32;
            (left, right) = (right, left ^ mixed);
        }
        RequestId(left << 32 | right)
    }
}

/// A response before it is an HTTP message. Not shown by `Debug`: the body may hold a key.
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    /// Whether pages of other sites may read it.
    pub(crate) is_cross_origin: bool,
    pub(crate) etag: Option<EntityTag>,
    /// The fixed header lines of its kind.
    pub(crate) lines: &'static [&'static str],
    pub(crate) link: Option<Bytes>,
    /// The `content-type` line where it is not among `lines`; empty with 304.
    pub(crate) content_type: &'static str,
    pub(crate) gzip: bool,
    pub(crate) retry_after_seconds: Option<u32>,
    /// Header lines with values of their own, which few kinds have.
    pub(crate) more_lines: String,
    /// The text that `write_shared_lines` would write, if the worker's cache has it: the fields that it
    /// is made from are not set then.
    pub(crate) prepared_lines: Option<Bytes>,
    /// The body in memory; empty with 204 and 304, and where `pending_body` supplies it.
    pub(crate) body: ResponseBody,
    pub(crate) pending_body: Option<Box<PendingBody>>,
}

/// A body that takes waiting.
pub(crate) enum PendingBody {
    /// It is read from a disk, with the permit that this takes unless for HEAD.
    Download(Download, Option<Permit>),
    /// The store of shared quotas grants credits; then the request is handled again.
    Lease(LeaseWait),
    /// The form of sign-up is read, and the sign-up service responds to it with a page.
    SignUp,
}

impl ApiResponse {
    /// A response without a body.
    pub(crate) fn new(status: StatusCode, lines: &'static [&'static str]) -> ApiResponse {
        ApiResponse {
            status,
            is_cross_origin: true,
            etag: None,
            lines,
            link: None,
            content_type: "",
            gzip: false,
            retry_after_seconds: None,
            more_lines: String::new(),
            prepared_lines: None,
            body: ResponseBody::Whole(Bytes::new()),
            pending_body: None,
        }
    }

    /// 200 with a body; 304 if the client has it.
    pub(crate) fn cacheable(
        is_known: bool,
        body: Encoded,
        lines: &'static [&'static str],
        content_type: &'static str,
    ) -> ApiResponse {
        let mut response = ApiResponse::new(StatusCode::NOT_MODIFIED, lines);
        response.etag = Some(body.etag);
        response.link = body.links;
        if is_known {
            return response;
        }
        response.status = StatusCode::OK;
        response.content_type = content_type;
        response.gzip = body.gzip;
        match body.content {
            Content::Whole(bytes) => response.body = ResponseBody::Whole(bytes),
            Content::Omitted(bytes) => {
                response.body = ResponseBody::Omitted(bytes);
            }
            Content::Long(body) => {
                let body = PendingBody::Download(Download::Body(*body), None);
                response.pending_body = Some(Box::new(body));
            }
        }
        response
    }

    /// 200, 206 or 304 of a file of the dumps. `varies` if browsers get a page at its path.
    pub(crate) fn dump(dump: &Arc<Dump>, selection: Selection, varies: bool) -> ApiResponse {
        let (status, part) = match selection {
            Selection::Whole => (StatusCode::OK, Part::all(dump.file.bytes)),
            Selection::Part(part) => (StatusCode::PARTIAL_CONTENT, Some(part)),
            Selection::NotModified => (StatusCode::NOT_MODIFIED, None),
        };
        let mut response = ApiResponse::new(status, &[]);
        let vary = if varies { "vary: Accept\r\n" } else { "" };
        let (etag, modified) = (&dump.etag, dump.modified.to_http());
        response.more_lines =
            format!("{vary}etag: {etag}\r\nlast-modified: {modified}\r\n{PUBLIC}");
        if status != StatusCode::NOT_MODIFIED {
            let content_type = dump.content_type;
            let lines = format!("accept-ranges: bytes\r\ncontent-type: {content_type}\r\n");
            response.more_lines.push_str(&lines);
        }
        if let Selection::Part(Part { first, last }) = selection {
            let line = format!(
                "content-range: bytes {first}-{last}/{}\r\n",
                dump.file.bytes
            );
            response.more_lines.push_str(&line);
        }
        match (part, &dump.content) {
            (Some(part), DumpContent::Memory(bytes)) => {
                response.body = ResponseBody::Whole(part.of(bytes));
            }
            (Some(part), DumpContent::File(_)) => {
                let download = Download::Dump(Arc::clone(dump), part);
                response.pending_body = Some(Box::new(PendingBody::Download(download, None)));
            }
            (None, _) => {}
        }
        response
    }

    /// Takes the place of a response until the store of shared quotas has answered.
    pub(crate) fn after_lease(wait: LeaseWait) -> ApiResponse {
        let mut response = ApiResponse::new(StatusCode::SERVICE_UNAVAILABLE, &[]);
        response.pending_body = Some(Box::new(PendingBody::Lease(wait)));
        response
    }

    /// 204 to OPTIONS. Forms may be posted by pages of this service only, which need no preflight.
    pub(crate) fn preflight(takes_forms: bool) -> ApiResponse {
        let lines: &[&str] = if takes_forms {
            &[ALLOW_FORMS, PREFLIGHT]
        } else {
            &[ALLOW, PREFLIGHT]
        };
        ApiResponse::new(StatusCode::NO_CONTENT, lines)
    }

    /// Appends the header lines, but for `connection` and `date`.
    pub(crate) fn write_lines(&self, quota: QuotaStatus, id: RequestId, out: &mut Vec<u8>) {
        number(out, "x-ratelimit-limit: ", quota.limit);
        number(out, "x-ratelimit-remaining: ", quota.remaining);
        number(out, "x-ratelimit-reset: ", quota.reset_seconds);
        line(out, "x-request-id: ", &id.digits());
        match &self.prepared_lines {
            Some(lines) => out.extend_from_slice(lines),
            None => self.write_shared_lines(out),
        }
    }

    /// Appends the lines that are the same for all clients.
    #[inline(never)]
    pub(crate) fn write_shared_lines(&self, out: &mut Vec<u8>) {
        let common = if self.is_cross_origin {
            CROSS_ORIGIN
        } else {
            SAME_ORIGIN
        };
        out.extend_from_slice(common.as_bytes());
        if let Some(etag) = &self.etag {
            line(out, "etag: ", etag.as_bytes());
        }
        for text in self.lines {
            out.extend_from_slice(text.as_bytes());
        }
        if let Some(link) = &self.link {
            line(out, "link: ", link);
        }
        out.extend_from_slice(self.content_type.as_bytes());
        if self.gzip {
            out.extend_from_slice(GZIP.as_bytes());
        }
        if let Some(seconds) = self.retry_after_seconds {
            number(out, "retry-after: ", seconds);
        }
        out.extend_from_slice(self.more_lines.as_bytes());
        let has_length = match self.body {
            ResponseBody::Omitted(None) => false,
            _ => !matches!(
                self.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            ),
        };
        if has_length {
            number(out, "content-length: ", self.body.bytes());
        }
    }
}

impl From<ApiError> for ApiResponse {
    #[cold]
    fn from(error: ApiError) -> ApiResponse {
        let lines: &[&str] = match error {
            ApiError::MethodNotAllowed {
                takes_forms: true, ..
            } => &[ERROR, ALLOW_FORMS],
            ApiError::MethodNotAllowed { .. } => &[ERROR, ALLOW],
            ApiError::InvalidKey(_) => &[ERROR, AUTHENTICATE],
            _ => &[ERROR],
        };
        let mut response = ApiResponse::new(error.status(), lines);
        response.retry_after_seconds = error.retry_after_seconds();
        if let ApiError::RangeNotSatisfiable { bytes } = error {
            response.more_lines = format!("content-range: bytes */{bytes}\r\n");
        }
        response.body = ResponseBody::Whole(error.body());
        response
    }
}

/// Appends a line. Values are visible ASCII: entity tags, percent-encoded links, digits.
#[inline]
fn line(out: &mut Vec<u8>, start: &str, value: &[u8]) {
    out.extend_from_slice(start.as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn number(out: &mut Vec<u8>, start: &str, value: impl itoa::Integer) {
    line(out, start, itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
