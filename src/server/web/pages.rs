//! Pages outside the API: files and pages stored in advance, and pages rendered per request.
//!
//! The dashboard, the reference and fixed files are stored. Other pages are rendered per request
//! (`rendered`), at a limited rate per client: programs have the API and the dumps.

use hyper::StatusCode;

use crate::request::{DayRef, Endpoint};
use crate::server::conn::context::ResponseBody;
use crate::server::http::api_error::ApiError;
use crate::server::http::request_head::{RequestHead, names_html};
use crate::server::http::response::{ApiResponse, CACHED_A_MINUTE, error_lines, retry_after};
use crate::site;
use crate::snapshot::{Encoded, Snapshot};

/// Maximum depth of a path with an HTML error page, whose links begin with that many `../`.
const SEGMENTS_MAX: usize = 8;

const NO_STORE: &str = "cache-control: no-store\r\n";
pub(in crate::server) const HTML: &str = "content-type: text/html; charset=utf-8\r\n";
/// Style and scripts are files of this service; everything else that a page could load is
/// forbidden. Under this policy a form sends its origin, and no link sends the token of its page.
pub(super) const POLICY: &str = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n\
    referrer-policy: strict-origin\r\n";
/// No page of another site may embed it.
const SAME_ORIGIN: &str = "cross-origin-resource-policy: same-origin\r\n";

/// Returns the response to a request that fails: in the API JSON, which names the parameters that it ignores, and
/// elsewhere a page for browsers.
#[cold]
pub(crate) fn failure(
    error: ApiError,
    (endpoint, under_v1): (Endpoint, bool),
    (head, snapshot): (&RequestHead<'_>, &Snapshot),
) -> ApiResponse {
    if under_v1 {
        let mut response = ApiResponse::from(error);
        response.add_ignored(head.ignored(endpoint).as_deref());
        return response;
    }
    let title = match &error {
        ApiError::NotFound(_) => "Not found",
        ApiError::BadRequest(_) => "Invalid request",
        ApiError::NotReady(_) | ApiError::NoDumps => "Not available yet",
        ApiError::Damaged => "Damaged data",
        ApiError::TooManyPages(_) => "Too many requests",
        other => other.status().canonical_reason().unwrap_or("Error"),
    };
    let depth = head.path.bytes().filter(|byte| *byte == b'/').count();
    if depth > SEGMENTS_MAX || !names_html(head.headers) {
        return error.into();
    }
    let mut message = error.message().into_owned();
    // Messages of invalid requests begin with the name of a parameter.
    if !matches!(error, ApiError::BadRequest(_)) {
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        message.push('.');
    }
    let root = "../".repeat(depth.saturating_sub(1));
    let folder = endpoint.label().split('/').nth(1).unwrap_or_default();
    let is_of_days =
        matches!(folder, "rankings" | "new") && !matches!(error, ApiError::TooManyPages(_));
    let days = snapshot.days_around(&DayRef::Latest).filter(|_| is_of_days);
    let days = days.and_then(|[.., first, last]| Some([first?, last?].map(|day| day.to_string())));
    let days = days.as_ref().map(|[first, last]| [folder, first, last]);
    let html = site::message_page((title, &message), &root, snapshot.notice(), days);
    let mut response = uncached_page(error.status(), html, None);
    response.add(&[&error_lines(&error)]);
    response
}

/// A page that is the same for all clients until its entity tag changes: 200 or 304.
pub(crate) fn page(is_known: bool, body: Encoded, content_type: &str) -> ApiResponse {
    ApiResponse::cacheable(is_known, body, &[CACHED_A_MINUTE, POLICY], content_type)
}

/// A page for one moment.
pub(crate) fn uncached_page(
    status: StatusCode,
    html: String,
    retry_after_seconds: Option<u32>,
) -> ApiResponse {
    let retry_after = retry_after(retry_after_seconds);
    let mut response = ApiResponse::new(status, &[NO_STORE, POLICY, HTML, &retry_after]);
    response.body = ResponseBody::Whole(html.into());
    response
}

/// Sends a browser to a page, given relative to the page that it has requested.
pub(super) fn see_other(page: &str) -> ApiResponse {
    let location = format!("location: {page}\r\n");
    ApiResponse::new(StatusCode::SEE_OTHER, &[NO_STORE, &location])
}

/// A page for one client at one moment. Only pages of this service may read it: it contains
/// addresses, ids of keys, form tokens.
pub(crate) fn private_page(
    status: StatusCode,
    html: String,
    retry_after_seconds: Option<u32>,
) -> ApiResponse {
    let mut response = uncached_page(status, html, retry_after_seconds);
    response.keep_same_origin();
    response.add(&[SAME_ORIGIN]);
    response
}
