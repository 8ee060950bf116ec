//! `RequestContext`: a request, and the state that its response is made of.

use std::net::IpAddr;
use std::sync::Arc;

use crate::calendar::RequestTime;
use crate::keys::SharedKeysState;
use crate::quota::AnonymousClient;
use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::conn::time_slice::TimeSlice;
use crate::server::http::identity::{ConnectionIdentity, QuotaGate};
use crate::server::http::request_head::RequestHead;
use crate::server::http::worker_cache::WorkerCache;
use crate::server::web::pages::Pages;
use crate::server::web::signup_handler::SignupHandler;
use crate::snapshot::Snapshot;
use crate::sync::ArcSwap;

/// The head, time and connection of a request, and the state of its worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) now: RequestTime,
    pub(crate) identity: &'a ConnectionIdentity,
    /// Counts work that may take long against the connection.
    pub(crate) time_slice: &'a TimeSlice,
    pub(crate) snapshot: &'a Snapshot,
    /// The generation of the snapshot.
    pub(crate) generation: u64,
    pub(crate) cache: &'a WorkerCache,
    /// Limits the dumps and long bodies that are being sent.
    pub(crate) downloads: &'a Arc<ConnectionLimiter>,
    pub(crate) gate: &'a QuotaGate,
    pub(crate) pages: &'a Pages,
    /// Sign-up, if it is open.
    pub(crate) signup: Option<&'a SignupHandler>,
    /// The keys that several servers share.
    pub(crate) shared_keys: Option<&'a ArcSwap<SharedKeysState>>,
    /// Whether the request may wait for the store of shared quotas.
    pub(crate) may_wait: bool,
}

impl RequestContext<'_> {
    /// The client that the request counts for without a key.
    pub(in crate::server) fn client(&self) -> AnonymousClient {
        self.gate.client(self.identity, self.head.headers)
    }

    /// The address of the client, as far as it is trusted.
    pub(in crate::server) fn address(&self) -> IpAddr {
        self.gate.address(self.identity, self.head.headers)
    }
}
