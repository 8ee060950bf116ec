//! `ConnectionLimiter`: limits the number of connections, or of downloads, in all and per address.
//!
//! Besides its fixed limit, an address can hold at most as many permits as are free, so that a few addresses keep
//! no other client out, even if none of their connections is idle or slow. One address has at most half
//! of all; each further one leaves at least half of the rest, and N that renew their connections leave
//! one in N + 1. (Network switches share memory by the same rule: A. Choudhury and E. Hahne, dynamic queue
//! length thresholds.)
//!
//! A worker takes a permit before it accepts a connection, so the limit is never exceeded; without
//! a permit the connection stays in the system's queue. Addresses are counted in a table of fixed
//! size by a keyed hash, which clients cannot aim at: two addresses that share a count share its
//! limit.

use std::net::IpAddr;
use std::sync::Arc;

use ahash::RandomState;

use crate::signup::network_of;
use crate::sync::{AtomicU16, AtomicU32, Ordering};

/// Counts of addresses, of two bytes each.
const ADDRESSES: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    total_max: u32,
    total: AtomicU32,
    per_address_max: u16,
    per_address: Box<[AtomicU16]>,
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
    pub(crate) fn new(total_max: u32, per_address_max: u16) -> ConnectionLimiter {
        ConnectionLimiter {
            total_max,
            total: AtomicU32::new(0),
            per_address_max,
            per_address: (0..ADDRESSES).map(|_| AtomicU16::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    pub(crate) fn take(self: &Arc<Self>) -> Option<Permit> {
        let more = |taken| (taken < self.total_max).then_some(taken + 1);
        let taken = self
            .total
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

    fn index_of(&self, address: IpAddr) -> usize {
        let at = self.hasher.hash_one(network_of(address)) % ADDRESSES as u64;
        usize::try_from(at).expect("below the length of a table")
    }
}

impl Permit {
    /// Counts the permit for an address. Returns `false` if the address has reached its limit, or has
    /// as many permits as are left.
    pub(crate) fn count_for(&mut self, address: IpAddr) -> bool {
        let limiter = &self.limiter;
        let at = limiter.index_of(address);
        let left = limiter.total_max - limiter.total.load(Ordering::Relaxed);
        // This permit is taken already: an address without any may have it.
        let most = u32::from(limiter.per_address_max).min(left.max(1));
        let more = |taken| (u32::from(taken) < most).then_some(taken + 1);
        let count = &limiter.per_address[at];
        let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if taken.is_ok() {
            self.address = Some(at);
        }
        taken.is_ok()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.total.fetch_sub(1, Ordering::Relaxed);
        if let Some(at) = self.address {
            self.limiter.per_address[at].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn taken(limiter: &ConnectionLimiter) -> u32 {
        limiter.total.load(Ordering::Relaxed)
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
    fn addresses_that_hold_as_many_as_they_may_leave_permits_for_others() {
        for (total_max, per_address_max) in [(16, 4), (64, 32), (67, 1024), (1000, 250)] {
            for attackers in 1..=4 {
                let limiter = Arc::new(ConnectionLimiter::new(total_max, per_address_max));
                // Addresses that share no count, which depends on the random keys of the hash.
                let mut counts = HashSet::new();
                let addresses: Vec<IpAddr> = (0_u32..)
                    .map(|at| IpAddr::from(at.to_be_bytes()))
                    .filter(|address| counts.insert(limiter.index_of(*address)))
                    .take(1101)
                    .collect();
                let enter = |at: u32| limiter.take_for(addresses[at as usize]);
                // All at the same time; one after the other.
                for at_once in [true, false] {
                    let order = (0..attackers * total_max).map(|at| {
                        if at_once {
                            at % attackers
                        } else {
                            at / total_max
                        }
                    });
                    let mut held: Vec<Permit> = order.filter_map(enter).collect();
                    let left = total_max - taken(&limiter);
                    let least = if at_once {
                        total_max / (attackers + 1)
                    } else {
                        total_max >> attackers
                    };
                    assert!(left >= least, "{attackers} leave {left} of {total_max}");
                    let others: Vec<Permit> = (100..1100).map_while(enter).collect();
                    assert_eq!(others.len(), left as usize, "one for each");
                    // A permit that becomes free is for others too.
                    held.swap_remove(0);
                    assert!(enter(attackers - 1).is_none() && enter(1100).is_some());
                }
            }
        }
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
            ["2001:db8::1", "2001:db8:0:ffff::1", "2001:db8:0:1::"],
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
                .per_address
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 0)
        );
    }
}
