//! A counter of the anonymous table in one 64-bit word, and the rule by which it changes.
//!
//! Layout: `tag:36 | day:12 | count:16`, most significant bits first. A count of zero is an empty word.

use crate::calendar::UtcDay;

const TAG_BITS: u32 = 36;
const DAY_BITS: u32 = 12;
const COUNT_BITS: u32 = 16;
const DAY_MASK: u16 = (1 << DAY_BITS) - 1;
/// Days by which a word may lie in the past; a greater distance on the ring reads as the future.
const BEHIND_MAX: u16 = DAY_MASK / 2;

/// Identifies the client of a word, in 36 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientTag(u64);

impl ClientTag {
    /// The common tag of all clients that share an overflow word.
    pub(super) const SHARED: ClientTag = ClientTag(0);

    /// Takes the low 36 bits of `bits`.
    pub(super) const fn new(bits: u64) -> ClientTag {
        ClientTag(bits & ((1 << TAG_BITS) - 1))
    }

    /// Returns the 36 bits.
    pub(super) const fn bits(self) -> u64 {
        self.0
    }
}

/// A day on a ring of 4096 days, about eleven years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RingDay(u16);

impl RingDay {
    /// Returns the days from `earlier` forward to `self` on the ring.
    pub(super) const fn since(self, earlier: RingDay) -> u16 {
        self.0.wrapping_sub(earlier.0) & DAY_MASK
    }

    /// Returns `true` for the same day, the day before and the day after.
    pub(super) const fn is_beside(self, other: RingDay) -> bool {
        matches!(self.since(other), 0 | 1 | DAY_MASK)
    }
}

impl From<UtcDay> for RingDay {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the low 12 bits are the ring"
    )]
    fn from(day: UtcDay) -> RingDay {
        RingDay(day.0 as u16 & DAY_MASK)
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
    LaterDay(RingDay),
}

impl QuotaWord {
    fn new(tag: ClientTag, day: RingDay, count: u16) -> QuotaWord {
        let (day, count) = (u64::from(day.0), u64::from(count));
        QuotaWord(tag.0 << (DAY_BITS + COUNT_BITS) | day << COUNT_BITS | count)
    }

    /// The client that it counts for.
    pub(super) const fn tag(self) -> ClientTag {
        ClientTag(self.0 >> (DAY_BITS + COUNT_BITS))
    }

    /// The day that it counts requests of.
    #[expect(clippy::cast_possible_truncation, reason = "masked to 12 bits")]
    pub(super) const fn day(self) -> RingDay {
        RingDay((self.0 >> COUNT_BITS) as u16 & DAY_MASK)
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
    pub(super) fn transition(self, tag: ClientTag, day: RingDay, limit: u16) -> Transition {
        let (count, age) = (self.count(), day.since(self.day()));
        if count > 0 && age == 0 {
            return match self.tag() == tag {
                false => Transition::OtherClient,
                true if count >= limit => Transition::Refuse,
                true => Transition::Write(QuotaWord::new(tag, day, count + 1)),
            };
        }
        if count > 0 && age > BEHIND_MAX {
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
    use super::*;

    #[test]
    fn the_three_fields_do_not_overlap() {
        arbtest::arbtest(|u| {
            let tag = ClientTag::new(u.arbitrary()?);
            let (day, count) = (RingDay::from(UtcDay(u.arbitrary()?)), u.arbitrary()?);
            let word = QuotaWord::new(tag, day, count);
            assert_eq!((word.tag(), word.day(), word.count()), (tag, day, count));
            Ok(())
        });
    }

    #[test]
    fn a_word_is_stale_for_2047_days_and_then_ahead() {
        let (mine, limit) = (ClientTag::new(7), 3);
        for start in [-1, 0, 4095, 20_000] {
            let word = QuotaWord::new(mine, UtcDay(start).into(), 2);
            for days in 1..=2047 {
                let later = RingDay::from(UtcDay(start + days));
                assert_eq!(
                    word.transition(mine, later, limit),
                    Transition::Write(QuotaWord::new(mine, later, 1))
                );
                let earlier = UtcDay(start - days).into();
                assert_eq!(
                    word.transition(mine, earlier, limit),
                    Transition::LaterDay(word.day())
                );
            }
        }
    }

    #[test]
    fn a_live_word_counts_up_to_the_limit_for_its_own_client() {
        let (mine, other, day) = (ClientTag::new(7), ClientTag::new(8), RingDay(0));
        let word = QuotaWord::new(mine, day, 2);
        assert_eq!(
            word.transition(mine, day, 3),
            Transition::Write(QuotaWord::new(mine, day, 3))
        );
        for limit in 0..=2 {
            assert_eq!(word.transition(mine, day, limit), Transition::Refuse);
        }
        assert_eq!(word.transition(other, day, 0), Transition::OtherClient);
        let full = QuotaWord::new(mine, day, u16::MAX);
        assert_eq!(full.transition(mine, day, u16::MAX), Transition::Refuse);
    }

    #[test]
    fn an_empty_word_is_free_for_any_day_bits() {
        for day in [0, 1, 2048, 4095] {
            let empty = QuotaWord::new(ClientTag::new(9), RingDay(day), 0);
            assert_eq!(
                empty.transition(ClientTag::SHARED, RingDay(0), 0),
                Transition::Refuse
            );
            assert!(
                matches!(empty.transition(ClientTag::SHARED, RingDay(0), 1), Transition::Write(new) if new.count() == 1)
            );
        }
    }
}
