//! The server: sockets, and the path from a request to its response. It names no member of a response
//! body but `error`.
//!
//! Imports point down: `ops` → `accept`, `worker`, `pipeline` → `web` → `http` → `conn` →
//! `settings`.
//!
//! ```text
//!   accept.rs           accept, spawn: a permit, a ConnectionContext, a task for each connection
//!      │
//!   worker.rs           Worker::serve_io: ConnectionIdentity, TimedIo
//!      │
//!   worker.rs           drive: hyper, over a TimedIo, polled through the ConnectionState
//!      │
//!      │ hyper reads a head through conn/timed_io.rs
//!      ▼
//!   worker.rs           Worker::handle: RequestHead, RequestContext
//!      │
//!   pipeline.rs         respond(&RequestContext) -> Handled (with an ApiResponse)
//!      │                  WorkerCache or request::parse ─► QuotaGate::authenticate ─► admit
//!      │                  ─► Snapshot, unless the cache had the response
//!      ▼
//!   worker.rs           Worker::finish: ApiResponse::complete ─► lines and body ─┐
//!      │                                access_record::line ──────► log line ────┴► ConnectionContext
//!      │                (Worker::complete first, if the body is not available yet)
//!      │ a message with the status, and an empty body
//!      ▼
//!   hyper ────────────► conn/timed_io.rs
//!                         status line + lines, body ─► SendBuffer ─► one write per batch
//!      │ the socket has taken everything
//!      ▼
//!   conn/context.rs     ConnectionContext::write_log
//!      │
//!      │ after the last request
//!      ▼
//!   conn/client_stream.rs lingering_close
//! ```
//!
//! `ConnectionPhase` (`conn/connection_state.rs`) is `Handshake` over TLS, then `New`; for each batch of
//! requests `Head`, `Processing`, `Sending` if the client is slow, and `Idle`, as `conn/timed_io.rs` reads and
//! writes; and at the end `Closing`.
//!
//! In reading order:
//!
//! - `pipeline`: the service as one function of the context of a request;
//! - `http`: request heads, callers, conditions, responses and their bodies;
//! - `conn`: listening sockets, limits, timeouts, and the socket as hyper sees it;
//! - `worker`, `accept`: the requests of a connection; the connections of a worker from accept to close;
//! - `web`: what responses are made from, HTML pages and the sign-up forms;
//! - `settings`, `ops`: starting and stopping, reloading, logs, metrics, the admin listener.

mod accept;
mod conn;
mod http;
#[cfg(any(test, fuzzing))]
#[path = "in_memory_server_tests.rs"]
mod in_memory_server;
mod ops;
mod pipeline;
mod settings;
mod web;
mod worker;

pub use http::identity::{Caller, ConnectionIdentity, KeyError, QuotaGate};
#[cfg(any(test, fuzzing))]
pub use in_memory_server::InMemoryServer;
pub(crate) use ops::run::run;
pub(crate) use ops::signals::report_size_limit;
pub(crate) use settings::{ConnectionLimits, OTHER_FDS, Settings, StartError};
