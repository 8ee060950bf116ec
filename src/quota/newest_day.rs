//! The newest day of the counters in the files of a state directory.
//!
//! A machine may start with its clock years behind. If its requests counted for that day, every client
//! would get a second quota when the clock is corrected. The service therefore starts on the newest day of
//! its counters, or a later one by the clock.
//!
//! A single damaged counter must not move the service years ahead, where no quota is ever reset. So the
//! newest day is that of the second newest counter; that of the only counter, if there is no other. The
//! newest one applies too if its day is at most one day later; the service sets a later one to zero when it
//! starts. If requests were counted years ahead because the clock was wrong for long, that day stays, as it
//! does in a running server: which of both is wrong is for the operator to decide.

use crate::calendar::UtcDay;

/// The two newest of the days that were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewestDay {
    newest: Option<UtcDay>,
    second: Option<UtcDay>,
}

impl NewestDay {
    pub(super) fn add(&mut self, day: UtcDay) {
        if self.newest <= Some(day) {
            self.second = self.newest.replace(day);
        } else {
            self.second = self.second.max(Some(day));
        }
    }

    /// Returns the day of the second newest counter, or of the only one.
    pub fn day(self) -> Option<UtcDay> {
        self.second.or(self.newest)
    }
}

#[cfg(all(test, not(island_metrics_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_sorted_list() {
        arbtest::arbtest(|u| {
            let (mut newest, mut days) = (NewestDay::default(), Vec::new());
            for _ in 0..u.int_in_range(0..=9)? {
                let day = UtcDay(u.int_in_range(-3..=6)?);
                newest.add(day);
                days.push(day);
            }
            days.sort();
            let without_one = &days[..days.len().saturating_sub(1)];
            assert_eq!(newest.day(), without_one.last().or(days.last()).copied());
            Ok(())
        });
    }
}
