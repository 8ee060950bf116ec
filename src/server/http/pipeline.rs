//! The whole service as one function: request head, connection, time and state to answer.
//!
//! Order of judgement (CONTRACT section 6): method, key, quota, route and parameters, readiness.
//! Metering is decided here and nowhere else.

use hyper::Method;
use hyper::header::TRANSFER_ENCODING;

use crate::calendar::RequestTime;
use crate::quota::Decision;
use crate::request::{self, DayRef, Endpoint, ParsedTarget, Route, RouteError};
use crate::server::conn::limiter::Place;
use crate::server::http::api_error::ApiError;
use crate::server::http::identity::{Caller, Gate, KeyFault, Visit};
use crate::server::http::negotiate::{accepts_gzip, is_known};
use crate::server::http::request_head::{Head, State};
use crate::server::http::response::{Answer, Limits};
use crate::server::http::worker_cache::EmptySlot;
use crate::server::web::pages::Visitor;
use crate::server::web::unmetered;
use crate::snapshot::{Content, EntityTag, Found, Missing, ReadContext, Snapshot};

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// Its caller's figures, to send along.
    pub(crate) limits: Limits,
    pub(crate) endpoint: Endpoint,
    /// Whom it counts for; nobody where no key was looked at.
    pub(crate) caller: Option<Caller>,
    /// The place of a long body among the downloads.
    pub(crate) place: Option<Place>,
}

/// Answers a request.
pub(crate) fn answer(head: Head<'_>, visit: &Visit, now: RequestTime, state: State<'_>) -> Outcome {
    let gate = state.gate;
    let visitor = || Visitor {
        client: gate.client(visit, head.headers),
        address: gate.address(visit, head.headers),
        headers: head.headers,
        is_head: head.method == Method::HEAD,
        moment: now.moment(),
    };
    // The figures of the address, of which nothing is spent.
    let parsed = request::parse(head.path, head.query);
    let endpoint = parsed.endpoint;
    let unspent = |answer| {
        let caller = Caller::Anonymous(gate.client(visit, head.headers));
        Outcome {
            answer,
            limits: limits(gate, caller, gate.left(caller, now.day), now),
            endpoint,
            caller: None,
            place: None,
        }
    };
    let route = match outside_api(head, parsed, state, visitor) {
        Way::Outside(answer) => return unspent(answer),
        Way::Api(route) => route,
    };
    match gate.caller(visit, head.headers, head.query) {
        Ok(caller) => ApiRequest {
            head,
            visit,
            now,
            state,
            caller,
            endpoint,
        }
        .answer(route.as_ref()),
        Err(fault) => unspent(Answer::Failed(fault.into())),
    }
}

fn limits(gate: &Gate, caller: Caller, remaining: u32, now: RequestTime) -> Limits {
    Limits {
        limit: gate.limit(caller),
        remaining,
        reset_seconds: now.reset_seconds,
    }
}

/// A request under `/v1`, whose caller is known.
struct ApiRequest<'a> {
    head: Head<'a>,
    visit: &'a Visit,
    now: RequestTime,
    state: State<'a>,
    caller: Caller,
    endpoint: Endpoint,
}

impl ApiRequest<'_> {
    fn answer(&self, route: Result<&Route, &RouteError>) -> Outcome {
        let (head, state) = (self.head, self.state);
        if matches!(route, Ok(Route::Health)) {
            let body = state.snapshot.health(accepts_gzip(head.headers));
            let known = is_known(head.headers, body.etag.as_bytes());
            return self.outcome(Answer::Momentary { body, known }, self.left());
        }
        if matches!(route, Ok(route) if !is_ready(route, state.snapshot)) {
            return self.unavailable(ApiError::NotReady);
        }
        let needs_content = |etag: &EntityTag| {
            head.method != Method::HEAD && !is_known(head.headers, etag.as_bytes())
        };
        let context = ReadContext {
            client: self.caller.number(),
            accepts_gzip: accepts_gzip(head.headers),
            needs_content: &needs_content,
        };
        let cached = route.map(|route| {
            let form = (route, context.accepts_gzip);
            (route, state.cache.get(form, state.generation))
        });
        let mut place = None;
        if let Ok((route, Err(_))) = &cached
            && state.snapshot.is_long(route, context)
        {
            let address = state.gate.address(self.visit, head.headers);
            place = state.downloads.take_for(address);
            if place.is_none() {
                return self.unavailable(ApiError::Busy);
            }
        }
        let remaining = match state.gate.admit(self.caller, self.now.day) {
            Decision::Admit { remaining } => remaining,
            Decision::Refuse => return self.outcome(self.rate_limited(), 0),
        };
        let found = match cached {
            Ok((_, Ok(found))) => Ok(found),
            Ok((route, Err(slot))) => {
                let look_up = || look_up(route, slot, state.snapshot, context);
                state.turn.spend(look_up)
            }
            Err(error) => Err(error.clone().into()),
        };
        let answer = found.map(|Found { mut body, links }| {
            if head.method == Method::HEAD && body.gzip && links.is_some() {
                // The length of a compressed page is known only if a cache has the page: HEAD never sends it.
                body.content = Content::Omitted(None);
            }
            Answer::Found {
                known: is_known(head.headers, body.etag.as_bytes()),
                body,
                links,
            }
        });
        let answer = answer.unwrap_or_else(Answer::Failed);
        Outcome {
            place,
            ..self.outcome(answer, remaining)
        }
    }

    fn outcome(&self, answer: Answer, remaining: u32) -> Outcome {
        Outcome {
            answer,
            limits: limits(self.state.gate, self.caller, remaining, self.now),
            endpoint: self.endpoint,
            caller: Some(self.caller),
            place: None,
        }
    }

    fn left(&self) -> u32 {
        self.state.gate.left(self.caller, self.now.day)
    }

    /// A 503, which spends nothing; but a spent quota comes before it.
    fn unavailable(&self, error: ApiError) -> Outcome {
        match self.left() {
            0 => self.outcome(self.rate_limited(), 0),
            left => self.outcome(Answer::Failed(error), left),
        }
    }

    fn rate_limited(&self) -> Answer {
        let limit = self.state.gate.limit(self.caller);
        Answer::Failed(ApiError::RateLimited { limit })
    }
}

/// Where a request goes.
enum Way {
    /// It is refused by its form, or asks for what is outside the API: no key is looked at and nothing
    /// is spent.
    Outside(Answer),
    /// It comes to the key.
    Api(Result<Route, RouteError>),
}

fn outside_api<'a>(
    head: Head<'a>,
    parsed: ParsedTarget,
    state: State<'_>,
    visitor: impl Fn() -> Visitor<'a>,
) -> Way {
    let refused = |error| Way::Outside(Answer::Failed(error));
    if let Some(fault) = head.host_fault() {
        return refused(ApiError::BadRequest(fault.to_owned()));
    }
    let takes_forms = state.sign_up && parsed.endpoint == Endpoint::Keys;
    if head.method == Method::OPTIONS {
        return Way::Outside(Answer::Preflight { takes_forms });
    }
    if head.method != Method::GET
        && head.method != Method::HEAD
        && !(takes_forms && head.method == Method::POST)
    {
        return refused(ApiError::MethodNotAllowed { takes_forms });
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        let fault = "no request has a body of unknown length here; leave Transfer-Encoding out";
        return refused(ApiError::BadRequest(fault.to_owned()));
    }
    match parsed.route {
        Ok(Route::Site(ref asked)) => {
            let found = state
                .turn
                .spend(|| unmetered::find(head, asked, state, visitor));
            Way::Outside(unmetered::for_people(found, head))
        }
        Err(error) if !parsed.under_v1 => {
            Way::Outside(unmetered::for_people(Answer::Failed(error.into()), head))
        }
        route => Way::Api(route),
    }
}

/// Whether the payload that answers a route has been published.
fn is_ready(route: &Route, snapshot: &Snapshot) -> bool {
    let ready = snapshot.readiness();
    match route {
        Route::Index | Route::Islands(_) | Route::Island(_) => ready.islands,
        // An island that is not tracked is 404 whether histories are there or not.
        Route::IslandCcu(code) => ready.ccu || (ready.islands && !snapshot.tracks(*code)),
        Route::Creators(_) | Route::Creator(_) => ready.creators,
        Route::Live => ready.live,
        Route::Intraday => ready.intraday,
        Route::RankingDays | Route::Ranking(_) => ready.rankings,
        Route::NewDays | Route::New(_) => ready.new,
        Route::Health | Route::Site(_) => true,
    }
}

/// Looks up a route that the worker's cache does not have, and puts the response there.
fn look_up(
    route: &Route,
    slot: EmptySlot<'_>,
    snapshot: &Snapshot,
    context: ReadContext<'_>,
) -> Result<Found, ApiError> {
    let found = snapshot
        .get(route, context)
        .map_err(|missing| match missing {
            Missing::Payload => ApiError::NotReady,
            Missing::Damaged(_) => ApiError::Damaged,
            Missing::Island | Missing::Creator | Missing::Day => not_found(route),
        })?;
    slot.fill(&found);
    Ok(found)
}

/// The failure of a route that names something which is not published.
fn not_found(route: &Route) -> ApiError {
    let day = |day: &DayRef, index: &str| {
        format!("no day {day} is held; the held days are listed at {index}")
    };
    ApiError::NotFound(match route {
        Route::Island(code) | Route::IslandCcu(code) => format!("island {code} is not tracked"),
        Route::Ranking(date) => day(date, "/v1/rankings"),
        Route::New(date) => day(date, "/v1/new"),
        _ => "no creator of this slug is tracked".to_owned(),
    })
}

impl From<RouteError> for ApiError {
    fn from(error: RouteError) -> ApiError {
        match error {
            RouteError::BadRequest(message) => ApiError::BadRequest(message),
            RouteError::NotFound(message) => ApiError::NotFound(message),
        }
    }
}

impl From<KeyFault> for ApiError {
    fn from(fault: KeyFault) -> ApiError {
        match fault {
            KeyFault::Scheme => ApiError::InvalidKey(
                "the Authorization header wants Bearer and a key; leave it out to use the service anonymously",
            ),
            KeyFault::Twice => {
                ApiError::InvalidKey("a key is sent more than once; want it in one place, once")
            }
            KeyFault::Invalid => ApiError::InvalidKey(
                "this key is not valid; leave it out to use the service anonymously",
            ),
            KeyFault::Revoked => ApiError::KeyRevoked,
        }
    }
}
