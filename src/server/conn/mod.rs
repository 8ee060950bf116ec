//! Client connections: listening, limits, timeouts, and reading and writing their sockets.
//!
//! Must not depend on what a request means: heads and responses are bytes here. In reading order:
//!
//! - `listener`: the listening sockets;
//! - `limiter`: permits for connections and downloads;
//! - `handshake`: TLS, before the first request (feature `tls`);
//! - `registry`, `connection_state`: the connections of a worker, their phases and timeouts,
//!   shutdown;
//! - `context`: the state that the parts of one connection share, with header lines and log lines on
//!   their way from the request handler to the socket;
//! - `timed_io`, `hyper_head`, `send_buffer`: the socket as hyper sees it; `drive`: hyper serves it;
//! - `client_stream`: the socket, with TLS or without, and its end.

pub(in crate::server) mod client_stream;
pub(in crate::server) mod connection_state;
pub(in crate::server) mod context;
pub(in crate::server) mod drive;
#[cfg(feature = "tls")]
pub(in crate::server) mod handshake;
mod hyper_head;
pub(in crate::server) mod limiter;
pub(in crate::server) mod listener;
pub(in crate::server) mod registry;
pub(in crate::server) mod send_buffer;
pub(in crate::server) mod timed_io;
