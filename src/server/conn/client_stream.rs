//! `ClientStream`: a connection to a client, with TLS or without, and its end.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

use crate::server::conn::connection_state::ConnectionPhase;
use crate::server::conn::context::ConnectionContext;
use crate::server::conn::listener::UNSENT_BYTES_MAX;

/// Bytes that are discarded; a client that sends more does not read responses.
const DISCARDED_MAX: usize = 1 << 20;

pub(in crate::server) trait ClientStream:
    AsyncRead + AsyncWrite + Send + Unpin + 'static
{
    /// Bytes that it takes of a response before the client has to take any.
    const STORED_BYTES: u64;

    fn tcp(&self) -> &TcpStream;
}

impl ClientStream for TcpStream {
    const STORED_BYTES: u64 = UNSENT_BYTES_MAX as u64;

    fn tcp(&self) -> &TcpStream {
        self
    }
}

// In a box: a session is more than a kilobyte, and hyper and this crate pass the stream on by value.
#[cfg(feature = "tls")]
impl ClientStream for Box<TlsStream<TcpStream>> {
    // With the limit of rustls for records that the socket has not taken.
    const STORED_BYTES: u64 = UNSENT_BYTES_MAX as u64 + 64 * 1024;

    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Ends a connection whose client may still be sending.
///
/// If a socket is closed with unread bytes, the client's system discards the response that the
/// client has not read. So the server reads and discards what still comes until the client has seen
/// the end (nginx calls this a lingering close).
///
/// It ends the server's side, and waits for the client to end its own: for as long as a slow client may
/// take to read what is stored of the `sent_bytes`, after which the registry closes the connection.
pub(crate) async fn lingering_close<S: ClientStream>(
    stream: &mut S,
    sent_bytes: u64,
    context: &ConnectionContext,
) {
    let in_system = SockRef::from(stream.tcp()).send_buffer_size().unwrap_or(0);
    let stored_bytes = sent_bytes.min(in_system as u64 + S::STORED_BYTES);
    context.wait_for_reader(ConnectionPhase::Closing, stored_bytes);
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
