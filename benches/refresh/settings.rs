//! How much the bench does, and for how long.

use std::time::Duration;

use crate::common::judged::feed::STEPS;
use crate::common::judged::publisher::Pace;
use crate::common::judged::targets::Counts;
use crate::common::world::Size;

pub(crate) struct Settings {
    pub(crate) size: Size,
    pub(crate) counts: Counts,
    pub(crate) length: Duration,
    pub(crate) pace: Pace,
    /// Rounds with publishes and without, and how long one of them is.
    pub(crate) rounds: usize,
    pub(crate) round: Duration,
}

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
    length: Duration::from_mins(10),
    pace: Pace {
        interval: Duration::from_secs(1),
        history_every: 30,
    },
    rounds: 4,
    round: Duration::from_secs(10),
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
    length: Duration::from_secs(5),
    pace: Pace {
        interval: Duration::from_millis(400),
        history_every: 3,
    },
    rounds: 1,
    round: Duration::from_millis(500),
};

impl Settings {
    /// The same for another length: other histories come sooner where it is short.
    pub(crate) fn of(self, length: Duration) -> Settings {
        let seconds = length.as_secs() as usize;
        Settings {
            length,
            pace: Pace {
                history_every: (seconds / 8).clamp(4, self.pace.history_every),
                ..self.pace
            },
            round: (length / 60).clamp(Duration::from_secs(1), self.round),
            ..self
        }
    }

    /// How often memory is looked at.
    pub(crate) fn look_every(&self) -> Duration {
        self.pace.interval.min(self.length / 50)
    }

    pub(crate) fn describe(&self, targets: usize) {
        let Size {
            islands,
            creators,
            days,
        } = self.size;
        println!(
            "{islands} islands, {creators} creators, {days} daily files, {STEPS} live steps; {targets} targets, each \
             with gzip and without; a publish every {:.1} s, one in {} with another history",
            self.pace.interval.as_secs_f64(),
            self.pace.history_every
        );
    }
}
