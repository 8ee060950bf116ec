//! HTTP/1.1 as far as the load needs it: requests as bytes, responses delimited by Content-Length.

use memchr::memmem;
use socket2::{Domain, Socket, Type};

use crate::common::prelude::*;

pub(crate) use super::response::Response;

/// Headers that servers may set as they like: the time, their name, and what HTTP/1.1 implies.
const OWN_HEADERS: [&str; 3] = ["date", "server", "connection"];
/// The header line of a client that accepts gzip.
pub(crate) const GZIP: &str = "accept-encoding: gzip\r\n";
/// Receive buffer of slow readers.
pub(crate) const SLOW_BYTES: usize = 4096;

pub(crate) fn get(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n").into_bytes()
}

pub(crate) struct Head {
    pub(crate) status: u16,
    /// Bytes of the head, with the empty line.
    pub(crate) length: usize,
    pub(crate) body_length: usize,
}

impl Head {
    /// Reads the head at the beginning of `bytes`; `None` while it is incomplete.
    pub(crate) fn read(bytes: &[u8]) -> Option<Head> {
        let length = memmem::find(bytes, b"\r\n\r\n")? + 4;
        let status = number(bytes.get(9..12)?);
        // Matches "Content-Length" and "content-length". A 304 has no body.
        let name = b"ength: ";
        let body_length = match memmem::find(&bytes[..length], name) {
            Some(at) if status != 304 => number(&bytes[at + name.len()..length]),
            _ => 0,
        };
        Some(Head {
            status: u16::try_from(status).ok()?,
            length,
            body_length,
        })
    }

    /// The same, and `None` while the body is incomplete.
    pub(crate) fn of_whole(bytes: &[u8]) -> Option<Head> {
        Head::read(bytes).filter(|head| bytes.len() >= head.length + head.body_length)
    }
}

/// The decimal number at the beginning of `bytes`.
fn number(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
}

impl Response {
    /// Writes it, as received, to a new directory; returns the path.
    pub(crate) fn save(&self, directory: &Path) -> Outcome<PathBuf> {
        let path = directory.join("captured");
        write_file(&path, &self.raw)?;
        Ok(path)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(present, _)| present == name)?;
        Some(value)
    }

    /// The first difference of another server's response; `None` if it is the same.
    pub(crate) fn difference(&self, other: &Response) -> Option<String> {
        if self.status != other.status {
            return Some(format!("status {}, not {}", other.status, self.status));
        }
        if self.body() != other.body() {
            return Some(format!("another body of {} bytes", other.body().len()));
        }
        // As multisets.
        let [ours, theirs] = [self, other].map(|response| {
            let all = response.headers.iter();
            let own = |name: &String| OWN_HEADERS.contains(&name.as_str());
            let mut compared: Vec<_> = all.filter(|(name, _)| !own(name)).collect();
            compared.sort();
            compared
        });
        (ours != theirs).then(|| format!("headers {theirs:?}, not {ours:?}"))
    }
}

/// Reads a part of what is available on a non-blocking stream; `None` if nothing is. Its end is an
/// error.
pub(crate) fn read_some<'a>(
    stream: &mut impl io::Read,
    chunk: &'a mut [u8],
) -> io::Result<Option<&'a [u8]>> {
    match stream.read(chunk) {
        Ok(0) => Err(io::Error::other("the connection was closed")),
        Ok(count) => Ok(Some(&chunk[..count])),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads all that is available on a non-blocking stream. Its end is an error.
pub(crate) fn read_available(
    stream: &mut impl io::Read,
    chunk: &mut [u8],
    received: &mut Vec<u8>,
) -> io::Result<()> {
    while let Some(bytes) = read_some(stream, chunk)? {
        received.extend_from_slice(bytes);
    }
    Ok(())
}

pub(crate) fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    connect_with(from, to, |_| Ok(()))
}

pub(crate) fn connect_slow(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    connect_with(from, to, |socket| socket.set_recv_buffer_size(SLOW_BYTES))
}

/// The same with options that `prepare` sets.
pub(crate) fn connect_with(
    from: Ipv4Addr,
    to: SocketAddr,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    prepare(&socket)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), STALL)?;
    socket.set_tcp_nodelay(true)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))?;
    Ok(stream)
}

/// Sends a request on a connection of its own, and returns the response as received.
pub(crate) fn exchange(from: Ipv4Addr, to: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    exchange_on(&mut connect(from, to)?, request)
}

/// The same on an open connection.
pub(crate) fn exchange_on(
    stream: &mut (impl io::Read + io::Write),
    request: &[u8],
) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let (mut received, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    while Head::of_whole(&received).is_none() {
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => received.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(received)
}

/// The same, parsed.
pub(crate) fn fetch(address: SocketAddr, request: &[u8]) -> Outcome<Response> {
    Response::parse(exchange(Ipv4Addr::LOCALHOST, address, request)?)
}

pub(crate) fn require_ok(response: &[u8]) -> Result<(), String> {
    match Head::read(response).map(|head| head.status) {
        Some(200) => Ok(()),
        status => Err(format!("status {status:?}")),
    }
}

/// Sends GET for a resource that must exist.
pub(crate) fn found(address: SocketAddr, target: &str) -> Outcome<Response> {
    let response = fetch(address, &get(target, ""))?;
    require_ok(&response.raw).map_err(|error| format!("{target}: {error}"))?;
    Ok(response)
}

/// The same, and its body as text.
pub(crate) fn text(address: SocketAddr, target: &str) -> Outcome<String> {
    Ok(str::from_utf8(found(address, target)?.body())?.to_owned())
}
