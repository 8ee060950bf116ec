//! `Unbound`: a worker without listening sockets, threads or files, to which connections are brought.
//!
//! Between a connection's bytes and its answers runs what runs in a server, and nothing else: no
//! kernel cuts or delays them, and no other thread gets in between. So whatever is found by sending
//! bytes without end (`tests/fuzz`) is found again by the same bytes.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::rt::{Read, Write};

use crate::calendar::Clock;
use crate::observe::Tally;
use crate::server::conn::limiter::Room;
use crate::server::conn::registry::Roster;
use crate::server::conn::timed_io::Shared;
use crate::server::http::connection::attend;
use crate::server::http::identity::Gate;
use crate::server::http::request_id::RequestIds;
use crate::server::http::worker::Worker;
use crate::server::http::worker_cache::WorkerCache;
use crate::server::ops::log::Log;
use crate::server::ops::metrics::SHAPE;
use crate::server::ops::rate_limited_log::Seldom;
use crate::server::settings::ConnectionLimits;
use crate::server::web::pages::Pages;
use crate::server::web::rate_limiter::Visits;
use crate::snapshot::Snapshot;
use crate::sync::{ArcSwap, ArcSwapCache};

/// A worker that listens nowhere. Its connections have all the time they want.
#[derive(Debug)]
pub struct Unbound {
    worker: Arc<Worker>,
}

impl Unbound {
    /// One that answers from `snapshot` whom `gate` lets in. Files of dumps want a runtime of tokio's.
    pub fn new(
        snapshot: Snapshot,
        gate: Gate,
        clock: Clock,
        base_url: &str,
    ) -> io::Result<Unbound> {
        let worker = Worker {
            snapshot: ArcSwapCache::new(Arc::new(ArcSwap::new(snapshot))),
            cache: WorkerCache::new(1 << 20),
            gate,
            pages: Pages::new(base_url, Arc::new(Visits::new())),
            window: None,
            clock: Arc::new(clock),
            roster: Arc::new(Roster::default()),
            buffers: Arc::default(),
            complaints: Arc::new(Seldom::new(Log::start(|_| {})?)),
            limits: ConnectionLimits::default(),
            tally: Arc::new(Tally::new(SHAPE)),
            ids: RequestIds::new(),
            downloads: Arc::new(Room::new(u32::MAX, u16::MAX)),
            access: None,
        };
        Ok(Unbound {
            worker: Arc::new(worker),
        })
    }

    /// Serves a connection to its end. Then a server reads on for a moment, and throws away what it reads.
    pub async fn serve<S: Read + Write + Unpin>(&self, socket: S, peer: IpAddr) {
        let membership = self.worker.roster.join(None);
        let shared = Shared::new(&self.worker, membership);
        // Nothing holds answers for the client, and nobody cuts it off.
        let send_buffer_bytes = |_: &S| 0;
        let _ = attend(&self.worker, socket, peer, send_buffer_bytes, &shared).await;
    }
}
