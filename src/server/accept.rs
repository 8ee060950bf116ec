//! The accept loop of a worker.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::conn::listener::Listener;
use crate::server::worker::Worker;

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
            worker.registry.freed().await;
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
                worker.metrics.accept_errors.add(1);
                drop(permit);
                worker.registry.evict();
                worker.registry.freed().await;
            }
        }
    }
}

/// Accepts the connections in the queue of a socket that is closed next, as long as there are
/// permits.
pub(crate) async fn accept_rest(
    listener: &Listener<tokio::net::TcpListener>,
    worker: &Arc<Worker>,
    limiter: &Arc<ConnectionLimiter>,
) {
    while let Some(permit) = limiter.take() {
        let next = poll_fn(|cx| match listener.socket.poll_accept(cx) {
            Poll::Ready(Ok(accepted)) => Poll::Ready(Some(accepted)),
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Ready(None),
        });
        let Some((stream, peer)) = next.await else {
            return;
        };
        worker.spawn(stream, peer, permit, listener.is_tls);
    }
}
