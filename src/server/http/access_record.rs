//! The line of a request in the access log.

use std::net::IpAddr;

use hyper::StatusCode;

use crate::calendar::UnixSeconds;
use crate::request::{Endpoint, loggable};
use crate::server::http::identity::Caller;
use crate::server::http::request_head::RequestHead;

/// Methods that are logged by name. The name of another might be anything, a key too.
const LOGGED: [&str; 9] = [
    "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT",
];

/// The part of a line that the request determines: `name=value` pairs, the target in quotes. It
/// cannot contain a key: see [`loggable`].
#[cold]
pub(crate) fn of_request(
    time: UnixSeconds,
    id: u64,
    client: IpAddr,
    caller: Option<Caller>,
    head: &RequestHead<'_>,
    endpoint: Endpoint,
) -> String {
    let key = caller.and_then(Caller::key);
    let key = key.map_or(String::new(), |key| format!(" key={key}"));
    let mut method = head.method.as_str();
    if !LOGGED.contains(&method) {
        method = "OTHER";
    }
    let (route, target) = (endpoint.label(), loggable(head.path, head.query));
    format!(
        "ts={time} id={id:016x} ip={client}{key} method={method} route={route} target=\"{target}\""
    )
}

/// The same part for a head that could not be read.
pub(crate) fn of_unreadable(time: UnixSeconds, id: u64, peer: IpAddr) -> String {
    format!("ts={time} id={id:016x} ip={peer} method=GET route=unreadable target=\"-\"")
}

/// The line, but for the time that the response took: that is known when the client has taken it.
pub(crate) fn line(request: &str, status: StatusCode, body_bytes: u64, gzip: bool) -> String {
    let encoding = if gzip { "gzip" } else { "identity" };
    let status = status.as_u16();
    format!("{request} status={status} bytes={body_bytes} enc={encoding}")
}
