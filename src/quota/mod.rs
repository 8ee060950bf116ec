//! How many requests a client has left today.
//!
//! **In:** who asks (an address, or a key's number), the client's limit, and the UTC day of the
//! request. **Out:** a [`Decision`], or the figure for an answer that spends nothing.
//!
//! The proof that nobody gets more than the limit is in the docs of `anonymous` and `keyed`: a
//! client's day and count are one word, and change together in one compare-and-swap.
//!
//! **Must never know:** HTTP, keys' secrets, the clock (the day is given). The anonymous table's
//! memory is fixed when it is made: no flood of new addresses makes it grow.

mod anonymous;
mod cell;
mod day;
mod decision;
mod file;
mod keyed;
mod limits;
mod mapped;
mod memory;
mod word;

pub use anonymous::{AnonymousQuota, Client, Sizes};
pub use day::DayFile;
pub use decision::Decision;
pub use file::StateError;
pub use keyed::KeyedQuota;
pub use limits::TierLimits;
pub use word::{QuotaWord, RingDay, Step, Tag};

#[cfg(all(test, not(island_metrics_loom)))]
mod file_tests;
#[cfg(all(test, island_metrics_loom))]
mod models;
#[cfg(all(test, not(island_metrics_loom)))]
mod stress;
