//! `Answer`: status, header lines and body of a response; every header rule of CONTRACT section 6.
//!
//! Header lines are text from the start: most are the same for all answers of a kind, and hyper is
//! not made to take them apart and put them together again. The guard puts them into the head.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;

use crate::server::http::api_error::ApiError;
use crate::server::http::body::{Download, ResponseBody};
use crate::server::http::conditional::{Part, Selection};
use crate::server::http::lines::{figure, found, line};
use crate::server::http::request_id::RequestId;
use crate::server::web::page::{Notice, Page};
use crate::snapshot::{Content, Dump, DumpFormat, Encoded};

/// On every answer.
const COMMON: &str = "access-control-allow-origin: *\r\n\
    access-control-expose-headers: Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified, Link, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id\r\n\
    x-content-type-options: nosniff\r\n";
/// Of these, what is on pages that only our own may read.
const NOSNIFF: &str = "x-content-type-options: nosniff\r\n";
/// On 200 and 304: as long as a refresh may go unnoticed.
const KEPT: &str = "cache-control: private, max-age=60\r\n\
    vary: Accept-Encoding, Authorization\r\n";
/// The same of what is true now only.
const ASKED_ANEW: &str = "cache-control: private, max-age=0\r\n\
    vary: Accept-Encoding, Authorization\r\n";
/// Of dumps, which are the same for everybody. Names keep, bytes change: caches ask again once a minute,
/// as long as the index may be older than a file.
const KEPT_BY_ALL: &str = "cache-control: public, max-age=60, must-revalidate\r\n";
const VARY_BY_ACCEPT: &str = "vary: Accept\r\n";
const RANGES: &str = "accept-ranges: bytes\r\n";
const JSON: &str = "content-type: application/json\r\n";
const CSV: &str = "content-type: text/csv; charset=utf-8\r\n";
const GZIP_FILE: &str = "content-type: application/gzip\r\n";
const BYTES: &str = "content-type: application/octet-stream\r\n";
const GZIP: &str = "content-encoding: gzip\r\n";
/// A browser may send these; `*` would not cover `Authorization`. It may remember that for a day, which is
/// as long as browsers do.
const PREFLIGHT: &str = "access-control-allow-methods: GET, HEAD, OPTIONS\r\n\
    access-control-allow-headers: Authorization, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Range\r\n\
    access-control-max-age: 86400\r\n";
const FAILED: &str = "content-type: application/json\r\n\
    cache-control: no-store\r\n";
const ALLOW: &str = "allow: GET, HEAD, OPTIONS\r\n";
const ALLOW_FORMS: &str = "allow: GET, HEAD, OPTIONS, POST\r\n";
const AUTHENTICATE: &str = "www-authenticate: Bearer\r\n";

/// A client's figures of the day (SPEC section 8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) reset_seconds: u32,
}

/// What a request is answered with, before it is an HTTP message.
#[derive(Debug)]
pub(crate) enum Answer {
    /// 200, or 304 where the client knows the entity tag.
    Found {
        body: Encoded,
        links: Option<Bytes>,
        known: bool,
    },
    /// 200 or 304 of a body that is not to be kept.
    Momentary { body: Encoded, known: bool },
    /// A page for people: 200, or 304.
    Page(Page),
    /// A page for one client, of any status.
    Notice(Notice),
    /// What is asked of sign-up, which answers with a page; until then, that nobody has answered.
    SignUp,
    /// A file outside the API: 200, 206 or 304.
    Dump {
        dump: Arc<Dump>,
        selection: Selection,
        /// Whether who looks at pages is answered with a page in its place.
        is_page: bool,
    },
    /// 204 to OPTIONS.
    Preflight {
        /// Whether forms may be posted there; by pages of ours only, which need not ask.
        takes_forms: bool,
    },
    /// A failure.
    Failed(ApiError),
}

impl Answer {
    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Answer::Found { known, .. } | Answer::Momentary { known, .. } => {
                if *known {
                    StatusCode::NOT_MODIFIED
                } else {
                    StatusCode::OK
                }
            }
            Answer::Dump { selection, .. } => match selection {
                Selection::Whole => StatusCode::OK,
                Selection::Part(_) => StatusCode::PARTIAL_CONTENT,
                Selection::Known => StatusCode::NOT_MODIFIED,
            },
            Answer::Page(page) => page.status(),
            Answer::Notice(notice) => notice.status,
            Answer::SignUp => ApiError::Busy.status(),
            Answer::Preflight { .. } => StatusCode::NO_CONTENT,
            Answer::Failed(error) => error.status(),
        }
    }

    /// The header lines, but for `connection`, `content-length` and `date`.
    pub(crate) fn write_lines(&self, limits: Limits, id: RequestId, lines: &mut Vec<u8>) {
        figure(lines, "x-ratelimit-limit: ", limits.limit);
        figure(lines, "x-ratelimit-remaining: ", limits.remaining);
        figure(lines, "x-ratelimit-reset: ", limits.reset_seconds);
        line(lines, "x-request-id: ", &id.digits());
        // With more, any site's script could read them with its visitor's address.
        let common = if matches!(self, Answer::Notice(notice) if notice.is_apart) {
            NOSNIFF
        } else {
            COMMON
        };
        lines.extend_from_slice(common.as_bytes());
        match self {
            Answer::Found { body, links, known } => {
                found(lines, body, KEPT);
                if let Some(links) = links {
                    line(lines, "link: ", links);
                }
                content(lines, body, JSON, *known);
            }
            Answer::Momentary { body, known } => {
                found(lines, body, ASKED_ANEW);
                content(lines, body, JSON, *known);
            }
            Answer::Page(page) => page.write_lines(lines),
            Answer::Notice(notice) => notice.write_lines(lines),
            Answer::SignUp => failed(lines, &ApiError::Busy, limits),
            Answer::Dump {
                dump,
                selection,
                is_page,
            } => {
                if *is_page {
                    lines.extend_from_slice(VARY_BY_ACCEPT.as_bytes());
                }
                file(lines, dump, *selection);
            }
            Answer::Preflight { takes_forms } => {
                allow(lines, *takes_forms);
                lines.extend_from_slice(PREFLIGHT.as_bytes());
            }
            Answer::Failed(error) => failed(lines, error, limits),
        }
    }

    /// Whether its body is sent as gzip.
    pub(crate) fn is_gzip(&self) -> bool {
        match self {
            Answer::Found { body, known, .. }
            | Answer::Momentary { body, known }
            | Answer::Page(Page { body, known, .. }) => body.gzip && !known,
            Answer::Notice(_)
            | Answer::SignUp
            | Answer::Dump { .. }
            | Answer::Preflight { .. }
            | Answer::Failed(_) => false,
        }
    }

    /// What has to be opened before this can be sent.
    pub(crate) fn download(&self) -> Option<Download> {
        match self {
            Answer::Dump {
                dump, selection, ..
            } => {
                let part = selected(*selection, dump.bytes)?;
                let dump = Arc::clone(dump);
                dump.content()
                    .is_none()
                    .then_some(Download::Dump { dump, part })
            }
            Answer::Found {
                body, known: false, ..
            } => match &body.content {
                Content::Long(long) => Some(Download::Body(long.clone())),
                Content::Whole(_) | Content::Omitted(_) => None,
            },
            _ => None,
        }
    }

    /// The body; empty with 204 and 304, and where a download brings it.
    pub(crate) fn into_body(self) -> ResponseBody {
        let bytes = match self {
            Answer::Found { body, known, .. }
            | Answer::Momentary { body, known }
            | Answer::Page(Page { body, known, .. }) => match body.content {
                Content::Whole(bytes) if !known => bytes,
                Content::Omitted(Some(bytes)) if !known => return ResponseBody::Omitted(bytes),
                _ => Bytes::new(),
            },
            Answer::Dump {
                dump, selection, ..
            } => {
                let held = dump.content().zip(selected(selection, dump.bytes));
                held.map_or_else(Bytes::new, |(bytes, part)| part.of(bytes))
            }
            Answer::Notice(notice) => notice.html,
            Answer::SignUp => ApiError::Busy.body(),
            Answer::Preflight { .. } => Bytes::new(),
            Answer::Failed(error) => error.body(),
        };
        ResponseBody::Whole(bytes)
    }
}

/// What is said of a body that is sent; a client that knows it gets neither type nor bytes.
fn content(lines: &mut Vec<u8>, body: &Encoded, kind: &str, known: bool) {
    if known {
        return;
    }
    lines.extend_from_slice(kind.as_bytes());
    if body.gzip {
        lines.extend_from_slice(GZIP.as_bytes());
    }
}

/// The bytes that are sent of something, if there are any.
fn selected(selection: Selection, bytes: u64) -> Option<Part> {
    match selection {
        Selection::Whole => Part::all(bytes),
        Selection::Part(part) => Some(part),
        Selection::Known => None,
    }
}

fn file(lines: &mut Vec<u8>, dump: &Dump, selection: Selection) {
    line(lines, "etag: ", dump.etag.as_bytes());
    line(lines, "last-modified: ", dump.modified.to_http().as_bytes());
    lines.extend_from_slice(KEPT_BY_ALL.as_bytes());
    if selection == Selection::Known {
        return;
    }
    lines.extend_from_slice(RANGES.as_bytes());
    let format = match dump.format {
        DumpFormat::Csv => CSV,
        DumpFormat::Json => JSON,
        DumpFormat::Gzip => GZIP_FILE,
        DumpFormat::Other => BYTES,
    };
    lines.extend_from_slice(format.as_bytes());
    if let Selection::Part(Part { first, last }) = selection {
        let range = format!("bytes {first}-{last}/{}", dump.bytes);
        line(lines, "content-range: ", range.as_bytes());
    }
}

fn allow(lines: &mut Vec<u8>, takes_forms: bool) {
    let allow = if takes_forms { ALLOW_FORMS } else { ALLOW };
    lines.extend_from_slice(allow.as_bytes());
}

fn failed(lines: &mut Vec<u8>, error: &ApiError, limits: Limits) {
    lines.extend_from_slice(FAILED.as_bytes());
    if let Some(seconds) = error.retry_after_seconds() {
        figure(lines, "retry-after: ", seconds);
    }
    match error {
        ApiError::RateLimited { .. } => figure(lines, "retry-after: ", limits.reset_seconds),
        ApiError::MethodNotAllowed { takes_forms } => allow(lines, *takes_forms),
        ApiError::InvalidKey(_) => lines.extend_from_slice(AUTHENTICATE.as_bytes()),
        ApiError::RangeNotSatisfiable { bytes } => {
            line(
                lines,
                "content-range: ",
                format!("bytes */{bytes}").as_bytes(),
            );
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
