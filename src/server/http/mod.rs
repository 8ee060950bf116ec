//! HTTP: request heads, callers, conditions, responses and their bodies.
//!
//! Must not depend on pages. In reading order:
//!
//! - `request_head`: the head of a request, and the headers that select the form of a response;
//! - `identity`: the caller of a request, and its quota;
//! - `worker_cache`: the responses that one worker has sent;
//! - `conditional`: conditional requests and ranges;
//! - `api_error`, `response`, `body`: responses;
//! - `access_record`: the lines of the access log.

pub(in crate::server) mod access_record;
pub(in crate::server) mod api_error;
pub(in crate::server) mod body;
pub(in crate::server) mod conditional;
pub(in crate::server) mod identity;
pub(in crate::server) mod request_head;
pub(in crate::server) mod response;
pub(in crate::server) mod worker_cache;
