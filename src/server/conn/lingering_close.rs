//! The end of a connection whose client may be sending yet.
//!
//! A system that closes a socket with unread bytes tells the client that everything is off, and the
//! client throws away the answer that it has not read. So what still comes is read, and thrown away,
//! until the client has seen the end.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite as _;
use tokio::net::TcpStream;

use crate::server::conn::registry::Membership;

/// Bytes that are thrown away; who sends more does not read answers.
const THROWN_AWAY_MAX: usize = 1 << 20;

/// Ends our side, and waits for the client to end its own. Not for long, but for as long as it may take
/// to read its answer: the roster ends it.
pub(crate) async fn linger(mut stream: TcpStream, rest_time: Duration, membership: &Membership) {
    membership.close(rest_time);
    let mut left = THROWN_AWAY_MAX;
    poll_fn(|cx| {
        membership
            .poll(cx, |cx| poll_end(&mut stream, &mut left, cx))
            .map(drop)
    })
    .await;
}

/// Ends our side, and throws away what comes, until the client has ended its side or nothing is `left`.
fn poll_end(stream: &mut TcpStream, left: &mut usize, cx: &mut Context<'_>) -> Poll<()> {
    let mut scratch = [0; 4096];
    // A second time it does nothing.
    if ready!(Pin::new(&mut *stream).poll_shutdown(cx)).is_err() {
        return Poll::Ready(());
    }
    while *left > 0 {
        if ready!(stream.poll_read_ready(cx)).is_err() {
            return Poll::Ready(());
        }
        match stream.try_read(&mut scratch) {
            Ok(0) => return Poll::Ready(()),
            Ok(count) => *left = left.saturating_sub(count),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Poll::Ready(()),
        }
    }
    Poll::Ready(())
}
