//! `Pages`: everything outside the API that people look at, found or drawn.
//!
//! Nothing here spends quota. Fixed texts, the dashboard and the reference are ready; what has to be drawn
//! for a request, a search or an island, is drawn for each address at a pace at which people look at
//! pages. Whoever wants all of it has the dumps.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};

use crate::calendar::UnixSeconds;
use crate::model::IslandCode;
use crate::quota::AnonymousClient;
use crate::request::{IslandQuery, Route, SITE_FILES};
use crate::server::http::api_error::ApiError;
use crate::server::http::request_head::{accepts_gzip, is_not_modified};
use crate::server::http::response::ApiResponse;
use crate::server::web::page::{PageKind, page, uncached_page};
use crate::server::web::rate_limiter::Visits;
use crate::site::{self, SearchQuery};
use crate::snapshot::{
    Body, Compressor, Content, Encoded, EncodedPair, EntityTag, Missing, ReadContext, Snapshot,
};

/// The longest page of a search. Who wants more at once wants the API.
const ROWS_MAX: u32 = 50;

/// Of an address that is told in a page that nothing is there: the way back is that much longer.
const SEGMENTS_MAX: usize = 8;

/// One worker's pages.
#[derive(Debug)]
pub(crate) struct Pages {
    openapi: Body,
    files: [Body; SITE_FILES.len()],
    visits: Arc<Visits>,
}

/// Who asks for a page, with what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor<'a> {
    pub(crate) client: AnonymousClient,
    pub(crate) address: IpAddr,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) is_head: bool,
    pub(crate) moment: UnixSeconds,
}

impl Visitor<'_> {
    /// The context in which the bodies are read that a page is drawn from.
    fn context(&self) -> ReadContext<'static> {
        ReadContext::with_content(self.client.number(), false)
    }

    /// A page, compressed only if it is sent.
    fn page(&self, html: String, published: UnixSeconds, kind: PageKind) -> ApiResponse {
        let gzip = accepts_gzip(self.headers);
        let etag = EntityTag::new(published, crc32fast::hash(html.as_bytes()), gzip);
        let content = if self.is_head || is_not_modified(self.headers, etag.as_bytes()) {
            Content::Omitted((!gzip).then_some(html.len() as u64))
        } else if gzip {
            // Compressed while others wait: fast rather than small.
            Content::Whole(Compressor::default().gzip(html.as_bytes()).into())
        } else {
            Content::Whole(html.into())
        };
        let body = Encoded {
            content,
            etag,
            gzip,
        };
        page(self.headers, body, kind)
    }
}

impl Pages {
    /// All fixed texts, for a service of that address.
    pub(crate) fn new(base_url: &str, visits: Arc<Visits>) -> Pages {
        let body = |text: String| Body::new(EncodedPair::new(text.into_bytes()), UnixSeconds(0));
        Pages {
            openapi: body(site::openapi(base_url)),
            files: SITE_FILES.map(|path| body(site::file(path, base_url))),
            visits,
        }
    }

    /// The same for another worker.
    pub(crate) fn with_own_refcount(&self) -> Pages {
        Pages {
            openapi: self.openapi.with_own_refcount(),
            files: self.files.each_ref().map(Body::with_own_refcount),
            visits: Arc::clone(&self.visits),
        }
    }

    /// `/openapi.json`
    pub(crate) fn openapi(&self, headers: &HeaderMap) -> Encoded {
        self.openapi.choose(accepts_gzip(headers))
    }

    /// A fixed text, by its index in [`SITE_FILES`].
    pub(crate) fn file(&self, index: usize, headers: &HeaderMap) -> ApiResponse {
        let kind = match SITE_FILES[index].rsplit('.').next() {
            Some("txt") => PageKind::Markdown,
            Some("css") => PageKind::Style,
            Some("js") => PageKind::Script,
            Some("svg") => PageKind::Svg,
            _ => PageKind::Html,
        };
        let body = self.files[index].choose(accepts_gzip(headers));
        page(headers, body, kind)
    }

    /// `/`
    pub(crate) fn home(snapshot: &Snapshot, headers: &HeaderMap) -> ApiResponse {
        drawn(snapshot.home_page(), headers, PageKind::HtmlOfRoot)
    }

    /// `/docs`
    pub(crate) fn docs(snapshot: &Snapshot, headers: &HeaderMap) -> ApiResponse {
        drawn(snapshot.docs_page(), headers, PageKind::Html)
    }

    /// `/` with a question.
    pub(crate) fn search(
        &self,
        query: &IslandQuery,
        snapshot: &Snapshot,
        visitor: Visitor<'_>,
    ) -> Result<ApiResponse, ApiError> {
        if let Some(hurried) = self.hurried(visitor, "") {
            return Ok(hurried);
        }
        let mut query = query.clone();
        query.page.limit = query.page.limit.min(ROWS_MAX);
        let route = Route::Islands(query.clone());
        let found = match snapshot.get(&route, visitor.context()) {
            Ok(found) => found.body.content.into_bytes(),
            Err(_) => return Err(ApiError::NotReady),
        };
        let Ok(body) = found else {
            return Err(ApiError::Damaged);
        };
        let others: Vec<_> = query.given().filter(|(name, _)| *name != "q").collect();
        let q = query.q.as_deref().unwrap_or_default();
        let sought_code = q.trim().parse().ok();
        let html = site::search(
            &body,
            SearchQuery {
                q,
                others: &others,
                island: sought_code.filter(|code| snapshot.tracks(*code)),
                page_at: &|offset| format!("{}{offset}", query.to_query()),
            },
        );
        Ok(visitor.page(html, published(snapshot), PageKind::HtmlOfRoot))
    }

    /// `/islands/{code}`
    pub(crate) fn island(
        &self,
        code: IslandCode,
        snapshot: &Snapshot,
        visitor: Visitor<'_>,
    ) -> Result<ApiResponse, ApiError> {
        if let Some(hurried) = self.hurried(visitor, "../") {
            return Ok(hurried);
        }
        if !snapshot.readiness().islands {
            return Err(ApiError::NotReady);
        }
        let body = |route| -> Result<Bytes, Missing> {
            let found = snapshot.get(&route, visitor.context())?;
            found.body.content.into_bytes().map_err(Missing::Damaged)
        };
        let drawn = body(Route::Island(code)).and_then(|detail| {
            let history = match body(Route::IslandCcu(code)) {
                Ok(history) => Some(history),
                Err(error @ Missing::Damaged(_)) => return Err(error),
                Err(_) => None,
            };
            Ok(site::island(&detail, history.as_deref()))
        });
        match drawn {
            Ok(html) => Ok(visitor.page(html, published(snapshot), PageKind::Html)),
            Err(Missing::Damaged(_)) => Err(ApiError::Damaged),
            Err(_) => {
                let message = format!("The island {code} is not tracked.");
                let html = site::message_page("No such island", &message, "../");
                Ok(uncached_page(StatusCode::NOT_FOUND, html, None, false))
            }
        }
    }

    /// The dumps, from their index, which stands at that path too.
    pub(crate) fn dumps(&self, index: &[u8], path: &str, visitor: Visitor<'_>) -> ApiResponse {
        let (root, folder) = if path.ends_with('/') {
            ("../", "")
        } else {
            ("", "dumps/")
        };
        if let Some(hurried) = self.hurried(visitor, root) {
            return hurried;
        }
        let html = site::dumps(index, root, folder);
        uncached_page(StatusCode::OK, html, None, false)
    }

    /// What an address is answered that has pages drawn faster than anybody looks at them.
    fn hurried(&self, visitor: Visitor<'_>, root: &str) -> Option<ApiResponse> {
        let wait = self.visits.count(visitor.address, visitor.moment).err()?;
        let message = "You are opening pages faster than they are drawn for one address. Programs should \
            use the API; for everything at once there are the dumps.";
        let status = StatusCode::TOO_MANY_REQUESTS;
        let html = site::message_page("A moment, please", message, root);
        Some(uncached_page(status, html, Some(wait), false))
    }
}

/// A failure in a page of its own, where it is one that a visitor of pages may meet.
pub(crate) fn failed(error: ApiError, path: &str) -> ApiResponse {
    let title = match &error {
        ApiError::NotFound(_) => "Not found",
        ApiError::BadRequest(_) => "This cannot be answered",
        ApiError::NotReady | ApiError::NoDumps => "Not there yet",
        ApiError::Damaged => "Something is damaged",
        _ => return error.into(),
    };
    let depth = path.bytes().filter(|byte| *byte == b'/').count();
    if depth > SEGMENTS_MAX {
        return error.into();
    }
    // Those of questions begin with the name of a parameter.
    let message = match &error {
        ApiError::BadRequest(message) => message.clone(),
        _ => sentence(&error.message()),
    };
    let root = "../".repeat(depth.saturating_sub(1));
    let html = site::message_page(title, &message, &root);
    let retry_after = error.retry_after_seconds();
    uncached_page(error.status(), html, retry_after, false)
}

/// A message of the API as a sentence.
fn sentence(message: &str) -> String {
    let mut text = message.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text + "."
}

/// A page that was drawn when the snapshot was opened.
fn drawn(body: &Body, headers: &HeaderMap, kind: PageKind) -> ApiResponse {
    page(headers, body.choose(accepts_gzip(headers)), kind)
}

fn published(snapshot: &Snapshot) -> UnixSeconds {
    snapshot.published().unwrap_or(UnixSeconds(0))
}
