//! Sockets, and the way from a request head to its answer.
//!
//! In: connections and published snapshots. Out: answers. `pipeline` is the whole service as one
//! function of request head, connection, time and state. The only room that names hyper and tokio; it
//! never names a member of an answer's body but `error`.

mod caller;
mod capacity;
mod connection;
mod faces;
mod http;
mod judged;
mod listener;
mod operator;
mod outside;
mod pipeline;
mod response;
mod room;
mod run;
mod settings;
mod socket;
mod unbound;
mod upkeep;
mod worker;
mod worker_cache;

pub use caller::{Caller, Gate, KeyFault, Visit};
pub use run::run;
pub use settings::{
    Build, ConnectionLimits, DESCRIPTORS_ASIDE, Served, Settings, SignUp, StartError,
};
pub use unbound::Unbound;
