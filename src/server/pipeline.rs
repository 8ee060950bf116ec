//! The whole service as one function: request head, connection, time and state to answer.
//!
//! Order of judgement (CONTRACT section 6): method, key, quota, route and parameters, readiness.
//! Metering is decided here and nowhere else.

use bytes::Bytes;
use hyper::Method;
use hyper::header::TRANSFER_ENCODING;

use super::caller::{Caller, KeyFault, Visit};
use super::faces::pages::Visitor;
use super::http::answer::{Answer, Limits};
use super::http::api_error::ApiError;
use super::http::negotiate::{accepts_gzip, is_known};
use super::judged::{Head, State};
use super::near::Found;
use super::outside;
use crate::calendar::{Now, UtcDay};
use crate::model::IslandCode;
use crate::quota::Decision;
use crate::request::{self, DayRef, Route, RouteError, Template};
use crate::snapshot::{Asker, Encoded, FixedHistory, FixedLive, Snapshot, SnapshotError};

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// Its caller's figures, to send along.
    pub(crate) limits: Limits,
    pub(crate) template: Template,
    /// Whom it counts for; nobody where no key was looked at.
    pub(crate) caller: Option<Caller>,
}

/// Answers a request.
pub(crate) fn answer(head: Head<'_>, visit: &Visit, now: Now, state: State<'_>) -> Outcome {
    let gate = state.gate;
    let limits = |caller, remaining| Limits {
        limit: gate.limit(caller),
        remaining,
        reset_seconds: now.reset_seconds,
    };
    let unspent = |caller| limits(caller, gate.left(caller, now.day));
    let address = || Caller::Anonymous(gate.client(visit, head.headers));
    let outcome = |answer, limits, template, caller| Outcome {
        answer,
        limits,
        template,
        caller,
    };
    let visitor = || Visitor {
        client: gate.client(visit, head.headers),
        address: gate.address(visit, head.headers),
        headers: head.headers,
        moment: now.moment(),
    };
    let route = match outside_api(head, state, visitor) {
        Way::Outside(answer, template) => {
            return outcome(answer, unspent(address()), template, None);
        }
        Way::Api(route) => route,
    };
    let template = match &route {
        Ok(route) => route.template(),
        Err(_) => Template::of_path(head.path),
    };
    let outcome = |answer, limits, caller| outcome(answer, limits, template, caller);
    let caller = match gate.caller(visit, head.headers, head.query) {
        Ok(caller) => caller,
        Err(fault) => return outcome(Answer::Failed(fault.into()), unspent(address()), None),
    };
    let outcome = |answer, limits| outcome(answer, limits, Some(caller));
    if matches!(route, Ok(Route::Health)) {
        let body = state.snapshot.health(asker(head, caller));
        let known = is_known(head.headers, body.etag.as_bytes());
        return outcome(Answer::Momentary { body, known }, unspent(caller));
    }
    let limit = gate.limit(caller);
    if matches!(&route, Ok(route) if !is_ready(route, state.snapshot)) {
        // Spends nothing, but is judged after the quota.
        let limits = unspent(caller);
        let error = if limits.remaining == 0 {
            ApiError::RateLimited { limit }
        } else {
            ApiError::NotReady
        };
        return outcome(Answer::Failed(error), limits);
    }
    match gate.admit(caller, now.day) {
        Decision::Refuse => outcome(
            Answer::Failed(ApiError::RateLimited { limit }),
            limits(caller, 0),
        ),
        Decision::Admit { remaining } => {
            let answer = route.map_err(ApiError::from);
            let answer = answer.and_then(|route| find(head, caller, &route, state));
            outcome(
                answer.unwrap_or_else(Answer::Failed),
                limits(caller, remaining),
            )
        }
    }
}

/// Where a request goes.
enum Way {
    /// It is refused by its form, or asks for what is outside the API: no key is looked at and nothing
    /// is spent.
    Outside(Answer, Template),
    /// It comes to the key.
    Api(Result<Route, RouteError>),
}

fn outside_api<'a>(head: Head<'a>, state: State<'_>, visitor: impl Fn() -> Visitor<'a>) -> Way {
    let outside = |answer| Way::Outside(answer, Template::of_path(head.path));
    let refused = |error| outside(Answer::Failed(error));
    if let Some(fault) = head.host_fault() {
        return refused(ApiError::BadRequest(fault.to_owned()));
    }
    let takes_forms = || state.sign_up && outside::is_sign_up(head);
    if head.method == Method::OPTIONS {
        let takes_forms = takes_forms();
        return outside(Answer::Preflight { takes_forms });
    }
    if head.method != Method::GET && head.method != Method::HEAD {
        let takes_forms = takes_forms();
        if !(takes_forms && head.method == Method::POST) {
            return refused(ApiError::MethodNotAllowed { takes_forms });
        }
    }
    if head.headers.contains_key(TRANSFER_ENCODING) {
        let fault = "no request has a body of unknown length here; leave Transfer-Encoding out";
        return refused(ApiError::BadRequest(fault.to_owned()));
    }
    let parsed = request::parse(head.path, head.query);
    match parsed.route {
        Ok(Route::Outside(ref asked)) => outside(outside::for_people(
            outside::find(head, asked, state, visitor),
            head,
        )),
        Err(error) if !parsed.under_v1 => {
            outside(outside::for_people(Answer::Failed(error.into()), head))
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
        Route::Health | Route::Outside(_) => true,
    }
}

fn asker(head: Head<'_>, caller: Caller) -> Asker {
    Asker {
        client: caller.number(),
        accepts_gzip: accepts_gzip(head.headers),
    }
}

/// Finds what a route names.
fn find(
    head: Head<'_>,
    caller: Caller,
    route: &Route,
    state: State<'_>,
) -> Result<Answer, ApiError> {
    let asker = asker(head, caller);
    let form = (route, asker.accepts_gzip);
    let found = state.near.get_or_find(form, state.generation, || {
        look_up(route, state.snapshot, asker)
    })?;
    let known = is_known(head.headers, found.body.etag.as_bytes());
    Ok(Answer::Found {
        body: found.body,
        links: found.links,
        known,
    })
}

fn look_up(route: &Route, snapshot: &Snapshot, asker: Asker) -> Result<Found, ApiError> {
    let island = |code: &IslandCode| ApiError::NotFound(format!("island {code} is not tracked"));
    let unheld = |day: &DayRef, index: &str| {
        ApiError::NotFound(format!(
            "no day {day} is held; the held days are listed at {index}"
        ))
    };
    let page = |(body, links): (Encoded, Bytes)| Found {
        body,
        links: Some(links),
    };
    let body = match route {
        Route::Islands(query) => {
            let found = snapshot.islands(query, asker).ok_or(ApiError::NotReady)?;
            return Ok(page(found));
        }
        Route::Creators(query) => {
            let found = snapshot.creators(query, asker).ok_or(ApiError::NotReady)?;
            return Ok(page(found));
        }
        Route::Index => Ok(snapshot.index(asker).ok_or(ApiError::NotReady)?),
        Route::Live => Ok(snapshot
            .live(FixedLive::Live, asker)
            .ok_or(ApiError::NotReady)?),
        Route::Intraday => Ok(snapshot
            .live(FixedLive::Intraday, asker)
            .ok_or(ApiError::NotReady)?),
        Route::RankingDays => snapshot
            .fixed(FixedHistory::RankingDays, asker)
            .ok_or(ApiError::NotReady)?,
        Route::NewDays => snapshot
            .fixed(FixedHistory::NewDays, asker)
            .ok_or(ApiError::NotReady)?,
        Route::Island(code) => snapshot.island(*code, asker).ok_or_else(|| island(code))?,
        Route::IslandCcu(code) => snapshot
            .island_ccu(*code, asker)
            .ok_or_else(|| island(code))?,
        Route::Creator(slug) => {
            let unknown = || ApiError::NotFound("no creator of this slug is tracked".to_owned());
            snapshot.creator(slug, asker).ok_or_else(unknown)?
        }
        Route::Ranking(day) => {
            let found = held(day).and_then(|day| snapshot.ranking(day, asker));
            found.ok_or_else(|| unheld(day, "/v1/rankings"))?
        }
        Route::New(day) => {
            let found = held(day).and_then(|day| snapshot.new_islands(day, asker));
            found.ok_or_else(|| unheld(day, "/v1/new"))?
        }
        Route::Health | Route::Outside(_) => return Err(ApiError::NotReady),
    };
    let body = body.map_err(|_: SnapshotError| ApiError::Damaged)?;
    Ok(Found { body, links: None })
}

/// The day to look up, `Some(None)` for the latest; `None` where there is no such day.
#[expect(
    clippy::option_option,
    reason = "no such day, the latest, or a day: three answers of one lookup"
)]
fn held(day: &DayRef) -> Option<Option<UtcDay>> {
    match day {
        DayRef::Latest => Some(None),
        DayRef::Day(day) => Some(Some(*day)),
        DayRef::NoSuchDay(_) => None,
    }
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
