//! `ApiResponse`: status, header lines and body of a response, by the header rules of CONTRACT
//! section 6.
//!
//! Header lines are text from the start: most are the same for all responses of a kind, and hyper
//! would hash, store, walk and copy each of them. `TimedIo` puts the text behind the status line.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::ops::Range;

use bytes::Bytes;
use hyper::StatusCode;

use crate::calendar::UnixSeconds;
use crate::observe::LocalCounter;
use crate::quota::LeaseWait;
use crate::request::Endpoint;
use crate::server::conn::context::ResponseBody;
use crate::server::conn::send_buffer::take_buffer;
use crate::server::http::api_error::ApiError;
use crate::server::http::body::Download;
use crate::server::http::identity::QuotaStatus;
use crate::signup::SignupRequest;
use crate::snapshot::{Content, Dump, Encoded};

/// On every response that pages of other sites may read.
const CROSS_ORIGIN: &str = "access-control-allow-origin: *\r\n\
    access-control-expose-headers: Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Link, Retry-After, X-Ignored-Parameters, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id\r\n\
    x-content-type-options: nosniff\r\n";
/// The end of these lines: the part that is on all responses.
const SAME_ORIGIN: &str = "x-content-type-options: nosniff\r\n";
/// For bodies that stay the same for as long as a refresh may go unnoticed.
pub(in crate::server) const CACHED_A_MINUTE: &str = "cache-control: private, max-age=60\r\n\
    vary: Accept-Encoding, Authorization\r\n";
/// The bounds of `max-age` of a body whose next version is due at a known time. The minimum keeps clients from
/// requesting a late version in a loop. The maximum is the interval of live steps; it limits the effect of a
/// wrong time.
const MAX_AGE: (i64, i64) = (60, 600);
pub(in crate::server) const REVALIDATED: &str = "cache-control: private, max-age=0\r\n\
    vary: Accept-Encoding, Authorization\r\n";
/// For dumps, which are the same for all clients. Their names stay and their bytes change: caches
/// revalidate once a minute, the time for which the index may be older than a file.
pub(in crate::server) const PUBLIC: &str = "cache-control: public, max-age=60, must-revalidate\r\n";
pub(in crate::server) const JSON: &str = "content-type: application/json\r\n";
const GZIP: &str = "content-encoding: gzip\r\n";
/// Clients may send any header: the server ignores those that it does not know. `*` does not cover
/// `Authorization`, and older browsers do not support it, so headers that clients and tracing libraries
/// add are named too. Browsers cache this for a day at most.
const PREFLIGHT: &str = "access-control-allow-methods: GET, HEAD, OPTIONS\r\n\
    access-control-allow-headers: Authorization, Baggage, Cache-Control, Content-Type, If-Match, \
    If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Pragma, Range, Sentry-Trace, \
    Traceparent, Tracestate, X-Requested-With, *\r\n\
    access-control-max-age: 86400\r\n";
const ERROR: &str = "content-type: application/json\r\n\
    cache-control: no-store\r\n";
const ALLOW: &str = "allow: GET, HEAD, OPTIONS\r\n";
const ALLOW_FORMS: &str = "allow: GET, HEAD, OPTIONS, POST\r\n";
const AUTHENTICATE: &str = "www-authenticate: Bearer\r\n";

/// The source of a worker's request ids: numbers that identify a response, in its head and in the
/// access log. The hash of a counter with a secret, so that an id reveals neither the next one nor
/// the number of responses. Among a billion ids, two are equal with a probability of 3 percent.
#[derive(Debug, Default)]
pub(crate) struct RequestIds {
    secret: RandomState,
    count: LocalCounter,
}

impl RequestIds {
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.count.add(1);
        self.secret.hash_one(self.count.get())
    }
}

/// A response before it is an HTTP message. Not shown by `Debug`: the body may hold a key.
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) gzip: bool,
    /// All header lines except `content-length`, the quota and the request id. A buffer of the
    /// worker's pool, unless `pending_body` supplies the response.
    pub(crate) lines: Vec<u8>,
    /// The body in memory; empty with 204 and 304, and where `pending_body` supplies it.
    pub(crate) body: ResponseBody,
    pub(crate) pending_body: Option<Box<PendingBody>>,
}

/// A body, or a whole response, that is not available immediately.
pub(crate) enum PendingBody {
    Download(Download),
    /// The store of shared quotas grants credits of a client; then the request is handled again.
    Lease(LeaseWait),
    /// The body is read if it has a form, and the sign-up service responds with a page.
    SignUp(SignupForm),
}

/// A request for `/keys`, parsed.
pub(crate) struct SignupForm {
    pub(crate) client: IpAddr,
    /// Whether errors are pages. They are JSON otherwise.
    pub(crate) accepts_html: bool,
    /// `None` for a form in the body, which is not read yet.
    pub(crate) request: Result<Option<SignupRequest>, InvalidForm>,
}

/// A form that is rejected without passing it to the sign-up service.
pub(crate) type InvalidForm = (StatusCode, String);

impl ApiResponse {
    /// A response that pages of other sites may read, without a body.
    pub(crate) fn new(status: StatusCode, lines: &[&str]) -> ApiResponse {
        let mut response = ApiResponse::with_lines(status, CROSS_ORIGIN.as_bytes());
        response.add(lines);
        response
    }

    /// Allows only pages of this service to read the response.
    pub(in crate::server) fn keep_same_origin(&mut self) {
        if self.lines.starts_with(CROSS_ORIGIN.as_bytes()) {
            self.lines.drain(..CROSS_ORIGIN.len() - SAME_ORIGIN.len());
        }
    }

    /// A response with these header lines, without a body.
    pub(in crate::server) fn with_lines(status: StatusCode, lines: &[u8]) -> ApiResponse {
        let mut buffer = take_buffer();
        buffer.extend_from_slice(lines);
        ApiResponse {
            status,
            gzip: false,
            lines: buffer,
            body: ResponseBody::Whole(Bytes::new()),
            pending_body: None,
        }
    }

    pub(in crate::server) fn add(&mut self, lines: &[&str]) {
        for lines in lines {
            self.lines.extend_from_slice(lines.as_bytes());
        }
    }

    /// 200 with a published body; 304 if the client has it.
    pub(crate) fn published(is_known: bool, body: Encoded, now: UnixSeconds) -> ApiResponse {
        let next_due = body.next_due;
        let mut response = ApiResponse::without_next_due(is_known, body);
        response.add_next_due(next_due, now);
        response
    }

    /// The part of the same that does not depend on the time.
    pub(crate) fn without_next_due(is_known: bool, body: Encoded) -> ApiResponse {
        let lines: &[&str] = match body.next_due {
            Some(_) => &[],
            None => &[CACHED_A_MINUTE],
        };
        ApiResponse::cacheable(is_known, body, lines, JSON)
    }

    /// Appends the lines of a body whose next version is due at a known time: caches keep it until then.
    #[inline]
    pub(crate) fn add_next_due(&mut self, next_due: Option<UnixSeconds>, now: UnixSeconds) {
        let Some(due) = next_due else { return };
        let seconds = due.0.saturating_sub(now.0).clamp(MAX_AGE.0, MAX_AGE.1);
        number(&mut self.lines, "cache-control: private, max-age=", seconds);
        self.add(&["\r\nvary: Accept-Encoding, Authorization\r\n"]);
    }

    /// Appends the line that names ignored parameters, unless the whole response is made later.
    pub(crate) fn add_ignored(&mut self, names: Option<&str>) {
        if let Some(names) = names.filter(|_| !self.lines.is_empty()) {
            line(&mut self.lines, "x-ignored-parameters: ", names.as_bytes());
        }
    }

    /// 200 with a body; 304 if the client has it. `lines` are the fixed ones of its kind.
    pub(crate) fn cacheable(
        is_known: bool,
        body: Encoded,
        lines: &[&str],
        content_type: &str,
    ) -> ApiResponse {
        let status = if is_known {
            StatusCode::NOT_MODIFIED
        } else {
            StatusCode::OK
        };
        let mut response = ApiResponse::new(status, &[]);
        line(&mut response.lines, "etag: ", body.etag.as_bytes());
        response.add(lines);
        if let Some(links) = &body.links {
            line(&mut response.lines, "link: ", links);
        }
        if is_known {
            return response;
        }
        let content_encoding = if body.gzip { GZIP } else { "" };
        response.add(&[content_type, content_encoding]);
        response.gzip = body.gzip;
        response.body = match body.content {
            Content::Whole(bytes) => ResponseBody::Whole(bytes),
            Content::Omitted(bytes) => ResponseBody::Omitted(bytes),
            // The caller opens it, with a permit.
            Content::Long(body) => ResponseBody::Omitted(Some(body.bytes())),
        };
        response
    }

    /// 200, 206 or 304 of a file of the dumps, whose date is shown as `modified`, without the body.
    pub(crate) fn dump(
        dump: &Dump,
        modified: UnixSeconds,
        (status, range): (StatusCode, Option<&Range<u64>>),
    ) -> ApiResponse {
        let (etag, modified) = (&dump.etag, modified.to_http());
        let validators = format!("etag: {etag}\r\nlast-modified: {modified}\r\n");
        let mut response = ApiResponse::new(status, &[&validators, PUBLIC]);
        if status != StatusCode::NOT_MODIFIED {
            let (accept, content_type) = ("accept-ranges: bytes\r\n", dump.file.media_type);
            response.add(&[accept, "content-type: ", content_type, "\r\n"]);
        }
        if let Some(range) = range {
            let (first, last, bytes) = (range.start, range.end - 1, dump.file.bytes);
            response.add(&[&format!("content-range: bytes {first}-{last}/{bytes}\r\n")]);
        }
        response
    }

    /// Takes the place of a response until `pending_body` supplies it. Has no buffer: many
    /// requests may be pending at a time.
    pub(crate) fn after(pending_body: PendingBody) -> ApiResponse {
        ApiResponse {
            status: StatusCode::SERVICE_UNAVAILABLE,
            gzip: false,
            lines: Vec::new(),
            body: ResponseBody::Omitted(None),
            pending_body: Some(Box::new(pending_body)),
        }
    }

    /// Sets the body, which must be opened.
    pub(crate) fn open(&mut self, download: Download) {
        self.pending_body = Some(Box::new(PendingBody::Download(download)));
    }

    /// 204 to OPTIONS. Forms may be posted by pages of this service only, which need no preflight.
    pub(crate) fn preflight(endpoint: Endpoint, takes_forms: bool) -> ApiResponse {
        let allow = if takes_forms { ALLOW_FORMS } else { ALLOW };
        let is_private = endpoint == Endpoint::Keys;
        let preflight = if is_private { "" } else { PREFLIGHT };
        ApiResponse::new(StatusCode::NO_CONTENT, &[allow, preflight])
    }

    /// Returns all header lines and the body. `connection` and `date` are not among the lines.
    pub(crate) fn complete(self, quota: QuotaStatus, id: u64) -> (Vec<u8>, ResponseBody) {
        let is_empty = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&self.status);
        let mut lines = self.lines;
        // Each text ends the line before it, which saves a copy.
        if let Some(bytes) = self.body.length().filter(|_| !is_empty) {
            number(&mut lines, "content-length: ", bytes);
            lines.extend_from_slice(b"\r\n");
        }
        number(&mut lines, "x-ratelimit-limit: ", quota.limit);
        number(&mut lines, "\r\nx-ratelimit-remaining: ", quota.remaining);
        number(&mut lines, "\r\nx-ratelimit-reset: ", quota.reset_seconds);
        line(&mut lines, "\r\nx-request-id: ", &hex_digits(id));
        (lines, self.body)
    }
}

/// The `retry-after` line, if there is a time after which to retry.
pub(in crate::server) fn retry_after(seconds: Option<u32>) -> String {
    seconds.map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"))
}

/// Header lines that depend on the error, for JSON and for pages.
pub(in crate::server) fn error_lines(error: &ApiError) -> String {
    let more = match error {
        ApiError::MethodNotAllowed {
            takes_forms: true, ..
        } => ALLOW_FORMS,
        ApiError::MethodNotAllowed { .. } => ALLOW,
        ApiError::InvalidKey(_) => AUTHENTICATE,
        ApiError::RangeNotSatisfiable { bytes } => &format!("content-range: bytes */{bytes}\r\n"),
        _ => "",
    };
    retry_after(error.retry_after_seconds()) + more
}

impl From<ApiError> for ApiResponse {
    #[cold]
    fn from(error: ApiError) -> ApiResponse {
        let mut response = ApiResponse::new(error.status(), &[ERROR, &error_lines(&error)]);
        response.body = ResponseBody::Whole(error.body());
        response
    }
}

fn hex_digits(id: u64) -> [u8; 16] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|at| {
        let digit = id >> (60 - 4 * at) & 15;
        DIGITS[usize::try_from(digit).expect("below 16")]
    })
}

/// Appends a line. Values are visible ASCII: entity tags, percent-encoded links, digits.
#[inline]
fn line(out: &mut Vec<u8>, start: &str, value: &[u8]) {
    out.extend_from_slice(start.as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a text and a number, without the end of the line.
#[inline]
fn number(out: &mut Vec<u8>, start: &str, value: impl itoa::Integer) {
    out.extend_from_slice(start.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
