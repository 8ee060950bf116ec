//! `Visits`: how fast somebody may have pages drawn, or want something of sign-up.
//!
//! Shared by all workers: whoever spreads requests over connections gets no more. What is ready costs no
//! visit.

use std::net::{IpAddr, Ipv6Addr};

use crate::calendar::UnixSeconds;
use crate::signup::Pace;
use crate::sync::{Mutex, lock};

/// Of a client, which for version six is a /64: so many in haste, and then one in so many seconds.
const CLIENT: (u16, u16) = (60, 5);
/// Of a /48, which anybody gets for nothing. The pace counts whole seconds: each of these stands for one of
/// a network's lanes.
const LANES: u64 = 8;

/// What clients and networks have used up.
#[derive(Debug)]
pub(crate) struct Visits {
    clients: Mutex<Pace>,
    networks: Mutex<Pace>,
}

impl Visits {
    pub(crate) fn new() -> Visits {
        let pace = |(burst, seconds)| Mutex::new(Pace::new(burst, seconds));
        Visits {
            clients: pace(CLIENT),
            networks: pace(CLIENT),
        }
    }

    /// Counts a visit; if it is one too many, the seconds until it is not.
    pub(crate) fn count(&self, address: IpAddr, moment: UnixSeconds) -> Result<(), u32> {
        let address = address.to_canonical();
        match address {
            IpAddr::V4(_) => lock(&self.clients).take(address, moment),
            IpAddr::V6(address) => {
                let client = address.to_bits() >> 64;
                lock(&self.clients).take(client, moment)?;
                let network = Ipv6Addr::from_bits(address.to_bits() >> 80 << 80);
                let lane = u64::try_from(client).unwrap_or_default() % LANES;
                lock(&self.networks).take((network, lane), moment)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visits that are counted of addresses at one moment.
    fn counted(addresses: impl Iterator<Item = IpAddr>) -> usize {
        let visits = Visits::new();
        let moment = UnixSeconds(1_800_000_000);
        addresses
            .filter(|address| visits.count(*address, moment).is_ok())
            .count()
    }

    #[test]
    fn an_address_has_a_burst_however_it_is_written() {
        let four = |at: u32| match at % 2 {
            0 => "192.0.2.1".parse().unwrap(),
            _ => "::ffff:192.0.2.1".parse().unwrap(),
        };
        assert_eq!(counted((0..200).map(four)), 60);
        let six = |at: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + at));
        assert_eq!(counted((0..200).map(six)), 60);
    }

    #[test]
    fn a_network_of_many_has_a_few_bursts() {
        let six = |at: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + (at << 64)));
        assert_eq!(counted((0..2000).map(six)), 60 * 8);
    }
}
