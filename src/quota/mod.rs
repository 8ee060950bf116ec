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
mod counter_file;
mod counter_slab;
mod day_file;
mod decision;
mod key_counter;
mod keyed;
mod limits;
mod mapped;
mod word;

pub use anonymous::{AnonymousClient, AnonymousQuota, TableSize};
pub use counter_file::StateError;
pub use day_file::DayFile;
pub use decision::Decision;
pub use keyed::KeyedQuota;
pub use limits::TierLimits;
pub use word::{ClientTag, QuotaWord, RingDay, Transition};

#[cfg(all(test, not(island_metrics_loom)))]
mod counter_file_tests;
#[cfg(all(test, island_metrics_loom))]
mod models;
#[cfg(all(test, not(island_metrics_loom)))]
mod stress;
