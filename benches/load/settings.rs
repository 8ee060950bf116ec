//! Extent of the measurement.

use std::time::Duration;

use crate::common::world::{MEDIUM, Size, TINY};

pub(crate) struct Settings {
    pub(crate) rounds: usize,
    /// Length of the closed loop of one server in one case of one round, and of the open loop.
    pub(crate) closed: Duration,
    pub(crate) open: Duration,
    pub(crate) size: Size,
    /// Distinct pages, and distinct searches, in all rounds together.
    pub(crate) distinct: usize,
}

pub(crate) const FULL: Settings = Settings {
    // Many short rounds: the speed of a shared machine changes within a second.
    rounds: 25,
    closed: Duration::from_millis(100),
    open: Duration::from_millis(50),
    size: MEDIUM,
    distinct: 120_000,
};

pub(crate) const QUICK: Settings = Settings {
    rounds: 1,
    closed: Duration::from_millis(20),
    open: Duration::from_millis(20),
    size: TINY,
    distinct: 4_000,
};

pub(crate) const CONNECTIONS: usize = 32;
/// Rate of the open loop, as a share of the highest rate of the slowest server of a case.
pub(crate) const RATE_SHARE: f64 = 0.5;
/// No round begins later, so that a slow machine ends too.
pub(crate) const DEADLINE: Duration = Duration::from_mins(6);
