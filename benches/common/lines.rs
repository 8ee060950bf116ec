//! The load's connections: non-blocking sockets that send prepared bytes and count whole answers.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

use super::Outcome;
use super::http::Head;

/// Opens connections from addresses that have not asked before: one may ask 65,535 times a day.
pub(crate) struct Sources {
    runtime: Runtime,
    next: u32,
}

impl Sources {
    /// Addresses from 127.0.1.0 on.
    pub(crate) fn new() -> Outcome<Sources> {
        Ok(Sources {
            runtime: Builder::new_current_thread().enable_all().build()?,
            next: Ipv4Addr::new(127, 0, 1, 0).to_bits(),
        })
    }

    /// The next address.
    pub(crate) fn fresh(&mut self) -> Ipv4Addr {
        self.next += 1;
        Ipv4Addr::from_bits(self.next)
    }

    /// A connection from an address.
    pub(crate) fn connect(&self, from: Ipv4Addr, to: SocketAddr) -> Outcome<TcpStream> {
        let stream = self.runtime.block_on(connect(from, to))?;
        Ok(TcpStream::from_std(stream.into_std()?))
    }

    /// So many connections, each from an address of its own.
    pub(crate) fn lines(&mut self, to: SocketAddr, count: usize) -> Outcome<Lines> {
        let streams = (0..count).map(|_| {
            let from = self.fresh();
            self.connect(from, to)
        });
        Lines::new(streams.collect::<Outcome<_>>()?)
    }

    /// The runtime, for load that is not made of prepared connections.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// Connects from an address, at a port of the system's choice.
pub(crate) async fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<tokio::net::TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Where one connection stands.
struct Line {
    stream: TcpStream,
    /// Bytes of the present answer's body that are still to come.
    body_left: usize,
    /// The present answer's head, while it is unfinished.
    head: Vec<u8>,
    /// All of the present answer, for who looks at it.
    whole: Vec<u8>,
}

/// Connections that are watched together.
pub(crate) struct Lines {
    poll: Poll,
    events: Events,
    all: Vec<Line>,
    chunk: Vec<u8>,
}

/// What the load expects of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) status: u16,
    /// Whether answers are kept whole, for [`Lines::whole`].
    pub(crate) keep: bool,
}

impl Lines {
    pub(crate) fn new(streams: Vec<TcpStream>) -> Outcome<Lines> {
        let poll = Poll::new()?;
        let mut lines = Vec::new();
        for (at, mut stream) in streams.into_iter().enumerate() {
            let registry = poll.registry();
            registry.register(&mut stream, Token(at), Interest::READABLE)?;
            lines.push(Line {
                stream,
                body_left: 0,
                head: Vec::new(),
                whole: Vec::new(),
            });
        }
        Ok(Lines {
            poll,
            events: Events::with_capacity(1024),
            all: lines,
            chunk: vec![0; 256 * 1024],
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Sends on a connection all of whose answers have come: its socket has room.
    pub(crate) fn send(&mut self, line: usize, bytes: &[u8]) -> io::Result<()> {
        let sent = self.all[line].stream.write(bytes)?;
        if sent == bytes.len() {
            Ok(())
        } else {
            Err(io::Error::other("a socket took a part of a request"))
        }
    }

    /// The last answer on a connection, where answers are kept.
    pub(crate) fn whole(&self, line: usize) -> &[u8] {
        &self.all[line].whole
    }

    /// Looks once for what has come, or waits: fills `done` with the connections that have, and
    /// how many answers came to their end on each.
    pub(crate) fn receive(
        &mut self,
        wanted: Wanted,
        wait: Duration,
        done: &mut Vec<(usize, usize)>,
    ) -> io::Result<()> {
        done.clear();
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        for event in &self.events {
            let Token(at) = event.token();
            let ended = self.all[at].read(&mut self.chunk, wanted)?;
            if ended > 0 {
                done.push((at, ended));
            }
        }
        Ok(())
    }
}

impl Line {
    /// Reads all that is there; says how many answers came to their end.
    fn read(&mut self, chunk: &mut [u8], wanted: Wanted) -> io::Result<usize> {
        let mut ended = 0;
        loop {
            match self.stream.read(chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    ended += self.feed(&chunk[..count], wanted)?;
                    // Less than there was room for is all there is; the next will be an event.
                    if count < chunk.len() {
                        return Ok(ended);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ended),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn feed(&mut self, mut bytes: &[u8], wanted: Wanted) -> io::Result<usize> {
        if wanted.keep {
            if self.body_left == 0 && self.head.is_empty() {
                self.whole.clear();
            }
            self.whole.extend_from_slice(bytes);
        }
        let mut ended = 0;
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let taken = self.body_left.min(bytes.len());
                bytes = &bytes[taken..];
                self.body_left -= taken;
                ended += usize::from(self.body_left == 0);
                continue;
            }
            let before = self.head.len();
            let found = if before == 0 {
                Head::read(bytes)
            } else {
                self.head.extend_from_slice(bytes);
                Head::read(&self.head)
            };
            let Some(head) = found else {
                if before == 0 {
                    self.head.extend_from_slice(bytes);
                }
                break;
            };
            if head.status != wanted.status {
                let text = format!("answered {}, not {}", head.status, wanted.status);
                return Err(io::Error::other(text));
            }
            self.head.clear();
            bytes = &bytes[head.length - before..];
            self.body_left = head.body_length;
            ended += usize::from(head.body_length == 0);
        }
        Ok(ended)
    }
}
