//! The server: sockets, and the path from a request to its response. It names no member of a response
//! body but `error`.
//!
//! Imports point down: `ops` → `accept`, `worker`, `pipeline` → `web` → `http` → `conn`.
//!
//! ```text
//!   accept.rs           a permit of the ConnectionLimiter, then a task for each connection
//!      │
//!   worker.rs           Worker::serve: ConnectionIdentity, ConnectionContext
//!      │
//!   http/connection.rs  drive: hyper, over a TimedIo, polled through the ConnectionHandle
//!      │
//!      │ hyper reads a head through conn/timed_io.rs          ConnectionPhase::Head
//!      ▼
//!   worker.rs           Worker::handle: RequestHead, RequestContext
//!      │
//!   pipeline.rs         respond(&RequestHead, &RequestContext) -> Handled (with an ApiResponse)
//!      │                  head ─► QuotaGate::authenticate ─► WorkerCache ─► admit ─► Snapshot
//!      ▼
//!   worker.rs           Worker::finish: ApiResponse::write_lines ─► PendingResponse (header text)
//!      │                                AccessRecord ─────────────► PendingAccessLog (line)
//!      │ a message with status and ResponseBody
//!      ▼
//!   hyper ────────────► conn/timed_io.rs                      ConnectionPhase::Processing
//!                         status line + PendingResponse ─► SendBuffer ─► one write per batch
//!      │
//!      │ the client has taken everything                      ConnectionPhase::Idle
//!      ▼
//!   conn/pending.rs     PendingAccessLog::write
//! ```
//!
//! In reading order:
//!
//! - `pipeline`: the whole service as one function of request head and context;
//! - `http`: request heads, callers, conditions, responses and their bodies;
//! - `conn`: listening sockets, limits, timeouts, and the socket as hyper sees it;
//! - `worker`, `accept`: the state of a worker, and its connections from accept to close;
//! - `web`: HTML pages and the sign-up forms;
//! - `settings`, `ops`: starting and stopping, reloading, logs, metrics, the admin listener.

mod accept;
mod conn;
mod http;
mod ops;
mod pipeline;
mod settings;
mod web;
mod worker;

pub use http::identity::{Caller, ConnectionIdentity, KeyError, QuotaGate};
pub use ops::in_memory_server::InMemoryServer;
pub(crate) use ops::run::run;
pub(crate) use settings::{CertificateFiles, ConnectionLimits, OTHER_FDS, Settings, StartError};
