//! [`InMemoryServer`]: a worker without sockets, threads and files. `src/server/mod.rs` compiles it, for tests and
//! fuzzing only.
//!
//! Each connection is served by the code of a real server, but neither the kernel nor another
//! thread affects the timing. The same input bytes therefore reproduce a finding.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::{Read, Write};

use crate::calendar::Clock;
use crate::observe::{Log, RateLimitedLog};
use crate::server::conn::context::ConnectionContext;
use crate::server::conn::limiter::ConnectionLimiter;
use crate::server::conn::registry::ConnectionRegistry;
use crate::server::http::identity::QuotaGate;
use crate::server::http::response::RequestIds;
use crate::server::http::worker_cache::ServedSnapshot;
use crate::server::settings::ConnectionLimits;
use crate::server::web::rate_limiter::PageRateLimiter;
use crate::server::web::request_context::Services;
use crate::server::worker::Worker;
use crate::snapshot::Snapshot;
use crate::sync::Replicated;

pub struct InMemoryServer {
    worker: Arc<Worker>,
}

impl InMemoryServer {
    /// Returns a server of `snapshot`. Files of dumps can only be served in a tokio runtime.
    pub fn new(snapshot: Snapshot, gate: QuotaGate, clock: Clock) -> io::Result<InMemoryServer> {
        let worker = Arc::new(Worker {
            served: ServedSnapshot::replica(&Replicated::new(snapshot), 1 << 20),
            services: Services::alone(gate)?,
            clock: Arc::new(clock),
            registry: Arc::default(),
            #[cfg(feature = "tls")]
            tls: None,
        });
        Ok(InMemoryServer { worker })
    }

    /// Serves a connection to its end, without the lingering close of a real server.
    pub async fn serve(&self, socket: impl Read + Write, peer: IpAddr) {
        self.serve_boxed(Box::pin(socket), peer).await;
    }

    /// Without type parameters, so that it is compiled with this crate: the fuzz target `request` counts the coverage of
    /// this crate only.
    async fn serve_boxed(&self, socket: Pin<Box<dyn ReadWrite + '_>>, peer: IpAddr) {
        let worker = &self.worker;
        let context = ConnectionContext::join(&worker.registry, None, false);
        let _ = worker.serve_io(socket, peer, 0, &context).await;
    }
}

trait ReadWrite: Read + Write {}

impl<S: Read + Write> ReadWrite for S {}

impl Services {
    /// The parts of a worker that is alone, without sign-up and limits of downloads.
    pub(crate) fn alone(gate: QuotaGate) -> io::Result<Services> {
        Ok(Services {
            gate,
            page_limiter: Arc::new(PageRateLimiter::new()),
            signup: None,
            complaints: Arc::new(RateLimitedLog::new(Log::start(|_| {})?)),
            ids: RequestIds::default(),
            downloads: Arc::new(ConnectionLimiter::new(u32::MAX, u16::MAX)),
        })
    }
}

/// Without an access log.
impl Default for ConnectionRegistry {
    fn default() -> ConnectionRegistry {
        ConnectionRegistry::new(ConnectionLimits::default(), None)
    }
}

/// The defaults in the table of flags, which a test compares.
impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            send: Duration::from_secs(10),
            send_rate: 1024,
            requests: 100_000,
            age: Duration::from_hours(1),
            connections_max: None,
            connections_per_address_max: 1024,
        }
    }
}
