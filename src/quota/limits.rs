//! What each tier may ask a day.

use crate::model::Tier;

/// Requests a UTC day (SPEC section 8). Each is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    /// Without a key, for an address.
    pub anonymous: u16,
    /// For a free key.
    pub free: u32,
    /// For a starter key.
    pub starter: u32,
    /// For a pro key.
    pub pro: u32,
}

impl TierLimits {
    /// What a key of the tier may ask.
    pub const fn of(&self, tier: Tier) -> u32 {
        match tier {
            Tier::Free => self.free,
            Tier::Starter => self.starter,
            Tier::Pro => self.pro,
        }
    }
}

/// The limits of the specification.
impl Default for TierLimits {
    fn default() -> TierLimits {
        TierLimits {
            anonymous: 100,
            free: 1_000,
            starter: 20_000,
            pro: 100_000,
        }
    }
}
