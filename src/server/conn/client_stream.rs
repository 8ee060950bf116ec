//! `ClientStream`: a connection to a client, with TLS or without, and its end.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

use crate::server::conn::connection_state::ConnectionPhase;
use crate::server::conn::context::ConnectionContext;

/// Bytes that are discarded; a client that sends more does not read responses.
const DISCARDED_MAX: usize = 1 << 20;

/// A connection to a client.
pub(in crate::server) trait ClientStream:
    AsyncRead + AsyncWrite + Send + Unpin + 'static
{
    /// Bytes that it may store for the client beside the system.
    const STORED_BYTES: usize;

    /// Its socket.
    fn tcp(&self) -> &TcpStream;
}

impl ClientStream for TcpStream {
    const STORED_BYTES: usize = 0;

    fn tcp(&self) -> &TcpStream {
        self
    }
}

// In a box: a session is more than a kilobyte, and hyper and this crate pass the stream on by value.
#[cfg(feature = "tls")]
impl ClientStream for Box<TlsStream<TcpStream>> {
    // The limit of rustls for records that the socket has not taken.
    const STORED_BYTES: usize = 64 * 1024;

    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Bytes that are stored for a client that reads nothing, as far as the system reports that.
pub(in crate::server) fn send_buffer_bytes<S: ClientStream>(stream: &TokioIo<S>) -> usize {
    let socket = SockRef::from(stream.inner().tcp());
    socket.send_buffer_size().unwrap_or(0) + S::STORED_BYTES
}

/// Ends a connection whose client may still be sending.
///
/// If a socket is closed with unread bytes, the client's system discards the response that the
/// client has not read. So the server reads and discards what still comes until the client has seen
/// the end (nginx calls this a lingering close).
///
/// It ends the server's side, and waits for the client to end its own: for as long as it may take to
/// read its response, `rest_time`, after which the registry closes the connection.
pub(crate) async fn lingering_close(
    stream: &mut impl ClientStream,
    rest_time: Duration,
    context: &ConnectionContext,
) {
    context.enter_with_grace(ConnectionPhase::Closing, rest_time);
    let mut left = DISCARDED_MAX;
    let mut end = |cx: &mut Context<'_>| poll_end(stream, &mut left, cx);
    poll_fn(|cx| context.state.poll(cx, &mut end).map(drop)).await;
}

fn poll_end(stream: &mut impl ClientStream, left: &mut usize, cx: &mut Context<'_>) -> Poll<()> {
    let mut scratch = [0; 4096];
    // With TLS it sends `close_notify` first. A second time it does nothing.
    if ready!(Pin::new(&mut *stream).poll_shutdown(cx)).is_err() {
        return Poll::Ready(());
    }
    while *left > 0 {
        // Encrypted or not, it is discarded.
        if ready!(stream.tcp().poll_read_ready(cx)).is_err() {
            return Poll::Ready(());
        }
        match stream.tcp().try_read(&mut scratch) {
            Ok(0) => return Poll::Ready(()),
            Ok(count) => *left = left.saturating_sub(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Poll::Ready(()),
        }
    }
    Poll::Ready(())
}
