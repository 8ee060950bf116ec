//! The clock guard: the rule by which a day is accepted, as a pure function of pairs of readings.

use super::{RequestTime, UnixSeconds, UtcDay};

/// Seconds by which a day may begin before its expected time: more than any usual correction.
const EARLY_SECONDS_MAX: i64 = 3600;
/// Seconds for which the wall clock must show an implausible day before the day is accepted.
pub(super) const DOUBT_SECONDS: i64 = 600;

/// Relation of the wall clock to the current day at the last reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Trusted,
    /// The wall clock shows an earlier day.
    Behind,
    /// The wall clock shows an implausibly late day since this reading of the steady clock.
    Ahead(i64),
}

/// The current day and the state that decides when it changes.
#[derive(Debug)]
pub(super) struct ClockGuard {
    pub(super) day: UtcDay,
    pub(super) trust: Trust,
    /// Wall clock minus steady clock, at the last reading that was trusted.
    offset: i64,
    /// A change of `trust` that has not been logged yet.
    pub(super) notice: Option<String>,
}

impl ClockGuard {
    pub(super) fn new(wall: UnixSeconds, steady: i64, newest: Option<UtcDay>) -> ClockGuard {
        ClockGuard {
            day: newest.unwrap_or(wall.day()).max(wall.day()),
            trust: Trust::Trusted,
            offset: wall.0.saturating_sub(steady),
            notice: None,
        }
    }

    /// Evaluates one reading of both clocks. `steady` never decreases.
    pub(super) fn evaluate(&mut self, wall: UnixSeconds, steady: i64) -> RequestTime {
        let (day, trust) = (self.day, self.trust);
        let expected = UnixSeconds(steady.saturating_add(self.offset));
        let early_seconds = wall.0.saturating_sub(expected.0);
        if wall.day() < day {
            self.change(Trust::Behind, || {
                format!(
                    "the clock went back to {wall}; requests count for {day} until it catches up"
                )
            });
        } else if wall.day() == day || early_seconds <= EARLY_SECONDS_MAX {
            self.trust = Trust::Trusted;
        } else if let Trust::Ahead(since) = trust {
            if steady.saturating_sub(since) >= DOUBT_SECONDS {
                self.change(Trust::Trusted, || {
                    format!("the clock still reads {wall}; using it from now on")
                });
            }
        } else {
            self.change(Trust::Ahead(steady), || {
                format!(
                    "the clock jumped to {wall}, expected about {expected}; \
                     ignoring the jump for {DOUBT_SECONDS} seconds"
                )
            });
        }
        let mut moment = wall;
        if self.trust == Trust::Trusted {
            self.day = wall.day();
            self.offset = wall.0.saturating_sub(steady);
        } else if self.trust != Trust::Behind {
            self.day = day.max(expected.day());
            moment = expected;
        }
        RequestTime {
            day: self.day,
            moment,
        }
    }

    fn change(&mut self, trust: Trust, notice: impl Fn() -> String) {
        if self.trust != trust {
            self.trust = trust;
            self.notice = Some(notice());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::DAY_SECONDS;
    use super::*;

    const NOON: i64 = 20_777 * DAY_SECONDS + DAY_SECONDS / 2;

    #[test]
    fn jumps_are_logged_once() {
        let mut guard = ClockGuard::new(UnixSeconds(NOON), 0, None);
        let mut notice = |wall, steady| {
            guard.evaluate(UnixSeconds(wall), steady);
            guard.notice.take()
        };
        let ahead = NOON + 10 * DAY_SECONDS;
        assert!(notice(ahead, 0).unwrap().contains("jumped to 2026-11-30"));
        assert_eq!(notice(ahead, 5), None);
        assert!(notice(ahead, 600).unwrap().contains("still reads"));
        let back = notice(NOON, 601).unwrap();
        assert!(back.contains("count for 2026-11-30"), "{back}");
        assert_eq!(notice(NOON, 602), None);
    }
}
