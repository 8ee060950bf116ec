//! The counter of a key, `day:24 | count:40` in one word, and the rule by which it changes.
//!
//! # Why no key gets more than its limit
//!
//! The word is replaced only by compare-and-swap, and only with a word of a later day, or with a word
//! of the same day and a count higher by one. The swaps of one word have a total order: at most `limit`
//! of them succeed for a day, each with a distinct `remaining`. A thread whose day is still yesterday
//! reads a word of a later day and continues as of that day. No other data is published through the
//! word, so every access is `Relaxed`.

use super::decision::Decision;
use crate::calendar::UtcDay;
use crate::sync::{AtomicU64, Ordering};

const COUNT_BITS: u32 = 40;
const DAY_MAX: u64 = (1 << (64 - COUNT_BITS)) - 1;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Returns the count of a word for `day`, or for the day of the word if that is later, and the day
/// chosen.
fn count_on(word: u64, day: u64) -> (u64, u64) {
    let word_day = word >> COUNT_BITS;
    if word_day < day {
        (0, day)
    } else {
        (word & COUNT_MASK, word_day)
    }
}

/// Converts a day to the 24 bits of a counter; days before 1970 become day 0, which is never current.
fn counter_day(day: UtcDay) -> u64 {
    u64::try_from(day.0).unwrap_or(0).min(DAY_MAX)
}

/// Counts a request if the limit allows it. Also returns the day that it was counted for.
pub(super) fn admit(counter: &AtomicU64, limit: u32, day: UtcDay) -> (Decision, u64) {
    let mut seen = counter.load(Ordering::Relaxed);
    loop {
        let (count, day) = count_on(seen, counter_day(day));
        if count >= u64::from(limit) {
            return (Decision::Refuse, day);
        }
        let next = day << COUNT_BITS | (count + 1);
        match counter.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let remaining = limit - u32::try_from(count + 1).expect("at most the limit");
                return (Decision::Admit { remaining }, day);
            }
            Err(newest) => seen = newest,
        }
    }
}

pub(super) fn peek(counter: &AtomicU64, limit: u32, day: UtcDay) -> u32 {
    let (count, _) = count_on(counter.load(Ordering::Relaxed), counter_day(day));
    limit.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(super) fn count(word: u64, day: UtcDay) -> u32 {
    let is_of_day = word >> COUNT_BITS == counter_day(day);
    let count = if is_of_day { word & COUNT_MASK } else { 0 };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the day of a word that is not empty.
pub(super) fn day(word: u64) -> UtcDay {
    UtcDay(i32::try_from(word >> COUNT_BITS).expect("24 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oracle: the newest day that was counted on, and the count.
    #[derive(Default)]
    struct Plain {
        day: i32,
        count: u32,
    }

    impl Plain {
        fn count_on(&self, day: i32) -> u32 {
            if day > self.day { 0 } else { self.count }
        }

        fn admit(&mut self, limit: u32, day: i32) -> Decision {
            let count = self.count_on(day);
            if count >= limit {
                return Decision::Refuse;
            }
            self.day = self.day.max(day);
            self.count = count + 1;
            let remaining = limit - self.count;
            Decision::Admit { remaining }
        }
    }

    #[test]
    fn a_counter_agrees_with_the_oracle() {
        arbtest::arbtest(|u| {
            let (counter, mut plain) = (AtomicU64::new(0), Plain::default());
            for _ in 0..u.int_in_range(0..=60)? {
                let limit: u32 = u.int_in_range(0..=3)?;
                let day = u.int_in_range(0..=5)?;
                let left = limit.saturating_sub(plain.count_on(day));
                assert_eq!(peek(&counter, limit, UtcDay(day)), left);
                assert_eq!(
                    admit(&counter, limit, UtcDay(day)).0,
                    plain.admit(limit, day)
                );
            }
            Ok(())
        });
    }

    #[test]
    fn the_day_and_the_count_do_not_overlap() {
        let word = DAY_MAX << COUNT_BITS | COUNT_MASK;
        assert_eq!(count_on(word, 0), (COUNT_MASK, DAY_MAX));
        assert_eq!(count_on(3 << COUNT_BITS, 4), (0, 4));
        assert_eq!(counter_day(UtcDay(-1)), 0);
        assert_eq!(counter_day(UtcDay(i32::MAX)), DAY_MAX);
        assert_eq!(day(7 << COUNT_BITS | 9), UtcDay(7));
        assert_eq!(
            [6, 7, 8].map(|day| count(7 << COUNT_BITS | 9, UtcDay(day))),
            [0, 9, 0]
        );
        assert_eq!(count(word, UtcDay(i32::MAX)), u32::MAX);
    }
}
