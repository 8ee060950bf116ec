//! The load: keep-alive connections that ask and read whole answers.

use memchr::memmem;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::server::Server;
use crate::settings::{CONNECTIONS, Outcome, ROUNDS, STALL};

/// What the load asks for: the request with a number, and how many are sent at once.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) request: Arc<dyn Fn(u32) -> Vec<u8> + Send + Sync>,
    pub(crate) depth: u32,
    pub(crate) status: u16,
}

pub(crate) fn get(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n").into_bytes()
}

/// The address a connection comes from: each round has its own 32 in 127.0.1.0 and up.
pub(crate) fn source(round: u32, connection: u32) -> SocketAddr {
    let base = u32::from(Ipv4Addr::new(127, 0, 1, 0));
    (Ipv4Addr::from(base + round * CONNECTIONS + connection), 0).into()
}

pub(crate) async fn connect(address: SocketAddr, source: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(source)?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(crate) async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The length of the first answer in `bytes`, and its status; `None` while its head is unfinished.
pub(crate) fn answer(bytes: &[u8]) -> Option<(usize, u16)> {
    let head = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let status = std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok()?;
    if status == 304 {
        return Some((head, status));
    }
    let name = b"\r\ncontent-length: ";
    let at = memmem::find(&bytes[..head], name)? + name.len();
    let digits = bytes[at..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Some((head + length, status))
}

/// Waits for `count` answers; `held` has the bytes of those that have come, the last ones at least.
pub(crate) async fn receive(
    stream: &TcpStream,
    held: &mut Vec<u8>,
    count: u32,
    want: u16,
) -> io::Result<()> {
    held.clear();
    let mut chunk = vec![0; 64 * 1024];
    let (mut at, mut left) = (0, count);
    while left > 0 {
        match stream.try_read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => held.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            Err(error) => return Err(error),
        }
        while let Some((length, status)) = answer(&held[at..]) {
            if status != want {
                return Err(io::Error::other(format!("answered {status}, not {want}")));
            }
            if held.len() - at < length {
                break;
            }
            at += length;
            left -= 1;
        }
    }
    Ok(())
}

/// Puts a server under load; says the microseconds of its CPU time a request.
pub(crate) fn measure(
    runtime: &Runtime,
    server: &Server,
    load: &Load,
    round: u32,
    all: u32,
) -> Outcome<f64> {
    let turns = (all / CONNECTIONS / load.depth).max(1);
    runtime.block_on(async {
        let mut streams = Vec::new();
        for connection in 0..CONNECTIONS {
            streams.push(connect(server.address, source(round, connection)).await?);
        }
        let before = server.cpu_nanos()?;
        let mut clients = JoinSet::new();
        for (connection, stream) in (0..).zip(streams) {
            clients.spawn(client(stream, load.clone(), connection, turns));
        }
        while let Some(ended) = tokio::time::timeout(STALL, clients.join_next()).await? {
            ended??;
        }
        let micros = u32::try_from((server.cpu_nanos()? - before) / 1000)?;
        Ok(f64::from(micros) / f64::from(turns * CONNECTIONS * load.depth))
    })
}

/// One connection's requests, each sent once the one before is answered.
pub(crate) async fn client(
    stream: TcpStream,
    load: Load,
    connection: u32,
    turns: u32,
) -> io::Result<()> {
    let mut held = Vec::new();
    for turn in 0..turns {
        let request = (load.request)(turn * CONNECTIONS + connection);
        send(&stream, &request.repeat(load.depth as usize)).await?;
        receive(&stream, &mut held, load.depth, load.status).await?;
    }
    Ok(())
}

/// One answer, as the server sent it.
pub(crate) fn fetch(
    runtime: &Runtime,
    server: &Server,
    request: &[u8],
    want: u16,
) -> Outcome<Vec<u8>> {
    let answered = runtime.block_on(async {
        let stream = connect(server.address, source(ROUNDS, 0)).await?;
        let mut held = Vec::new();
        send(&stream, request).await?;
        receive(&stream, &mut held, 1, want).await?;
        Ok::<_, io::Error>(held)
    });
    Ok(answered?)
}
