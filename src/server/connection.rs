//! One connection: hyper around the pipeline.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{CONNECTION, HeaderValue, TRANSFER_ENCODING};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::answer::{Answer, Limits};
use super::api_error::ApiError;
use super::body::{Download, Outgoing};
use super::buffers::{Buffers, Prepared};
use super::caller::{Caller, Gate, Visit};
use super::guard::{Guard, Shared};
use super::near::Near;
use super::pipeline::{self, Head, State};
use super::roster::{Membership, Order, Roster};
use super::seldom::Seldom;
use crate::calendar::Clock;
use crate::snapshot::{Body, Snapshot};
use crate::sync::{AtomicBool, AtomicU64, LatestReader, Ordering};

/// Heads longer than this are refused with 431. The longest honest ones, with a page of cookies, stay well below.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Hyper's buffer: the longest head and a little, so that a connection cannot hold more.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// What all connections of a worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) snapshot: LatestReader<Snapshot>,
    pub(crate) near: Near,
    pub(crate) gate: Gate,
    pub(crate) openapi: Body,
    pub(crate) docs: Body,
    pub(crate) clock: Arc<Clock>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) complaints: Arc<Seldom>,
}

/// A response that is there, or one that waits for a disk.
enum Responding {
    Now(Option<Response<Outgoing>>),
    Later(Pin<Box<dyn Future<Output = Response<Outgoing>> + Send>>),
}

impl Future for Responding {
    type Output = Result<Response<Outgoing>, Infallible>;

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

/// What a response has beside its answer.
struct Envelope {
    limits: Limits,
    headers: HeaderMap,
    is_head: bool,
}

impl Worker {
    fn answer(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        visit: &Visit,
        shared: &Arc<Shared>,
    ) -> Responding {
        let (answer, limits) = self.snapshot.with(|generation, snapshot| {
            let head = Head {
                method: request.method(),
                path: request.uri().path(),
                query: request.uri().query(),
                version: request.version(),
                headers: request.headers(),
            };
            let state = State {
                snapshot,
                generation,
                near: &self.near,
                gate: &self.gate,
                openapi: &self.openapi,
                docs: &self.docs,
            };
            pipeline::answer(head, visit, self.clock.now(), state)
        });
        let close = is_last(&request);
        if close {
            shared.ending.store(true, Ordering::Relaxed);
        }
        // The request's map has room already, and hyper takes it for the next request again.
        let mut headers = std::mem::take(request.headers_mut());
        headers.clear();
        if close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let envelope = Envelope {
            limits,
            headers,
            is_head: request.method() == Method::HEAD,
        };
        if let Some(download) = answer.download() {
            let (worker, shared) = (Arc::clone(self), Arc::clone(shared));
            return Responding::Later(Box::pin(async move {
                worker
                    .respond_later(answer, download, envelope, &shared)
                    .await
            }));
        }
        Responding::Now(Some(envelope.respond(answer, None, shared)))
    }

    /// Responds when the file of an answer is open, or is found not to be what was published.
    async fn respond_later(
        &self,
        answer: Answer,
        download: Download,
        envelope: Envelope,
        shared: &Shared,
    ) -> Response<Outgoing> {
        shared.waiting.store(true, Ordering::Relaxed);
        let opened = download.open(!envelope.is_head, &self.complaints).await;
        shared.waiting.store(false, Ordering::Relaxed);
        match opened {
            Ok(body) => envelope.respond(answer, Some(body), shared),
            Err(_) => envelope.respond(Answer::Failed(ApiError::Damaged), None, shared),
        }
    }

    /// The bytes that replace hyper's own answer to a head it cannot read.
    fn refusal(&self, status: u16, caller: Caller) -> Vec<u8> {
        let now = self.clock.now();
        let limits = Limits {
            limit: self.gate.limit(caller),
            remaining: self.gate.left(caller, now.day),
            reset_seconds: now.reset_seconds,
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        let answer = Answer::Failed(ApiError::UnreadableHead(status));
        let mut out = format!("HTTP/1.1 {status}\r\nconnection: close\r\n").into_bytes();
        answer.write_lines(limits, &mut out);
        let body = answer.into_body();
        out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        out.extend_from_slice(&body);
        out
    }
}

impl Envelope {
    /// The response. `body` is what a download opened; without one the answer has its body with it.
    fn respond(
        self,
        answer: Answer,
        body: Option<Outgoing>,
        shared: &Shared,
    ) -> Response<Outgoing> {
        shared
            .prepared
            .put(|lines| answer.write_lines(self.limits, lines));
        let status = answer.status();
        let body = body.unwrap_or_else(|| Outgoing::Whole(answer.into_body()));
        if !self.is_head {
            let bytes = body.bytes_in_pieces();
            shared.in_pieces.store(bytes, Ordering::Relaxed);
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Whether nothing that follows this request is answered.
pub(super) fn is_last(request: &Request<Incoming>) -> bool {
    // What follows a body is not taken for a request: no body is ever read.
    let has_body =
        !request.body().is_end_stream() || request.headers().contains_key(TRANSFER_ENCODING);
    has_body || request.method() == Method::CONNECT
}

/// Serves a connection to its end.
pub(crate) async fn serve(worker: Arc<Worker>, stream: TcpStream, peer: SocketAddr) {
    // Only a hint to the kernel: without it answers are late, not wrong.
    let _ = stream.set_nodelay(true);
    let visit = worker.gate.arrive(peer.ip());
    // Of a head that cannot be read no more is known than where it comes from.
    let nearest = Caller::Anonymous(worker.gate.client(&visit, &HeaderMap::new()));
    let refusing = Arc::clone(&worker);
    let shared = Arc::new(Shared {
        prepared: Prepared::default(),
        buffers: Arc::clone(&worker.buffers),
        ending: AtomicBool::new(false),
        in_pieces: AtomicU64::new(0),
        waiting: AtomicBool::new(false),
        membership: worker.roster.join(),
    });
    let socket = Guard::new(
        TokioIo::new(stream),
        move |status| refusing.refusal(status, nearest),
        Arc::clone(&shared),
    );
    let answering = Arc::clone(&shared);
    let service = service_fn(move |request: Request<Incoming>| {
        answering.membership.progress();
        worker.answer(request, &visit, &answering)
    });
    converse(socket, service, &shared.membership).await;
}

/// Has hyper answer all requests of a connection with `service`.
pub(super) async fn converse<S, F, A, R, B>(
    socket: Guard<S, F>,
    service: A,
    membership: &Membership,
) where
    S: Read + Write + Unpin,
    F: Fn(u16) -> Vec<u8> + Unpin,
    A: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future = R>,
    R: Future<Output = Result<Response<B>, Infallible>>,
    B: HttpBody<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut connection = http1::Builder::new()
        // The roster has the time: a timer of hyper's would be set and cleared for each request.
        .header_read_timeout(None)
        // A client that has said all it will say still wants its answer, which it was charged for.
        .half_close(true)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(socket, service);
    let mut finishing = false;
    poll_fn(|cx| {
        match membership.order(cx) {
            Order::Go => {}
            Order::Finish if finishing => {}
            Order::Finish => {
                finishing = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            Order::End => return Poll::Ready(()),
        }
        // A connection that breaks is its client's affair; hyper has answered what could be answered.
        Pin::new(&mut connection).poll(cx).map(drop)
    })
    .await;
    let mut socket = connection.into_parts().io;
    poll_fn(|cx| match membership.order(cx) {
        Order::End => Poll::Ready(()),
        Order::Go | Order::Finish => socket.drain(cx).map(drop),
    })
    .await;
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
