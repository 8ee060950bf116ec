//! Floods of connections: closed immediately, or reset at each byte of a request and its response.

use socket2::SockRef;

use super::source;
use crate::common::http;
use crate::common::prelude::*;

/// Network of the source addresses.
const NETWORK: u8 = 3;

fn connect(number: usize, to: SocketAddr) -> io::Result<TcpStream> {
    http::connect(source(NETWORK, number), to)
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
