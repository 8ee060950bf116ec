//! Header lines of pages, and responses that contain a page.

use hyper::StatusCode;

use crate::server::conn::pending::ResponseBody;
use crate::server::http::response::{ApiResponse, CACHED_A_MINUTE, retry_after};
use crate::snapshot::Encoded;

/// The kind of a cacheable page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Html,
    /// HTML at `/`, where a client that prefers JSON gets another response.
    HtmlOfRoot,
    Style,
    Script,
    Svg,
    Markdown,
    Text,
}

const CACHED_A_MINUTE_BY_ACCEPT: &str = "cache-control: private, max-age=60\r\n\
    vary: Accept, Accept-Encoding, Authorization\r\n";
const NO_STORE: &str = "cache-control: no-store\r\n";
const HTML: &str = "content-type: text/html; charset=utf-8\r\n";
/// Style and scripts are files of this service; everything else that a page could load is
/// forbidden. Under this policy a form sends its origin, and no link sends the token of its page.
const POLICY: &str = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n\
    referrer-policy: strict-origin\r\n";
/// No page of another site may embed it.
const SAME_ORIGIN: &str = "cross-origin-resource-policy: same-origin\r\n";

/// A page that is the same for all clients until its entity tag changes: 200 or 304.
pub(crate) fn page(is_known: bool, body: Encoded, kind: PageKind) -> ApiResponse {
    let lines: &[&str] = if kind == PageKind::HtmlOfRoot {
        &[CACHED_A_MINUTE_BY_ACCEPT, POLICY]
    } else {
        &[CACHED_A_MINUTE, POLICY]
    };
    let content_type = match kind {
        PageKind::Html | PageKind::HtmlOfRoot => HTML,
        PageKind::Style => "content-type: text/css; charset=utf-8\r\n",
        PageKind::Script => "content-type: text/javascript; charset=utf-8\r\n",
        PageKind::Svg => "content-type: image/svg+xml\r\n",
        PageKind::Markdown => "content-type: text/markdown; charset=utf-8\r\n",
        PageKind::Text => "content-type: text/plain; charset=utf-8\r\n",
    };
    ApiResponse::cacheable(is_known, body, lines, content_type)
}

/// A page for one client at one moment. Only pages of this service may read one that is `private`:
/// it contains addresses, ids of keys, form tokens.
pub(crate) fn uncached_page(
    status: StatusCode,
    html: String,
    retry_after_seconds: Option<u32>,
    private: bool,
) -> ApiResponse {
    let retry_after = retry_after(retry_after_seconds);
    let mut response = if private {
        ApiResponse::of_same_origin(status, &[NO_STORE, POLICY, SAME_ORIGIN, HTML, &retry_after])
    } else {
        ApiResponse::new(status, &[NO_STORE, POLICY, HTML, &retry_after])
    };
    response.body = ResponseBody::Whole(html.into());
    response
}
