//! The store that several servers share: a Valkey or Redis server that grants credits of daily limits,
//! and passes on the keys that each server issues.
//! Feature `shared-quota`.
//!
//! In: the requests of a [`LeaseTable`](crate::quota::LeaseTable), and the nodes of a store. Out: the
//! answers, and whether the store can be reached. The rule by which credits are granted and the bound
//! that follows from it are in the documentation of `quota::lease`.
//!
//! Threads of their own talk to the store, so a request of a client never does: it waits for the answer,
//! at most [`STORE_WAIT_MAX`](crate::quota::STORE_WAIT_MAX).
//!
//! - `settings`: the nodes, the credentials
//! - `node`: a connection to the node that accepts writes, and the scripts that run there
//! - `shared_quota`: the threads
//! - `outage_log`: the lines about its outages
//! - `counts`: batches of requests for credits, the state of the store; `script`: the script for them
//! - `day_counts`: the counters of this server, for a store that has lost data
//! - `key_exchange`: the records of keys, from and to each server; `key_view`: the store as a server knows it

mod counts;
mod day_counts;
mod key_exchange;
mod key_view;
mod node;
mod outage_log;
mod script;
mod settings;
mod shared_quota;

pub(crate) use day_counts::DayCounts;
pub(crate) use key_exchange::OwnKeys;
pub(crate) use settings::{SharedQuotaSettings, StoreNode};
pub(crate) use shared_quota::SharedQuota;

#[cfg(test)]
mod garbage_tests;
#[cfg(test)]
mod key_history_tests;
#[cfg(test)]
mod key_model_tests;
#[cfg(test)]
mod store_tests;
