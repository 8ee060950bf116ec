//! The clock that quotas are counted by: its day never goes back, and jumps of the system clock are
//! verified before they are believed.
//!
//! The rule, in [`ClockGuard`], compares the wall clock with the boot-time clock, which cannot be set:
//!
//! - **Wall clock set back:** the day stays. No client gets a day's quota twice.
//! - **Wall clock set forward:** a new day is accepted immediately if it begins at most an hour before
//!   its expected time. Otherwise the jump is ignored for ten minutes, during which time advances by
//!   the boot-time clock; it is accepted if the wall clock still shows it after that. A wrong year
//!   therefore uses up no quota of today.
//!
//! A day that simply followed the wall clock would need less code. But the day of a counter never goes back: after a
//! jump a year ahead, the clients that sent requests meanwhile would be counted on that day for a year, and refused
//! once their limit is reached. A clock that starts too early is no better: the counters of today would look like
//! damaged ones of a later day, and be cleared.

use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};

use super::clock_guard::{ClockGuard, Trust};
use super::{DAY_SECONDS, RequestTime, UnixSeconds, UtcDay};
use crate::sync::{AtomicI64, Mutex, MutexGuard, Ordering, lock};

/// Value of [`Clock::day_end`] while every reading has to be evaluated by the guard.
const UNTRUSTED: i64 = i64::MIN;

/// A wall clock and a steady clock in seconds, set by a test.
#[derive(Debug, Default)]
pub struct ManualTime {
    wall: AtomicI64,
    steady: AtomicI64,
}

impl ManualTime {
    /// Advances both clocks.
    pub fn pass(&self, seconds: i64) {
        self.jump(seconds);
        self.steady.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Sets the wall clock forward or back.
    pub fn jump(&self, seconds: i64) {
        self.wall.fetch_add(seconds, Ordering::Relaxed);
    }
}

/// The one source of the current time for requests, shared by all threads.
#[derive(Debug)]
pub struct Clock {
    /// Replaces both clocks of the system in a test.
    manual: Option<Arc<ManualTime>>,
    /// End of the current day in Unix seconds, or [`UNTRUSTED`].
    day_end: AtomicI64,
    guard: Mutex<ClockGuard>,
}

impl Clock {
    /// Creates a clock that reads the system's, or that of a test, with a first day not before `newest`.
    pub fn new(manual: Option<Arc<ManualTime>>, newest: Option<UtcDay>) -> Clock {
        let time = manual.as_deref();
        let guard = ClockGuard::new(wall(time), steady(time), newest);
        Clock {
            day_end: AtomicI64::new(guard.day.end().0),
            guard: Mutex::new(guard),
            manual,
        }
    }

    /// Reads the clock. Takes a lock only when the day changes or while the wall clock is not trusted.
    #[inline]
    pub fn now(&self) -> RequestTime {
        let wall = wall(self.manual.as_deref());
        let day_end = self.day_end.load(Ordering::Relaxed);
        let left = day_end.saturating_sub(wall.0);
        if day_end == UNTRUSTED || !(1..=DAY_SECONDS).contains(&left) {
            return self.evaluate().0;
        }
        RequestTime {
            day: UnixSeconds(day_end - DAY_SECONDS).day(),
            moment: wall,
        }
    }

    /// Evaluates a reading of both clocks. They are read under the lock: two readings
    /// evaluated in the reverse order would look like a clock set back.
    #[cold]
    fn evaluate(&self) -> (RequestTime, MutexGuard<'_, ClockGuard>) {
        let mut guard = lock(&self.guard);
        let time = self.manual.as_deref();
        let now = guard.evaluate(wall(time), steady(time));
        let day_end = match guard.trust {
            Trust::Trusted => now.day.end().0,
            _ => UNTRUSTED,
        };
        self.day_end.store(day_end, Ordering::Relaxed);
        (now, guard)
    }

    /// Evaluates both clocks and returns a notice for the log, if there is one. To be called several
    /// times a minute: a correction within the day is then known before the day ends.
    pub fn check(&self) -> Option<String> {
        self.evaluate().1.notice.take()
    }
}

fn wall(manual: Option<&ManualTime>) -> UnixSeconds {
    manual.map_or_else(UnixSeconds::now, |time| {
        UnixSeconds(time.wall.load(Ordering::Relaxed))
    })
}

/// Seconds since a fixed moment, independent of the wall clock. Includes the time for which the
/// system was suspended, unlike `Instant`.
fn steady(manual: Option<&ManualTime>) -> i64 {
    match manual {
        None => clock_gettime(ClockId::Boottime).tv_sec,
        Some(time) => time.steady.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock_guard::DOUBT_SECONDS;
    use super::*;

    const NOON: i64 = 20_777 * DAY_SECONDS + DAY_SECONDS / 2;
    const TODAY: i32 = 20_777;

    fn at(wall: i64) -> (Arc<ManualTime>, Clock) {
        let time = Arc::new(ManualTime::default());
        time.jump(wall);
        let clock = Clock::new(Some(Arc::clone(&time)), None);
        (time, clock)
    }

    /// Returns the day, counted from the first one, and the seconds until its end.
    fn shown(clock: &Clock) -> (i32, u32) {
        let now = clock.now();
        (now.day.0 - TODAY, now.reset_seconds())
    }

    /// Applies steps of (seconds passed, seconds jumped) and compares the day after each.
    #[track_caller]
    fn check(steps: &[(i64, i64)], days: &[i32]) {
        let (time, clock) = at(NOON);
        let shown: Vec<i32> = steps
            .iter()
            .map(|(passed, jumped)| {
                time.pass(*passed);
                time.jump(*jumped);
                let now = clock.now();
                assert!((1..=86_400).contains(&now.reset_seconds()), "{now:?}");
                now.day.0 - TODAY
            })
            .collect();
        assert_eq!(shown, days, "{steps:?}");
    }

    #[test]
    fn midnight_comes_on_time() {
        let (time, clock) = at(NOON);
        time.pass(43_199);
        assert_eq!(shown(&clock), (0, 1));
        time.pass(1);
        assert_eq!(shown(&clock), (1, 86_400));
    }

    #[test]
    fn a_clock_set_back_stays_on_its_day() {
        check(
            &[
                (0, -43_201),
                (0, -400 * 86_400),
                (0, -i64::from(TODAY) * 86_400),
            ],
            &[0, 0, 0],
        );
        check(
            &[(43_200, 0), (0, -1), (1, 0), (0, -7200), (7200, 0)],
            &[1, 1, 1, 1, 1],
        );
    }

    #[test]
    fn the_time_passes_while_the_day_waits_for_the_clock_and_ignores_a_jump_ahead() {
        for (jump, moment) in [(-86_400, NOON - 86_400), (10 * 86_400, NOON)] {
            let (time, clock) = at(NOON);
            time.jump(jump);
            for passed in 0..3 {
                let now = clock.now();
                assert_eq!((now.day.0, now.moment.0), (TODAY, moment + passed));
                time.pass(1);
            }
        }
    }

    #[test]
    fn a_machine_that_starts_with_an_old_clock_uses_the_newest_day() {
        let time = Arc::new(ManualTime::default());
        let clock = Clock::new(Some(Arc::clone(&time)), Some(UtcDay(TODAY)));
        assert_eq!(clock.now().day, UtcDay(TODAY));
        time.pass(60);
        // The clock is corrected. The jump is not doubted, because the day is the current one.
        time.jump(NOON);
        assert_eq!(shown(&clock), (0, 43_200 - 60));
    }

    #[test]
    fn a_correction_within_the_day_does_not_delay_midnight() {
        let (time, clock) = at(NOON);
        time.jump(7200);
        assert_eq!(clock.check(), None);
        time.pass(43_200 - 7200);
        assert_eq!(shown(&clock), (1, 86_400));
    }

    #[test]
    fn days_without_requests_are_accepted_immediately() {
        check(&[(86_400, 0), (30 * 86_400, 0)], &[1, 31]);
    }

    #[test]
    fn a_day_up_to_an_hour_early_is_accepted_and_an_earlier_one_doubted_for_ten_minutes() {
        check(&[(0, 0), (39_600, 3600)], &[0, 1]);
        check(&[(39_599, 3601), (599, 0), (1, 0)], &[0, 0, 1]);
    }

    #[test]
    fn a_wrong_year_is_doubted_and_forgotten_when_it_is_corrected() {
        let year = 365 * 86_400;
        check(
            &[
                (0, 73 * year),
                (599, 0),
                (0, -73 * year),
                (599, 73 * year),
                (599, 0),
            ],
            &[0; 5],
        );
        check(&[(0, year), (600, 0)], &[0, 365]);
        // Midnight passes by the steady clock while the wall clock is doubted.
        check(
            &[(43_000, year), (199, 0), (1, 0), (400, -year)],
            &[0, 0, 1, 1],
        );
    }

    #[test]
    fn flapping_about_midnight_changes_the_day_once() {
        let (time, clock) = at(NOON);
        time.pass(43_200);
        let mut days = Vec::new();
        for step in 0..100_000 {
            time.jump(if step % 2 == 0 { -2 } else { 2 });
            days.push(clock.now().day.0);
        }
        days.dedup();
        // The first reading lies before midnight.
        assert_eq!(days, [TODAY, TODAY + 1]);
    }

    #[test]
    fn under_any_readings_the_day_never_goes_back_nor_runs_ahead() {
        arbtest::arbtest(|u| {
            let (time, clock) = at(NOON);
            let (mut before, mut steady) = (TODAY, 0);
            for _ in 0..u.int_in_range(0..=60)? {
                let longest = if u.ratio(1, 8)? { 200_000 } else { 90 };
                let passed = u.int_in_range(0..=longest)?;
                let jumps = [
                    0, 0, 0, 1, -1, 2, -2, 3600, -3600, 86_400, -86_400, 34_560_000,
                ];
                time.pass(passed);
                time.jump(*u.choose(&jumps)?);
                steady += passed;
                let now = clock.now();
                assert!((1..=86_400).contains(&now.reset_seconds()));
                assert!(now.day.0 >= before);
                // No jump is accepted immediately: until ten minutes have passed, the day is bounded by
                // the elapsed time plus an hour.
                if steady < DOUBT_SECONDS {
                    assert!(now.day.0 <= UnixSeconds(NOON + steady + 3600).day().0);
                }
                before = now.day.0;
            }
            Ok(())
        });
    }
}
