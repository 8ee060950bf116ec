//! The service as one function of the context of a request. What waits for a disk, a form or the
//! store of shared quotas is returned as a `PendingBody`, which the worker completes.
//!
//! Order of checks (CONTRACT section 6): host, method, transfer coding, key, quota, readiness,
//! parameters. Only an admitted request spends quota; one that finds nothing published does not.
//! Metering is decided here and nowhere else.

use std::time::Instant;

use hyper::Method;

use crate::quota::{Decision, NoLease};
use crate::request::{self, Endpoint, ParsedTarget, Route, RouteError, SentKey, SiteRoute};
use crate::server::conn::limiter::Permit;
use crate::server::http::access_record;
use crate::server::http::api_error::ApiError;
use crate::server::http::identity::{Caller, QuotaStatus};
use crate::server::http::response::{ApiResponse, JSON, PendingBody, REVALIDATED};
use crate::server::web::pages;
use crate::server::web::request_context::RequestContext;
use crate::snapshot::{Content, Encoded, EntityTag, ReadContext};

/// A response, and what is sent, counted and logged with it.
pub(crate) struct Handled {
    pub(crate) response: ApiResponse,
    pub(crate) quota: QuotaStatus,
    pub(crate) id: u64,
    pub(crate) is_head: bool,
    pub(crate) endpoint: Endpoint,
    /// The caller; `None` where no key was verified.
    pub(crate) caller: Option<Caller>,
    /// The request's part of its log line, and when it was read; `None` where there is no access log.
    pub(crate) record: Option<(String, Instant)>,
}

pub(crate) fn respond(context: &RequestContext<'_>) -> Handled {
    let head = context.head;
    let accepts_gzip = head.accepts_gzip();
    let form = (head.path, head.query, accepts_gzip);
    // The cache has no other targets, and no responses to other methods.
    let is_cacheable = *head.method == Method::GET && head.path.starts_with("/v1");
    let knows = |etag: &EntityTag| head.knows(etag);
    let mut cache = context.cache.borrow_mut();
    let cached = is_cacheable.then(|| cache.get(form, knows));
    let Some((cached, is_known)) = cached.flatten() else {
        drop(cache);
        return context.respond_parsed(accepts_gzip);
    };
    let endpoint = cached.endpoint;
    // Most requests come here. Other code is apart, so that this takes little of the CPU's
    // instruction cache.
    if let Some(response) = context.form_response(endpoint) {
        return context.unmetered(endpoint, response);
    }
    // No cached target has a key in its query.
    let mut handled = context.metered(None, endpoint, |caller| {
        context.admit(caller, || cached.response(is_known, context.now.moment()))
    });
    if handled.response.status.as_u16() >= 400 {
        context.name_ignored(&mut handled);
    }
    handled
}

impl RequestContext<'_> {
    /// Responds to a request whose target the worker's cache does not have.
    #[inline(never)]
    fn respond_parsed(&self, accepts_gzip: bool) -> Handled {
        let head = self.head;
        let ParsedTarget {
            under_v1,
            endpoint,
            route,
        } = request::parse(head.path, head.query);
        if let Some(response) = self.form_response(endpoint) {
            return self.unmetered(endpoint, response);
        }
        let response = match route {
            Ok(Route::Site(route)) => self.site_response(&route),
            Err(error) if !under_v1 => Err(error.into()),
            route => {
                let ignored = request::ignored(head.query, endpoint.query_parameters());
                let ignored = ignored.as_deref();
                let mut handled = self.metered(head.query, endpoint, |caller| {
                    self.route_response((endpoint, route), (accepts_gzip, ignored), caller)
                });
                handled.response.add_ignored(ignored);
                return handled;
            }
        };
        let response = response.unwrap_or_else(|error| pages::html_error(error, head));
        self.unmetered(endpoint, response)
    }

    /// Names ignored parameters in a response that is not from the cache.
    #[cold]
    fn name_ignored(&self, handled: &mut Handled) {
        let declared = handled.endpoint.query_parameters();
        let ignored = request::ignored(self.head.query, declared);
        handled.response.add_ignored(ignored.as_deref());
    }

    /// A response of which nothing is spent. It shows the quota of the address.
    #[cold]
    fn unmetered(&self, endpoint: Endpoint, response: ApiResponse) -> Handled {
        let shown = Caller::Anonymous(self.client());
        self.handled(endpoint, None, shown, (response, self.remaining(shown)))
    }

    /// A response that shows the quota of the caller, if the caller is known. `respond` returns it
    /// with what remains of the quota.
    fn metered(
        &self,
        query: Option<&str>,
        endpoint: Endpoint,
        respond: impl FnOnce(Caller) -> (ApiResponse, u32),
    ) -> Handled {
        let gate = &self.worker.gate;
        match gate.authenticate(self.identity, self.head.headers, query) {
            Ok(caller) => self.handled(endpoint, Some(caller), caller, respond(caller)),
            Err(error) => self.unmetered(endpoint, ApiError::from(error).into()),
        }
    }

    /// A response with the quota of the caller that it shows.
    #[inline]
    fn handled(
        &self,
        endpoint: Endpoint,
        caller: Option<Caller>,
        shown: Caller,
        (response, remaining): (ApiResponse, u32),
    ) -> Handled {
        let id = self.worker.ids.next();
        let is_logged = self.worker.access.is_some();
        let record = || {
            let (time, client) = (self.now.moment(), self.address());
            let pairs = access_record::of_request(time, id, client, caller, self.head, endpoint);
            (pairs, Instant::now())
        };
        Handled {
            response,
            quota: self.worker.gate.status(shown, remaining, self.now),
            id,
            is_head: *self.head.method == Method::HEAD,
            endpoint,
            caller,
            record: is_logged.then(record),
        }
    }

    /// The response to a request of the wrong form, whatever its target. No key is verified for it.
    fn form_response(&self, endpoint: Endpoint) -> Option<ApiResponse> {
        let head = self.head;
        let fail = |error: ApiError| Some(error.into());
        if let Some(error) = head.host_error() {
            return fail(ApiError::BadRequest(error.to_owned()));
        }
        let takes_forms = self.worker.signup.is_some() && endpoint == Endpoint::Keys;
        match *head.method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => return Some(ApiResponse::preflight(takes_forms)),
            Method::POST if takes_forms => {}
            _ => {
                let method = head.method.to_string();
                return fail(ApiError::MethodNotAllowed {
                    method,
                    takes_forms,
                });
            }
        }
        if head.has_transfer_encoding {
            let error = "request bodies of unknown length are not accepted; omit Transfer-Encoding";
            return fail(ApiError::BadRequest(error.to_owned()));
        }
        None
    }

    /// The response to a request for a page or a dump.
    fn site_response(&self, route: &SiteRoute) -> Result<ApiResponse, ApiError> {
        let mut response = self.time_slice.spend(|| self.respond_unmetered(route))?;
        if let Some(PendingBody::Download(_, permit)) = response.pending_body.as_deref_mut()
            && self.head.method != Method::HEAD
        {
            let taken = self.worker.downloads.take_for(self.address());
            *permit = Some(taken.ok_or(ApiError::Busy)?);
        }
        Ok(response)
    }

    /// The response to a request under `/v1` whose caller is known, and what remains of the quota.
    fn route_response(
        &self,
        (endpoint, route): (Endpoint, Result<Route, RouteError>),
        (accepts_gzip, ignored): (bool, Option<&str>),
        caller: Caller,
    ) -> (ApiResponse, u32) {
        let head = self.head;
        let is_head = *head.method == Method::HEAD;
        let needs_content = |etag: &EntityTag| !is_head && !head.knows(etag);
        let read = ReadContext {
            client: caller.number(),
            accepts_gzip,
            needs_content: &needs_content,
        };
        let mut permit = None;
        match &route {
            Ok(Route::Health) => {
                let body = self.snapshot.health.choose(accepts_gzip);
                let is_known = head.knows(&body.etag);
                let response = ApiResponse::cacheable(is_known, body, &[REVALIDATED], JSON);
                return (response, self.remaining(caller));
            }
            Ok(route) => {
                if let Some(payload) = self.snapshot.unpublished(route) {
                    return self.unavailable(caller, ApiError::NotReady(payload));
                }
                if self.snapshot.is_long(route, read) {
                    permit = self.worker.downloads.take_for(self.address());
                    if permit.is_none() {
                        return self.unavailable(caller, ApiError::Busy);
                    }
                }
            }
            Err(_) => {}
        }
        self.admit(caller, || {
            let found = route.map_err(ApiError::from).and_then(|route| {
                let found = || self.look_up(endpoint, &route, read, ignored);
                self.time_slice.spend(found)
            });
            match found {
                Ok(found) => self.found_response(endpoint, found, permit),
                Err(error) => error.into(),
            }
        })
    }

    fn remaining(&self, caller: Caller) -> u32 {
        self.worker.gate.remaining(caller, self.now.day)
    }

    /// Counts a request and responds to it, if its quota is not spent. Returns also what remains.
    fn admit(&self, caller: Caller, respond: impl FnOnce() -> ApiResponse) -> (ApiResponse, u32) {
        match self.worker.gate.admit(caller, self.now, self.may_wait) {
            Ok(Decision::Admit { remaining }) => (respond(), remaining),
            Ok(Decision::Refuse) => (self.quota_exceeded(caller), 0),
            Err(NoLease::Wait(client)) => (ApiResponse::after(PendingBody::Lease(client)), 0),
            Err(NoLease::Unavailable) => (ApiError::NoQuotaStore.into(), self.remaining(caller)),
        }
    }

    /// A 503, which spends nothing. A spent quota comes before it.
    fn unavailable(&self, caller: Caller, error: ApiError) -> (ApiResponse, u32) {
        match self.remaining(caller) {
            0 => (self.quota_exceeded(caller), 0),
            remaining => (error.into(), remaining),
        }
    }

    #[cold]
    fn quota_exceeded(&self, caller: Caller) -> ApiResponse {
        let has_key = matches!(caller, Caller::Keyed(_));
        let has_advice = !has_key && self.worker.signup.is_some();
        let service = &self.worker.pages.service;
        let error = ApiError::RateLimited {
            has_key,
            limit: self.worker.gate.limit(caller),
            reset_seconds: self.now.reset_seconds,
            free_key: has_advice.then(|| (format!("{}/keys", service.base_url), service.limits[1])),
        };
        error.into()
    }

    /// Looks up a route that the worker's cache does not have, and caches the response.
    fn look_up(
        &self,
        endpoint: Endpoint,
        route: &Route,
        read: ReadContext<'_>,
        ignored: Option<&str>,
    ) -> Result<Encoded, ApiError> {
        let (head, snapshot) = (self.head, self.snapshot);
        let found = snapshot.get(route, read).map_err(|missing| {
            self.missing(&missing, route, |day, index| {
                format!("day {day} is not available; the available days are listed at {index}")
            })
        })?;
        // No key under a usual name stays in memory for longer than its connection. A misplaced key may come
        // with a valid one in the header, so such a target is not cached either.
        let has_key = request::key(head.query) != SentKey::None
            || request::mistaken_keys(head.query).next().is_some();
        if *head.method == Method::GET && !has_key {
            let form = (head.path, head.query, read.accepts_gzip);
            let mut cache = self.cache.borrow_mut();
            cache.put(form, endpoint, (&found, ignored));
        }
        Ok(found)
    }

    /// The response with a published body. A long body takes the permit.
    fn found_response(
        &self,
        endpoint: Endpoint,
        mut found: Encoded,
        permit: Option<Permit>,
    ) -> ApiResponse {
        let head = self.head;
        let is_page = matches!(endpoint, Endpoint::Islands | Endpoint::Creators);
        if found.gzip && is_page && *head.method == Method::HEAD {
            // The length of a compressed page is known only if a cache has the page: HEAD never
            // sends it.
            found.content = Content::Omitted(None);
        }
        let is_known = head.knows(&found.etag);
        let mut response = ApiResponse::published(is_known, found, self.now.moment());
        if let Some(PendingBody::Download(_, slot)) = response.pending_body.as_deref_mut() {
            *slot = permit;
        }
        response
    }
}
