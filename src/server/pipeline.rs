//! The service as one function of request head and context. What waits for a disk, a form or the
//! store of shared quotas is returned as a `PendingBody`, which the worker completes.
//!
//! Order of checks (CONTRACT section 6): host, method, transfer coding, key, quota, readiness,
//! parameters. Only an admitted request spends quota; one that finds nothing published does not.
//! Metering is decided here and nowhere else.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::Method;

use crate::calendar::RequestTime;
use crate::quota::{Decision, NoLease};
use crate::request::{
    self, DayRef, Endpoint, ParsedTarget, Quoted, Route, RouteError, SentKey, SiteRoute,
};
use crate::server::conn::limiter::{ConnectionLimiter, Permit};
use crate::server::conn::time_slice::TimeSlice;
use crate::server::http::api_error::ApiError;
use crate::server::http::identity::{Caller, ConnectionIdentity, QuotaGate, QuotaStatus};
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::{ApiResponse, CACHED_A_MINUTE, JSON, PendingBody, REVALIDATED};
use crate::server::http::worker_cache::WorkerCache;
use crate::server::web::pages::{self, PageRequest, Pages, SignUp};
use crate::snapshot::{Content, Encoded, EntityTag, Missing, ReadContext, Snapshot};

/// The context of a request: time, connection and state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) now: RequestTime,
    pub(crate) identity: &'a ConnectionIdentity,
    /// Counts work that may take long against the connection.
    pub(crate) time_slice: &'a TimeSlice,
    pub(crate) snapshot: &'a Snapshot,
    /// The generation of the snapshot.
    pub(crate) generation: u64,
    pub(crate) cache: &'a WorkerCache,
    /// Limits the dumps and long bodies that are being sent.
    pub(crate) downloads: &'a Arc<ConnectionLimiter>,
    pub(crate) gate: &'a QuotaGate,
    pub(crate) pages: &'a Pages,
    pub(crate) sign_up: SignUp<'a>,
    /// Whether the request may wait for the store of shared quotas.
    pub(crate) may_wait: bool,
}

/// A response, and what is sent, counted and logged with it.
pub(crate) struct Handled {
    pub(crate) response: ApiResponse,
    pub(crate) quota: QuotaStatus,
    pub(crate) endpoint: Endpoint,
    /// The caller; `None` where no key was verified.
    pub(crate) caller: Option<Caller>,
}

/// Responds to a request.
pub(crate) fn respond(head: &RequestHead<'_>, context: &RequestContext<'_>) -> Handled {
    let accepts_gzip = head.accepts_gzip();
    let form = (head.path, head.query, accepts_gzip);
    // The cache has no other targets, and no responses to other methods.
    let is_cacheable = *head.method == Method::GET && head.path.starts_with("/v1");
    let knows = |etag: &EntityTag| head.knows(etag);
    let cached = is_cacheable.then(|| context.cache.get(form, context.generation, knows));
    let Some((endpoint, cached)) = cached.flatten() else {
        return respond_parsed(head, accepts_gzip, context);
    };
    // Most requests come here. Other code is apart, so that this takes little of the CPU's
    // instruction cache.
    if let Some(response) = form_response(head, endpoint, context) {
        return unmetered(head, endpoint, context, response);
    }
    // No cached target has a key in its query.
    metered(head, None, endpoint, context, |caller| {
        context.admit(caller, || cached)
    })
}

/// Responds to a request whose target the worker's cache does not have.
#[inline(never)]
fn respond_parsed(
    head: &RequestHead<'_>,
    accepts_gzip: bool,
    context: &RequestContext<'_>,
) -> Handled {
    let ParsedTarget {
        under_v1,
        endpoint,
        route,
    } = request::parse(head.path, head.query);
    if let Some(response) = form_response(head, endpoint, context) {
        return unmetered(head, endpoint, context, response);
    }
    let response = match route {
        Ok(Route::Site(route)) => site_response(head, &route, context),
        Err(error) if !under_v1 => Err(error.into()),
        route => {
            return metered(head, head.query, endpoint, context, |caller| {
                route_response(head, (endpoint, route), accepts_gzip, caller, context)
            });
        }
    };
    let response = response.unwrap_or_else(|error| pages::html_error(error, head));
    unmetered(head, endpoint, context, response)
}

/// A response of which nothing is spent. It shows the quota of the address.
#[cold]
fn unmetered(
    head: &RequestHead<'_>,
    endpoint: Endpoint,
    context: &RequestContext<'_>,
    response: ApiResponse,
) -> Handled {
    let caller = Caller::Anonymous(context.gate.client(context.identity, head.headers));
    let remaining = context.remaining(caller);
    Handled {
        response,
        quota: context.gate.status(caller, remaining, context.now),
        endpoint,
        caller: None,
    }
}

/// A response that shows the quota of the caller, if the caller is known. `respond` returns it with
/// what remains of the quota.
fn metered(
    head: &RequestHead<'_>,
    query: Option<&str>,
    endpoint: Endpoint,
    context: &RequestContext<'_>,
    respond: impl FnOnce(Caller) -> (ApiResponse, u32),
) -> Handled {
    let caller = context
        .gate
        .authenticate(context.identity, head.headers, query);
    let caller = match caller {
        Ok(caller) => caller,
        Err(error) => {
            return unmetered(head, endpoint, context, ApiError::from(error).into());
        }
    };
    let (response, remaining) = respond(caller);
    Handled {
        response,
        quota: context.gate.status(caller, remaining, context.now),
        endpoint,
        caller: Some(caller),
    }
}

/// The response to a request of the wrong form, whatever its target. No key is verified for it.
fn form_response(
    head: &RequestHead<'_>,
    endpoint: Endpoint,
    context: &RequestContext<'_>,
) -> Option<ApiResponse> {
    let fail = |error: ApiError| Some(error.into());
    if let Some(error) = head.host_error() {
        return fail(ApiError::BadRequest(error.to_owned()));
    }
    let takes_forms = context.sign_up.is_open && endpoint == Endpoint::Keys;
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
fn site_response(
    head: &RequestHead<'_>,
    route: &SiteRoute,
    context: &RequestContext<'_>,
) -> Result<ApiResponse, ApiError> {
    let request = PageRequest {
        head,
        pages: context.pages,
        snapshot: context.snapshot,
        sign_up: context.sign_up,
        client: context.gate.client(context.identity, head.headers),
        address: context.address(head),
        now: context.now.moment(),
    };
    let mut response = context.time_slice.spend(|| request.respond(route))?;
    if let Some(PendingBody::Download(_, permit)) = response.pending_body.as_deref_mut()
        && head.method != Method::HEAD
    {
        let taken = context.downloads.take_for(context.address(head));
        *permit = Some(taken.ok_or(ApiError::Busy)?);
    }
    Ok(response)
}

/// The response to a request under `/v1` whose caller is known, and what remains of the quota.
fn route_response(
    head: &RequestHead<'_>,
    (endpoint, route): (Endpoint, Result<Route, RouteError>),
    accepts_gzip: bool,
    caller: Caller,
    context: &RequestContext<'_>,
) -> (ApiResponse, u32) {
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
            let body = context.snapshot.health.choose(accepts_gzip);
            let is_known = head.knows(&body.etag);
            let response = ApiResponse::cacheable(is_known, body, &[REVALIDATED], JSON);
            return (response, context.remaining(caller));
        }
        Ok(route) => {
            if let Some(payload) = context.snapshot.unpublished(route) {
                return context.unavailable(caller, ApiError::NotReady(payload));
            }
            if context.snapshot.is_long(route, read) {
                permit = context.downloads.take_for(context.address(head));
                if permit.is_none() {
                    return context.unavailable(caller, ApiError::Busy);
                }
            }
        }
        Err(_) => {}
    }
    context.admit(caller, || {
        let found = route.map_err(ApiError::from).and_then(|route| {
            let found = || look_up(head, endpoint, &route, context, read);
            context.time_slice.spend(found)
        });
        match found {
            Ok(found) => found_response(head, found, permit),
            Err(error) => error.into(),
        }
    })
}

/// The response with a published body. A long body takes the permit.
fn found_response(
    head: &RequestHead<'_>,
    mut found: Encoded,
    permit: Option<Permit>,
) -> ApiResponse {
    if found.gzip && found.links.is_some() && *head.method == Method::HEAD {
        // The length of a compressed page is known only if a cache has the page: HEAD never
        // sends it.
        found.content = Content::Omitted(None);
    }
    let is_known = head.knows(&found.etag);
    let mut response = ApiResponse::cacheable(is_known, found, &[CACHED_A_MINUTE], JSON);
    if let Some(PendingBody::Download(_, slot)) = response.pending_body.as_deref_mut() {
        *slot = permit;
    }
    response
}

impl RequestContext<'_> {
    fn remaining(&self, caller: Caller) -> u32 {
        self.gate.remaining(caller, self.now.day)
    }

    fn address(&self, head: &RequestHead<'_>) -> IpAddr {
        self.gate.address(self.identity, head.headers)
    }

    /// Counts a request and responds to it, if its quota is not spent. Returns also what remains.
    fn admit(&self, caller: Caller, respond: impl FnOnce() -> ApiResponse) -> (ApiResponse, u32) {
        match self.gate.admit(caller, self.now, self.may_wait) {
            Ok(Decision::Admit { remaining }) => (respond(), remaining),
            Ok(Decision::Refuse) => (self.rate_limited(caller), 0),
            Err(NoLease::Wait(of)) => (ApiResponse::after(PendingBody::Lease(of)), 0),
            Err(NoLease::Unavailable) => (ApiError::NoQuotaStore.into(), self.remaining(caller)),
        }
    }

    /// A 503, which spends nothing. A spent quota comes before it.
    fn unavailable(&self, caller: Caller, error: ApiError) -> (ApiResponse, u32) {
        match self.remaining(caller) {
            0 => (self.rate_limited(caller), 0),
            remaining => (error.into(), remaining),
        }
    }

    #[cold]
    fn rate_limited(&self, caller: Caller) -> ApiResponse {
        let is_anonymous = matches!(caller, Caller::Anonymous(_));
        let has_advice = is_anonymous && self.sign_up.is_open;
        let error = ApiError::RateLimited {
            limit: self.gate.limit(caller),
            reset_seconds: self.now.reset_seconds,
            free_key: has_advice.then(|| self.pages.free_key()),
        };
        error.into()
    }
}

/// Looks up a route that the worker's cache does not have, and caches the response.
fn look_up(
    head: &RequestHead<'_>,
    endpoint: Endpoint,
    route: &Route,
    context: &RequestContext<'_>,
    read: ReadContext<'_>,
) -> Result<Encoded, ApiError> {
    let found = context
        .snapshot
        .get(route, read)
        .map_err(|missing| match missing {
            Missing::Payload => {
                ApiError::NotReady(context.snapshot.unpublished(route).unwrap_or("islands"))
            }
            Missing::Damaged(_) => ApiError::Damaged,
            Missing::Island | Missing::Creator | Missing::Day => not_found(route),
        })?;
    // No key stays in memory for longer than its connection.
    if *head.method == Method::GET && request::key(head.query) == SentKey::None {
        let form = (head.path, head.query, read.accepts_gzip);
        let generation = context.generation;
        context.cache.put(form, generation, endpoint, &found);
    }
    Ok(found)
}

/// The error of a route to an island, creator or day that is not published.
fn not_found(route: &Route) -> ApiError {
    let day = |day: &DayRef, index: &str| {
        format!("day {day} is not available; the available days are listed at {index}")
    };
    ApiError::NotFound(match route {
        Route::Island(code) | Route::IslandCcu(code) => format!("island {code} is not tracked"),
        Route::Ranking(date) => day(date, "/v1/rankings"),
        Route::New(date) => day(date, "/v1/new"),
        Route::Creator(slug) => format!("creator {} is not tracked", Quoted(slug)),
        _ => "not tracked".to_owned(),
    })
}
