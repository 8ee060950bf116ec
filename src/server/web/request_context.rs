//! `Worker` and `RequestContext`: the state that a response is made of.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use crate::calendar::{Clock, RequestTime};
use crate::keys::SharedKeysState;
use crate::observe::{AccessLogBuffer, RateLimitedLog, WorkerMetrics};
use crate::quota::AnonymousClient;
use crate::request::{DayRef, Route};
#[cfg(feature = "tls")]
use crate::server::conn::handshake::TlsAcceptor;
use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::conn::time_slice::TimeSlice;
use crate::server::http::api_error::ApiError;
use crate::server::http::body::not_sent;
use crate::server::http::identity::{ConnectionIdentity, QuotaGate};
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::RequestIds;
use crate::server::http::worker_cache::WorkerCache;
use crate::server::settings::ConnectionLimits;
use crate::server::web::pages::Pages;
use crate::server::web::signup_handler::SignupHandler;
use crate::snapshot::{Missing, Snapshot};
use crate::sync::{Replica, Replicated};

/// The snapshot that a worker serves, and the responses that it has cached of it.
#[derive(Debug)]
pub(crate) struct ServedSnapshot {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) cache: RefCell<WorkerCache>,
}

impl ServedSnapshot {
    /// Adds a replica of the snapshot. Each new snapshot comes with an empty cache of at most
    /// `cache_bytes`.
    pub(crate) fn replica(
        snapshot: &Replicated<Snapshot>,
        cache_bytes: usize,
    ) -> Replica<ServedSnapshot> {
        snapshot.replica_with(move |snapshot| ServedSnapshot {
            snapshot: Arc::clone(snapshot),
            cache: RefCell::new(WorkerCache::new(cache_bytes)),
        })
    }
}

/// The state that the connections of one thread share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) served: Replica<ServedSnapshot>,
    pub(crate) gate: QuotaGate,
    pub(crate) pages: Pages,
    /// Sign-up, if it is open.
    pub(crate) signup: Option<SignupHandler>,
    /// The keys that several servers share.
    pub(crate) shared_keys: Option<Arc<Replicated<SharedKeysState>>>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) registry: Arc<ConnectionRegistry>,
    pub(crate) complaints: Arc<RateLimitedLog>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) ids: RequestIds,
    /// Limits the dumps and long bodies that are being sent.
    pub(crate) downloads: Arc<ConnectionLimiter>,
    /// `None` where there is no access log.
    pub(crate) access: Option<Arc<AccessLogBuffer>>,
    /// `None` where there is no certificate.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsAcceptor>,
}

/// The head, time and connection of a request, and the state of its worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) now: RequestTime,
    pub(crate) identity: &'a ConnectionIdentity,
    /// Counts work that may take long against the connection.
    pub(crate) time_slice: &'a TimeSlice,
    /// Whether the request may wait for the store of shared quotas.
    pub(crate) may_wait: bool,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) cache: &'a RefCell<WorkerCache>,
}

impl RequestContext<'_> {
    /// The client that the request counts for without a key.
    pub(in crate::server) fn client(&self) -> AnonymousClient {
        self.worker.gate.client(self.identity, self.head.headers)
    }

    /// The error of a route without a body, whose payload is published. Damage is logged. `day` makes the
    /// message for a day, given the index of days.
    pub(in crate::server) fn missing(
        &self,
        missing: &Missing,
        route: &Route,
        day: impl Fn(&DayRef, &str) -> String,
    ) -> ApiError {
        if let Missing::Damaged(error) = missing {
            self.worker.complaints.write(&not_sent(error));
        }
        ApiError::missing(missing, route, day)
    }

    /// The address of the client, as far as it is trusted.
    pub(in crate::server) fn address(&self) -> IpAddr {
        self.worker.gate.address(self.identity, self.head.headers)
    }
}
