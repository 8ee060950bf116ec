//! How many attack, and how long the server has patience.

use std::time::Duration;

use crate::common::hostile::{Limits, Wave};

pub(crate) struct Settings {
    pub(crate) limits: Limits,
    pub(crate) wave: Wave,
    /// Waves that warm up, and waves that count.
    pub(crate) warm: usize,
    pub(crate) rounds: usize,
    /// Honest load alone before each wave.
    pub(crate) quiet: Duration,
    /// Honest requests a second.
    pub(crate) rate: f64,
    /// Connections of each kind of flood.
    pub(crate) flood: usize,
    /// Times that a descriptor becomes free while others wait for it.
    pub(crate) starved: usize,
    /// Whether there is enough of all to judge latency and memory by.
    pub(crate) judges: bool,
}

pub(crate) const FULL: Settings = Settings {
    limits: Limits {
        first_byte: 10,
        head: 10,
        // Shorter than the default, so that a wave takes no longer than its slow readers.
        idle: 20,
        send: 10,
    },
    wave: Wave {
        counts: [5000, 4950, 50, 2500, 2500],
        // All are there before the first is cut, and the queue of those who wait to be accepted stays short.
        ramp: Duration::from_secs(7),
        wait: Duration::from_secs(105),
    },
    warm: 2,
    rounds: 2,
    quiet: Duration::from_secs(20),
    rate: 3000.0,
    flood: 10_000,
    starved: 20,
    judges: true,
};

/// To see that it works.
pub(crate) const QUICK: Settings = Settings {
    limits: Limits {
        first_byte: 1,
        head: 1,
        idle: 2,
        send: 1,
    },
    wave: Wave {
        counts: [60, 60, 0, 30, 30],
        ramp: Duration::from_millis(300),
        wait: Duration::from_secs(8),
    },
    warm: 1,
    rounds: 1,
    quiet: Duration::from_secs(1),
    rate: 500.0,
    flood: 300,
    starved: 3,
    judges: false,
};

impl Settings {
    /// The attackers of a wave. Those that warm up do without the readers whom the system gives most grace.
    pub(crate) fn wave(&self, is_warm: bool) -> Wave {
        let mut wave = self.wave;
        if is_warm {
            wave.counts[2] = 0;
        }
        wave
    }
}

/// No limit within any wave.
pub(crate) const RAISED: Limits = Limits {
    first_byte: 600,
    head: 600,
    idle: 600,
    send: 600,
};

/// Attackers whom nobody cuts, for longer than the limits of [`QUICK`].
pub(crate) const CONTROL: Wave = Wave {
    counts: [10, 10, 0, 10, 10],
    ramp: Duration::from_millis(100),
    wait: Duration::from_secs(5),
};
