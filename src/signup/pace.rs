//! How often each of a great many may do something, in memory that does not grow with them.
//!
//! In: who, and the moment. Out: yes, or how long to wait. A generic cell rate: what is kept of
//! somebody is the moment at which the burst is whole again. It is kept in two places of a table that
//! a seeded hash chooses, each shared with strangers, and the earlier of both counts: nobody gets
//! more than is due, and to take another's turns, one would have to hit both of its places without
//! knowing the seed.

use std::hash::Hash;

use ahash::RandomState;

use crate::calendar::UnixSeconds;

/// Places in each row, half a megabyte with the other. While a thousand use theirs up, one newcomer in
/// a thousand shares both of its places with them.
const PLACES: u64 = 1 << 15;

/// One rule of pace, and how far each has used it up.
#[derive(Debug)]
pub struct Pace {
    burst_seconds: i64,
    interval_seconds: i64,
    /// Seconds at which the bursts are whole again.
    rows: [Box<[i64]>; 2],
    latest: UnixSeconds,
    hasher: RandomState,
}

impl Pace {
    /// `burst` at once, and then one in `interval_seconds`.
    pub fn new(burst: u16, interval_seconds: u16) -> Pace {
        Pace::with_places(burst, interval_seconds, PLACES)
    }

    fn with_places(burst: u16, interval_seconds: u16, places: u64) -> Pace {
        let places = usize::try_from(places).expect("a table fits the memory");
        let row = || vec![0; places].into_boxed_slice();
        Pace {
            burst_seconds: i64::from(burst) * i64::from(interval_seconds),
            interval_seconds: interval_seconds.into(),
            rows: [row(), row()],
            latest: UnixSeconds(0),
            hasher: RandomState::new(),
        }
    }

    /// Takes a turn; if there is none, the seconds until there is.
    pub fn take(&mut self, who: impl Hash, now: UnixSeconds) -> Result<(), u32> {
        let now = onward(&mut self.latest, now);
        let hash = self.hasher.hash_one(who);
        let places = self.rows[0].len() as u64;
        let at = |half: u64| usize::try_from(half % places).expect("below a length");
        let [row, other_row] = &mut self.rows;
        let one = &mut row[at(hash & u64::from(u32::MAX))];
        let other = &mut other_row[at(hash >> 32)];
        // A clock that was set back keeps nobody waiting for longer than a burst takes.
        *one = (*one).min(now.0 + self.burst_seconds);
        *other = (*other).min(now.0 + self.burst_seconds);
        let whole = (*one).min(*other).max(now.0) + self.interval_seconds;
        let wait = whole - self.burst_seconds - now.0;
        if wait > 0 {
            return Err(u32::try_from(wait).unwrap_or(u32::MAX));
        }
        // A stranger's, if that is later, stays.
        *one = (*one).max(whole);
        *other = (*other).max(whole);
        Ok(())
    }
}

/// How much earlier than the latest a moment may be for being late, and no clock that was set back.
const LATE_SECONDS: i64 = 60;

/// A moment among others that may come late: it is then the latest of them. Those of several threads do not
/// come in order, and nobody is to gain the seconds by which they go back.
pub(super) fn onward(latest: &mut UnixSeconds, now: UnixSeconds) -> UnixSeconds {
    let is_late = now < *latest && latest.0 - now.0 < LATE_SECONDS;
    if !is_late {
        *latest = now;
    }
    *latest
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// The obvious way: a bucket of turns for each, filled up second by second.
    struct Bucket {
        /// In turns times the interval.
        held: i64,
        at: i64,
    }

    fn obvious(
        buckets: &mut HashMap<String, Bucket>,
        who: &str,
        now: i64,
        (burst, interval): (i64, i64),
    ) -> Result<(), u32> {
        let full = burst * interval;
        let new = Bucket {
            held: full,
            at: now,
        };
        let bucket = buckets.entry(who.to_owned()).or_insert(new);
        for _ in bucket.at..now {
            bucket.held = full.min(bucket.held + 1);
        }
        bucket.at = now;
        if bucket.held >= interval {
            bucket.held -= interval;
            Ok(())
        } else {
            Err(u32::try_from(interval - bucket.held).unwrap())
        }
    }

    #[test]
    fn it_agrees_with_buckets_where_nobody_shares_and_never_gives_more_where_all_do() {
        arbtest::arbtest(|u| {
            let (burst, interval) = (u.int_in_range(1..=4_u16)?, u.int_in_range(1..=9_u16)?);
            let mut roomy = Pace::new(burst, interval);
            let mut narrow = Pace::with_places(burst, interval, 2);
            let (mut buckets, mut narrow_buckets) = (HashMap::new(), HashMap::new());
            let (mut now, mut latest) = (1_800_000_000, 0);
            let rule = (i64::from(burst), i64::from(interval));
            for _ in 0..u.int_in_range(0..=60)? {
                now += u.int_in_range(0..=5)?;
                // One that comes late is as good as the latest.
                let told = UnixSeconds(now - u.int_in_range(0..=9)?);
                latest = latest.max(told.0);
                let who = *u.choose(&["192.0.2.1", "192.0.2.2", "2001:db8::/64"])?;
                let want = obvious(&mut buckets, who, latest, rule);
                let got = roomy.take(who, told);
                // Three share both of two places once in a billion cases: here they do not.
                assert_eq!(got, want);
                if narrow.take(who, told).is_ok() {
                    let due = obvious(&mut narrow_buckets, who, latest, rule);
                    assert_eq!(due, Ok(()), "more than is due");
                }
            }
            Ok(())
        });
    }

    #[test]
    fn who_waits_as_long_as_told_is_admitted_and_not_a_second_before() {
        let mut pace = Pace::new(3, 20);
        let take = |pace: &mut Pace, now| pace.take("a", UnixSeconds(now));
        for _ in 0..3 {
            assert_eq!(take(&mut pace, 1000), Ok(()));
        }
        assert_eq!(take(&mut pace, 1000), Err(20));
        assert_eq!(take(&mut pace, 1019), Err(1));
        assert_eq!(take(&mut pace, 1020), Ok(()));
        assert_eq!(take(&mut pace, 1020), Err(20));
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_nobody_out_for_longer_than_one_turn() {
        let mut pace = Pace::new(2, 60);
        let now = 2_000_000_000;
        while pace.take("a", UnixSeconds(now)).is_ok() {}
        let back = now - 86_400 * 365;
        assert_eq!(pace.take("a", UnixSeconds(back)), Err(60));
        assert_eq!(pace.take("a", UnixSeconds(back + 60)), Ok(()));
    }

    #[test]
    fn a_thousand_who_use_theirs_up_keep_few_others_out() {
        let mut pace = Pace::new(3, 1200);
        let now = UnixSeconds(1_800_000_000);
        for busy in 0..1000 {
            while pace.take(format!("busy {busy}"), now).is_ok() {}
        }
        let kept_out = (0..10_000).filter(|other| pace.take(format!("new {other}"), now).is_err());
        assert!(
            kept_out.count() < 1000,
            "expected are about 10, with what they take of each other"
        );
    }
}
