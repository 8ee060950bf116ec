//! `ClientStream`: a connection to a client, with TLS or without.

use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

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
