//! The service as one function of the context of a request. What waits for a disk, a form or the
//! store of shared quotas is returned as a `PendingBody`, which the worker completes.
//!
//! Order of checks (CONTRACT section 6): host, method, transfer coding, key, quota, readiness,
//! parameters. Only an admitted request spends quota; one that finds nothing published does not.
//! Metering is decided here and nowhere else.

use std::time::Instant;

use hyper::Method;

use crate::quota::{Decision, NoLease};
use crate::request::{self, Endpoint, ParsedTarget, Route, RouteError, SentKey, SentKeys, Source};
use crate::server::http::access_record;
use crate::server::http::api_error::ApiError;
use crate::server::http::body::{Download, DownloadSource};
use crate::server::http::identity::{Caller, QuotaStatus};
use crate::server::http::response::{ApiResponse, JSON, PendingBody, REVALIDATED};
use crate::server::http::worker_cache::{CachedEntry, TargetForm, WorkerCache};
use crate::server::web::pages;
use crate::server::web::request_context::RequestContext;
use crate::snapshot::{Content, EntityTag, Missing};

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

/// The target by which a response is cached, unless it must not be, and the parameters that the response ignores.
type CacheableTarget<'a> = (Option<TargetForm<'a>>, Option<&'a str>);

pub(crate) fn respond(context: &RequestContext<'_>, cache: &mut WorkerCache) -> Handled {
    let head = context.head;
    let accepts_gzip = head.accepts_gzip();
    let form = (head.path, head.query, accepts_gzip);
    // The cache has no other targets, and no responses to other methods.
    let is_cacheable = *head.method == Method::GET && head.path.starts_with("/v1");
    let knows = |etag: &EntityTag| head.knows(etag);
    let cached = is_cacheable.then(|| cache.get(form, knows));
    let Some((cached, is_known)) = cached.flatten() else {
        return context.respond_parsed(accepts_gzip, cache);
    };
    let endpoint = cached.endpoint;
    // Most requests come here. Other code is apart, so that this takes little of the CPU's
    // instruction cache.
    if let Some(response) = context.form_response(endpoint, true) {
        return context.unmetered(endpoint, response);
    }
    // No cached target has a key in its query.
    context.respond_cached(&SentKeys::default(), cached, is_known)
}

impl RequestContext<'_> {
    /// Responds to a request whose target, without the key in its query, the worker's cache has.
    #[inline]
    fn respond_cached(&self, keys: &SentKeys<'_>, cached: &CachedEntry, is_known: bool) -> Handled {
        let endpoint = cached.endpoint;
        let mut handled = self.metered(keys, endpoint, |caller| {
            self.admit(caller, || cached.response(is_known, self.now.moment))
        });
        if handled.response.status.as_u16() >= 400 {
            let ignored = self.head.ignored(endpoint);
            handled.response.add_ignored(ignored.as_deref());
        }
        handled
    }

    /// Responds to a request whose target as sent the worker's cache does not have.
    #[inline(never)]
    fn respond_parsed(&self, accepts_gzip: bool, cache: &mut WorkerCache) -> Handled {
        let head = self.head;
        let ParsedTarget {
            under_v1,
            endpoint,
            query,
            route,
        } = request::parse(head.path, head.query);
        if let Some(response) = self.form_response(endpoint, under_v1) {
            return self.unmetered(endpoint, response);
        }
        if under_v1 {
            // No key stays in memory for longer than its connection.
            let keys = query.keys();
            let has_key = keys.key != SentKey::None;
            let without_key = has_key.then(|| query.without_key());
            let target = without_key.as_ref().map_or(head.query, Option::as_deref);
            let form = (head.path, target, accepts_gzip);
            let is_cacheable = *head.method == Method::GET && keys.misplaced.is_empty();
            // A cached target does not show that the key's own encoding is broken.
            if without_key.is_some()
                && route.is_ok()
                && is_cacheable
                && let Some((cached, is_known)) = cache.get(form, |etag| head.knows(etag))
            {
                return self.respond_cached(&keys, cached, is_known);
            }
            let form = is_cacheable.then_some(form);
            let ignored = query.ignored(|name| endpoint.declares(name));
            let ignored = ignored.as_deref();
            let mut handled = self.metered(&keys, endpoint, |caller| {
                self.route_response(route, (form, ignored), caller, cache)
            });
            handled.response.add_ignored(ignored);
            return handled;
        }
        let route = route.map_err(ApiError::from);
        let respond = |route| self.time_slice.spend(|| self.respond_unmetered(&route));
        let response = route.and_then(respond);
        let response = response.unwrap_or_else(|error| self.failure(error, (endpoint, false)));
        self.unmetered(endpoint, response)
    }

    /// A response of which nothing is spent. It shows the quota of the address.
    #[cold]
    fn unmetered(&self, endpoint: Endpoint, mut response: ApiResponse) -> Handled {
        // Scripts of other sites could read a visitor's keys otherwise.
        if endpoint == Endpoint::Keys {
            response.keep_same_origin();
        }
        let shown = Caller::Anonymous(self.client());
        self.handled(endpoint, None, shown, (response, self.remaining(shown)))
    }

    /// A response that shows the quota of the caller, if the caller is known. `respond` returns it
    /// with what remains of the quota.
    fn metered(
        &self,
        keys: &SentKeys<'_>,
        endpoint: Endpoint,
        respond: impl FnOnce(Caller) -> (ApiResponse, Option<u32>),
    ) -> Handled {
        let gate = &self.services.gate;
        match gate.authenticate(self.identity, self.head.headers, keys) {
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
        (response, remaining): (ApiResponse, Option<u32>),
    ) -> Handled {
        let id = self.services.ids.next();
        let record = || {
            let (time, client) = (self.now.moment, self.address());
            let pairs = access_record::of_request(time, id, client, caller, self.head, endpoint);
            (pairs, Instant::now())
        };
        Handled {
            response,
            quota: self.services.gate.status(shown, remaining, self.now),
            id,
            is_head: *self.head.method == Method::HEAD,
            endpoint,
            caller,
            record: self.is_logged.then(record),
        }
    }

    fn failure(&self, error: ApiError, route: (Endpoint, bool)) -> ApiResponse {
        pages::failure(error, route, (self.head, self.snapshot))
    }

    /// The response to a request of the wrong form, whatever its target. No key is verified for it.
    fn form_response(&self, endpoint: Endpoint, under_v1: bool) -> Option<ApiResponse> {
        let head = self.head;
        let fail = |error| Some(self.failure(error, (endpoint, under_v1)));
        if let Some(error) = head.host_error() {
            return fail(ApiError::BadRequest(error.to_owned()));
        }
        let takes_forms = self.services.signup.is_some() && endpoint == Endpoint::Keys;
        match *head.method {
            Method::GET | Method::HEAD => {}
            Method::OPTIONS => {
                let mut response = ApiResponse::preflight(endpoint, takes_forms);
                if under_v1 {
                    response.add_ignored(head.ignored(endpoint).as_deref());
                }
                return Some(response);
            }
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

    /// The response to a request under `/v1` whose caller is known, and what remains of the quota.
    fn route_response(
        &self,
        route: Result<Route, RouteError>,
        cacheable: CacheableTarget<'_>,
        caller: Caller,
        cache: &mut WorkerCache,
    ) -> (ApiResponse, Option<u32>) {
        let head = self.head;
        let route = match route {
            Ok(route) => route,
            Err(error) => return self.admit(caller, || ApiError::from(error).into()),
        };
        if let (Some(Source::Health), Some(body)) = (
            route.endpoint.source(),
            self.snapshot.in_memory(route.endpoint),
        ) {
            let body = body.choose(head.accepts_gzip());
            let is_known = head.knows(&body.etag);
            let response = ApiResponse::cacheable(is_known, body.clone(), &[REVALIDATED], JSON);
            return (response, self.remaining(caller));
        }
        let found = match self.snapshot.find(&route, head.accepts_gzip()) {
            Ok(found) => found,
            Err(Missing::Payload(payload)) => {
                return self.unavailable(caller, ApiError::NotReady(payload));
            }
            Err(Missing::NotFound) => {
                return self.admit(caller, || ApiError::not_tracked(&route).into());
            }
        };
        let is_known = head.knows(&found.etag);
        let needs_content = !is_known && *head.method != Method::HEAD;
        let permit = (needs_content && found.is_long()).then(|| self.download_permit());
        if let Some(None) = permit {
            return self.unavailable(caller, ApiError::Busy);
        }
        self.admit(caller, || {
            let body = match self.time_slice.spend(|| found.read(needs_content)) {
                Ok(body) => body,
                Err(error) => return self.damaged(&error).into(),
            };
            if let (Some(form), ignored) = cacheable {
                cache.put(form, route.endpoint, (&body, ignored));
            }
            let long = match &body.content {
                Content::Long(body) => Some(DownloadSource::Body((**body).clone())),
                _ => None,
            };
            let mut response = ApiResponse::published(is_known, body, self.now.moment);
            if let Some(source) = long {
                let permit = permit.flatten();
                response.open(Download { source, permit });
            }
            response
        })
    }

    fn remaining(&self, caller: Caller) -> Option<u32> {
        self.services.gate.remaining(caller, self.now.day)
    }

    /// Counts a request and responds to it, if its quota is not spent. Returns also what remains.
    fn admit(
        &self,
        caller: Caller,
        respond: impl FnOnce() -> ApiResponse,
    ) -> (ApiResponse, Option<u32>) {
        match self.services.gate.admit(caller, self.now, self.waited) {
            Ok(Decision::Admit { remaining }) => (respond(), Some(remaining)),
            Ok(Decision::Refuse) => (self.quota_exceeded(caller), Some(0)),
            Err(NoLease::Wait(wait)) => (ApiResponse::after(PendingBody::Lease(wait)), None),
            Err(NoLease::Unavailable) => (ApiError::NoQuotaStore.into(), self.remaining(caller)),
        }
    }

    /// A 503, which spends nothing. A spent quota comes before it.
    fn unavailable(&self, caller: Caller, error: ApiError) -> (ApiResponse, Option<u32>) {
        match self.remaining(caller) {
            Some(0) => (self.quota_exceeded(caller), Some(0)),
            remaining => (error.into(), remaining),
        }
    }

    #[cold]
    fn quota_exceeded(&self, caller: Caller) -> ApiResponse {
        let has_key = matches!(caller, Caller::Keyed(_));
        let has_advice = !has_key && self.services.signup.is_some();
        let service = &self.snapshot.service;
        let error = ApiError::RateLimited {
            has_key,
            limit: self.services.gate.limit(caller),
            reset_seconds: self.now.reset_seconds(),
            free_key: has_advice
                .then(|| (format!("{}/keys", service.base_url), service.limits.free)),
        };
        error.into()
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
