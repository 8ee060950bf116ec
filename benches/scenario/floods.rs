//! Floods of connections: closed immediately, or reset at each byte of a request and its response.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::common::Outcome;
use crate::common::http::{self, get};

const FIRST_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 3, 0, 1);
/// Connections from one address before the next.
const PER_ADDRESS: usize = 500;

fn connect(number: usize, to: SocketAddr) -> Outcome<TcpStream> {
    let more = u32::try_from(number / PER_ADDRESS)?;
    let from = Ipv4Addr::from_bits(FIRST_SOURCE.to_bits() + more);
    Ok(http::connect(from, to, None)?)
}

/// Connects and closes `count` times; returns connections a second.
pub(crate) fn closing(to: SocketAddr, count: usize) -> Outcome<f64> {
    let begun = Instant::now();
    for number in 0..count {
        drop(connect(number, to)?);
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// Resets `count` connections, each at the next byte of a request or its response; returns
/// connections a second.
pub(crate) fn resetting(to: SocketAddr, count: usize) -> Outcome<f64> {
    let request = get("/v1", "");
    let mut response = vec![0; 64 * 1024];
    let mut stream = connect(0, to)?;
    stream.write_all(&request)?;
    let response_bytes = stream.read(&mut response)?;
    drop(stream);
    let places = request.len() + 1 + response_bytes;
    let begun = Instant::now();
    for number in 0..count {
        let place = number % places;
        let mut stream = connect(number, to)?;
        stream.write_all(&request[..place.min(request.len())])?;
        let taken = place.saturating_sub(request.len());
        stream.read_exact(&mut response[..taken])?;
        // Closing without a linger time sends a reset.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        drop(stream);
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}
