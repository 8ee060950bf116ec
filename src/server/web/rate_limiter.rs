//! The rate limit of pages that are rendered per request, and of requests to sign-up. Stored pages are
//! not limited.

use std::net::IpAddr;

use crate::calendar::UnixSeconds;
use crate::signup::{GcraLimiter, network_of};
use crate::sync::{Mutex, lock};

/// Burst and refill interval in seconds of an IPv4 address, or of an eighth of an IPv6 /48: its clients (/64) with the
/// same last three bits. With a rate for each /64, one network could use up the slots that all clients share.
const CLIENT: (u16, u16) = (120, 1);
const NETWORK_PARTS: u128 = 8;

/// A rate limiter shared by all workers: a client gains nothing from several connections.
#[derive(Debug)]
pub(crate) struct PageRateLimiter(Mutex<GcraLimiter>);

impl PageRateLimiter {
    pub(crate) fn new() -> PageRateLimiter {
        PageRateLimiter(Mutex::new(GcraLimiter::new(CLIENT.0, CLIENT.1)))
    }

    /// Counts a request. If it exceeds the rate, returns the seconds until one is allowed.
    pub(crate) fn check(&self, address: IpAddr, now: UnixSeconds) -> Result<(), u32> {
        let part = match address.to_canonical() {
            IpAddr::V4(_) => 0,
            IpAddr::V6(address) => (address.to_bits() >> 64) % NETWORK_PARTS,
        };
        lock(&self.0).take((network_of(address), part), now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    /// Returns the number of requests that are allowed at one moment.
    fn allowed(addresses: impl Iterator<Item = IpAddr>) -> usize {
        let limiter = PageRateLimiter::new();
        let now = UnixSeconds(1_800_000_000);
        addresses
            .filter(|address| limiter.check(*address, now).is_ok())
            .count()
    }

    #[test]
    fn spellings_of_one_client_share_a_burst() {
        let four = |at: u32| match at % 2 {
            0 => "192.0.2.1".parse().unwrap(),
            _ => "::ffff:192.0.2.1".parse().unwrap(),
        };
        assert_eq!(allowed((0..200).map(four)), 120);
        let six = |at: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + at));
        assert_eq!(allowed((0..200).map(six)), 120);
    }

    #[test]
    fn a_network_has_eight_bursts() {
        let six = |at: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + (at << 64)));
        assert_eq!(allowed((0..2000).map(six)), 120 * 8);
    }

    #[test]
    fn refused_requests_of_a_network_use_up_no_slots_of_others() {
        let limiter = PageRateLimiter::new();
        let now = UnixSeconds(1_800_000_000);
        let six = |at: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + (at << 64)));
        // Far more clients than the limiter has slots: each slot would be charged several times.
        let refused = (0..0x1_0000).cycle().take(2_000_000);
        let refused = refused.filter(|at| limiter.check(six(*at), now).is_err());
        assert_eq!(refused.count(), 2_000_000 - 120 * 8);
        let other = |at: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(at << 8));
        let allowed = (0..1000).filter(|at| limiter.check(other(*at), now).is_ok());
        assert_eq!(allowed.count(), 1000);
    }
}
