//! `Page`: what people look at, and its header lines.

use std::fmt;

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};

use crate::server::http::lines::{figure, found};
use crate::server::http::negotiate::is_known;
use crate::snapshot::Encoded;

/// What a page is, for a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Html,
    /// The same at `/`, where a client that wants JSON is answered otherwise.
    HtmlOfRoot,
    Style,
    Script,
    Svg,
    Markdown,
}

/// A page that is the same for everybody until its entity tag changes.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) body: Encoded,
    pub(crate) known: bool,
    pub(crate) kind: Kind,
}

/// A page for one client at one moment. Its text is not shown by `Debug`: it may hold a key.
pub(crate) struct Notice {
    pub(crate) status: StatusCode,
    pub(crate) html: Bytes,
    pub(crate) retry_after: Option<u32>,
    /// Whether only pages of ours may read it: it holds addresses, ids of keys, what forms carry.
    pub(crate) is_apart: bool,
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// As for the API's answers; what it varies by stands apart.
const KEPT_A_MINUTE: &str = "cache-control: private, max-age=60\r\n";
const VARY: &str = "vary: Accept-Encoding, Authorization\r\n";
const VARY_OF_ROOT: &str = "vary: Accept, Accept-Encoding, Authorization\r\n";
const NO_STORE: &str = "cache-control: no-store\r\n";
const HTML: &str = "content-type: text/html; charset=utf-8\r\n";
/// Style and scripts are files of ours, and whatever else a page could be made to do it must not. Under this
/// rule a form tells its origin, and no link tells the pass of its page.
const POLICY: &str = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n\
    referrer-policy: strict-origin\r\n";
/// And no page elsewhere may even embed it.
const APART: &str = "cross-origin-resource-policy: same-origin\r\n";

impl Page {
    /// A page whose client may know it.
    pub(crate) fn new(headers: &HeaderMap, body: Encoded, kind: Kind) -> Page {
        let known = is_known(headers, body.etag.as_bytes());
        Page { body, known, kind }
    }

    pub(crate) fn status(&self) -> StatusCode {
        if self.known {
            StatusCode::NOT_MODIFIED
        } else {
            StatusCode::OK
        }
    }

    pub(in crate::server) fn write_lines(&self, lines: &mut Vec<u8>) {
        found(lines, &self.body, KEPT_A_MINUTE);
        let vary = if self.kind == Kind::HtmlOfRoot {
            VARY_OF_ROOT
        } else {
            VARY
        };
        lines.extend_from_slice(vary.as_bytes());
        lines.extend_from_slice(POLICY.as_bytes());
        if self.known {
            return;
        }
        let kind = match self.kind {
            Kind::Html | Kind::HtmlOfRoot => HTML,
            Kind::Style => "content-type: text/css; charset=utf-8\r\n",
            Kind::Script => "content-type: text/javascript; charset=utf-8\r\n",
            Kind::Svg => "content-type: image/svg+xml\r\n",
            Kind::Markdown => "content-type: text/markdown; charset=utf-8\r\n",
        };
        lines.extend_from_slice(kind.as_bytes());
        if self.body.gzip {
            lines.extend_from_slice(b"content-encoding: gzip\r\n");
        }
    }
}

impl Notice {
    pub(in crate::server) fn write_lines(&self, lines: &mut Vec<u8>) {
        lines.extend_from_slice(NO_STORE.as_bytes());
        lines.extend_from_slice(POLICY.as_bytes());
        if self.is_apart {
            lines.extend_from_slice(APART.as_bytes());
        }
        lines.extend_from_slice(HTML.as_bytes());
        if let Some(seconds) = self.retry_after {
            figure(lines, "retry-after: ", seconds);
        }
    }
}
