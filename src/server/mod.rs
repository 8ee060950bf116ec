//! Sockets, and the way from a request head to its answer.
//!
//! In: connections and published snapshots. Out: answers. `pipeline` is the whole service as one
//! function of request head, connection, time and state. The only room that names hyper and tokio; it
//! never names a member of an answer's body but `error`.

mod conn;
mod http;
mod ops;
mod settings;
mod web;

pub use http::identity::{Caller, Gate, KeyFault, Visit};
pub use ops::in_memory_server::InMemoryServer;
pub(crate) use ops::run::run;
pub(crate) use settings::{ConnectionLimits, OTHER_FDS, Settings, SignUp, StartError};
