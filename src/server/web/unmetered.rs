//! The routes outside the API: pages, sign-up, dumps. No key is verified for them and no quota is
//! spent.

use hyper::Method;

use crate::keys::SharedKeysState;
use crate::request::{self, SiteRoute};
use crate::server::http::api_error::ApiError;
use crate::server::http::conditional::{self, Validators};
use crate::server::http::request_head::{RequestHead, names_html, prefers_json};
use crate::server::http::response::{ApiResponse, CACHED_A_MINUTE, JSON, PendingBody};
use crate::server::web::page::PageKind;
use crate::server::web::pages::{PageRequest, Pages, stored};
use crate::server::web::signup_handler;
use crate::snapshot::Snapshot;
use crate::sync::ArcSwap;

/// The ways in which clients get keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignUp<'a> {
    /// Whether clients can sign up.
    pub(crate) is_open: bool,
    /// The keys that several servers share.
    pub(crate) shared_keys: Option<&'a ArcSwap<SharedKeysState>>,
}

/// Responds to a route outside the API.
pub(in crate::server) fn find(
    head: &RequestHead<'_>,
    route: &SiteRoute,
    (pages, snapshot, sign_up): (&Pages, &Snapshot, SignUp<'_>),
    request: PageRequest<'_>,
) -> Result<ApiResponse, ApiError> {
    let headers = head.headers;
    match route {
        SiteRoute::OpenApi => {
            let body = pages.openapi(headers);
            Ok(ApiResponse::cacheable(
                headers,
                body,
                &[CACHED_A_MINUTE],
                JSON,
            ))
        }
        SiteRoute::Docs => Ok(stored(snapshot.docs_page(), headers, PageKind::Html)),
        SiteRoute::File(file) => Ok(pages.file(*file, headers)),
        SiteRoute::Home | SiteRoute::Search(_) if prefers_json(headers) => {
            let message = "this page has no JSON form; /v1 lists the endpoints of the API";
            Err(ApiError::NotFound(message.to_owned()))
        }
        SiteRoute::Home => Ok(stored(snapshot.home_page(), headers, PageKind::HtmlOfRoot)),
        SiteRoute::Keys => keys(head, pages, sign_up),
        SiteRoute::Dump(name) => dump(head, name, (pages, snapshot), request),
        route => pages.render(route, snapshot, request),
    }
}

fn keys(
    head: &RequestHead<'_>,
    pages: &Pages,
    sign_up: SignUp<'_>,
) -> Result<ApiResponse, ApiError> {
    let is_page = sign_up.is_open || names_html(head.headers);
    let shared_keys = sign_up.shared_keys.map(ArcSwap::load_full);
    if let Some(state) = shared_keys
        && let Some(leader) = state.role.other_leader()
        && head.method != Method::POST
    {
        if is_page {
            let url = state.leader_url.as_deref();
            return Ok(signup_handler::elsewhere(leader, url, pages.service()));
        }
        let message = "keys are issued by another server of this service";
        return Err(ApiError::NotFound(message.to_owned()));
    }
    if sign_up.is_open {
        // The status and body of a response that never comes.
        let mut response = ApiResponse::from(ApiError::Busy);
        response.pending_body = Some(Box::new(PendingBody::SignUp));
        return Ok(response);
    }
    if is_page {
        return Ok(signup_handler::closed(pages.service()));
    }
    let message = "sign-up is closed; ask the publisher of the service for a key";
    Err(ApiError::NotFound(message.to_owned()))
}

/// A file of the dumps, or the requested part of it. Browsers get the index as a page, except under
/// its file name.
fn dump(
    head: &RequestHead<'_>,
    name: &str,
    (pages, snapshot): (&Pages, &Snapshot),
    request: PageRequest<'_>,
) -> Result<ApiResponse, ApiError> {
    let dumps = snapshot.dumps().ok_or(ApiError::NoDumps)?;
    let dump = dumps.find(name).ok_or_else(|| request::no_dump(name))?;
    let is_page = matches!(head.path, "/dumps" | "/dumps/");
    if is_page && names_html(head.headers) {
        let mut parameters = request::pairs(head.query).flatten();
        let group = parameters.find(|(name, _)| name == "group");
        let group = group.as_ref().map(|(_, group)| &**group);
        return Ok(pages.dumps(dumps, (head.path, group), request));
    }
    let validators = Validators {
        etag: &dump.etag,
        modified: dump.modified,
        bytes: dump.file.bytes,
    };
    let selection = conditional::select(head.method, head.headers, validators)?;
    Ok(ApiResponse::dump(dump, selection, is_page))
}
