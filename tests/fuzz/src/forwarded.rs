//! `X-Forwarded-For` as written by proxies and as forged by clients: the client is the one that a simple
//! search from the right finds, whatever entries are to the left of it.
//!
//! The lines of an input are the trusted networks, separated by spaces; the peer address of the
//! connection; and the header lines as sent.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use island_metrics::request::{ProxyNetwork, TrustedProxies};
use libfuzzer_sys::fuzz_target;

/// Further networks of an input are ignored, because each entry is compared with all of them.
const NETWORKS_MAX: usize = 16;

/// An address as a number, and its length in bits. An IPv4-mapped address is an IPv4 address.
type Bits = (u128, u32);

fn bits(address: IpAddr) -> Bits {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            if bits >> 32 == 0xFFFF {
                (bits & 0xFFFF_FFFF, 32)
            } else {
                (bits, 128)
            }
        }
    }
}

/// A network: the first bits of an address, and their number.
#[derive(Clone, Copy)]
struct Network {
    address: Bits,
    prefix: u32,
}

impl Network {
    /// Reads `10.0.0.0/8` or an address; an IPv4 network may be written as the IPv6 one that holds its
    /// mapped addresses.
    fn read(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(number(prefix, 128)?)),
        };
        let written: IpAddr = address.parse().ok()?;
        let width = if written.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(width);
        if prefix > width {
            return None;
        }
        let narrowed = bits(written);
        // A network that contains more than the mapped addresses is an IPv6 network.
        let is_mapped = width == 128 && narrowed.1 == 32;
        Some(match written {
            IpAddr::V6(address) if is_mapped && prefix < 96 => Network {
                address: (address.into(), 128),
                prefix,
            },
            _ => Network {
                address: narrowed,
                prefix: if is_mapped { prefix - 96 } else { prefix },
            },
        })
    }

    fn holds(self, address: IpAddr) -> bool {
        let (own, width) = self.address;
        let (other, other_width) = bits(address);
        let first = |bits: u128| bits.checked_shr(width - self.prefix).unwrap_or(0);
        width == other_width && first(own) == first(other)
    }
}

/// Digits of a number that is not too large.
fn number(text: &str, most: u32) -> Option<u32> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok()?;
    (is_digits && number <= most).then_some(number)
}

/// An entry: an address, or an address with a port, where an IPv6 address has brackets.
fn address(entry: &str) -> Option<IpAddr> {
    let is_port = |text: &str| number(text, 65_535).is_some();
    if let Ok(address) = entry.parse() {
        return Some(address);
    }
    if let Some(rest) = entry.strip_prefix('[') {
        let (address, behind) = rest.split_once(']')?;
        let sound = behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
        return if sound {
            address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
        } else {
            None
        };
    }
    let (address, port) = entry.split_once(':')?;
    let address: Ipv4Addr = address.parse().ok()?;
    is_port(port).then_some(IpAddr::V4(address))
}

/// The simple search: of the forwarding addresses, the nearest first, up to the first malformed one, the
/// first that is not trusted, or the last one if all are trusted.
fn client(networks: &[Network], peer: IpAddr, lines: &[&[u8]]) -> Bits {
    let all = lines.join(&b", "[..]);
    let entries = all.split(|byte| *byte == b',').rev();
    let mut hops = vec![peer];
    for entry in entries {
        let entry = entry.trim_ascii();
        if entry.is_empty() {
            continue;
        }
        match std::str::from_utf8(entry).ok().and_then(address) {
            Some(address) => hops.push(address),
            None => break,
        }
    }
    let is_trusted = |hop: &IpAddr| networks.iter().any(|network| network.holds(*hop));
    let untrusted = hops[1..].iter().find(|hop| !is_trusted(hop));
    bits(*untrusted.unwrap_or(&hops[hops.len() - 1]))
}

struct Case<'a> {
    networks: Vec<&'a str>,
    peer: IpAddr,
    lines: Vec<&'a [u8]>,
}

impl<'a> Case<'a> {
    fn of(input: &'a [u8]) -> Case<'a> {
        let mut lines = input.split(|byte| *byte == b'\n');
        let mut text = || std::str::from_utf8(lines.next().unwrap_or_default()).unwrap_or("");
        let networks = text().split(' ').take(NETWORKS_MAX).collect();
        let peer = text().parse().unwrap_or(IpAddr::from([10, 0, 0, 1]));
        Case {
            networks,
            peer,
            lines: lines.collect(),
        }
    }

    /// A difference between `found` and the simple search.
    fn differs(
        &self,
        found: impl Fn(&TrustedProxies, IpAddr, &[&[u8]]) -> IpAddr,
    ) -> Option<String> {
        let mut networks = Vec::new();
        let mut proxies = Vec::new();
        for text in &self.networks {
            let (network, proxy) = (Network::read(text), ProxyNetwork::parse(text));
            if network.is_some() != proxy.is_some() {
                return Some(format!("{text:?} is read as {proxy:?}"));
            }
            networks.extend(network);
            proxies.extend(proxy);
        }
        let proxies = TrustedProxies(proxies);
        let is_trusted = networks.iter().any(|network| network.holds(self.peer));
        if proxies.contains(self.peer) != is_trusted {
            return Some(format!("{} trusted: {is_trusted}", self.peer));
        }
        let found = found(&proxies, self.peer, &self.lines);
        let want = client(&networks, self.peer, &self.lines);
        (bits(found) != want).then(|| format!("{found} and not {want:x?}"))
    }
}

fn real(proxies: &TrustedProxies, peer: IpAddr, lines: &[&[u8]]) -> IpAddr {
    proxies.client(peer, lines.iter().copied())
}

/// Self-test: wrong searches are detected.
static CONTROLS: LazyLock<()> = LazyLock::new(|| {
    let case = |lines: &'static str| Case::of(lines.as_bytes());
    // From the left; one line only; beyond a malformed entry; the last proxy instead of the client.
    let plain = case("10.0.0.0/8\n10.0.0.1\n192.0.2.1, 198.51.100.1, 10.0.0.2");
    assert_eq!(plain.differs(real), None);
    let left = |_: &TrustedProxies, _, lines: &[&[u8]]| {
        let text = std::str::from_utf8(lines[0]).expect("it is");
        address(text.split(',').next().expect("one")).expect("it is")
    };
    assert!(plain.differs(left).is_some());
    assert!(plain.differs(|_, peer, _| peer).is_some());
    let two = case("10.0.0.0/8\n10.0.0.1\n192.0.2.1\n10.0.0.2");
    assert_eq!(two.differs(real), None);
    let last_line =
        |proxies: &TrustedProxies, peer, lines: &[&[u8]]| real(proxies, peer, &lines[1..]);
    assert!(two.differs(last_line).is_some());
    let garbage = case("10.0.0.0/8\n10.0.0.1\n192.0.2.1, x, 10.0.0.2");
    assert_eq!(garbage.differs(real), None);
    let blind = |proxies: &TrustedProxies, peer, _: &[&[u8]]| {
        real(proxies, peer, &[b"192.0.2.1, 10.0.0.2"])
    };
    assert!(garbage.differs(blind).is_some());
});

fuzz_target!(|input: &[u8]| {
    LazyLock::force(&CONTROLS);
    let difference = Case::of(input).differs(real);
    assert_eq!(difference, None, "{}", String::from_utf8_lossy(input));
});
