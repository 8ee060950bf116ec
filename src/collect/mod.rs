//! Collector: keeps a dataset up to date from the platform's public API (CONTRACT section 8).
//!
//! In: the upstream's responses. Out: the CSV files of a dataset, from which `publish` makes what is served.
//!
//! The upstream keeps seven days of metrics per island, throttles without announcing it, and shows no
//! numbers below five players. One response has seven days, so each of 300,000 islands must be requested
//! once in seven days: 0.5 requests/s. Files in reading order:
//!
//! - `run`: the loop: pace, request, response, and what is written on time; signals and readiness.
//! - `collector`, `receive`, `save`: the state machine: what to request next, what a response changes, what is
//!   written.
//! - `store`: the database in the state directory, which has all facts. `rules`: when a day has settled, and when
//!   an island is due. `readings`, `plan`: what is recorded of islands, and what follows from it.
//! - `catalogue`, `live`: the catalogue, the genre rankings, the live snapshot.
//! - `pace`, `endpoints`, `client`: when and how a request is sent.
//! - `reply`, `wire`: classification, parsing and cleaning of what comes back.
//! - `metrics`: the state, for `/metrics` and `--plan`. `settings`, `error`: those of the command.
//! - `dataset_files`: the dataset directory.
//!
//! Never: requests from users, published files, keys.

mod catalogue;
mod client;
mod collector;
mod dataset_files;
mod endpoints;
mod error;
mod live;
mod metrics;
mod pace;
mod plan;
mod readings;
mod receive;
mod reply;
mod rules;
mod run;
mod save;
mod settings;
mod store;
mod wire;

#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod faults_tests;
#[cfg(test)]
mod promise_tests;
#[cfg(test)]
mod scratch_tests;
#[cfg(test)]
mod simulated_collector_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod virtual_upstream_tests;

pub use error::CollectError;
pub use metrics::summary;
pub(crate) use run::run;
pub use settings::{
    CollectSettings, HttpAddress, codes, contact, is_excluded, platform, proxy, rate, rate_problem,
    upstream,
};
