//! Connections that come and go at once, and those that break at each byte of a request and its answer.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::Outcome;
use super::http::get;

const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 3, 0, 1);
/// Connections from one address before the next.
const PER_ADDRESS: u32 = 500;
const PATIENCE: Duration = Duration::from_secs(5);

fn connect(number: u32, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let from = Ipv4Addr::from_bits(FIRST_SOURCE.to_bits() + number / PER_ADDRESS);
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

/// So many that connect and close; says how many a second.
pub(crate) fn closing(to: SocketAddr, count: usize) -> Outcome<f64> {
    let begun = Instant::now();
    for number in 0..u32::try_from(count)? {
        drop(connect(number, to)?);
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// So many that break with a reset, each at another byte of what it asks and is told; says how many a second.
pub(crate) fn breaking(to: SocketAddr, count: usize) -> Outcome<f64> {
    let request = get("/v1", "");
    let mut whole = vec![0; 64 * 1024];
    let mut asked = connect(0, to)?;
    asked.write_all(&request)?;
    let answer_bytes = asked.read(&mut whole)?;
    drop(asked);
    let places = request.len() + 1 + answer_bytes;
    let begun = Instant::now();
    for number in 0..u32::try_from(count)? {
        let place = number as usize % places;
        let mut stream = connect(number, to)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&request[..place.min(request.len())])?;
        let taken = place.saturating_sub(request.len());
        stream.read_exact(&mut whole[..taken])?;
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        drop(stream);
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}
