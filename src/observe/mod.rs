//! Observability: the server log, the access log, metrics, and messages to the service manager.
//!
//! In: events as numbers and text. Out: log lines, a page in Prometheus' text format, datagrams to
//! systemd. Independent of requests, clients and data.
//!
//! Files in reading order: `log` writes lines, those of the server with a rate limit and deduplication,
//! `access_log` the file with one line per request; `worker_metrics` are the counters of a worker (the table of
//! a server's metrics is in `server/ops/metrics.rs`), `process` the metrics of the process, `exposition`
//! the page that tables of metrics are written to; `systemd` is the notification protocol.

mod access_log;
mod exposition;
mod log;
pub(crate) mod process;
mod systemd;
mod worker_metrics;

pub(crate) use access_log::open_log;
pub(crate) use exposition::{Exposition, Kind, Metric, metrics};
pub(crate) use log::{DedupLog, Log, LogBuffer, RateLimitedLog};
pub(crate) use process::max_fds;
pub(crate) use systemd::{Notifier, SystemdEnvironment};
pub(crate) use worker_metrics::WORKER_COUNTERS;
pub use worker_metrics::{
    CALLER_TIERS, CloseReason, HandshakeResult, Histogram, LocalCounter, STATUS_CODES,
    WorkerMetrics,
};
