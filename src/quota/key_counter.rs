//! One key's counter: `day:24 | count:40` in a word, and the one rule by which it changes.
//!
//! # Why no key gets more than its limit
//!
//! The word is only ever replaced by compare-and-swap, by one of a later day, or by one of the same
//! day that counts one more. Its swaps happen in one order: of those for a day at most `limit`
//! succeed, each with its own `remaining`. A thread that still lives in yesterday finds the word
//! ahead of it and goes on as of today. Nothing is published through the word but the word itself,
//! so every access is `Relaxed`.

use super::decision::Decision;
use crate::calendar::UtcDay;
use crate::sync::{AtomicU64, Ordering};

const COUNT_BITS: u32 = 40;
const DAY_MAX: u64 = (1 << (64 - COUNT_BITS)) - 1;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// A key's day and count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyCounter(u64);

impl KeyCounter {
    fn new(day: u64, count: u64) -> KeyCounter {
        KeyCounter(day << COUNT_BITS | count)
    }

    fn day(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    /// Requests counted on a day, or on the word's own where that is later, and which of the two.
    fn on(self, day: u64) -> (u64, u64) {
        if self.day() < day {
            (0, day)
        } else {
            (self.0 & COUNT_MASK, self.day())
        }
    }
}

/// The day as cells have it: days before 1970 are the first, which nobody lives on.
fn counter_day(day: UtcDay) -> u64 {
    u64::try_from(day.0).unwrap_or(0).min(DAY_MAX)
}

/// Counts a request in a cell, and says as of which day.
pub(super) fn admit(cell: &AtomicU64, limit: u32, day: UtcDay) -> (Decision, u64) {
    let mut seen = cell.load(Ordering::Relaxed);
    loop {
        let (count, day) = KeyCounter(seen).on(counter_day(day));
        if count >= u64::from(limit) {
            return (Decision::Refuse, day);
        }
        let next = KeyCounter::new(day, count + 1);
        match cell.compare_exchange(seen, next.0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let remaining = limit - u32::try_from(count + 1).expect("at most the limit");
                return (Decision::Admit { remaining }, day);
            }
            Err(newest) => seen = newest,
        }
    }
}

/// Requests that are left in a cell. Counts nothing.
pub(super) fn peek(cell: &AtomicU64, limit: u32, day: UtcDay) -> u32 {
    let (count, _) = KeyCounter(cell.load(Ordering::Relaxed)).on(counter_day(day));
    limit.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Whether a word counts for the day, the one before or the one after.
pub(super) fn is_beside(bits: u64, day: UtcDay) -> bool {
    KeyCounter(bits).day().abs_diff(counter_day(day)) <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious way: the newest day that was counted on, and the count.
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
    fn a_cell_agrees_with_the_obvious_count() {
        arbtest::arbtest(|u| {
            let (cell, mut plain) = (AtomicU64::new(0), Plain::default());
            for _ in 0..u.int_in_range(0..=60)? {
                let limit: u32 = u.int_in_range(0..=3)?;
                let day = u.int_in_range(0..=5)?;
                let left = limit.saturating_sub(plain.count_on(day));
                assert_eq!(peek(&cell, limit, UtcDay(day)), left);
                assert_eq!(admit(&cell, limit, UtcDay(day)).0, plain.admit(limit, day));
            }
            Ok(())
        });
    }

    #[test]
    fn the_day_and_the_count_do_not_touch() {
        let word = KeyCounter::new(DAY_MAX, COUNT_MASK);
        assert_eq!(word.on(0), (COUNT_MASK, DAY_MAX));
        assert_eq!(KeyCounter::new(3, 0).on(4), (0, 4));
        assert_eq!(counter_day(UtcDay(-1)), 0);
        assert_eq!(counter_day(UtcDay(i32::MAX)), DAY_MAX);
        assert!(is_beside(KeyCounter::new(7, 1).0, UtcDay(8)));
        assert!(!is_beside(KeyCounter::new(7, 1).0, UtcDay(9)));
    }
}
