//! One client connection: accepting it, limiting how many there are, and reading and writing its socket on time.

pub(in crate::server) mod buffers;
pub(in crate::server) mod connection_state;
pub(in crate::server) mod limiter;
pub(in crate::server) mod lingering_close;
pub(in crate::server) mod listener;
pub(in crate::server) mod pending_log;
pub(in crate::server) mod pending_response;
pub(in crate::server) mod phase;
pub(in crate::server) mod registry;
pub(in crate::server) mod send_buffer;
pub(in crate::server) mod timed_io;
pub(in crate::server) mod turn;
