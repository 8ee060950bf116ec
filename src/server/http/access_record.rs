//! `AccessRecord`: the line of a request in the access log.

use std::net::IpAddr;
use std::time::Instant;

use hyper::StatusCode;

use crate::calendar::UnixSeconds;
use crate::request::{Endpoint, loggable};
use crate::server::conn::pending::PendingAccessLog;
use crate::server::http::identity::Caller;
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::RequestId;

/// Methods that are logged by name. The name of another might be anything, a key too.
const LOGGED: [&str; 9] = [
    "GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT",
];

/// The part of a line that the request determines: `name=value` pairs, the target in quotes. It
/// cannot contain a key: see [`loggable`].
pub(crate) struct AccessRecord {
    text: String,
    begun: Instant,
}

impl AccessRecord {
    #[cold]
    pub(crate) fn new(
        time: UnixSeconds,
        id: RequestId,
        client: IpAddr,
        caller: Option<Caller>,
        head: &RequestHead<'_>,
        endpoint: Endpoint,
    ) -> AccessRecord {
        let key = caller.and_then(Caller::key);
        let key = key.map_or(String::new(), |key| format!(" key={key}"));
        let mut method = head.method.as_str();
        if !LOGGED.contains(&method) {
            method = "OTHER";
        }
        let (route, target) = (endpoint.label(), loggable(head.path, head.query));
        AccessRecord {
            text: format!(
                "ts={time} id={id} ip={client}{key} method={method} route={route} target=\"{target}\""
            ),
            begun: Instant::now(),
        }
    }

    /// The record of a head that could not be read.
    pub(crate) fn unreadable(time: UnixSeconds, id: RequestId, peer: IpAddr) -> AccessRecord {
        let request = "method=GET route=unreadable target=\"-\"";
        AccessRecord {
            text: format!("ts={time} id={id} ip={peer} {request}"),
            begun: Instant::now(),
        }
    }

    /// Appends the pairs that the response determines, and leaves the line in `log` until the
    /// client has taken the response.
    pub(crate) fn push(
        self,
        log: &PendingAccessLog,
        status: StatusCode,
        body_bytes: u64,
        gzip: bool,
    ) {
        let (text, status) = (self.text, status.as_u16());
        let encoding = if gzip { "gzip" } else { "identity" };
        let text = format!("{text} status={status} bytes={body_bytes} enc={encoding}");
        log.push(text, self.begun);
    }
}
