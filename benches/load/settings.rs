//! How much the bench measures, and for how long.

use std::time::Duration;

use crate::common::world::Size;

/// What the numbers of a run are.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) rounds: usize,
    /// How long one server is in the closed loop, for one case in one round.
    pub(crate) closed: Duration,
    /// And in the open loop.
    pub(crate) open: Duration,
    pub(crate) size: Size,
    /// Pages, and searches, that are asked for once only, in all rounds together.
    pub(crate) distinct: usize,
    /// Parts of the names of the cases that are wanted; all where there are none.
    pub(crate) chosen: Vec<String>,
}

/// The bench as it is meant: `/v1/live` is about 200 KB of that many islands.
pub(crate) const FULL: Settings = Settings {
    rounds: 7,
    closed: Duration::from_millis(400),
    open: Duration::from_millis(200),
    size: Size {
        islands: 10_000,
        creators: 3_000,
        days: 90,
    },
    distinct: 120_000,
    chosen: Vec::new(),
};

/// To see that it works.
pub(crate) const QUICK: Settings = Settings {
    rounds: 1,
    closed: Duration::from_millis(20),
    open: Duration::from_millis(20),
    size: Size {
        islands: 400,
        creators: 150,
        days: 3,
    },
    distinct: 4_000,
    chosen: Vec::new(),
};

/// Connections that load is spread over.
pub(crate) const CONNECTIONS: usize = 32;
/// The open loop's rate, as a share of what the slowest server of a case can do.
pub(crate) const RATE_SHARE: f64 = 0.5;
/// When no further round begins, so that a slow machine ends too.
pub(crate) const DEADLINE: Duration = Duration::from_mins(6);
