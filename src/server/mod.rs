//! Sockets, and the way from a request head to its answer.
//!
//! In: connections and published snapshots. Out: answers. `pipeline` is the whole service as one
//! function of request head, connection, time and state. The only room that names hyper and tokio; it
//! never names a member of an answer's body but `error`.

mod admin;
mod answer;
mod api_error;
mod body;
mod buffers;
mod caller;
mod conditions;
mod connection;
mod gates;
mod guard;
mod journal;
mod key_reload;
mod linger;
mod listener;
mod log;
mod lookout;
mod metrics;
mod near;
mod negotiate;
mod once;
mod phase;
mod pipeline;
mod reload;
mod request_id;
mod room;
mod roster;
mod run;
mod seldom;
mod settings;
mod steward;
mod unbound;
mod worker;

pub use caller::{Caller, Gate, KeyFault, Visit};
pub use run::run;
pub use settings::{Build, ConnectionLimits, Served, Settings, StartError};
pub use unbound::Unbound;
