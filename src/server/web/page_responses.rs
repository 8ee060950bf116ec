//! Responses with stored and rendered pages.

use hyper::Method;
use zlib_rs::crc32::crc32;

use crate::calendar::UnixSeconds;
use crate::request::Endpoint;
use crate::server::http::api_error::ApiError;
use crate::server::http::response::ApiResponse;
use crate::server::web::pages::{HTML, POLICY, page};
use crate::server::web::request_context::RequestContext;
use crate::site::{self, DumpsPage};
use crate::snapshot::{Compressor, Content, Dumps, Encoded, EntityTag};

/// For a page at a path where programs get JSON.
const VARIED_BY_ACCEPT: &str = "cache-control: private, max-age=60\r\n\
    vary: Accept, Accept-Encoding, Authorization\r\n";

impl RequestContext<'_> {
    /// Returns a page or file that was rendered in advance.
    pub(super) fn stored(&self, endpoint: Endpoint) -> ApiResponse {
        let path = endpoint.label();
        let body = self.snapshot.in_memory(endpoint);
        let body = body.expect("all pages that are not rendered per request are in memory");
        let body = body.choose(self.head.accepts_gzip()).clone();
        let is_known = self.head.knows(&body.etag);
        let content_type = match path.rsplit('.').next() {
            Some("json") => return ApiResponse::published(is_known, body, self.now.moment),
            Some("txt") if path == "/llms.txt" => "content-type: text/markdown; charset=utf-8\r\n",
            Some("txt") => "content-type: text/plain; charset=utf-8\r\n",
            Some("xml") => "content-type: application/xml\r\n",
            Some("css") => "content-type: text/css; charset=utf-8\r\n",
            Some("js") => "content-type: text/javascript; charset=utf-8\r\n",
            Some("svg" | "ico") => "content-type: image/svg+xml\r\n",
            _ => HTML,
        };
        page(is_known, body, content_type)
    }

    /// Returns a rendered page, with lines for caches. It is compressed only if its body is sent.
    pub(super) fn page(&self, html: String, for_caches: &str) -> ApiResponse {
        let gzip = self.head.accepts_gzip();
        let published = self.snapshot.published.unwrap_or(UnixSeconds(0));
        let etag = EntityTag::new(published, crc32(0, html.as_bytes()), gzip);
        let is_head = self.head.method == Method::HEAD;
        let is_known = self.head.knows(&etag);
        let content = if is_head || is_known {
            Content::Omitted((!gzip).then_some(html.len() as u64))
        } else if gzip {
            // The fast level: other requests of the worker wait.
            Content::Whole(Compressor::default().gzip(html.as_bytes()).into())
        } else {
            Content::Whole(html.into())
        };
        let body = Encoded::new(content, etag, gzip);
        ApiResponse::cacheable(is_known, body, &[for_caches, POLICY], HTML)
    }

    /// The dumps as a page, at the path of their index.
    pub(super) fn dumps(&self, dumps: &Dumps) -> Result<ApiResponse, ApiError> {
        self.count_page()?;
        let (root, folder) = if self.head.path.ends_with('/') {
            ("../", "")
        } else {
            ("", "dumps/")
        };
        let published = dumps.published.to_string();
        let page = DumpsPage {
            published: &published,
            credit: &dumps.credit,
            base_url: &self.snapshot.service.base_url,
            notice: dumps.notice.as_deref(),
            list: &|folder, max| dumps.list(folder, max),
            root,
            folder,
        };
        Ok(self.page(site::dumps(page), VARIED_BY_ACCEPT))
    }

    /// Counts a page that is rendered, unless its client exceeds the rate.
    pub(super) fn count_page(&self) -> Result<(), ApiError> {
        let limiter = &self.services.page_limiter;
        let counted = limiter.check(self.address(), self.now.moment);
        counted.map_err(ApiError::TooManyPages)
    }
}
