//! The clock that quotas go by: its day never falls, and a jump of the system's clock is doubted.
//!
//! - **Back:** the day stays. Nobody gets a day's quota twice.
//! - **Forward:** a day that comes no more than an hour before its time, by the steady clock that
//!   nobody can set, is taken at once. Any other is doubted for ten minutes: time goes on by the
//!   steady clock, and only a clock that still says the same is believed. A false year spends
//!   nobody's quota of today.

use std::sync::Arc;
use std::time::Instant;

use super::judge::{Judge, Now};
use super::{DAY_SECONDS, UnixSeconds, UtcDay};
use crate::sync::{AtomicI64, Mutex, Ordering, lock};

/// Stands for the end of the day while readings need a second look.
const UNSETTLED: i64 = i64::MIN;

/// Seconds of a wall clock and of a steady one, set by hand.
#[derive(Debug, Default)]
pub struct ManualTime {
    wall: AtomicI64,
    steady: AtomicI64,
}

impl ManualTime {
    /// Both clocks go on.
    pub fn pass(&self, seconds: i64) {
        self.jump(seconds);
        self.steady.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The wall clock is set forward or back.
    pub fn jump(&self, seconds: i64) {
        self.wall.fetch_add(seconds, Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Source {
    System {
        started: Instant,
        /// Seconds that the system had been up when it started, sleep included.
        uptime: i64,
    },
    Manual(Arc<ManualTime>),
}

impl Source {
    fn wall(&self) -> UnixSeconds {
        match self {
            Source::System { .. } => UnixSeconds::now(),
            Source::Manual(time) => UnixSeconds(time.wall.load(Ordering::Relaxed)),
        }
    }

    /// Seconds that have passed since some moment, whatever the wall clock says.
    fn steady(&self) -> i64 {
        match self {
            Source::System { started, uptime } => {
                let awake = i64::try_from(started.elapsed().as_secs()).unwrap_or(i64::MAX);
                // `Instant` stands still while the system sleeps.
                system_uptime().unwrap_or_else(|| uptime.saturating_add(awake))
            }
            Source::Manual(time) => time.steady.load(Ordering::Relaxed),
        }
    }
}

/// Seconds since the system was started, sleep included, where it tells.
fn system_uptime() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    text.split_once('.')?.0.parse().ok()
}

/// The one source of the present moment for requests; shared by all threads.
#[derive(Debug)]
pub struct Clock {
    source: Source,
    /// Where the current day ends, or [`UNSETTLED`].
    ends: AtomicI64,
    judge: Mutex<Judge>,
    /// What has happened to the clock and nobody has been told of.
    news: Mutex<Option<String>>,
}

impl Clock {
    /// The system's clock, on no earlier a day than `newest`.
    pub fn system(newest: Option<UtcDay>) -> Clock {
        let source = Source::System {
            started: Instant::now(),
            uptime: system_uptime().unwrap_or(0),
        };
        Clock::new(source, newest)
    }

    /// A clock that is set by hand.
    pub fn manual(time: Arc<ManualTime>, newest: Option<UtcDay>) -> Clock {
        Clock::new(Source::Manual(time), newest)
    }

    fn new(source: Source, newest: Option<UtcDay>) -> Clock {
        let mut judge = Judge::new(source.wall(), source.steady());
        judge.day = newest.map_or(judge.day, |newest| newest.max(judge.day));
        Clock {
            ends: AtomicI64::new(judge.day.end().0),
            judge: Mutex::new(judge),
            source,
            news: Mutex::new(None),
        }
    }

    /// Reads the clock. Takes no lock but when the day changes, or the clock is not to be trusted.
    #[inline]
    pub fn now(&self) -> Now {
        let wall = self.source.wall();
        let ends = self.ends.load(Ordering::Relaxed);
        let left = ends.saturating_sub(wall.0);
        if ends == UNSETTLED || !(1..=DAY_SECONDS).contains(&left) {
            return self.settle();
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a day is from 1 to 86 400"
        )]
        Now {
            day: UnixSeconds(ends - DAY_SECONDS).day(),
            reset_seconds: left as u32,
        }
    }

    /// Has both clocks judged. They are read under the lock: readings that are judged in another
    /// order than they were taken would look like a clock set back.
    #[cold]
    fn settle(&self) -> Now {
        let mut judge = lock(&self.judge);
        let (now, said) = judge.judge(self.source.wall(), self.source.steady());
        let ends = if judge.is_calm() {
            judge.day.end().0
        } else {
            UNSETTLED
        };
        self.ends.store(ends, Ordering::Relaxed);
        drop(judge);
        if said.is_some() {
            *lock(&self.news) = said;
        }
        now
    }

    /// Looks at both clocks, and says what has happened to them. To be called several times a
    /// minute: a correction within the day is then known before the day ends.
    pub fn check(&self) -> Option<String> {
        self.settle();
        lock(&self.news).take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::DOUBT_SECONDS;
    use super::*;

    const NOON: i64 = 20_777 * DAY_SECONDS + DAY_SECONDS / 2;
    const TODAY: i32 = 20_777;

    fn at(wall: i64) -> (Arc<ManualTime>, Clock) {
        let time = Arc::new(ManualTime::default());
        time.jump(wall);
        let clock = Clock::manual(Arc::clone(&time), None);
        (time, clock)
    }

    /// Plays steps of (seconds passed, seconds jumped) and compares the day after each.
    #[track_caller]
    fn check(steps: &[(i64, i64)], days: &[i32]) {
        let (time, clock) = at(NOON);
        let said: Vec<i32> = steps
            .iter()
            .map(|(passed, jumped)| {
                time.pass(*passed);
                time.jump(*jumped);
                let now = clock.now();
                assert!((1..=86_400).contains(&now.reset_seconds), "{now:?}");
                now.day.0 - TODAY
            })
            .collect();
        assert_eq!(said, days, "{steps:?}");
    }

    #[test]
    fn midnight_comes_on_time() {
        let (time, clock) = at(NOON);
        time.pass(43_199);
        let day = UtcDay(TODAY);
        assert_eq!(
            clock.now(),
            Now {
                day,
                reset_seconds: 1
            }
        );
        time.pass(1);
        let day = UtcDay(TODAY + 1);
        assert_eq!(
            clock.now(),
            Now {
                day,
                reset_seconds: 86_400
            }
        );
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
    fn a_machine_that_starts_with_an_old_clock_goes_by_the_newest_day() {
        let time = Arc::new(ManualTime::default());
        let clock = Clock::manual(Arc::clone(&time), Some(UtcDay(TODAY)));
        assert_eq!(clock.now().day, UtcDay(TODAY));
        time.pass(60);
        // The clock is mended: no jump to doubt, for the day is the one that was expected.
        time.jump(NOON);
        let day = UtcDay(TODAY);
        let reset_seconds = 43_200 - 60;
        assert_eq!(clock.now(), Now { day, reset_seconds });
    }

    #[test]
    fn a_correction_within_the_day_does_not_delay_midnight() {
        let (time, clock) = at(NOON);
        time.jump(7200);
        assert_eq!(clock.check(), None);
        time.pass(43_200 - 7200);
        let day = UtcDay(TODAY + 1);
        let reset_seconds = 86_400;
        assert_eq!(clock.now(), Now { day, reset_seconds });
    }

    #[test]
    fn days_that_nobody_asked_on_are_taken_at_once() {
        check(&[(86_400, 0), (30 * 86_400, 0)], &[1, 31]);
    }

    #[test]
    fn a_day_up_to_an_hour_early_is_taken_and_an_earlier_one_held_for_ten_minutes() {
        check(&[(0, 0), (39_600, 3600)], &[0, 1]);
        check(&[(39_599, 3601), (599, 0), (1, 0)], &[0, 0, 1]);
    }

    #[test]
    fn a_false_year_is_held_and_forgotten_when_it_is_mended() {
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
        // Midnight comes by the steady clock while the other is doubted.
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
    fn whatever_the_clocks_do_the_day_never_falls_nor_runs_away() {
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
                assert!((1..=86_400).contains(&now.reset_seconds));
                assert!(now.day.0 >= before);
                // No jump is believed at once: what has passed, and an hour, bound the day, until
                // ten minutes of doubt are over.
                if steady < DOUBT_SECONDS {
                    assert!(now.day.0 <= UnixSeconds(NOON + steady + 3600).day().0);
                }
                before = now.day.0;
            }
            Ok(())
        });
    }
}
