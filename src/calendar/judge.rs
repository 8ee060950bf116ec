//! Which day it is, where the clocks do not agree: pure, from pairs of readings.

use super::{DAY_SECONDS, UnixSeconds, UtcDay};

/// How much earlier than expected a day may begin: more than any honest correction of a clock.
const EARLY_SECONDS_MAX: i64 = 3600;
/// How long a clock has to insist on a day that it cannot be.
pub(super) const DOUBT_SECONDS: i64 = 600;

/// What a request needs of the time, from one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The day that the request counts for.
    pub day: UtcDay,
    /// Seconds until that day's quota is new, from 1 to 86 400.
    ///
    /// Never 0: a client told to retry after 0 seconds would come back into the same day.
    pub reset_seconds: u32,
}

impl Now {
    /// The moment, as far as the day that is counted for agrees with it.
    pub fn moment(self) -> UnixSeconds {
        UnixSeconds(self.day.end().0 - i64::from(self.reset_seconds))
    }
}

/// Which day it is, by everything that the clocks have said so far.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) day: UtcDay,
    /// A pair of readings that was believed.
    wall: UnixSeconds,
    steady: i64,
    /// Since when, by the steady clock, the wall clock has been too far ahead.
    doubted: Option<i64>,
    behind: bool,
}

impl Judge {
    pub(super) fn new(wall: UnixSeconds, steady: i64) -> Judge {
        Judge {
            day: wall.day(),
            wall,
            steady,
            doubted: None,
            behind: false,
        }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.doubted.is_none() && !self.behind
    }

    /// What to go by at these readings, and what to tell a person.
    pub(super) fn judge(&mut self, wall: UnixSeconds, steady: i64) -> (Now, Option<String>) {
        let passed = steady.saturating_sub(self.steady).max(0);
        let expected = UnixSeconds(self.wall.0.saturating_add(passed));
        let mut said = None;
        let mut at = wall;
        if wall.day() == self.day {
            // Nothing to doubt: from here on it is this reading that is believed.
            *self = Judge::new(wall, steady);
        } else if wall.day() < self.day {
            if !self.behind {
                let day = self.day;
                said = Some(format!(
                    "the clock is back at {wall}; requests count for {day} until it has caught up"
                ));
            }
            self.doubted = None;
            self.behind = true;
        } else if wall.0.saturating_sub(expected.0) <= EARLY_SECONDS_MAX {
            *self = Judge::new(wall, steady);
        } else if self
            .doubted
            .is_some_and(|since| steady.saturating_sub(since) >= DOUBT_SECONDS)
        {
            said = Some(format!("the clock still says {wall}; going on from there"));
            *self = Judge::new(wall, steady);
        } else {
            if self.doubted.is_none() {
                self.doubted = Some(steady);
                said = Some(format!(
                    "the clock jumped to {wall}, where it should be about {expected}; \
                     going by the latter for {DOUBT_SECONDS} seconds"
                ));
            }
            self.day = self.day.max(expected.day());
            self.behind = false;
            at = expected;
        }
        let left = self.day.end().0.saturating_sub(at.0).clamp(1, DAY_SECONDS);
        let now = Now {
            day: self.day,
            reset_seconds: u32::try_from(left).expect("clamped to a day"),
        };
        (now, said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 20_777 * DAY_SECONDS + DAY_SECONDS / 2;

    #[test]
    fn jumps_are_told_once() {
        let mut judge = Judge::new(UnixSeconds(NOON), 0);
        let ahead = UnixSeconds(NOON + 10 * DAY_SECONDS);
        assert!(
            judge
                .judge(ahead, 0)
                .1
                .unwrap()
                .contains("jumped to 2026-11-30")
        );
        assert_eq!(judge.judge(ahead, 5).1, None);
        assert!(judge.judge(ahead, 600).1.unwrap().contains("still says"));
        let back = judge.judge(UnixSeconds(NOON), 601).1.unwrap();
        assert!(back.contains("count for 2026-11-30"), "{back}");
        assert_eq!(judge.judge(UnixSeconds(NOON), 602).1, None);
    }
}
