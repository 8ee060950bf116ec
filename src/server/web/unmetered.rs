//! The routes outside the API: pages, sign-up, dumps. No key is verified for them and no quota is
//! spent.

use std::sync::Arc;

use hyper::{Method, StatusCode};

use crate::calendar::UnixSeconds;
use crate::request::{self, Argument, DayRef, Endpoint, Route};
use crate::server::conn::context::ResponseBody;
use crate::server::http::api_error::ApiError;
use crate::server::http::body::{Download, DownloadSource};
use crate::server::http::conditional::{self, Validators};
use crate::server::http::request_head::names_html;
use crate::server::http::response::{ApiResponse, JSON, PUBLIC, PendingBody, SignupForm};
use crate::server::web::pages::{private_page, see_other};
use crate::server::web::rendered::searched_code;
use crate::server::web::request_context::RequestContext;
use crate::server::web::signup_handler::SignupHandler;
use crate::site;
use crate::snapshot::{DumpContent, DumpIndex};

impl RequestContext<'_> {
    pub(in crate::server) fn respond_unmetered(
        &self,
        route: &Route,
    ) -> Result<ApiResponse, ApiError> {
        let depth = route.endpoint.depth();
        match (route.endpoint, &route.argument) {
            (Endpoint::LivePage, _) => self.render(depth, |_| self.live()),
            (Endpoint::Keys, _) => self.keys(),
            (_, Argument::Dump(name)) => self.dump(name),
            (_, Argument::Islands(query)) => match searched_code(query) {
                Some(code) => Ok(see_other(&format!("islands/{code}"))),
                None => self.render(depth, |_| self.islands(query)),
            },
            (_, Argument::Chart(code, metric, days)) => {
                self.render(depth, |_| self.island(*code, metric, *days))
            }
            (_, Argument::Creators(query)) => self.render(depth, |_| self.creators(query)),
            (_, Argument::Slug(slug)) => self.render(depth, |_| self.creator(slug)),
            (Endpoint::NewDaysPage, Argument::Day(DayRef::Latest)) => self.render(depth, |root| {
                let newest = self.snapshot.newest_day_with_new_islands();
                self.new_islands(&newest.map_or(DayRef::Latest, DayRef::Day), root)
            }),
            (Endpoint::NewDaysPage | Endpoint::NewPage, Argument::Day(day)) => {
                self.render(depth, |root| self.new_islands(day, root))
            }
            (_, Argument::Day(day)) => self.render(depth, |root| self.ranking(day, root)),
            (endpoint, _) => Ok(self.stored(endpoint)),
        }
    }

    fn keys(&self) -> Result<ApiResponse, ApiError> {
        let service = &self.snapshot.service;
        if self.services.signup.is_some() {
            return Ok(ApiResponse::after(PendingBody::SignUp(SignupForm {
                client: self.address(),
                accepts_html: names_html(self.head.headers),
                request: SignupHandler::parse(&service.base_url, self.head),
            })));
        }
        if names_html(self.head.headers) {
            let html = site::keys_closed(service);
            return Ok(private_page(StatusCode::OK, html, None));
        }
        Err(ApiError::NotFound(service.sign_up_closed()))
    }

    /// A file of the dumps, or the requested part of it; or their index. Browsers get the index as a page, except
    /// under its file name.
    fn dump(&self, name: &str) -> Result<ApiResponse, ApiError> {
        let head = self.head;
        let dumps = self.snapshot.dumps().ok_or(ApiError::NoDumps)?;
        if name == DumpIndex::FILE {
            let is_page = matches!(head.path, "/dumps" | "/dumps/");
            if is_page && names_html(head.headers) {
                return self.dumps(dumps);
            }
            let body = dumps.index.choose(head.accepts_gzip()).clone();
            let accept = if is_page { "Accept, " } else { "" };
            let lines = [PUBLIC, "vary: ", accept, "Accept-Encoding\r\n"];
            let is_known = head.knows(&body.etag);
            return Ok(ApiResponse::cacheable(is_known, body, &lines, JSON));
        }
        let dump = dumps.find(name).ok_or_else(|| request::no_dump(name))?;
        let validators = Validators {
            etag: &dump.etag,
            modified: dump.modified,
            bytes: dump.file.bytes,
        };
        let (status, range) = conditional::select(head.method, head.headers, validators)?;
        // By the clock of `Date`, which no date of a file may exceed (RFC 9110 section 8.8.2.1); the
        // publisher's clock, or `--generated-at`, may be ahead. Such a date is no condition: it may be that of two files.
        let modified = dump.modified.min(UnixSeconds::now());
        let mut response = ApiResponse::dump(dump, modified, (status, range.as_ref()));
        let part = range.unwrap_or(0..dump.file.bytes);
        match &dump.content {
            _ if status == StatusCode::NOT_MODIFIED => {}
            DumpContent::Memory(bytes) => {
                let index = |at: u64| usize::try_from(at).expect("a place in memory");
                let part = bytes.slice(index(part.start)..index(part.end));
                response.body = ResponseBody::Whole(part);
            }
            DumpContent::File(..) => {
                let is_sent = head.method != Method::HEAD;
                let permit = is_sent.then(|| self.download_permit().ok_or(ApiError::Busy));
                let permit = permit.transpose()?;
                let source = DownloadSource::Dump(Arc::clone(dump), part);
                response.open(Download { source, permit });
            }
        }
        Ok(response)
    }
}
