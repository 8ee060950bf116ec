//! Accepts the connections of a worker: permit, task, TLS handshake, requests, lingering close.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::net::TcpStream;

#[cfg(feature = "tls")]
use crate::observe::HandshakeResult;
use crate::server::conn::client_stream::{ClientStream, lingering_close};
use crate::server::conn::context::ConnectionContext;
use crate::server::conn::limiter::{ConnectionLimiter, Permit};
use crate::server::conn::listener::Listener;
#[cfg(feature = "tls")]
use crate::server::http::api_error::ApiError;
use crate::server::worker::Worker;

#[cfg(feature = "tls")]
const PLAIN_HTTP: &str = "this port expects TLS; use https:// instead of http://";

/// Accepts connections until it is cancelled, as long as there are permits.
pub(crate) async fn accept(
    listener: Arc<Listener<tokio::net::TcpListener>>,
    worker: Arc<Worker>,
    limiter: Arc<ConnectionLimiter>,
) {
    loop {
        let Some(permit) = limiter.take() else {
            worker.registry.metrics.full.add(1);
            worker.registry.evict();
            worker.registry.freed.notified().await;
            continue;
        };
        match listener.socket.accept().await {
            Ok((stream, peer)) => spawn(&worker, stream, peer.ip(), permit, listener.is_tls),
            // The client left before it was accepted.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            // No descriptor or memory is left. Retrying immediately would busy the core.
            Err(_) => {
                worker.registry.metrics.counters.accept_errors.add(1);
                drop(permit);
                worker.registry.evict();
                worker.registry.freed.notified().await;
            }
        }
    }
}

/// Accepts the connections in the queue of a socket that is closed next, as long as there are
/// permits.
pub(crate) fn accept_rest(
    listener: &Listener<tokio::net::TcpListener>,
    worker: &Arc<Worker>,
    limiter: &Arc<ConnectionLimiter>,
) {
    while let Some(permit) = limiter.take() {
        // Directly from the kernel: the runtime may not know of the newest ones yet.
        let Ok((socket, peer)) = SockRef::from(&listener.socket).accept() else {
            return;
        };
        let stream = socket
            .set_nonblocking(true)
            .and_then(|()| TcpStream::from_std(socket.into()));
        if let (Ok(stream), Some(peer)) = (stream, peer.as_socket()) {
            spawn(worker, stream, peer.ip(), permit, listener.is_tls);
        }
    }
}

/// Serves an accepted connection in a task of its own.
fn spawn(worker: &Arc<Worker>, stream: TcpStream, peer: IpAddr, mut permit: Permit, is_tls: bool) {
    // A socket for both versions shows an address of IPv4 as one of IPv6.
    let peer = peer.to_canonical();
    worker.registry.metrics.counters.accepted.add(1);
    // A proxy has the connections of many clients.
    if !worker.services.gate.proxies.contains(peer) && !permit.count_for(peer) {
        worker.registry.metrics.refused.add(1);
        return;
    }
    // Only a hint to the kernel: without it responses are late, not wrong.
    let _ = stream.set_nodelay(true);
    let worker = Arc::clone(worker);
    let context = ConnectionContext::join(&worker.registry, Some(permit), is_tls);
    if is_tls {
        #[cfg(feature = "tls")]
        tokio::spawn(serve_tls(worker, stream, peer, context));
    } else {
        tokio::spawn(async move { serve(&worker, stream, peer, &context).await });
    }
}

/// Performs the handshake of a connection, and serves it.
#[cfg(feature = "tls")]
async fn serve_tls(
    worker: Arc<Worker>,
    stream: TcpStream,
    peer: IpAddr,
    context: Arc<ConnectionContext>,
) {
    let Some(acceptor) = &worker.tls else {
        unreachable!("a TLS listener is opened with a certificate only");
    };
    let (result, stream) = match acceptor.accept(stream, &context).await {
        Ok(stream) => return serve(&worker, stream, peer, &context).await,
        Err(error) => error,
    };
    let Some(mut stream) = stream else { return };
    if result == HandshakeResult::NotTls {
        let error = ApiError::BadRequest(PLAIN_HTTP.to_owned());
        let response = worker.last_response(error, peer, &context);
        // The socket's buffer takes a response as short as this; nothing else was written.
        if stream.try_write(&response).is_ok() {
            context.write_log();
        }
    }
    lingering_close(&mut stream, 0, &context).await;
}

pub(in crate::server) async fn serve<S: ClientStream>(
    worker: &Worker,
    stream: S,
    peer: IpAddr,
    context: &Arc<ConnectionContext>,
) {
    let socket = TokioIo::new(stream);
    match worker
        .serve_io(socket, peer, S::STORED_BYTES, context)
        .await
    {
        Ok((socket, sent_bytes)) => {
            let mut stream = socket.into_inner();
            lingering_close(&mut stream, sent_bytes, context).await;
        }
        Err((reason, socket)) => {
            worker.registry.metrics.closed[reason as usize].add(1);
            if !context.phase().waits_for_client() {
                // The system would keep what it stores for the client for minutes otherwise.
                let socket = SockRef::from(socket.inner().tcp());
                let _ = socket.set_linger(Some(Duration::ZERO));
            }
        }
    }
}
