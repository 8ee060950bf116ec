//! `RequestContext`: the state that a response is made of.

use std::net::IpAddr;
use std::sync::Arc;

use crate::calendar::RequestTime;
use crate::observe::RateLimitedLog;
use crate::quota::{AnonymousClient, LeaseWait};
use crate::server::conn::connection_state::TimeSlice;
use crate::server::conn::limiter::{ConnectionLimiter, Permit};
use crate::server::http::api_error::ApiError;
use crate::server::http::body::not_sent;
use crate::server::http::identity::{ConnectionIdentity, QuotaGate};
use crate::server::http::request_head::RequestHead;
use crate::server::http::response::RequestIds;
use crate::server::web::rate_limiter::PageRateLimiter;
use crate::server::web::signup_handler::SignupHandler;
use crate::snapshot::{Snapshot, SnapshotError};

/// The parts of a worker from which responses are made.
pub(crate) struct Services {
    pub(crate) gate: QuotaGate,
    pub(crate) page_limiter: Arc<PageRateLimiter>,
    pub(crate) signup: Option<SignupHandler>,
    pub(crate) complaints: Arc<RateLimitedLog>,
    pub(crate) ids: RequestIds,
    /// Limits the dumps and long bodies that are being sent.
    pub(crate) downloads: Arc<ConnectionLimiter>,
}

/// The head, time and connection of a request, and the state from which its response is made.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) services: &'a Services,
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) now: RequestTime,
    pub(crate) identity: &'a ConnectionIdentity,
    /// Counts work that may take long against the connection.
    pub(crate) time_slice: &'a TimeSlice,
    /// The wait for the store of shared quotas, if its time is over.
    pub(crate) waited: Option<LeaseWait>,
    pub(crate) is_logged: bool,
    pub(crate) snapshot: &'a Snapshot,
}

impl RequestContext<'_> {
    /// The client that the request counts for without a key.
    pub(in crate::server) fn client(&self) -> AnonymousClient {
        self.services.gate.client(self.identity, self.head.headers)
    }

    /// The error of a damaged body, which is logged.
    pub(in crate::server) fn damaged(&self, error: &SnapshotError) -> ApiError {
        self.services.complaints.write(&not_sent(error));
        ApiError::Damaged
    }

    /// The permit to send a long body to the client; `None` if there are too many downloads.
    pub(in crate::server) fn download_permit(&self) -> Option<Permit> {
        self.services.downloads.take_for(self.address())
    }

    /// The address of the client, as far as it is trusted.
    pub(in crate::server) fn address(&self) -> IpAddr {
        self.services.gate.address(self.identity, self.head.headers)
    }
}
