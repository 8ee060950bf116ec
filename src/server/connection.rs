//! One connection: hyper around the pipeline.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::TRANSFER_ENCODING;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use tokio::net::TcpStream;

use super::answer::{Answer, Limits};
use super::api_error::ApiError;
use super::caller::{Caller, Gate, Visit};
use super::guard::Guard;
use super::pipeline::{self, Head, State};
use crate::calendar::Clock;
use crate::snapshot::{Body, Snapshot};
use crate::sync::{AtomicBool, LatestReader, Ordering};

/// Heads longer than this are refused with 431. The longest honest ones, with a page of cookies, stay well below.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Hyper's buffer: the longest head and a little, so that a connection cannot hold more.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// What all connections of a worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) snapshot: LatestReader<Snapshot>,
    pub(crate) gate: Gate,
    pub(crate) openapi: Body,
    pub(crate) docs: Body,
    pub(crate) clock: Arc<Clock>,
}

impl Worker {
    fn answer(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
        ending: &AtomicBool,
    ) -> Response<Full<Bytes>> {
        let snapshot = self.snapshot.current();
        let head = Head {
            method: request.method(),
            path: request.uri().path(),
            query: request.uri().query(),
            version: request.version(),
            headers: request.headers(),
        };
        let state = State {
            snapshot: &snapshot,
            gate: &self.gate,
            openapi: &self.openapi,
            docs: &self.docs,
        };
        let (answer, limits) = pipeline::answer(head, visit, self.clock.now(), state);
        // What follows a body is not taken for a request: no body is ever read.
        let has_body =
            !request.body().is_end_stream() || request.headers().contains_key(TRANSFER_ENCODING);
        let close = has_body || request.method() == Method::CONNECT;
        if close {
            ending.store(true, Ordering::Relaxed);
        }
        answer.into_response(limits, close)
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
        let error = ApiError::UnreadableHead(status);
        let body = error.body();
        let response = Answer::Failed(error).into_response(limits, true);
        let mut out =
            format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len()).into_bytes();
        for (name, value) in response.headers() {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
        out
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(
    worker: Arc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    watcher: Watcher,
) {
    // Only a hint to the kernel: without it answers are late, not wrong.
    let _ = stream.set_nodelay(true);
    let visit = worker.gate.arrive(peer.ip());
    // Of a head that cannot be read no more is known than where it comes from.
    let nearest = Caller::Anonymous(worker.gate.client(&visit, &HeaderMap::new()));
    let refusing = Arc::clone(&worker);
    let ending = Arc::new(AtomicBool::new(false));
    let socket = Guard::new(
        TokioIo::new(stream),
        move |status| refusing.refusal(status, nearest),
        Arc::clone(&ending),
    );
    let service = service_fn(move |request: Request<Incoming>| {
        let response = worker.answer(&request, &visit, &ending);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that has said all it will say still wants its answer, which it was charged for.
        .half_close(true)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(socket, service);
    // A connection that breaks is its client's affair; hyper has answered what could be answered.
    let _ = watcher.watch(connection).await;
}
