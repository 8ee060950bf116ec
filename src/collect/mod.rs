//! Collector: keeps a dataset up to date from the platform's public API (CONTRACT section 8).
//!
//! In: the upstream's responses. Out: the CSV files of a dataset, from which `publish` makes what is served.
//!
//! The upstream keeps seven days of metrics per island, throttles without announcing it, and shows no
//! numbers below five players. One response has seven days, so each of 300,000 islands must be requested
//! once in seven days: 0.5 requests/s. Files in reading order:
//!
//! - `run`: the loop: pace, request, response, and what is written on time; signals, metrics and readiness.
//! - `collector`, `receive`, `save`: the state machine: what to request next, what a response changes, what is
//!   written.
//! - `plan`: the island that is requested next; `coverage`: when a day is complete enough to be shown.
//! - `crawl`, `live`: the catalogue, the genre rankings, the live snapshot.
//! - `pace`, `client`, `request`: when and how a request is sent.
//! - `reply`, `wire`, `repair`, `clean`: classification, parsing and cleaning of what comes back.
//! - `summary`: what is due, without a request. `settings`, `error`: those of the command.
//! - `ledger`, `progress`: the state directory. `dataset_files`: the dataset directory.
//!
//! Never: requests from users, published files, keys.

mod clean;
mod client;
mod collector;
mod coverage;
mod crawl;
mod dataset_files;
mod error;
mod ledger;
mod live;
mod metrics;
mod pace;
mod plan;
mod progress;
mod receive;
mod repair;
mod reply;
mod request;
mod run;
mod save;
mod settings;
mod summary;
mod wire;

#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod scratch_tests;
#[cfg(test)]
mod simulated_collector_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod virtual_upstream_tests;

pub use error::CollectError;
pub(crate) use run::run;
pub use settings::{CollectSettings, PlatformSeries, Upstream, contact, rate, rate_problem};
pub use summary::summary;
