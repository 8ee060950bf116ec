//! The store that several servers share: a Valkey or Redis server that grants credits of daily limits,
//! and passes on the keys that one of the servers issues.
//! Feature `shared-quota`.
//!
//! In: the requests of a [`LeaseTable`](crate::quota::LeaseTable), and the nodes of a store. Out: the
//! answers, and whether the store can be reached. The rule by which credits are granted and the bound
//! that follows from it are in the documentation of `quota::lease`.
//!
//! A thread of its own talks to the store, so a request of a client never does: it waits for the answer,
//! at most [`STORE_WAIT_MAX`](crate::quota::STORE_WAIT_MAX).
//!
//! - `settings`: the nodes, the credentials
//! - `node`: a connection to the node that accepts writes
//! - `script`: calls of scripts that run in the store, and the script of leases
//! - `service`: the thread; settling after an outage, the circuit breaker
//! - `key_exchange`: the key file of the leader, and its followers; two more scripts
//! - `outage_log`: the log of outages

mod key_exchange;
mod node;
mod outage_log;
mod script;
mod service;
mod settings;

pub(crate) use key_exchange::SharedKeys;
pub(crate) use service::SharedQuota;
pub(crate) use settings::{SharedQuotaSettings, StoreNode};
