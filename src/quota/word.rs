//! A counter of the anonymous table in one 64-bit word, and the rule by which it changes.
//!
//! Layout: `tag:33 | day:15 | count:16`, most significant bits first. A count of zero is an empty word.

use crate::calendar::UtcDay;

const DAY_BITS: u32 = 15;
const COUNT_BITS: u32 = 16;
const DAY_MAX: u16 = (1 << DAY_BITS) - 1;
/// Day 0 of a word, 2020-01-01, in days since 1970.
const FIRST_DAY: i32 = 18_262;
const NETWORK_MARK: u64 = 1 << 32;

/// Identifies the client of a word, in 33 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientTag(u64);

impl ClientTag {
    /// The common tag of all clients that share an overflow word.
    pub(super) const SHARED: ClientTag = ClientTag(0);

    pub(super) fn of_address(address: u32) -> ClientTag {
        ClientTag(address.into())
    }

    /// The tag of an IPv6 network, from the low 32 bits of its hash.
    pub(super) const fn of_network(hash: u64) -> ClientTag {
        ClientTag(hash & (NETWORK_MARK - 1) | NETWORK_MARK)
    }

    pub(super) const fn is_network(self) -> bool {
        self.0 >= NETWORK_MARK
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }
}

/// The day of a word, from 2020-01-01 to 2109-09-18. All earlier days are the first of them, all later
/// ones the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WordDay(u16);

impl From<UtcDay> for WordDay {
    fn from(day: UtcDay) -> WordDay {
        let days = day.0.saturating_sub(FIRST_DAY).max(0);
        WordDay(u16::try_from(days).unwrap_or(DAY_MAX).min(DAY_MAX))
    }
}

impl From<WordDay> for UtcDay {
    fn from(day: WordDay) -> UtcDay {
        UtcDay(FIRST_DAY + i32::from(day.0))
    }
}

/// A tag, a day and a count in the 64 bits of a word of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaWord(pub(super) u64);

/// The action that a word requires of a client that probes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// Count the request: replace the word with this one.
    Write(QuotaWord),
    /// The client has reached its limit; write nothing.
    Refuse,
    /// The word counts for another client today; probe the next word.
    OtherClient,
    /// The word is of a later day than the request; continue as of that day.
    LaterDay(WordDay),
}

impl QuotaWord {
    fn new(tag: ClientTag, day: WordDay, count: u16) -> QuotaWord {
        let (day, count) = (u64::from(day.0), u64::from(count));
        QuotaWord(tag.0 << (DAY_BITS + COUNT_BITS) | day << COUNT_BITS | count)
    }

    pub(super) const fn tag(self) -> ClientTag {
        ClientTag(self.0 >> (DAY_BITS + COUNT_BITS))
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to 15 bits")]
    pub(super) const fn day(self) -> WordDay {
        WordDay((self.0 >> COUNT_BITS) as u16 & DAY_MAX)
    }

    /// Number of requests counted; zero in an empty word.
    #[expect(clippy::cast_possible_truncation, reason = "the low 16 bits")]
    pub(super) const fn count(self) -> u16 {
        self.0 as u16
    }

    /// Returns the action of a client with this tag and limit on this day.
    ///
    /// A word to be written is of the same day as this one or a later day; on the same day it has the
    /// same tag and a count higher by one. A word of an earlier day is treated as empty.
    #[inline]
    pub(super) fn transition(self, tag: ClientTag, day: WordDay, limit: u16) -> Transition {
        let count = self.count();
        if count > 0 && self.day() == day {
            return match self.tag() == tag {
                false => Transition::OtherClient,
                true if count >= limit => Transition::Refuse,
                true => Transition::Write(QuotaWord::new(tag, day, count + 1)),
            };
        }
        if count > 0 && self.day() > day {
            return Transition::LaterDay(self.day());
        }
        if limit == 0 {
            return Transition::Refuse;
        }
        Transition::Write(QuotaWord::new(tag, day, 1))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    const TODAY: WordDay = WordDay(2_520);

    #[test]
    fn the_three_fields_do_not_overlap() {
        arbtest::arbtest(|u| {
            let tag = if u.arbitrary()? {
                ClientTag::of_address(u.arbitrary()?)
            } else {
                ClientTag::of_network(u.arbitrary()?)
            };
            let (day, count) = (WordDay::from(UtcDay(u.arbitrary()?)), u.arbitrary()?);
            let word = QuotaWord::new(tag, day, count);
            assert_eq!((word.tag(), word.day(), word.count()), (tag, day, count));
            Ok(())
        });
    }

    #[test]
    fn days_of_ninety_years_are_distinct_and_others_are_the_first_or_the_last() {
        let [first, last] = ["2020-01-01", "2109-09-18"].map(|text| UtcDay::parse(text).unwrap());
        for day in first.0..=last.0 {
            let of_word = WordDay::from(UtcDay(day));
            assert_eq!(UtcDay::from(of_word), UtcDay(day));
            assert_eq!(i32::from(of_word.0), day - first.0);
        }
        for earlier in [i32::MIN, -1, 0, first.0 - 1] {
            assert_eq!(UtcDay::from(WordDay::from(UtcDay(earlier))), first);
        }
        for later in [last.0 + 1, last.0 + 40_000, i32::MAX] {
            assert_eq!(UtcDay::from(WordDay::from(UtcDay(later))), last);
        }
    }

    #[test]
    fn no_network_has_the_tag_of_an_address() {
        assert!(!ClientTag::of_address(u32::MAX).is_network());
        for hash in [0, u64::MAX, 1 << 32] {
            assert!(ClientTag::of_network(hash).is_network());
        }
    }

    #[test]
    fn a_word_of_any_earlier_day_is_free_and_of_any_later_day_applies() {
        let (mine, limit) = (ClientTag::of_address(7), 3);
        let word = QuotaWord::new(ClientTag::of_address(8), TODAY, 2);
        for day in 0..=DAY_MAX {
            let expected = match day.cmp(&TODAY.0) {
                Ordering::Less => Transition::LaterDay(TODAY),
                Ordering::Equal => Transition::OtherClient,
                Ordering::Greater => Transition::Write(QuotaWord::new(mine, WordDay(day), 1)),
            };
            assert_eq!(word.transition(mine, WordDay(day), limit), expected);
        }
    }

    #[test]
    fn a_live_word_counts_up_to_the_limit_for_its_own_client() {
        let (mine, other) = (ClientTag::of_address(7), ClientTag::of_address(8));
        let word = QuotaWord::new(mine, TODAY, 2);
        assert_eq!(
            word.transition(mine, TODAY, 3),
            Transition::Write(QuotaWord::new(mine, TODAY, 3))
        );
        for limit in 0..=2 {
            assert_eq!(word.transition(mine, TODAY, limit), Transition::Refuse);
        }
        assert_eq!(word.transition(other, TODAY, 0), Transition::OtherClient);
        let full = QuotaWord::new(mine, TODAY, u16::MAX);
        assert_eq!(full.transition(mine, TODAY, u16::MAX), Transition::Refuse);
    }

    #[test]
    fn an_empty_word_is_free_for_any_day_bits() {
        for day in [0, 1, TODAY.0, DAY_MAX] {
            let empty = QuotaWord::new(ClientTag::of_address(9), WordDay(day), 0);
            assert_eq!(
                empty.transition(ClientTag::SHARED, TODAY, 0),
                Transition::Refuse
            );
            assert!(
                matches!(empty.transition(ClientTag::SHARED, TODAY, 1), Transition::Write(new) if new.count() == 1)
            );
        }
    }
}
