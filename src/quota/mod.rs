//! How many requests a client has left today.
//!
//! **In:** who asks (an address), the client's limit, and the UTC day of the request.
//! **Out:** a [`Decision`], or the figure for an answer that spends nothing.
//!
//! **Must never know:** HTTP, keys' secrets, the clock (the day is given), files. Memory is fixed
//! when the table is made: no flood of new addresses makes it grow.

mod anonymous;
mod decision;
mod word;

pub use anonymous::{AnonymousQuota, Client};
pub use decision::Decision;
pub use word::{QuotaWord, RingDay, Step, Tag};
