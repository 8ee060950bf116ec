//! Responses with stored and rendered pages.

use hyper::{Method, StatusCode};

use crate::calendar::UnixSeconds;
use crate::request::SITE_FILES;
use crate::server::http::response::ApiResponse;
use crate::server::web::pages::{HTML, page, uncached_page};
use crate::server::web::request_context::RequestContext;
use crate::site::{self, DumpsPage};
use crate::snapshot::{Body, Compressor, Content, DumpDirectory, Encoded, EntityTag};

impl RequestContext<'_> {
    /// Returns a page or file that was rendered in advance.
    pub(super) fn stored(&self, body: &Body, content_type: &str) -> ApiResponse {
        let body = body.choose(self.head.accepts_gzip());
        page(
            self.head.knows(&body.etag),
            body,
            content_type,
            self.head.path,
        )
    }

    /// A fixed file, by its index in [`SITE_FILES`].
    pub(super) fn file(&self, index: usize) -> ApiResponse {
        let content_type = match SITE_FILES[index].rsplit('.').next() {
            Some("txt") if SITE_FILES[index] == "/llms.txt" => {
                "content-type: text/markdown; charset=utf-8\r\n"
            }
            Some("txt") => "content-type: text/plain; charset=utf-8\r\n",
            Some("xml") => "content-type: application/xml\r\n",
            Some("css") => "content-type: text/css; charset=utf-8\r\n",
            Some("js") => "content-type: text/javascript; charset=utf-8\r\n",
            Some("svg" | "ico") => "content-type: image/svg+xml\r\n",
            _ => HTML,
        };
        self.stored(&self.worker.pages.files[index], content_type)
    }

    /// Returns a rendered page. It is compressed only if its body is sent.
    pub(super) fn page(&self, html: String) -> ApiResponse {
        let gzip = self.head.accepts_gzip();
        let published = self.snapshot.published.unwrap_or(UnixSeconds(0));
        let etag = EntityTag::new(published, crc32fast::hash(html.as_bytes()), gzip);
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
        let body = Encoded {
            content,
            etag,
            gzip,
            links: None,
            next_due: None,
        };
        page(is_known, body, HTML, self.head.path)
    }

    /// The dumps as a page, at the path of their index.
    pub(super) fn dumps(&self, dumps: &DumpDirectory, group: Option<&str>) -> ApiResponse {
        let (root, folder) = if self.head.path.ends_with('/') {
            ("../", "")
        } else {
            ("", "dumps/")
        };
        let published = dumps.published.to_string();
        let page = || {
            let page = DumpsPage {
                published: &published,
                credit: &dumps.credit,
                list: &|from, to, max| dumps.list(from, to, max),
                last: &|from, to, max| dumps.last(from, to, max),
                group,
                root,
                folder,
            };
            uncached_page(StatusCode::OK, site::dumps(page), None)
        };
        self.rate_limited(root).unwrap_or_else(page)
    }

    /// Counts a rendered page, and returns 429 if its client exceeds the rate.
    pub(super) fn rate_limited(&self, root: &str) -> Option<ApiResponse> {
        let wait = self
            .worker
            .pages
            .limiter
            .check(self.address(), self.now.moment())
            .err()?;
        let message = "Your address has opened too many pages in a short time. Try again in a few seconds. \
            Programs should use the API or the dumps.";
        let html = site::message_page("Too many requests", message, root);
        Some(uncached_page(
            StatusCode::TOO_MANY_REQUESTS,
            html,
            Some(wait),
        ))
    }
}
