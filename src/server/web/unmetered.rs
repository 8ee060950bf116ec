//! The routes outside the API: pages, sign-up, dumps. No key is verified for them and no quota is
//! spent.

use hyper::StatusCode;

use crate::calendar::UnixSeconds;
use crate::request::{self, DayRef, SiteRoute};
use crate::server::http::api_error::ApiError;
use crate::server::http::conditional::{self, Validators};
use crate::server::http::request_head::{names_html, prefers_json};
use crate::server::http::response::{ApiResponse, PendingBody};
use crate::server::web::pages::{HTML, private_page, see_other};
use crate::server::web::request_context::RequestContext;
use crate::server::web::signup_handler::SignupHandler;
use crate::site;

impl RequestContext<'_> {
    /// Responds to a route outside the API.
    pub(in crate::server) fn respond_unmetered(
        &self,
        route: &SiteRoute,
    ) -> Result<ApiResponse, ApiError> {
        let (head, pages, snapshot) = (self.head, &self.worker.pages, self.snapshot);
        match route {
            SiteRoute::OpenApi => {
                let body = pages.openapi.choose(head.accepts_gzip());
                let is_known = head.knows(&body.etag);
                Ok(ApiResponse::published(is_known, body, self.now.moment()))
            }
            SiteRoute::Docs => Ok(self.stored(snapshot.docs_page(), HTML)),
            SiteRoute::File(file) => Ok(self.file(*file)),
            SiteRoute::Home | SiteRoute::Search(_) if prefers_json(head.headers) => {
                let message = "this page has no JSON form; /v1 lists the endpoints of the API";
                Err(ApiError::NotFound(message.to_owned()))
            }
            SiteRoute::Home => Ok(self.stored(snapshot.home_page(), HTML)),
            SiteRoute::Live => self.render(0, |_| self.live()),
            SiteRoute::Keys => self.keys(),
            SiteRoute::Dump(name) => self.dump(name),
            SiteRoute::Search(query) | SiteRoute::Islands(query) => match self.searched_code(query)
            {
                Some(code) => Ok(see_other(&format!("islands/{code}"))),
                None => self.render(0, |_| self.islands(query)),
            },
            SiteRoute::Island(code, metric) => {
                self.render(1, |_| self.island(*code, metric.as_deref()))
            }
            SiteRoute::Creators(query) => self.render(0, |_| self.creators(query)),
            SiteRoute::Creator(slug) => self.render(1, |_| self.creator(slug)),
            SiteRoute::Ranking(day, depth) => self.render(*depth, |root| self.ranking(day, root)),
            SiteRoute::New(DayRef::Latest, 0) => self.render(0, |root| {
                self.new_islands(&self.newest_day_with_new_islands(), root)
            }),
            SiteRoute::New(day, depth) => self.render(*depth, |root| self.new_islands(day, root)),
        }
    }

    fn keys(&self) -> Result<ApiResponse, ApiError> {
        let service = &self.worker.pages.service;
        let is_page = self.worker.signup.is_some() || names_html(self.head.headers);
        if self.worker.signup.is_some() {
            let parsed = SignupHandler::parse(&service.base_url, self.head);
            let body = PendingBody::SignUp(self.address(), parsed);
            return Ok(ApiResponse::after(body));
        }
        if is_page {
            let html = site::keys_closed(service);
            return Ok(private_page(StatusCode::OK, html, None));
        }
        let message = "sign-up is closed; ask the publisher of the service for a key";
        Err(ApiError::NotFound(message.to_owned()))
    }

    /// A file of the dumps, or the requested part of it. Browsers get the index as a page, except under
    /// its file name.
    fn dump(&self, name: &str) -> Result<ApiResponse, ApiError> {
        let head = self.head;
        let dumps = self.snapshot.dumps().ok_or(ApiError::NoDumps)?;
        let dump = dumps.find(name).ok_or_else(|| request::no_dump(name))?;
        let is_page = matches!(head.path, "/dumps" | "/dumps/");
        if is_page && names_html(head.headers) {
            let mut parameters = request::pairs(head.query).flatten();
            let group = parameters.find(|(name, _)| name == "group");
            let group = group.as_ref().map(|(_, group)| &**group);
            return Ok(self.dumps(dumps, group));
        }
        // By the clock of `Date`, which no date of a file may exceed (RFC 9110 section 8.8.2.1); the
        // publisher's clock, or `--generated-at`, may be ahead.
        let modified = dump.modified.min(UnixSeconds::now());
        let validators = Validators {
            etag: &dump.etag,
            modified,
            bytes: dump.file.bytes,
        };
        let (status, range) = conditional::select(head.method, head.headers, validators)?;
        Ok(ApiResponse::dump(dump, modified, status, range, is_page))
    }
}
