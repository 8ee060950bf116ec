//! How much goes on, and for how long.

use std::time::Duration;

use crate::common::hostile::{Limits, Wave};
use crate::common::judged::publisher::Pace;
use crate::common::judged::targets::Counts;
use crate::common::world::Size;

pub(crate) struct Settings {
    pub(crate) size: Size,
    pub(crate) counts: Counts,
    pub(crate) length: Duration,
    /// Everything goes on for so long, and then comes a quiet moment.
    pub(crate) cycle: Duration,
    /// How long the load is as fast as it can be, to know what 70 % of that is.
    pub(crate) peak: Duration,
    pub(crate) pace: Pace,
    pub(crate) limits: Limits,
    pub(crate) wave: Wave,
    /// Between a key and the next, a burst of abuse and the next, and so on.
    pub(crate) keys_every: Duration,
    pub(crate) abuse_every: Duration,
    pub(crate) scrape_every: Duration,
    pub(crate) reload_every: Duration,
    pub(crate) rotate_every: Duration,
}

const LIMITS: Limits = Limits {
    first_byte: 3,
    head: 3,
    idle: 6,
    send: 3,
};

pub(crate) const FULL: Settings = Settings {
    size: Size {
        islands: 20_000,
        creators: 8_000,
        days: 30,
    },
    counts: Counts {
        islands: 600,
        creators: 200,
        pages: 500,
        searches: 300,
    },
    length: Duration::from_mins(30),
    cycle: Duration::from_mins(1),
    peak: Duration::from_secs(10),
    pace: Pace {
        interval: Duration::from_secs(5),
        history_every: 9,
    },
    limits: LIMITS,
    wave: Wave {
        counts: [300, 300, 0, 150, 150],
        ramp: Duration::from_secs(1),
        wait: Duration::from_secs(15),
    },
    keys_every: Duration::from_secs(5),
    abuse_every: Duration::from_secs(1),
    scrape_every: Duration::from_secs(1),
    reload_every: Duration::from_secs(15),
    rotate_every: Duration::from_secs(8),
};

/// To see that it works.
pub(crate) const QUICK: Settings = Settings {
    size: Size {
        islands: 400,
        creators: 150,
        days: 3,
    },
    counts: Counts {
        islands: 40,
        creators: 20,
        pages: 60,
        searches: 20,
    },
    length: Duration::from_secs(12),
    cycle: Duration::from_secs(6),
    peak: Duration::from_millis(500),
    pace: Pace {
        interval: Duration::from_millis(700),
        history_every: 3,
    },
    limits: Limits {
        first_byte: 1,
        head: 1,
        idle: 2,
        send: 1,
    },
    wave: Wave {
        counts: [20, 20, 0, 10, 10],
        ramp: Duration::from_millis(300),
        wait: Duration::from_secs(8),
    },
    keys_every: Duration::from_millis(500),
    abuse_every: Duration::from_millis(300),
    scrape_every: Duration::from_millis(300),
    reload_every: Duration::from_secs(2),
    rotate_every: Duration::from_secs(2),
};

impl Settings {
    /// The same for another length: at least six quiet moments.
    pub(crate) fn of(self, length: Duration) -> Settings {
        Settings {
            length,
            cycle: self.cycle.min(length / 6),
            peak: self.peak.min(length / 12),
            ..self
        }
    }
}
