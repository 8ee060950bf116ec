//! The whole service as one function: request head, connection, time and state to answer.
//!
//! Order of judgement (CONTRACT section 6): method, key, quota, route and parameters, readiness.
//! Metering is decided here and nowhere else.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{HOST, TRANSFER_ENCODING};
use hyper::{HeaderMap, Method, Version};

use super::caller::{Caller, Gate, KeyFault, Visit};
use super::faces::pages::{self, Pages, Visitor};
use super::faces::window;
use super::http::answer::{Answer, Limits};
use super::http::api_error::ApiError;
use super::http::conditions::{self, Validators};
use super::http::negotiate::{accepts_gzip, is_known, names_html, prefers_json};
use super::near::{Found, Near};
use crate::calendar::{Now, UtcDay};
use crate::model::IslandCode;
use crate::quota::Decision;
use crate::request::{self, DayRef, Outside, Route, RouteError, Template};
use crate::snapshot::{
    Asker, DumpIndex, Encoded, FixedHistory, FixedLive, Snapshot, SnapshotError,
};

/// The part of a request that is judged. Of bodies, only forms of sign-up are read, elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) version: Version,
    pub(crate) headers: &'a HeaderMap,
}

/// What a request is answered from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// Which of the snapshots that is.
    pub(crate) generation: u64,
    /// What the worker answered lately.
    pub(crate) near: &'a Near,
    pub(crate) gate: &'a Gate,
    pub(crate) pages: &'a Pages,
    /// Whether there is sign-up.
    pub(crate) sign_up: bool,
}

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
    if let Some(fault) = host_fault(head) {
        return refused(ApiError::BadRequest(fault.to_owned()));
    }
    if head.method == Method::OPTIONS {
        let takes_forms = state.sign_up && is_sign_up(head);
        return outside(Answer::Preflight { takes_forms });
    }
    if head.method != Method::GET && head.method != Method::HEAD {
        let takes_forms = state.sign_up && is_sign_up(head);
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
        Ok(Route::Outside(ref asked)) => {
            outside(for_people(find_outside(head, asked, state, visitor), head))
        }
        Err(error) if !parsed.under_v1 => outside(for_people(Answer::Failed(error.into()), head)),
        route => Way::Api(route),
    }
}

/// A failure outside the API as a page, for who looks at pages.
fn for_people(answer: Answer, head: Head<'_>) -> Answer {
    match answer {
        Answer::Failed(error) if names_html(head.headers) => pages::failed(error, head.path),
        answer => answer,
    }
}

/// Finds what is asked for outside the API.
fn find_outside<'a>(
    head: Head<'a>,
    asked: &Outside,
    state: State<'_>,
    visitor: impl Fn() -> Visitor<'a>,
) -> Answer {
    let (pages, snapshot, headers) = (state.pages, state.snapshot, head.headers);
    match asked {
        Outside::OpenApi => found(head, pages.openapi(headers)),
        Outside::Docs => Pages::docs(snapshot, headers),
        Outside::Site(file) => pages.file(*file, headers),
        Outside::Home | Outside::Search(_) if prefers_json(headers) => {
            let message = "no JSON is here; the endpoints are listed at /v1";
            Answer::Failed(ApiError::NotFound(message.to_owned()))
        }
        Outside::Home => Pages::home(snapshot, headers),
        Outside::Search(query) => pages.search(query, snapshot, visitor()),
        Outside::Island(code) => pages.island(*code, snapshot, visitor()),
        Outside::Keys => sign_up(head, state),
        Outside::Dump(name) => dump(head, name, state, visitor),
    }
}

/// Whether it is for sign-up, to which alone anything is posted.
fn is_sign_up(head: Head<'_>) -> bool {
    request::parse(head.path, None).route == Ok(Route::Outside(Outside::Keys))
}

fn sign_up(head: Head<'_>, state: State<'_>) -> Answer {
    if state.sign_up {
        return Answer::SignUp;
    }
    if names_html(head.headers) {
        return window::closed();
    }
    let message = "keys are not given here; ask the publisher of the service for one";
    Answer::Failed(ApiError::NotFound(message.to_owned()))
}

/// A file of the dumps, or the part of it that is asked for; the index as a page, where it is not asked for
/// by its name.
fn dump<'a>(
    head: Head<'a>,
    name: &str,
    state: State<'_>,
    visitor: impl Fn() -> Visitor<'a>,
) -> Answer {
    let Some(dumps) = state.snapshot.dumps() else {
        return Answer::Failed(ApiError::NoDumps);
    };
    let Some(dump) = dumps.find(name) else {
        return Answer::Failed(request::no_dump(name).into());
    };
    if let Some(index) = dump.held()
        && name == DumpIndex::FILE
        && !head.path.ends_with(name)
        && names_html(head.headers)
    {
        return state.pages.dumps(index, head.path, visitor());
    }
    let validators = Validators {
        etag: &dump.etag,
        modified: dump.modified,
        bytes: dump.bytes,
    };
    match conditions::select(head.method, head.headers, validators) {
        Ok(selection) => Answer::Dump {
            dump: Arc::clone(dump),
            selection,
        },
        Err(error) => Answer::Failed(error),
    }
}

/// RFC 9112 section 3.2: exactly one Host line in HTTP/1.1, and one that could be a host.
fn host_fault(head: Head<'_>) -> Option<&'static str> {
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if head.version < Version::HTTP_11 => None,
        (None, _) => Some("the Host header is missing; HTTP/1.1 wants exactly one"),
        (Some(_), Some(_)) => Some("the Host header is given twice; HTTP/1.1 wants exactly one"),
        (Some(host), None) => {
            let sound =
                |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(byte);
            let fault = "the Host header is no host; want name, name:port or [address]:port";
            (!host.as_bytes().iter().all(sound)).then_some(fault)
        }
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

fn found(head: Head<'_>, body: Encoded) -> Answer {
    let known = is_known(head.headers, body.etag.as_bytes());
    let links = None;
    Answer::Found { body, links, known }
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
