//! The command `healthcheck`, for container images, which have no other HTTP client.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::arguments::{Arguments, parsed};
use super::error::CliError;
use super::print;

/// Timeout of the connection and of each read and write. Container engines limit the whole check.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longer responses are cut. Those of `/readyz` are one line.
const RESPONSE_BYTES_MAX: u64 = 4096;

/// Requests `/readyz` from the admin listener, and prints its line. Fails if it is not ready.
pub(super) fn healthcheck(arguments: &Arguments) -> Result<(), CliError> {
    let admin: SocketAddr = arguments.required("admin", parsed)?;
    let is_late =
        |error: &io::Error| matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
    // A machine that paused may have taken the first time.
    let response = match request(admin) {
        Err(error) if is_late(&error) => request(admin),
        first => first,
    };
    let response = response.map_err(|error| {
        let reason = if is_late(&error) {
            format!(" within {} s", 2 * TIMEOUT.as_secs())
        } else {
            format!(": {error}")
        };
        CliError::unhealthy(format!("no response from {admin}{reason}"))
    })?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    match head.split(' ').nth(1) {
        Some("200") => print(body),
        Some("503") => Err(CliError::unhealthy(body.trim_end())),
        _ => {
            let line = head.lines().next().unwrap_or("");
            let problem = format!("{admin} must respond with 200 or 503, got {line:?}");
            Err(CliError::unhealthy(problem))
        }
    }
}

/// The response to `GET /readyz`, head included.
fn request(admin: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
    let mut response = String::new();
    stream
        .take(RESPONSE_BYTES_MAX)
        .read_to_string(&mut response)?;
    Ok(response)
}
