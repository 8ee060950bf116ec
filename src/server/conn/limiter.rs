//! How many connections there may be, in all and of one address.
//!
//! A worker takes its place before it accepts, so that there are never more; who has none leaves the
//! connection in the system's queue. The addresses are counted in a table of fixed size by a hash
//! nobody can aim at: two that share a count share its limit.

use std::net::IpAddr;
use std::sync::Arc;

use ahash::RandomState;

use crate::sync::{AtomicU16, AtomicU32, Ordering};

/// Counts of addresses, of two bytes each.
const ADDRESSES: usize = 1 << 16;

/// Room for connections, shared by all workers.
#[derive(Debug)]
pub(crate) struct Room {
    in_all_max: u32,
    in_all: AtomicU32,
    of_address_max: u16,
    of_address: Box<[AtomicU16]>,
    hasher: RandomState,
}

/// A place for one connection, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    /// The count of the connection's address, if it is counted.
    address: Option<usize>,
}

impl Room {
    pub(crate) fn new(in_all_max: u32, of_address_max: u16) -> Room {
        Room {
            in_all_max,
            in_all: AtomicU32::new(0),
            of_address_max,
            of_address: (0..ADDRESSES).map(|_| AtomicU16::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// A place, if there is one.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Place> {
        let more = |taken| (taken < self.in_all_max).then_some(taken + 1);
        let taken = self
            .in_all
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Place {
            room: Arc::clone(self),
            address: None,
        })
    }
}

impl Room {
    /// A place for an address, if there is one in all and one for the address.
    pub(crate) fn take_for(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut place = self.take()?;
        place.is_for(peer).then_some(place)
    }
}

impl Place {
    /// Counts the place for the address of the connection that came. `false` if it has too many.
    pub(crate) fn is_for(&mut self, peer: IpAddr) -> bool {
        let room = &self.room;
        let at = room.hasher.hash_one(network(peer)) % ADDRESSES as u64;
        let at = usize::try_from(at).expect("below the length of a table");
        let more = |taken| (taken < room.of_address_max).then_some(taken + 1);
        let count = &room.of_address[at];
        let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if taken.is_ok() {
            self.address = Some(at);
        }
        taken.is_ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.in_all.fetch_sub(1, Ordering::Relaxed);
        if let Some(at) = self.address {
            self.room.of_address[at].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What counts as one address: as with quotas, the /64 of an IPv6 one.
fn network(peer: IpAddr) -> u128 {
    match peer.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 | 1 << 127,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(room: &Room) -> u32 {
        room.in_all.load(Ordering::Relaxed)
    }

    #[test]
    fn there_are_never_more_than_there_is_room_for() {
        let room = Arc::new(Room::new(3, 10));
        let mut places: Vec<_> = (0..3).map(|_| room.take().unwrap()).collect();
        assert!(room.take().is_none());
        places.pop();
        assert_eq!(taken(&room), 2);
        assert!(room.take().is_some());
        drop(places);
        assert_eq!(taken(&room), 0);
    }

    #[test]
    fn an_address_has_its_own_limit_and_a_network_of_version_six_is_one() {
        let room = Arc::new(Room::new(1000, 2));
        let enter = |peer: &str| {
            let mut place = room.take().unwrap();
            place.is_for(peer.parse().unwrap()).then_some(place)
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
        assert_eq!(taken(&room), 0);
        assert!(
            room.of_address
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 0)
        );
    }
}
