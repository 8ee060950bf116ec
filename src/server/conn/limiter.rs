//! `ConnectionLimiter`: limits the number of connections, or of downloads, in all and per address.
//!
//! A worker takes a permit before it accepts a connection, so the limit is never exceeded; without
//! a permit the connection stays in the system's queue. Addresses are counted in a table of fixed
//! size by a keyed hash, which clients cannot aim at: two addresses that share a count share its
//! limit.

use std::net::IpAddr;
use std::sync::Arc;

use ahash::RandomState;

use crate::sync::{AtomicU16, AtomicU32, Ordering};

/// Counts of addresses, of two bytes each.
const ADDRESSES: usize = 1 << 16;

/// A limiter shared by all workers.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    in_all_max: u32,
    in_all: AtomicU32,
    of_address_max: u16,
    of_address: Box<[AtomicU16]>,
    hasher: RandomState,
}

/// A permit for one connection or download, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Arc<ConnectionLimiter>,
    /// The index of its address's count, if it is counted.
    address: Option<usize>,
}

impl ConnectionLimiter {
    pub(crate) fn new(in_all_max: u32, of_address_max: u16) -> ConnectionLimiter {
        ConnectionLimiter {
            in_all_max,
            in_all: AtomicU32::new(0),
            of_address_max,
            of_address: (0..ADDRESSES).map(|_| AtomicU16::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// A permit, if the limit is not reached.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Permit> {
        let more = |taken| (taken < self.in_all_max).then_some(taken + 1);
        let taken = self
            .in_all
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Permit {
            limiter: Arc::clone(self),
            address: None,
        })
    }

    /// A permit for an address, if neither limit is reached.
    pub(crate) fn take_for(self: &Arc<Self>, address: IpAddr) -> Option<Permit> {
        let mut permit = self.take()?;
        permit.count_for(address).then_some(permit)
    }
}

impl Permit {
    /// Counts the permit for an address. Returns `false` if the address has reached its limit.
    pub(crate) fn count_for(&mut self, address: IpAddr) -> bool {
        let limiter = &self.limiter;
        let at = limiter.hasher.hash_one(network(address)) % ADDRESSES as u64;
        let at = usize::try_from(at).expect("below the length of a table");
        let more = |taken| (taken < limiter.of_address_max).then_some(taken + 1);
        let count = &limiter.of_address[at];
        let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if taken.is_ok() {
            self.address = Some(at);
        }
        taken.is_ok()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.in_all.fetch_sub(1, Ordering::Relaxed);
        if let Some(at) = self.address {
            self.limiter.of_address[at].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The bits that are counted as one address: as with quotas, the /64 of an IPv6 one.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 | 1 << 127,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(limiter: &ConnectionLimiter) -> u32 {
        limiter.in_all.load(Ordering::Relaxed)
    }

    #[test]
    fn permits_never_exceed_the_limit() {
        let limiter = Arc::new(ConnectionLimiter::new(3, 10));
        let mut permits: Vec<_> = (0..3).map(|_| limiter.take().unwrap()).collect();
        assert!(limiter.take().is_none());
        permits.pop();
        assert_eq!(taken(&limiter), 2);
        assert!(limiter.take().is_some());
        drop(permits);
        assert_eq!(taken(&limiter), 0);
    }

    #[test]
    fn an_address_has_its_own_limit_and_an_ipv6_network_counts_as_one() {
        let limiter = Arc::new(ConnectionLimiter::new(1000, 2));
        let enter = |peer: &str| {
            let mut permit = limiter.take().unwrap();
            permit.count_for(peer.parse().unwrap()).then_some(permit)
        };
        for peers in [
            ["198.51.100.1", "::ffff:198.51.100.1", "198.51.100.1"],
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::"],
        ] {
            let [one, other, third] = peers.map(enter);
            assert!(
                one.is_some() && other.is_some() && third.is_none(),
                "{peers:?}"
            );
            drop(one);
            assert!(enter(peers[2]).is_some());
        }
        assert_eq!(taken(&limiter), 0);
        assert!(
            limiter
                .of_address
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 0)
        );
    }
}
