//! The outcome of asking a quota.

/// Whether a request may be answered.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, and it has been counted.
    Admit {
        /// Requests left today after this one.
        remaining: u32,
    },
    /// No: the limit is reached. Nothing was counted.
    Refuse,
}
