//! Operations: start, stop, reload, and the admin listener.
//!
//! Files in reading order: `run` starts a server from its settings; `state` is what its threads
//! share, `quota_state` the part of it that counts requests, `quota_poller` the thread that checks it
//! and replaces the keys; `capacity` divides file descriptors and memory. `publish_reload` replaces data
//! while serving, `certificate_reload` the TLS certificate (feature `tls`); `reload` has their log and
//! counters. `supervisor` is the main thread, with signals, watchdog and shutdown; `metrics` is
//! the table of all metrics of a server, with names, help texts and values; `admin` has the responses of
//! the admin listener; `signals` handles the signal at the limit of a file's size.

mod admin;
mod capacity;
#[cfg(feature = "tls")]
mod certificate_reload;
mod metrics;
mod publish_reload;
mod quota_poller;
mod quota_state;
mod reload;
pub(in crate::server) mod run;
pub(in crate::server) mod signals;
mod state;
mod supervisor;
