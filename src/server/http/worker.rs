//! What the connections of a worker share, and the way from hyper's request to hyper's response.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};

use crate::calendar::Clock;
use crate::observe::{AccessLogBuffer, RateLimitedLog, WorkerMetrics};
use crate::request::loggable;
use crate::server::conn::buffers::Buffers;
use crate::server::conn::limiter::{Place, Room};
use crate::server::conn::pending_log::{Journal, Record};
use crate::server::conn::registry::Roster;
use crate::server::conn::timed_io::Shared;
use crate::server::conn::turn::Turn;
use crate::server::http::api_error::ApiError;
use crate::server::http::body::{Download, ResponseBody};
use crate::server::http::identity::{Caller, Gate, Visit};
use crate::server::http::pipeline::{self, Outcome};
use crate::server::http::request_head::{Head, State};
use crate::server::http::request_id::RequestIds;
use crate::server::http::response::{Answer, Limits};
use crate::server::http::response_context::{LoggedRequest, ResponseContext};
use crate::server::http::worker_cache::WorkerCache;
use crate::server::settings::ConnectionLimits;
use crate::server::web::pages::Pages;
use crate::server::web::signup_form::Form;
use crate::server::web::signup_handle::Window;
use crate::snapshot::Snapshot;
use crate::sync::ArcSwapCache;

/// What all connections of a worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) snapshot: ArcSwapCache<Snapshot>,
    pub(crate) cache: WorkerCache,
    pub(crate) gate: Gate,
    pub(crate) pages: Pages,
    /// Where keys are signed up for, if they can be.
    pub(crate) window: Option<Window>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) complaints: Arc<RateLimitedLog>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) ids: RequestIds,
    /// Places for dumps and long bodies that are being sent.
    pub(crate) downloads: Arc<Room>,
    /// Nothing is logged where it is `None`.
    pub(crate) access: Option<Arc<AccessLogBuffer>>,
}

/// A response that is there, or one that waits: for a disk, for sign-up, or for its connection's next turn.
pub(crate) enum Responding {
    Now(Option<Response<ResponseBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>),
}

impl Responding {
    fn later(
        response: impl Future<Output = Response<ResponseBody>> + Send + 'static,
    ) -> Responding {
        Responding::Later(Box::pin(response))
    }
}

impl Future for Responding {
    type Output = Result<Response<ResponseBody>, Infallible>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Responding::Now(response) => {
                Poll::Ready(Ok(response.take().expect("polled once when it is there")))
            }
            Responding::Later(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}

impl Worker {
    /// Gives a sign of life when one is due, as long as the pipeline answers; leaves the lines that
    /// have gathered.
    pub(crate) async fn live(self: Arc<Self>) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        let visit = self.gate.arrive(IpAddr::from([127, 0, 0, 1]));
        let turn = Turn::default();
        let head = Head {
            method: &Method::GET,
            path: "/v1/health",
            query: None,
            version: Version::HTTP_11,
            headers: &headers,
        };
        loop {
            if self.judge(head, &visit, &turn).answer.status() == StatusCode::OK {
                self.roster.beat();
            }
            if let Some(access_log) = &self.access {
                access_log.flush();
            }
            self.roster.pulse().await;
        }
    }

    fn judge(&self, head: Head<'_>, visit: &Visit, turn: &Turn) -> Outcome {
        let now = self.clock.now();
        self.snapshot.with(|generation, snapshot| {
            let state = State {
                snapshot,
                generation,
                cache: &self.cache,
                downloads: &self.downloads,
                turn,
                gate: &self.gate,
                pages: &self.pages,
                sign_up: self.window.is_some(),
            };
            pipeline::answer(head, visit, now, state)
        })
    }

    /// Answers a request of a connection.
    pub(crate) fn answer(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        visit: &Visit,
        shared: &Arc<Shared>,
    ) -> Responding {
        let head = Head {
            method: request.method(),
            path: request.uri().path(),
            query: request.uri().query(),
            version: request.version(),
            headers: request.headers(),
        };
        let outcome = self.judge(head, visit, &shared.turn);
        let asked = shared.journal.is_kept().then(|| {
            let begun = Instant::now();
            Box::new(self.asked(head, visit, outcome.caller, begun))
        });
        let address = || self.gate.address(visit, head.headers);
        let form = matches!(outcome.answer, Answer::SignUp)
            .then(|| Form::new(head.method, head.query, head.headers, address()));
        let download = outcome.answer.download();
        // A long body of the API has its place already: without one it would have spent nothing.
        let place = match &download {
            Some(Download::Dump { .. }) if head.method != Method::HEAD => {
                self.downloads.take_for(address())
            }
            _ => outcome.place,
        };
        let closes = self.closes(&request, shared);
        let Outcome {
            answer,
            limits,
            endpoint,
            caller,
            place: _,
        } = outcome;
        let is_head = request.method() == Method::HEAD;
        // The request's map has room already, and hyper takes it for the next request again.
        let mut headers = std::mem::take(request.headers_mut());
        headers.clear();
        if closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let context = ResponseContext {
            limits,
            id: self.ids.next(),
            endpoint,
            tier: caller.map_or(0, Caller::tier),
            headers,
            version: closes.then(|| request.version()),
            is_head,
            asked,
        };
        if let (Some(form), Some(window)) = (form, &self.window) {
            let asked = (form, request.into_body());
            let window = (window.clone(), Arc::clone(&self.clock));
            return Responding::later(sign_up(asked, window, context, Arc::clone(shared)));
        }
        if let Some(download) = download {
            let (worker, shared) = (Arc::clone(self), Arc::clone(shared));
            let download = (download, place);
            return Responding::later(worker.respond_later(answer, download, context, shared));
        }
        let response = context.respond(answer, None, shared);
        if shared.turn.is_over() {
            return Responding::later(next_turn(response, Arc::clone(shared)));
        }
        Responding::Now(Some(response))
    }

    /// Whether the connection ends behind the answer to this request.
    #[inline]
    fn closes(&self, request: &Request<Incoming>, shared: &Shared) -> bool {
        shared.asked.add(1);
        let last = is_last(request);
        let closes = last
            || shared.asked.get() >= u64::from(self.limits.requests)
            || shared.membership.is_stopping()
            || shared.membership.age() >= self.limits.age;
        if closes {
            // Hyper then ends without offering all of the answer.
            if last || request.headers().contains_key(UPGRADE) {
                shared.pending.set_last();
            }
        }
        closes
    }

    /// What is to be logged of a request.
    #[cold]
    fn asked(
        &self,
        head: Head<'_>,
        visit: &Visit,
        caller: Option<Caller>,
        begun: Instant,
    ) -> LoggedRequest {
        LoggedRequest {
            begun,
            time: self.clock.now().moment(),
            client: self.gate.address(visit, head.headers),
            key: caller.and_then(Caller::key),
            method: head.method.clone(),
            target: loggable(head.path, head.query),
        }
    }

    /// Responds when a body is open, or is found not to be what was published. Without a place for it the
    /// response is 503.
    async fn respond_later(
        self: Arc<Self>,
        answer: Answer,
        (download, place): (Download, Option<Place>),
        context: ResponseContext,
        shared: Arc<Shared>,
    ) -> Response<ResponseBody> {
        let opening = async {
            match place {
                _ if context.is_head => download.head(&self.complaints).await,
                Some(place) => download.open(place, &self.complaints).await,
                None => Err(ApiError::Busy),
            }
        };
        match shared.pending.waiting(opening).await {
            Ok(body) => context.respond(answer, Some(body), &shared),
            Err(error) => context.respond(Answer::Failed(error), None, &shared),
        }
    }

    /// The bytes that replace hyper's own answer to a head it cannot read.
    pub(crate) fn refusal(
        &self,
        status: u16,
        (caller, peer): (Caller, IpAddr),
        journal: &Journal,
    ) -> Vec<u8> {
        self.metrics.count_parse_error(status);
        let now = self.clock.now();
        let limits = Limits {
            limit: self.gate.limit(caller),
            remaining: self.gate.left(caller, now.day),
            reset_seconds: now.reset_seconds,
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        let answer = Answer::Failed(ApiError::UnreadableHead(status));
        let date = now.moment().to_http();
        let mut out =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ndate: {date}\r\n").into_bytes();
        let id = self.ids.next();
        answer.write_lines(limits, id, &mut out);
        let body = ApiError::UnreadableHead(status).body();
        if journal.is_kept() {
            let record = Record {
                time: now.moment(),
                id,
                client: peer,
                key: None,
                // Whatever it was meant to be.
                method: &Method::default(),
                route: "unreadable",
                target: "-",
                status,
                body_bytes: body.len() as u64,
                gzip: false,
            };
            journal.note(&record, Instant::now());
        }
        out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        out.extend_from_slice(&body);
        out
    }
}

/// Hands over a response after the other connections have had their turn.
async fn next_turn(
    response: Response<ResponseBody>,
    shared: Arc<Shared>,
) -> Response<ResponseBody> {
    let others = tokio::task::yield_now();
    shared.pending.waiting(others).await;
    response
}

/// Responds when all of a form has come, and sign-up has answered it.
async fn sign_up(
    (form, body): (Form, Incoming),
    (window, clock): (Window, Arc<Clock>),
    context: ResponseContext,
    shared: Arc<Shared>,
) -> Response<ResponseBody> {
    let wish = form.wish(body, &window.base_url).await;
    // The time at which all of it is there: with an earlier one, a rate limiter's clock would go back.
    let moment = clock.now().moment();
    let answering = window.answer(form.client, wish, moment);
    let answer = shared.pending.waiting(answering).await;
    context.respond(answer, None, &shared)
}

/// Whether nothing that follows this request is answered.
pub(in crate::server) fn is_last(request: &Request<Incoming>) -> bool {
    // What follows a body is not taken for a request: none but a form's is ever read.
    let has_body =
        !request.body().is_end_stream() || request.headers().contains_key(TRANSFER_ENCODING);
    has_body || request.method() == Method::CONNECT
}
