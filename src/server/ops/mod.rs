//! Operation: starting and stopping, reloading data and keys, logs, metrics, the admin listener and the service manager.

pub(in crate::server) mod admin;
pub(in crate::server) mod capacity;
pub(in crate::server) mod dedup_log;
pub(in crate::server) mod in_memory;
pub(in crate::server) mod key_reload;
pub(in crate::server) mod log;
pub(in crate::server) mod metrics;
pub(in crate::server) mod poller;
pub(in crate::server) mod rate_limited_log;
pub(in crate::server) mod reload;
pub(in crate::server) mod run;
pub(in crate::server) mod state;
pub(in crate::server) mod supervisor;
