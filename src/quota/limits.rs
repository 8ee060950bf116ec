//! Daily limits by tier, and the outcome of a check.

use crate::model::Tier;

/// Requests allowed per UTC day (SPEC section 8). Each limit is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    /// Per address, without a key.
    pub anonymous: u16,
    /// Per free key.
    pub free: u32,
    /// Per starter key.
    pub starter: u32,
    /// Per pro key.
    pub pro: u32,
}

impl TierLimits {
    /// Returns the limit of a key of this tier.
    pub const fn of(&self, tier: Tier) -> u32 {
        match tier {
            Tier::Free => self.free,
            Tier::Starter => self.starter,
            Tier::Pro => self.pro,
        }
    }
}

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
