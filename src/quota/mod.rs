//! Daily request quotas: one atomic 64-bit counter per client and UTC day.
//!
//! **In:** a client (an IP address, or the place of a key's counter), its limit, and the UTC day of the
//! request. **Out:** a [`Decision`], or the remaining quota without spending any.
//!
//! A client's day and count share one word and change together in one compare-and-swap, so no client
//! is admitted more often than its limit allows, under any interleaving of threads. The proofs are in
//! the docs of `anonymous` and `key_counter`. The counters live in memory-mapped files and survive a
//! kill -9.
//!
//! **Independent of:** HTTP, the secrets of keys, the clock (the day is an argument). The memory of the
//! anonymous table is fixed when it is created: no flood of new addresses makes it grow.
//!
//! - `decision`: the decision on a request; `word`, `key_counter`: one counter
//! - `anonymous`, `keyed`: the tables of counters
//! - `lease`: credits of a limit that several servers share
//! - `mapped`: their memory; `counter_file`: the files of the state directory; `newest_day`: their newest day
//! - `models`, `stress`: tests under all schedules of a few threads, and under many threads

mod anonymous;
mod counter_file;
mod decision;
mod key_counter;
mod keyed;
mod lease;
mod mapped;
mod newest_day;
mod word;

pub use anonymous::{AnonymousClient, AnonymousQuota, TableSize};
pub use decision::Decision;
pub use keyed::KeyedQuota;
pub use lease::{
    ClientCounter, GRANT_MAX, LeaseAction, LeaseAnswer, LeaseClient, LeaseMetrics, LeaseRequest,
    LeaseTable, LeaseWait, NoLease, OutagePolicy, STORE_WAIT_MAX, SharingSettings, StoreState,
};
#[cfg(all(test, not(island_metrics_loom), feature = "shared-quota"))]
pub(crate) use lease::{JoinModel, StoreModel};
pub use newest_day::NewestDay;

#[cfg(all(test, not(island_metrics_loom)))]
mod counter_file_tests;
#[cfg(all(test, not(island_metrics_loom)))]
mod keyed_tests;
#[cfg(all(test, island_metrics_loom))]
#[path = "models_tests.rs"]
mod models;
#[cfg(all(test, not(island_metrics_loom)))]
#[path = "stress_tests.rs"]
mod stress;
