//! The TLS handshake, the first phase of a connection to a TLS port.
//!
//! - **Limits.** A handshake has a timeout from accept to its end. A worker has at most a given number
//!   under way: where that is reached, the longest-waiting one is closed, so a flood of half handshakes
//!   keeps no honest client out.
//! - **Turns.** A step of a handshake computes for up to a millisecond (RSA). After each such step the
//!   worker polls its other connections before the next handshake continues: a response is delayed by
//!   one step, however many handshakes are under way.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::server::TlsStream;

use crate::observe::{CloseReason, HandshakeResult};
use crate::server::conn::connection_state::{ConnectionPhase, ConnectionState};
use crate::server::conn::context::ConnectionContext;
use crate::sync::{Mutex, Replica, lock};
use crate::tls::ServerCertificate;

/// The first byte of every TLS connection: the record type of a handshake (RFC 8446 section 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Steps that take longer are followed by a turn of all other connections.
const STEP: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(crate) struct TlsAcceptor {
    certificate: Replica<Arc<ServerCertificate>>,
    /// Handshakes under way, the oldest first; some have ended since.
    // Locked by this worker's one thread, so there is never contention.
    handshakes: Mutex<VecDeque<Arc<ConnectionState>>>,
    handshakes_max: usize,
    /// Held by the handshake that computes.
    turn: Semaphore,
}

/// The result of a handshake that failed, whose alert was sent, or of one that did not begin, since the first byte is
/// not TLS: probably a plain HTTP request. With the socket, unless it is closed.
pub(crate) type HandshakeError = (HandshakeResult, Option<TcpStream>);

impl TlsAcceptor {
    pub(crate) fn new(
        certificate: Replica<Arc<ServerCertificate>>,
        handshakes_max: usize,
    ) -> TlsAcceptor {
        TlsAcceptor {
            certificate,
            handshakes: Mutex::default(),
            handshakes_max,
            turn: Semaphore::new(1),
        }
    }

    /// Performs the handshake of a connection that was just accepted, and counts its result.
    pub(in crate::server) async fn accept(
        &self,
        stream: TcpStream,
        context: &ConnectionContext,
    ) -> Result<Box<TlsStream<TcpStream>>, HandshakeError> {
        context.enter(ConnectionPhase::Handshake);
        self.admit(&context.state);
        // In a box, so that the connection does not keep its kilobytes.
        let mut handshake = Box::pin(self.handshake(stream));
        let ended = poll_fn(|cx| context.state.poll(cx, |cx| handshake.as_mut().poll(cx))).await;
        // The first request has its own timeout.
        context.enter(ConnectionPhase::New);
        let metrics = context.metrics();
        let accepted = ended.unwrap_or_else(|reason| {
            metrics.closed[reason as usize].add(1);
            Err((HandshakeResult::Failed, None))
        });
        let result = match &accepted {
            Ok(stream) => match stream.get_ref().1.handshake_kind() {
                Some(HandshakeKind::Resumed) => HandshakeResult::Resumed,
                _ => HandshakeResult::Full,
            },
            Err((result, _)) => *result,
        };
        metrics.handshakes[result as usize].add(1);
        accepted
    }

    /// Adds a handshake. Closes the longest-waiting one if there are too many.
    fn admit(&self, state: &Arc<ConnectionState>) {
        let mut handshakes = lock(&self.handshakes);
        if handshakes.len() >= self.handshakes_max {
            // One whose connection has ended is referred to by nothing else.
            handshakes.retain(|other| {
                other.phase().0 == ConnectionPhase::Handshake
                    && !other.is_closing()
                    && Arc::strong_count(other) > 1
            });
        }
        if handshakes.len() >= self.handshakes_max
            && let Some(oldest) = handshakes.pop_front()
        {
            oldest.close(CloseReason::Evicted);
        }
        handshakes.push_back(Arc::clone(state));
    }

    async fn handshake(
        &self,
        stream: TcpStream,
    ) -> Result<Box<TlsStream<TcpStream>>, HandshakeError> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1) if first == [HANDSHAKE_RECORD] => {}
            Ok(1) => return Err((HandshakeResult::NotTls, Some(stream))),
            Ok(_) | Err(_) => return Err((HandshakeResult::Failed, None)),
        }
        let config = Arc::clone(&lock(&self.certificate).config);
        let acceptor = tokio_rustls::TlsAcceptor::from(config);
        let accepting = pin!(acceptor.accept(stream).into_fallible());
        let accepted = self.in_turns(accepting).await;
        accepted.map(Box::new).map_err(|(error, stream)| {
            let has_left = matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            );
            (HandshakeResult::Failed, (!has_left).then_some(stream))
        })
    }

    /// Polls `work` to its end, one step in each turn.
    async fn in_turns<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        loop {
            let turn = self.turn.acquire().await.expect("it is never closed");
            let begun = Instant::now();
            let polled = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
            let is_long = begun.elapsed() >= STEP;
            if is_long {
                // All other connections are polled before the next step of any handshake.
                tokio::task::yield_now().await;
            }
            drop(turn);
            match polled {
                Poll::Ready(output) => return output,
                // What came while it yielded may have woken the task already.
                Poll::Pending if is_long => {}
                Poll::Pending => next_wake().await,
            }
        }
    }
}

async fn next_wake() {
    let mut is_first = true;
    poll_fn(|_| {
        if std::mem::take(&mut is_first) {
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}
