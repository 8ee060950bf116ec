//! The whole service as one function of request head and context.
//!
//! Order of checks (CONTRACT section 6): method, key, quota, route and parameters, readiness.
//! Metering is decided here and nowhere else.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use hyper::Method;
use hyper::header::TRANSFER_ENCODING;

use crate::calendar::RequestTime;
use crate::quota::{Decision, NoLease};
use crate::request::{self, DayRef, Endpoint, ParsedTarget, Quoted, Route, RouteError};
use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::conn::time_slice::TimeSlice;
use crate::server::http::api_error::ApiError;
use crate::server::http::identity::{Caller, ConnectionIdentity, QuotaGate, QuotaStatus};
use crate::server::http::request_head::{RequestHead, accepts_gzip, is_not_modified};
use crate::server::http::response::{ApiResponse, CACHED_A_MINUTE, JSON, PendingBody, REVALIDATED};
use crate::server::http::worker_cache::WorkerCache;
use crate::server::web::pages::{self, PageRequest, Pages};
use crate::server::web::unmetered::{self, SignUp};
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
    let target = request::parse(head.path, head.query);
    let endpoint = target.endpoint;
    // With the quota of the address, of which nothing is spent.
    let unmetered = |response| {
        let caller = Caller::Anonymous(context.gate.client(context.identity, head.headers));
        Handled {
            response,
            quota: context
                .gate
                .status(caller, context.remaining(caller), context.now),
            endpoint,
            caller: None,
        }
    };
    let route = match route(head, target, context) {
        ControlFlow::Break(response) => return unmetered(response),
        ControlFlow::Continue(route) => route,
    };
    let caller = context
        .gate
        .authenticate(context.identity, head.headers, head.query);
    match caller {
        Err(error) => unmetered(ApiError::from(error).into()),
        Ok(caller) => {
            let request = MeteredRequest {
                head,
                context,
                caller,
            };
            let (response, remaining) = request.respond(&route);
            Handled {
                response,
                quota: context.gate.status(caller, remaining, context.now),
                endpoint,
                caller: Some(caller),
            }
        }
    }
}

/// Checks the form of a request, and breaks with a response if that is wrong or the target lies
/// outside the API: no key is verified then.
fn route(
    head: &RequestHead<'_>,
    target: ParsedTarget,
    context: &RequestContext<'_>,
) -> ControlFlow<ApiResponse, Result<Route, RouteError>> {
    let fail = |error: ApiError| ControlFlow::Break(error.into());
    if let Some(error) = head.host_error() {
        return fail(ApiError::BadRequest(error.to_owned()));
    }
    let takes_forms = context.sign_up.is_open && target.endpoint == Endpoint::Keys;
    match *head.method {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return ControlFlow::Break(ApiResponse::preflight(takes_forms)),
        Method::POST if takes_forms => {}
        _ => {
            let method = head.method.to_string();
            return fail(ApiError::MethodNotAllowed {
                method,
                takes_forms,
            });
        }
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        let error = "request bodies of unknown length are not accepted; omit Transfer-Encoding";
        return fail(ApiError::BadRequest(error.to_owned()));
    }
    let response = match target.route {
        Ok(Route::Site(ref route)) => {
            let request = PageRequest {
                client: context.gate.client(context.identity, head.headers),
                address: context.address(head),
                headers: head.headers,
                is_head: head.method == Method::HEAD,
                now: context.now.moment(),
            };
            let find = || {
                let (pages, snapshot) = (context.pages, context.snapshot);
                unmetered::find(head, route, (pages, snapshot, context.sign_up), request)
            };
            context.time_slice.spend(find)
        }
        Err(error) if !target.under_v1 => Err(error.into()),
        route => return ControlFlow::Continue(route),
    };
    let response = response.and_then(|mut response| {
        if let Some(PendingBody::Download(_, permit)) = response.pending_body.as_deref_mut()
            && head.method != Method::HEAD
        {
            let taken = context.downloads.take_for(context.address(head));
            *permit = Some(taken.ok_or(ApiError::Busy)?);
        }
        Ok(response)
    });
    let response = response.unwrap_or_else(|error| pages::html_error(error, head));
    ControlFlow::Break(response)
}

impl RequestContext<'_> {
    fn remaining(&self, caller: Caller) -> u32 {
        self.gate.remaining(caller, self.now.day)
    }

    fn address(&self, head: &RequestHead<'_>) -> IpAddr {
        self.gate.address(self.identity, head.headers)
    }
}

/// A request under `/v1` whose caller is known.
struct MeteredRequest<'a> {
    head: &'a RequestHead<'a>,
    context: &'a RequestContext<'a>,
    caller: Caller,
}

impl MeteredRequest<'_> {
    /// The response, and what remains of the caller's quota.
    fn respond(&self, route: &Result<Route, RouteError>) -> (ApiResponse, u32) {
        let (context, headers) = (self.context, self.head.headers);
        let is_head = self.head.method == Method::HEAD;
        match route {
            Ok(Route::Health) => {
                let body = context.snapshot.health.choose(accepts_gzip(headers));
                let response = ApiResponse::cacheable(headers, body, &[REVALIDATED], JSON);
                return (response, context.remaining(self.caller));
            }
            Ok(route) => {
                if let Some(payload) = context.snapshot.unpublished(route) {
                    return self.unavailable(ApiError::NotReady(payload));
                }
            }
            Err(_) => {}
        }
        let needs_content =
            |etag: &EntityTag| !is_head && !is_not_modified(headers, etag.as_bytes());
        let read = ReadContext {
            client: self.caller.number(),
            accepts_gzip: accepts_gzip(headers),
            needs_content: &needs_content,
        };
        let cached = route.as_ref().ok().and_then(|route| {
            let form = (route, read.accepts_gzip);
            context.cache.get(form, context.generation)
        });
        let mut permit = None;
        if let (Ok(route), None) = (route, &cached)
            && context.snapshot.is_long(route, read)
        {
            permit = context.downloads.take_for(context.address(self.head));
            if permit.is_none() {
                return self.unavailable(ApiError::Busy);
            }
        }
        let admitted = context
            .gate
            .admit(self.caller, context.now, context.may_wait);
        let remaining = match admitted {
            Ok(Decision::Admit { remaining }) => remaining,
            Ok(Decision::Refuse) => return (self.rate_limited(), 0),
            Err(NoLease::Wait(wait)) => return (ApiResponse::after_lease(wait), 0),
            Err(NoLease::Unavailable) => {
                let remaining = context.remaining(self.caller);
                return (ApiError::NoQuotaStore.into(), remaining);
            }
        };
        let found = match (cached, route) {
            (Some(found), _) => Ok(found),
            (None, Ok(route)) => context.time_slice.spend(|| look_up(route, context, read)),
            (None, Err(error)) => Err(error.clone().into()),
        };
        let response = found.map(|mut body| {
            if is_head && body.gzip && body.links.is_some() {
                // The length of a compressed page is known only if a cache has the page: HEAD never
                // sends it.
                body.content = Content::Omitted(None);
            }
            let mut response = ApiResponse::cacheable(headers, body, &[CACHED_A_MINUTE], JSON);
            if let Some(PendingBody::Download(_, slot)) = response.pending_body.as_deref_mut() {
                *slot = permit;
            }
            response
        });
        (response.unwrap_or_else(ApiResponse::from), remaining)
    }

    /// A 503, which spends nothing. A spent quota comes before it.
    fn unavailable(&self, error: ApiError) -> (ApiResponse, u32) {
        match self.context.remaining(self.caller) {
            0 => (self.rate_limited(), 0),
            remaining => (error.into(), remaining),
        }
    }

    fn rate_limited(&self) -> ApiResponse {
        let limit = self.context.gate.limit(self.caller);
        let reset_seconds = self.context.now.reset_seconds;
        let is_anonymous = matches!(self.caller, Caller::Anonymous(_));
        let has_advice = is_anonymous && self.context.sign_up.is_open;
        let error = ApiError::RateLimited {
            limit,
            reset_seconds,
            free_key: has_advice.then(|| self.context.pages.free_key()),
        };
        error.into()
    }
}

/// Looks up a route that the worker's cache does not have, and caches the response.
fn look_up(
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
    let form = (route, read.accepts_gzip);
    context.cache.put(form, context.generation, &found);
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
