//! What is outside the API, found: pages, sign-up, the dumps. No key is looked at for it and nothing is spent.

use std::sync::Arc;

use crate::request::{self, SiteRoute};
use crate::server::http::api_error::ApiError;
use crate::server::http::conditional::{self, Validators};
use crate::server::http::negotiate::{is_known, names_html, prefers_json};
use crate::server::http::request_head::{Head, State};
use crate::server::http::response::Answer;
use crate::server::web::pages::{self, Pages, Visitor};
use crate::server::web::signup_handle;
use crate::snapshot::Encoded;

/// A failure outside the API as a page, for who looks at pages.
pub(in crate::server) fn for_people(answer: Answer, head: Head<'_>) -> Answer {
    match answer {
        Answer::Failed(error) if names_html(head.headers) => pages::failed(error, head.path),
        answer => answer,
    }
}

/// Finds what is asked for outside the API.
pub(in crate::server) fn find<'a>(
    head: Head<'a>,
    asked: &SiteRoute,
    state: State<'_>,
    visitor: impl Fn() -> Visitor<'a>,
) -> Answer {
    let (pages, snapshot, headers) = (state.pages, state.snapshot, head.headers);
    match asked {
        SiteRoute::OpenApi => found(head, pages.openapi(headers)),
        SiteRoute::Docs => Pages::docs(snapshot, headers),
        SiteRoute::File(file) => pages.file(*file, headers),
        SiteRoute::Home | SiteRoute::Search(_) if prefers_json(headers) => {
            let message = "no JSON is here; the endpoints are listed at /v1";
            Answer::Failed(ApiError::NotFound(message.to_owned()))
        }
        SiteRoute::Home => Pages::home(snapshot, headers),
        SiteRoute::Search(query) => pages.search(query, snapshot, visitor()),
        SiteRoute::Island(code) => pages.island(*code, snapshot, visitor()),
        SiteRoute::Keys => sign_up(head, state),
        SiteRoute::Dump(name) => dump(head, name, state, visitor),
    }
}

fn sign_up(head: Head<'_>, state: State<'_>) -> Answer {
    if state.sign_up {
        return Answer::SignUp;
    }
    if names_html(head.headers) {
        return signup_handle::closed();
    }
    let message = "keys are not given here; ask the publisher of the service for one";
    Answer::Failed(ApiError::NotFound(message.to_owned()))
}

/// A file of the dumps, or the part of it that is asked for; the index as a page, where it is not asked for
/// by its name.
fn dump<'a>(
    head: Head<'a>,
    name: &str,
    state: State<'_>,
    visitor: impl Fn() -> Visitor<'a>,
) -> Answer {
    let Some(dumps) = state.snapshot.dumps() else {
        return Answer::Failed(ApiError::NoDumps);
    };
    let Some(dump) = dumps.find(name) else {
        return Answer::Failed(request::no_dump(name).into());
    };
    // Asked for by its name it is JSON for all.
    let is_page = matches!(head.path, "/dumps" | "/dumps/");
    if let Some(index) = dump.content()
        && is_page
        && names_html(head.headers)
    {
        return state.pages.dumps(index, head.path, visitor());
    }
    let validators = Validators {
        etag: &dump.etag,
        modified: dump.modified,
        bytes: dump.bytes,
    };
    match conditional::select(head.method, head.headers, validators) {
        Ok(selection) => Answer::Dump {
            dump: Arc::clone(dump),
            selection,
            is_page,
        },
        Err(error) => Answer::Failed(error),
    }
}

fn found(head: Head<'_>, body: Encoded) -> Answer {
    let known = is_known(head.headers, body.etag.as_bytes());
    let links = None;
    Answer::Found { body, links, known }
}
