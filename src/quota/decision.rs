//! The outcome of a check.

#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is admitted and has been counted.
    Admit {
        /// Requests left today after this one.
        remaining: u32,
    },
    /// The limit is reached. Nothing was counted.
    Refuse,
}
