//! What is judged, and from what: a request's head, and the state it finds.

use std::sync::Arc;

use hyper::header::HOST;
use hyper::{HeaderMap, Method, Version};

use crate::server::conn::limiter::Room;
use crate::server::conn::turn::Turn;
use crate::server::http::identity::Gate;
use crate::server::http::worker_cache::WorkerCache;
use crate::server::web::pages::Pages;
use crate::snapshot::Snapshot;

/// The part of a request that is judged. Of bodies, only forms of sign-up are read, elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) version: Version,
    pub(crate) headers: &'a HeaderMap,
}

/// What a request is answered from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// Which of the snapshots that is.
    pub(crate) generation: u64,
    /// The responses that the worker sends most.
    pub(crate) cache: &'a WorkerCache,
    /// Places for dumps and long bodies that are being sent.
    pub(crate) downloads: &'a Arc<Room>,
    /// The connection's turn, which work that may take long is a part of.
    pub(crate) turn: &'a Turn,
    pub(crate) gate: &'a Gate,
    pub(crate) pages: &'a Pages,
    /// Whether there is sign-up.
    pub(crate) sign_up: bool,
}

impl Head<'_> {
    /// RFC 9112 section 3.2: exactly one Host line in HTTP/1.1, and one that could be a host.
    pub(in crate::server) fn host_fault(self) -> Option<&'static str> {
        let mut hosts = self.headers.get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) if self.version < Version::HTTP_11 => None,
            (None, _) => Some("the Host header is missing; HTTP/1.1 wants exactly one"),
            (Some(_), Some(_)) => {
                Some("the Host header is given twice; HTTP/1.1 wants exactly one")
            }
            (Some(host), None) => {
                let sound = |byte: &u8| {
                    byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(byte)
                };
                let fault = "the Host header is no host; want name, name:port or [address]:port";
                (!host.as_bytes().iter().all(sound)).then_some(fault)
            }
        }
    }
}
