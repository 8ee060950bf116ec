//! The policy of sign-up: settings, rate limits, and the rules for issuing a key.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use ahash::RandomState;

use super::error::{ISSUED_IN_24_HOURS_MAX, SignupError};
use crate::calendar::{DAY_SECONDS, UnixSeconds};
use crate::keys::{KeyAddress, KeyRecord};
use crate::model::{FREE_KEYS_MAX, Tier};

/// Free keys in total, at which sign-up closes: a file of 22 MB, which each change rewrites.
pub(super) const FREE_KEYS_TOTAL_MAX: usize = 100_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignupPolicy {
    /// The command that mails a link to the address of a client's keys; without one, the address is the
    /// client's IP address.
    pub(crate) mailer: Option<String>,
    /// Maximum number of free keys issued per UTC day in total.
    pub(crate) daily_max: u32,
}

/// Returns the network of a client: an IPv4 address, or the /48 of an IPv6 address. Anyone can get a
/// /48 free of charge, and it has 65,536 clients (/64).
pub(crate) fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).into(),
        IpAddr::V4(address) => address.into(),
    }
}

/// Slots in each row of a limiter: half a megabyte in both. While a thousand clients are at their
/// limit, one new client in a thousand shares both of its slots with them.
const SLOTS: usize = 1 << 15;

/// Times of several threads arrive out of order by less than this; a slot that is further ahead means that the clock was
/// set back. A client gains the late seconds once at most, since a slot keeps its time.
const LATE_SECONDS: i64 = 60;

/// A rate limiter (generic cell rate algorithm) in fixed memory.
///
/// Stores for each client the time at which its burst is available again, in one slot of each of two
/// rows. A seeded hash selects the slots, which clients share; the earlier of the two times counts. So
/// no client exceeds its rate, and a client cannot aim at another's slots without knowing the seed.
#[derive(Debug)]
pub(crate) struct GcraLimiter {
    burst_seconds: i64,
    interval_seconds: i64,
    /// Unix seconds at which bursts are available again.
    rows: [Box<[i64]>; 2],
    hasher: RandomState,
}

impl GcraLimiter {
    /// Creates a limiter that allows `burst` requests at once, and then one per interval.
    pub(crate) fn new(burst: u16, interval_seconds: u16) -> GcraLimiter {
        GcraLimiter {
            burst_seconds: i64::from(burst) * i64::from(interval_seconds),
            interval_seconds: interval_seconds.into(),
            rows: [(); 2].map(|()| vec![0; SLOTS].into()),
            hasher: RandomState::new(),
        }
    }

    /// Counts a request. If it exceeds the rate, returns the seconds until one is allowed.
    pub(crate) fn take(&mut self, client: impl Hash, now: UnixSeconds) -> Result<(), u32> {
        self.take_if(client, now, || Ok(()))
    }

    /// Counts a request that `further` allows too. One that `further` refuses is not counted: otherwise a
    /// network over its limit would use up the slots that its clients share with others.
    pub(crate) fn take_if(
        &mut self,
        client: impl Hash,
        now: UnixSeconds,
        further: impl FnOnce() -> Result<(), u32>,
    ) -> Result<(), u32> {
        let now = now.0;
        let hash = self.hasher.hash_one(client);
        let slots = self.rows[0].len() as u64;
        let at = |half: u64| usize::try_from(half % slots).expect("below a length");
        let [row, other_row] = &mut self.rows;
        let one = &mut row[at(hash & u64::from(u32::MAX))];
        let other = &mut other_row[at(hash >> 32)];
        // If the clock was set back, a client waits for no longer than a burst and the late seconds take.
        let full = now + self.burst_seconds;
        for slot in [&mut *one, &mut *other] {
            if *slot - full > LATE_SECONDS {
                *slot = full;
            }
        }
        let next = (*one).min(*other).max(now) + self.interval_seconds;
        let wait = next - self.burst_seconds - now;
        if wait > 0 {
            return Err(u32::try_from(wait).unwrap_or(u32::MAX));
        }
        further()?;
        // A later time of another client stays.
        *one = (*one).max(next);
        *other = (*other).max(next);
        Ok(())
    }
}

/// Returns the keys of an address, in the order of the records. Searched from end to end: that takes a millisecond
/// at the most keys, where an index by address takes longer to build, after each change.
pub(super) fn keys_of<'a>(
    keys: &'a [KeyRecord],
    address: &'a KeyAddress,
) -> impl Iterator<Item = &'a KeyRecord> + Clone {
    keys.iter().filter(move |key| key.address == *address)
}

/// Returns the number of keys ever issued to an address: no record is ever removed.
pub(super) fn number_of(keys: &[KeyRecord], address: &KeyAddress) -> u32 {
    u32::try_from(keys_of(keys, address).count()).expect("at most `KEYS_MAX` keys")
}

/// Checks that a free key may be issued to an address, with a token signed when `number` keys had been
/// issued to it.
pub(super) fn check_issue(
    keys: &[KeyRecord],
    address: &KeyAddress,
    number: u32,
    daily_max: u32,
    now: UnixSeconds,
) -> Result<(), SignupError> {
    if number_of(keys, address) != number {
        return Err(SignupError::UsedToken);
    }
    let is_free = |key: &&KeyRecord| key.tier == Tier::Free;
    let own = keys_of(keys, address).filter(is_free);
    if own.clone().filter(|key| key.revoked.is_none()).count() >= FREE_KEYS_MAX {
        return Err(SignupError::TooManyActive);
    }
    let ends = own.map(|key| key.issued.0 + DAY_SECONDS);
    let mut recent: Vec<i64> = ends.filter(|end| *end > now.0).collect();
    recent.sort_unstable_by(|one, other| other.cmp(one));
    // Once this one is 24 hours old, fewer than the maximum are recent.
    if let Some(end) = recent.get(ISSUED_IN_24_HOURS_MAX - 1) {
        let wait = seconds_until(UnixSeconds(*end), now);
        return Err(SignupError::TooManyRecent(wait));
    }
    let all = keys.iter().filter(is_free);
    if all.clone().count() >= FREE_KEYS_TOTAL_MAX {
        return Err(SignupError::Closed);
    }
    let today = all.filter(|key| key.issued.day() == now.day()).count();
    if today >= daily_max as usize {
        return Err(daily_limit(now));
    }
    Ok(())
}

pub(super) fn daily_limit(now: UnixSeconds) -> SignupError {
    SignupError::DailyLimit(seconds_until(now.day().end(), now))
}

/// Returns at least 1: the time has not passed yet.
fn seconds_until(end: UnixSeconds, now: UnixSeconds) -> u32 {
    u32::try_from((end.0 - now.0).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
