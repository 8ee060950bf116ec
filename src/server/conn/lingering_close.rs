//! The end of a connection whose client may still be sending.
//!
//! If a socket is closed with unread bytes, the client's system discards the response that the
//! client has not read. So the server reads and discards what still comes until the client has seen
//! the end (nginx calls this a lingering close).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::server::conn::client_stream::ClientStream;
use crate::server::conn::connection_state::ConnectionPhase;
use crate::server::conn::registry::ConnectionHandle;

/// Bytes that are discarded; a client that sends more does not read responses.
const DISCARDED_MAX: usize = 1 << 20;

/// Ends our side, and waits for the client to end its own: for as long as it may take to read its
/// response, `rest_time`, after which the registry closes the connection.
pub(crate) async fn lingering_close(
    stream: &mut impl ClientStream,
    rest_time: Duration,
    handle: &ConnectionHandle,
) {
    handle.enter_with_grace(ConnectionPhase::Closing, rest_time);
    let mut left = DISCARDED_MAX;
    let mut end = |cx: &mut Context<'_>| poll_end(stream, &mut left, cx);
    poll_fn(|cx| handle.state.poll(cx, &mut end).map(drop)).await;
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
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Poll::Ready(()),
        }
    }
    Poll::Ready(())
}
