//! Keep-alive connections that send prepared bytes and count whole responses.

use std::net;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::http::read_some;
use crate::common::prelude::*;

/// Source addresses from 127.0.1.1 on: an address may send 65,535 requests a day.
pub(crate) struct Sources(u32);

impl Sources {
    pub(crate) fn new() -> Sources {
        Sources(Ipv4Addr::new(127, 0, 1, 0).to_bits())
    }

    /// An address not used before.
    pub(crate) fn fresh(&mut self) -> Ipv4Addr {
        self.0 += 1;
        Ipv4Addr::from_bits(self.0)
    }

    /// `count` addresses not used before.
    pub(crate) fn many(&mut self, count: usize) -> Vec<Ipv4Addr> {
        (0..count).map(|_| self.fresh()).collect()
    }

    /// A pool of connections, each from an address of its own.
    pub(crate) fn pool(&mut self, to: SocketAddr, count: usize) -> Outcome<Pool> {
        Pool::connect(self.many(count), to)
    }
}

/// A connection's non-blocking stream. A short read has emptied its socket.
pub(crate) trait Stream: io::Read + io::Write {}
impl Stream for TcpStream {}

struct Connection {
    stream: Box<dyn Stream>,
    /// Missing bytes of the current response's body.
    body_left: usize,
    /// The current response's head, while it is incomplete.
    head: Vec<u8>,
}

/// Connections polled together.
pub(crate) struct Pool {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    chunk: Vec<u8>,
}

/// Polls the reads of a connected stream, whose events have the token `at`.
pub(crate) fn register(poll: &Poll, stream: net::TcpStream, at: usize) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    let mut stream = TcpStream::from_std(stream);
    let registry = poll.registry();
    registry.register(&mut stream, Token(at), Interest::READABLE)?;
    Ok(stream)
}

/// Waits for events. An interrupted call returns none.
pub(crate) fn wait(poll: &mut Poll, events: &mut Events, longest: Duration) -> io::Result<()> {
    match poll.poll(events, Some(longest)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        other => other,
    }
}

impl Pool {
    pub(crate) fn connect(
        froms: impl IntoIterator<Item = Ipv4Addr>,
        to: SocketAddr,
    ) -> Outcome<Pool> {
        Pool::connect_by(froms, to, |stream| Ok(Box::new(stream)))
    }

    /// The same with streams that `wrap` builds on the sockets.
    pub(crate) fn connect_by(
        froms: impl IntoIterator<Item = Ipv4Addr>,
        to: SocketAddr,
        wrap: impl Fn(TcpStream) -> Outcome<Box<dyn Stream>>,
    ) -> Outcome<Pool> {
        let poll = Poll::new()?;
        let mut connections = Vec::new();
        for (at, from) in froms.into_iter().enumerate() {
            connections.push(Connection {
                stream: wrap(register(&poll, connect(from, to)?, at)?)?,
                body_left: 0,
                head: Vec::new(),
            });
        }
        Ok(Pool {
            poll,
            events: Events::with_capacity(1024),
            connections,
            chunk: vec![0; 256 * 1024],
        })
    }

    /// Replaces the stream of a connection without pending responses.
    pub(crate) fn replace(
        &mut self,
        at: usize,
        stream: net::TcpStream,
        wrap: impl Fn(TcpStream) -> Outcome<Box<dyn Stream>>,
    ) -> Outcome<()> {
        self.connections[at].stream = wrap(register(&self.poll, stream, at)?)?;
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Sends on a connection without pending responses, so the socket's buffer is empty.
    pub(crate) fn send(&mut self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.connections[at].stream.write_all(bytes)
    }

    /// Polls once without waiting. `done` becomes the connections on which responses ended, and how
    /// many on each. Another status than `status` is an error.
    pub(crate) fn receive(
        &mut self,
        status: u16,
        done: &mut Vec<(usize, usize)>,
    ) -> io::Result<()> {
        done.clear();
        wait(&mut self.poll, &mut self.events, Duration::ZERO)?;
        for event in &self.events {
            let Token(at) = event.token();
            let ended = self.connections[at].read(&mut self.chunk, status)?;
            if ended > 0 {
                done.push((at, ended));
            }
        }
        Ok(())
    }
}

impl Connection {
    /// Reads all that is available and returns how many responses ended.
    fn read(&mut self, chunk: &mut [u8], status: u16) -> io::Result<usize> {
        let (mut ended, chunk_length) = (0, chunk.len());
        while let Some(bytes) = read_some(&mut self.stream, chunk)? {
            ended += self.count_ends(bytes, status)?;
            // A short read has emptied the socket; more bytes raise another event.
            if bytes.len() < chunk_length {
                break;
            }
        }
        Ok(ended)
    }

    fn count_ends(&mut self, bytes: &[u8], status: u16) -> io::Result<usize> {
        let mut joined = std::mem::take(&mut self.head);
        let (mut bytes, mut ended) = (bytes, 0);
        if !joined.is_empty() {
            joined.extend_from_slice(bytes);
            bytes = &joined;
        }
        while !bytes.is_empty() {
            if self.body_left == 0 {
                let Some(head) = Head::read(bytes) else {
                    self.head = bytes.to_vec();
                    break;
                };
                if head.status != status {
                    let text = format!("status {}, not {status}", head.status);
                    return Err(io::Error::other(text));
                }
                bytes = &bytes[head.length..];
                self.body_left = head.body_length;
            }
            let taken = self.body_left.min(bytes.len());
            bytes = &bytes[taken..];
            self.body_left -= taken;
            ended += usize::from(self.body_left == 0);
        }
        Ok(ended)
    }
}
