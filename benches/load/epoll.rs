//! Lower bound: an epoll loop that counts ends of heads and writes prepared bytes. It parses nothing
//! and its `Date` is constant, so it measures what the kernel alone costs.

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};

use crate::common::http::read_some;
use crate::common::prelude::*;

/// Argument that runs the bench as this server.
pub(crate) const FLAG: &str = "--epoll-loop";
const LISTENER: Token = Token(usize::MAX);
const END: [u8; 4] = *b"\r\n\r\n";
/// Responses in one write at most.
const BATCH: usize = 16;

struct Connection {
    stream: TcpStream,
    /// Received bytes of the end of a head.
    matched: usize,
    /// Bytes that remain to be written.
    owed: usize,
}

/// Sends the captured response for each end of a head, on one thread.
pub(crate) fn serve(captured: &Path) -> Outcome<()> {
    let response = Response::read(captured)?.raw;
    let batch = response.repeat(BATCH);
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let interest = Interest::READABLE;
    poll.registry()
        .register(&mut listener, LISTENER, interest)?;
    let address = listener.local_addr()?;
    writeln!(io::stderr(), "listening on http://{address}")?;
    let mut events = Events::with_capacity(1024);
    let (mut connections, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            let Token(at) = event.token();
            if event.token() == LISTENER {
                accept(&listener, poll.registry(), &mut connections)?;
            } else if let Some(connection) = &mut connections[at]
                && connection.ready(&mut buffer, &response, &batch).is_err()
            {
                connections[at] = None;
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    registry: &Registry,
    connections: &mut Vec<Option<Connection>>,
) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, Token(connections.len()), interest)?;
        connections.push(Some(Connection {
            stream,
            matched: 0,
            owed: 0,
        }));
    }
}

impl Connection {
    /// Reads all that is available, then writes as much as the socket takes. An error ends the
    /// connection.
    fn ready(&mut self, buffer: &mut [u8], response: &[u8], batch: &[u8]) -> io::Result<()> {
        let buffer_length = buffer.len();
        while let Some(bytes) = read_some(&mut self.stream, buffer)? {
            self.owed += response.len() * self.heads(bytes);
            // A short read has emptied the socket; more bytes raise another event.
            if bytes.len() < buffer_length {
                break;
            }
        }
        while self.owed > 0 {
            // The owed bytes end with a whole response, and may begin within one.
            let from = (response.len() - self.owed % response.len()) % response.len();
            let until = batch.len().min(from + self.owed);
            match self.stream.write(&batch[from..until]) {
                Ok(count) => self.owed -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Number of heads that end in these bytes.
    fn heads(&mut self, bytes: &[u8]) -> usize {
        let mut heads = 0;
        for byte in bytes {
            self.matched = match *byte {
                byte if byte == END[self.matched] => self.matched + 1,
                b'\r' => 1,
                _ => 0,
            };
            if self.matched == END.len() {
                heads += 1;
                self.matched = 0;
            }
        }
        heads
    }
}
