//! Accepts the connections of a worker: permit, task, TLS handshake, requests, lingering close.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::net::TcpStream;

use crate::server::conn::client_stream::{ClientStream, lingering_close};
use crate::server::conn::context::ConnectionContext;
#[cfg(feature = "tls")]
use crate::server::conn::handshake::{HandshakeError, result};
use crate::server::conn::limiter::{ConnectionLimiter, Permit};
use crate::server::conn::listener::Listener;
#[cfg(feature = "tls")]
use crate::server::http::api_error::ApiError;
use crate::server::web::request_context::Worker;

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
            worker.metrics.full.add(1);
            worker.registry.evict();
            worker.registry.freed.notified().await;
            continue;
        };
        match listener.socket.accept().await {
            Ok((stream, peer)) => worker.spawn(stream, peer, permit, listener.is_tls),
            // The client left before it was accepted.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            // No descriptor or memory is left. Retrying immediately would busy the core.
            Err(_) => {
                worker.metrics.counters.accept_errors.add(1);
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
            worker.spawn(stream, peer, permit, listener.is_tls);
        }
    }
}

impl Worker {
    /// Serves an accepted connection in a task of its own.
    pub(in crate::server) fn spawn(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        mut permit: Permit,
        is_tls: bool,
    ) {
        self.metrics.counters.accepted.add(1);
        // A proxy has the connections of many clients.
        if !self.gate.proxies.contains(peer.ip()) && !permit.count_for(peer.ip()) {
            self.metrics.refused.add(1);
            return;
        }
        // Only a hint to the kernel: without it responses are late, not wrong.
        let _ = stream.set_nodelay(true);
        let worker = Arc::clone(self);
        let context = ConnectionContext::join(
            &self.registry,
            Some(permit),
            is_tls,
            &self.metrics,
            self.access.clone(),
        );
        if is_tls {
            #[cfg(feature = "tls")]
            tokio::spawn(worker.serve_tls(stream, peer.ip(), context));
        } else {
            tokio::spawn(async move { worker.serve(stream, peer.ip(), &context).await });
        }
    }

    /// Performs the handshake of a connection, and serves it.
    #[cfg(feature = "tls")]
    async fn serve_tls(
        self: Arc<Self>,
        stream: TcpStream,
        peer: IpAddr,
        context: Arc<ConnectionContext>,
    ) {
        let Some(acceptor) = &self.tls else {
            unreachable!("a TLS listener is opened with a certificate only");
        };
        let accepted = acceptor.accept(stream, &context).await;
        self.metrics.handshakes[result(&accepted) as usize].add(1);
        let mut stream = match accepted {
            Ok(stream) => return self.serve(stream, peer, &context).await,
            Err(HandshakeError::NotTls(stream)) => {
                let error = ApiError::BadRequest(PLAIN_HTTP.to_owned());
                let response = self.last_response(error, peer, &context);
                // The socket's buffer takes a response as short as this; nothing else was written.
                let _ = stream.try_write(&response);
                stream
            }
            Err(HandshakeError::Failed(stream)) => stream,
            Err(HandshakeError::Closed(reason)) => {
                if let Some(reason) = reason {
                    self.metrics.closed[reason as usize].add(1);
                }
                return;
            }
        };
        lingering_close(&mut stream, 0, &context).await;
    }

    /// Serves a connection to its end.
    pub(in crate::server) async fn serve<S: ClientStream>(
        &self,
        stream: S,
        peer: IpAddr,
        context: &Arc<ConnectionContext>,
    ) {
        let socket = TokioIo::new(stream);
        match self.serve_io(socket, peer, S::STORED_BYTES, context).await {
            Ok((socket, sent_bytes)) => {
                let mut stream = socket.into_inner();
                lingering_close(&mut stream, sent_bytes, context).await;
            }
            Err((reason, socket)) => {
                self.metrics.closed[reason as usize].add(1);
                if !context.phase().waits_for_client() {
                    // The system would keep what it stores for the client for minutes otherwise.
                    let socket = SockRef::from(socket.inner().tcp());
                    let _ = socket.set_linger(Some(Duration::ZERO));
                }
            }
        }
    }
}
