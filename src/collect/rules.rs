//! The rules of reading daily metrics, as functions of times and facts.
//!
//! A reply on day D has the seven whole days before D. The newest of them settles in the course of D; a day
//! leaves the window of the upstream when day + 7 ends.

use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

/// Whole days that a response covers.
pub(super) const WINDOW_DAYS: i32 = 7;
/// Time of the day from which the metrics of the day before are requested.
const FRESH_SECONDS: i64 = 40 * 60;
/// A day that was read before this time of the next day is read again.
const PROVISIONAL_SECONDS: i64 = 3 * 3600;
/// Time of the next day at which a day has settled.
const SETTLED_SECONDS: i64 = 6 * 3600;
/// Days between readings of an inactive island, by the number of readings without a value. The day after the
/// last reading stays in the window for three days after the next one is due: outages of that length lose nothing.
const BACK_OFF_DAYS: [i64; 3] = [1, 2, 4];
/// First pause of an island that failed; each one is eight times the one before.
const FIRST_RETRY_SECONDS: i64 = 10;
/// Longest pause: an island that always fails costs a few requests a day.
pub(super) const LONGEST_RETRY_SECONDS: i64 = 6 * 3600;
/// Time after which an island is read again whose reply is not final: a reply at 00:40Z or later is followed by one
/// after the day has settled.
pub(super) const AGAIN_SECONDS: i64 = 6 * 3600;
/// Time before a day leaves the window at which its island comes first.
pub(super) const RISK_SECONDS: i64 = 36 * 3600;

/// The facts about an island after a reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Readings without a value in the window, since the last one with a value; 0 for an active island.
    pub(super) quiet: u8,
    pub(super) is_ranked: bool,
    /// Peak of the newest day with a value.
    pub(super) peak: u32,
    /// The last reply had each day that was not read before, and the newest one had settled.
    pub(super) is_final: bool,
}

pub(super) fn newest_day(now: UnixSeconds) -> UtcDay {
    UtcDay(now.day().0 - 1)
}

/// Returns the whole days that a reply has.
pub(super) fn window(now: UnixSeconds) -> std::ops::Range<UtcDay> {
    let today = now.day();
    UtcDay(today.0 - WINDOW_DAYS)..today
}

/// Returns whether a reading of the day before `today` is final: it was made after that day had settled, or late
/// enough and without the surprise that an active island lacks its value.
pub(super) fn is_settled(today: UtcDay, now: UnixSeconds, lacks_value: bool) -> bool {
    let time = now.0 - today.start().0;
    time >= SETTLED_SECONDS || (time >= PROVISIONAL_SECONDS && !lacks_value)
}

/// Returns the time at which the oldest day that is not covered leaves the window.
pub(super) fn deadline(covered: UtcDay) -> i64 {
    UtcDay(covered.0 + 1 + WINDOW_DAYS).end().0
}

/// Returns the newest covered day of islands that are at risk.
pub(super) fn risk_day(now: UnixSeconds) -> UtcDay {
    let end = UnixSeconds(now.0 + RISK_SECONDS - 1).day();
    UtcDay(end.0 - 2 - WINDOW_DAYS)
}

/// Returns the class of an island, in which the next reading is due by time alone: 0 for an inactive island, 1
/// for one that only a genre ranks, and from 2 on the size of the last peak in bits.
pub(super) fn class(facts: Facts) -> i64 {
    if facts.quiet == 0 {
        2 + i64::from(u32::BITS - facts.peak.leading_zeros())
    } else {
        i64::from(facts.is_ranked)
    }
}

/// The highest class.
pub(super) const MAX_CLASS: i64 = 2 + u32::BITS as i64;

/// Returns the time of the next reading after one now.
pub(super) fn due_at(facts: Facts, now: UnixSeconds) -> i64 {
    let fresh = now.day().start().0 + FRESH_SECONDS;
    let usual = if class(facts) == 0 {
        let readings = usize::from(facts.quiet).min(BACK_OFF_DAYS.len());
        now.0 + BACK_OFF_DAYS[readings.saturating_sub(1)] * DAY_SECONDS
    } else if now.0 < fresh {
        fresh
    } else {
        fresh + DAY_SECONDS
    };
    if facts.is_final {
        usual
    } else {
        usual.min(now.0 + AGAIN_SECONDS)
    }
}

/// Returns the time from which an island is requested again, after failures in a row.
pub(super) fn retry_at(failures: u32, now: UnixSeconds) -> i64 {
    let pause = FIRST_RETRY_SECONDS << failures.saturating_sub(1).saturating_mul(3).min(32);
    now.0 + pause.min(LONGEST_RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: UtcDay = UtcDay(20_700);

    fn at(hours: i64, minutes: i64) -> UnixSeconds {
        UnixSeconds(DAY.start().0 + hours * 3600 + minutes * 60)
    }

    #[test]
    fn a_day_settles_at_six_or_at_three_if_nothing_surprises() {
        for (now, lacks_value, want) in [
            (at(2, 59), false, false),
            (at(3, 0), false, true),
            (at(3, 0), true, false),
            (at(5, 59), true, false),
            (at(6, 0), true, true),
            // A reply that arrives after midnight.
            (at(24, 0), true, true),
        ] {
            assert_eq!(is_settled(DAY, now, lacks_value), want, "{now}");
        }
    }

    #[test]
    fn an_island_is_read_at_0_40_and_six_hours_after_a_reply_that_is_not_final() {
        for (quiet, is_final, now, want) in [
            (0, false, at(0, 5), at(0, 40)),
            (0, false, at(0, 40), at(6, 40)),
            (0, false, at(2, 59), at(8, 59)),
            (0, true, at(3, 30), at(24, 40)),
            (0, true, at(6, 1), at(24, 40)),
            // A null of an active island.
            (0, false, at(5, 59), at(11, 59)),
            // Replies without some of the days.
            (0, false, at(7, 0), at(13, 0)),
            (0, false, at(23, 0), at(24, 40)),
            // Nulls of a first start, perhaps before values appear.
            (1, false, at(0, 50), at(6, 50)),
            (1, true, at(6, 50), at(30, 50)),
        ] {
            let facts = Facts {
                quiet,
                is_ranked: false,
                peak: 9,
                is_final,
            };
            assert_eq!(due_at(facts, now), want.0, "{facts:?} at {now}");
        }
    }

    #[test]
    fn an_inactive_island_is_read_again_within_the_window_with_three_days_to_spare() {
        let mut facts = Facts {
            quiet: 1,
            is_ranked: false,
            peak: 0,
            is_final: true,
        };
        let now = at(9, 0);
        for (quiet, days) in [(1, 1), (2, 2), (3, 4), (4, 4), (255, 4)] {
            facts.quiet = quiet;
            assert_eq!(due_at(facts, now), now.0 + days * DAY_SECONDS);
            assert!(due_at(facts, now) + 3 * DAY_SECONDS < deadline(newest_day(now)));
        }
        facts.is_ranked = true;
        assert_eq!(due_at(facts, now), at(24, 40).0);
    }

    #[test]
    fn an_island_that_fails_is_requested_again_after_seconds_and_later_after_hours() {
        let pause = |failures| retry_at(failures, at(9, 0)) - at(9, 0).0;
        let pauses = [1, 2, 3, 4, 5, 6, u32::MAX].map(pause);
        assert_eq!(pauses, [10, 80, 640, 5120, 21_600, 21_600, 21_600]);
    }

    #[test]
    fn islands_are_at_risk_from_36_hours_before_their_deadline() {
        let covered = UtcDay(DAY.0 - 8);
        let deadline = deadline(covered);
        assert_eq!(deadline, DAY.end().0);
        assert!(risk_day(UnixSeconds(deadline - 36 * 3600)) < covered);
        assert!(risk_day(UnixSeconds(deadline - 36 * 3600 + 1)) >= covered);
    }

    #[test]
    fn a_reply_has_the_seven_whole_days_before_its_own() {
        for now in [at(0, 0), at(23, 59)] {
            assert_eq!(window(now), UtcDay(DAY.0 - 7)..DAY);
            assert_eq!(newest_day(now), UtcDay(DAY.0 - 1));
        }
    }

    #[test]
    fn classes_are_in_the_order_of_peaks_with_ranked_and_inactive_islands_below() {
        let class_of = |is_active: bool, is_ranked, peak| {
            class(Facts {
                is_ranked,
                peak,
                quiet: u8::from(!is_active),
                is_final: true,
            })
        };
        assert_eq!(
            [false, true].map(|ranked| class_of(false, ranked, 9)),
            [0, 1]
        );
        let classes = [0, 1, 2, 3, 4, u32::MAX].map(|peak| class_of(true, true, peak));
        assert_eq!(classes, [2, 3, 4, 4, 5, MAX_CLASS]);
        assert_eq!(MAX_CLASS, 34);
    }
}
