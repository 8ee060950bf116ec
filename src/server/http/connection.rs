//! One connection: hyper around the pipeline.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::net::TcpStream;

use crate::observe::{CloseReason, LocalCounter};
use crate::server::conn::lingering_close::linger;
use crate::server::conn::pending_log::Journal;
use crate::server::conn::pending_response::PendingResponse;
use crate::server::conn::registry::Membership;
use crate::server::conn::timed_io::{Guard, Shared};
use crate::server::conn::turn::Turn;
use crate::server::http::identity::Caller;
use crate::server::http::worker::Worker;

/// Heads longer than this are refused with 431. The longest honest ones, with a page of cookies, stay well below.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Hyper's buffer: the longest head and a little, so that a connection cannot hold more.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// Serves a connection to its end.
pub(crate) async fn serve(
    worker: Arc<Worker>,
    stream: TcpStream,
    peer: SocketAddr,
    membership: Membership,
) {
    // Only a hint to the kernel: without it answers are late, not wrong.
    let _ = stream.set_nodelay(true);
    let shared = Shared::new(&worker, membership);
    let socket = TokioIo::new(stream);
    let ended = attend(&worker, socket, peer.ip(), send_buffer_bytes, &shared).await;
    match ended {
        Ok((socket, rest_time)) => {
            linger(socket.into_inner(), rest_time, &shared.membership).await;
        }
        Err((cut, socket)) => {
            shared.metrics.closed[cut as usize].add(1);
            if cut == CloseReason::Send {
                // What the system holds for it would be kept for minutes otherwise.
                let stream = socket.into_inner();
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            }
        }
    }
}

/// Answers what comes on a socket. Gives it back when all is written, with the time that a slow client
/// may need to read that; or with the reason for which the connection was cut.
pub(in crate::server) async fn attend<S: Read + Write + Unpin>(
    worker: &Arc<Worker>,
    socket: S,
    peer: IpAddr,
    send_buffer_bytes: fn(&S) -> usize,
    shared: &Arc<Shared>,
) -> Result<(S, Duration), (CloseReason, S)> {
    let visit = worker.gate.arrive(peer);
    // Of a head that cannot be read no more is known than where it comes from.
    let nearest = Caller::Anonymous(worker.gate.client(&visit, &HeaderMap::new()));
    let refusal = |status| worker.refusal(status, (nearest, peer), &shared.journal);
    let socket = Guard::new(socket, refusal, send_buffer_bytes, Arc::clone(shared));
    let service =
        service_fn(move |request: Request<Incoming>| worker.answer(request, &visit, shared));
    let ended = converse(socket, service, shared).await;
    ended
        .map(|socket| {
            let rest_time = socket.rest_time();
            (socket.into_socket(), rest_time)
        })
        .map_err(|(cut, socket)| (cut, socket.into_socket()))
}

impl Shared {
    /// What the parts of a new connection of a worker share.
    pub(in crate::server) fn new(worker: &Worker, membership: Membership) -> Arc<Shared> {
        Arc::new(Shared {
            pending: PendingResponse::default(),
            buffers: Arc::clone(&worker.buffers),
            turn: Turn::default(),
            asked: LocalCounter::default(),
            membership,
            metrics: Arc::clone(&worker.metrics),
            journal: Journal::new(worker.access.clone()),
        })
    }
}

/// How much the system holds of answers for a client, as far as it tells.
fn send_buffer_bytes(socket: &TokioIo<TcpStream>) -> usize {
    SockRef::from(socket.inner())
        .send_buffer_size()
        .unwrap_or(0)
}

/// Has hyper answer all requests of a connection with `service`. Gives the socket back when all is
/// written, or the reason for which the connection was cut.
pub(in crate::server) async fn converse<S, F, A, R, B>(
    socket: Guard<S, F>,
    service: A,
    shared: &Shared,
) -> Result<Guard<S, F>, (CloseReason, Guard<S, F>)>
where
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
    let (membership, turn) = (&shared.membership, &shared.turn);
    let ended = poll_fn(|cx| {
        turn.begin();
        membership.poll(cx, |cx| Pin::new(&mut connection).poll(cx))
    })
    .await;
    let mut socket = connection.into_parts().io;
    let mut cut = None;
    match ended {
        // Hyper leaves all of HTTP/2's preface without an answer, but not one that comes in pieces.
        Ok(Err(fault)) if fault.is_parse_version_h2() => socket.refuse(400),
        // A connection that breaks is its client's affair; hyper has answered what could be answered.
        Ok(_) => {}
        Err(reason) => cut = Some(reason),
    }
    if cut.is_none() {
        cut = poll_fn(|cx| {
            turn.begin();
            membership.poll(cx, |cx| socket.drain(cx)).map(Result::err)
        })
        .await;
    }
    if let Some(cut) = cut {
        return Err((cut, socket));
    }
    // What a client that went away has not taken is logged as cut.
    if socket.is_drained() {
        socket.rest();
    }
    Ok(socket)
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
