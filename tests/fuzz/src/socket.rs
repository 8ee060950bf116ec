//! A socket in memory, with the behaviour of a client and a network.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt::{Read, ReadBufCursor, Write};
use island_metrics::server::InMemoryServer;

use crate::draws::Draws;

/// How a client sends and receives.
#[derive(Clone, Copy)]
pub struct Manner {
    /// Whether it sends and receives in pieces, or everything in one call.
    pub is_piecemeal: bool,
    /// Whether it shuts down its sending side after the last byte.
    pub ends: bool,
}

/// Result of a connection.
pub struct Outcome {
    pub received: Vec<u8>,
    /// Whether the server ended it; otherwise the server waits for the client.
    pub has_ended: bool,
}

pub struct Wire {
    pub sent: Vec<u8>,
    given: usize,
    pub manner: Manner,
    draws: Draws,
    pub received: Vec<u8>,
    is_shut: bool,
    /// Number of reads and writes, including those that returned no bytes.
    calls: usize,
}

impl Wire {
    pub fn new(sent: &[u8], manner: Manner, draws: Draws) -> Wire {
        Wire {
            sent: sent.to_vec(),
            given: 0,
            manner,
            draws,
            received: Vec::new(),
            is_shut: false,
            calls: 0,
        }
    }

    /// Whether the server has read all that was sent.
    pub fn is_read(&self) -> bool {
        self.given == self.sent.len()
    }

    /// Number of bytes that the next call transfers, at most `most`. `None` if it is pending; the task is woken.
    fn passes(&mut self, most: usize, cx: &Context<'_>) -> Option<usize> {
        self.calls += 1;
        if !self.manner.is_piecemeal {
            return Some(most);
        }
        if self.draws.one_in(4) {
            cx.waker().wake_by_ref();
            return None;
        }
        let piece = match self.draws.below(4) {
            0 => 1,
            1 => 1 + self.draws.below(8),
            2 => 1 + self.draws.below(200),
            _ => most,
        };
        Some(piece.min(most))
    }
}

pub struct Socket(pub Rc<RefCell<Wire>>);

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = &mut *self.0.borrow_mut();
        let left = wire.sent.len() - wire.given;
        if left == 0 {
            wire.calls += 1;
            return if wire.manner.ends {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        let Some(count) = wire.passes(left.min(buffer.remaining()), cx) else {
            return Poll::Pending;
        };
        buffer.put_slice(&wire.sent[wire.given..][..count]);
        wire.given += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self.0.borrow_mut();
        assert!(!wire.is_shut, "a write behind the end");
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        let Some(count) = wire.passes(offered, cx) else {
            return Poll::Pending;
        };
        let mut left = count;
        for part in parts {
            let taken = part.len().min(left);
            wire.received.extend_from_slice(&part[..taken]);
            left -= taken;
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().is_shut = true;
        Poll::Ready(Ok(()))
    }
}

#[derive(Default)]
pub struct Woken(AtomicBool);

impl Woken {
    /// Whether the task was woken since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends an input on a new connection, until the connection ends or waits. It must do one of the two, in a
/// number of steps that is bounded by the bytes of both directions.
pub fn converse(server: &InMemoryServer, peer: IpAddr, input: &[u8], manner: Manner) -> Outcome {
    let wire = Rc::new(RefCell::new(Wire::new(input, manner, Draws::of(input))));
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut serving = pin!(server.serve(Socket(Rc::clone(&wire)), peer));
    let mut polls = 0;
    let has_ended = loop {
        polls += 1;
        if serving
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            break true;
        }
        if !woken.take() {
            break false;
        }
        let bytes = input.len() + wire.borrow().received.len();
        assert!(polls <= 64 + 4 * bytes, "{polls} polls for {bytes} bytes");
    };
    let wire = wire.borrow();
    let bytes = input.len() + wire.received.len();
    let calls = wire.calls;
    assert!(calls <= 64 + 4 * bytes, "{calls} calls for {bytes} bytes");
    assert!(has_ended || !manner.ends, "it waits for a client that left");
    assert!(has_ended || wire.is_read(), "it waits for what is there");
    Outcome {
        received: wire.received.clone(),
        has_ended,
    }
}
