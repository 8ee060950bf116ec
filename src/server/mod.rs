//! The HTTP server. In: connections and published snapshots. Out: responses.
//!
//! The only module that names hyper and tokio. It names no member of a response body except
//! `error`. Its parts, of which each may import only later ones:
//!
//! - `ops` starts, supervises and stops a server, and reloads keys and data;
//! - `web` has the HTML pages and the sign-up form;
//! - `http` turns a request into a response; `http::pipeline` is the whole service as one function
//!   of
//!   request head, connection, time and state;
//! - `conn` has the connections: listeners, limits and timeouts;
//! - `settings` are the settings of a server.

mod conn;
mod http;
mod ops;
mod settings;
mod web;

pub use http::identity::{Caller, Gate, KeyFault, Visit};
pub use ops::in_memory_server::InMemoryServer;
pub(crate) use ops::run::run;
pub(crate) use settings::{ConnectionLimits, OTHER_FDS, Settings, SignUp, StartError};
