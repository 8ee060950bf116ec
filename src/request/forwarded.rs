//! The client address that trusted proxies report (CONTRACT section 7).

use std::net::{IpAddr, SocketAddr};

use crate::model::digits;

/// A network of proxies whose `X-Forwarded-For` is trusted: `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyNetwork {
    /// Its first address; an IPv4 address as IPv4-mapped IPv6.
    first: u128,
    /// The bits that its addresses share.
    mask: u128,
}

impl ProxyNetwork {
    /// Parses a network or an address; `None` if the text is neither.
    pub fn parse(text: &str) -> Option<ProxyNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(digits(bits)?)),
            None => (text, None),
        };
        // The standard library rejects 010.0.0.0, which others read as 10 or as 8.
        let address: IpAddr = address.parse().ok()?;
        let length: u32 = if address.is_ipv4() { 32 } else { 128 };
        let others = length.checked_sub(bits.unwrap_or(length))?;
        let mask = u128::MAX.checked_shl(others).unwrap_or(0);
        let first = ipv6_bits(address) & mask;
        Some(ProxyNetwork { first, mask })
    }

    fn contains(self, address: IpAddr) -> bool {
        // An IPv6 network contains IPv4 addresses only if all its addresses are IPv4-mapped.
        let may_contain = address.is_ipv6() || self.mask.leading_ones() >= 96;
        may_contain && ipv6_bits(address) & self.mask == self.first
    }
}

fn ipv6_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(pub Vec<ProxyNetwork>);

impl TrustedProxies {
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }

    /// Returns the client of a request from a trusted proxy: the right-most address that is not a
    /// trusted proxy's, in all lines of `X-Forwarded-For` in the order sent.
    ///
    /// Each entry was added by the hop to its right, and is as trustworthy as that hop. An entry
    /// that is not an address therefore ends the search: the client is the last hop before it. If
    /// all entries are trusted proxies, the left-most is the client.
    pub fn client<'a>(
        &self,
        proxy: IpAddr,
        lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> IpAddr {
        let entries = lines
            .rev()
            .flat_map(|line| line.rsplit(|byte| *byte == b','));
        let entries = entries.map(<[u8]>::trim_ascii);
        let mut nearest = proxy;
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let Some(address) = address(entry) else {
                break;
            };
            nearest = address;
            if !self.contains(nearest) {
                break;
            }
        }
        nearest
    }
}

/// Parses an address as proxies write it: bare, with a port, IPv6 with brackets or without.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry).ok()?;
    // With a zone it is valid on one machine only, whatever its form.
    if text.contains('%') {
        return None;
    }
    let with_port = || Some(text.parse::<SocketAddr>().ok()?.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let address = text.parse().ok().or_else(with_port);
    let address = address.or_else(|| bracketed().map(IpAddr::V6));
    Some(address?.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies() -> TrustedProxies {
        let networks = [
            "10.0.0.0/8",
            "192.0.2.7",
            "2001:db8:f::/48",
            "::ffff:172.16.0.0/108",
        ];
        let networks = networks.map(|text| ProxyNetwork::parse(text).unwrap());
        TrustedProxies(networks.into())
    }

    #[track_caller]
    fn check(lines: &[&str], want: &str) {
        let proxy = "10.0.0.1".parse().unwrap();
        let found = proxies().client(proxy, lines.iter().map(|line| line.as_bytes()));
        assert_eq!(found, want.parse::<IpAddr>().unwrap(), "{lines:?}");
    }

    #[test]
    fn the_right_most_untrusted_address_is_the_client() {
        check(&[], "10.0.0.1");
        check(&[""], "10.0.0.1");
        check(&["198.51.100.1"], "198.51.100.1");
        check(&["1.1.1.1, 198.51.100.1"], "198.51.100.1");
        check(&["1.1.1.1,198.51.100.1,10.9.9.9"], "198.51.100.1");
        check(
            &["1.1.1.1", "198.51.100.1", "10.9.9.9, 192.0.2.7"],
            "198.51.100.1",
        );
        check(&["10.3.3.3, 10.2.2.2"], "10.3.3.3");
        check(
            &["198.51.100.1, 172.16.5.5, 2001:db8:f:9::1"],
            "198.51.100.1",
        );
        check(&["198.51.100.1, 172.32.0.1"], "172.32.0.1");
        check(&["198.51.100.1, ::ffff:10.1.1.1"], "198.51.100.1");
    }

    #[test]
    fn addresses_are_read_as_proxies_write_them() {
        check(&["198.51.100.1:4711"], "198.51.100.1");
        check(&["2001:db8::5"], "2001:db8::5");
        check(&["[2001:db8::5]"], "2001:db8::5");
        check(&["[2001:db8::5]:443"], "2001:db8::5");
        check(&["::ffff:198.51.100.1"], "198.51.100.1");
        check(&["[::ffff:198.51.100.1]:80"], "198.51.100.1");
        check(&["\t 198.51.100.1 \t"], "198.51.100.1");
        check(&["198.51.100.1, , ,"], "198.51.100.1");
    }

    #[test]
    fn a_malformed_entry_ends_the_search() {
        for garbage in [
            "unknown",
            "_hidden",
            "198.51.100",
            "198.51.100.1:",
            "198.51.100.1:99999",
            "[::1",
            "::1]",
            "[198.51.100.1]",
            "fe80::1%eth0",
            "[fe80::1%5]",
            "[fe80::1%5]:80",
            "1.1.1.1 2.2.2.2",
            "\u{e9}",
            "\"1.1.1.1\"",
            "010.1.1.1",
        ] {
            check(&[&format!("1.1.1.1, {garbage}")], "10.0.0.1");
            check(&[&format!("1.1.1.1, {garbage}, 10.7.7.7")], "10.7.7.7");
            check(
                &[&format!("1.1.1.1, {garbage}, 198.51.100.1, 10.7.7.7")],
                "198.51.100.1",
            );
        }
    }

    /// An entry and the address that it means, if any.
    type Word = (&'static str, Option<&'static str>);

    /// The obvious way: all entries in a list, from the right.
    fn plain(proxies: &TrustedProxies, proxy: IpAddr, entries: &[Word]) -> IpAddr {
        let written = entries.iter().rev().filter(|(text, _)| !text.is_empty());
        let read = written.map_while(|(_, address)| address.map(|text| text.parse().unwrap()));
        let hops: Vec<IpAddr> = [proxy].into_iter().chain(read).collect();
        let client = hops.iter().skip(1).find(|hop| !proxies.contains(**hop));
        *client.unwrap_or(&hops[hops.len() - 1])
    }

    #[test]
    fn random_headers_agree_with_the_oracle() {
        let words: [Word; 17] = [
            ("1.1.1.1", Some("1.1.1.1")),
            ("10.0.0.9", Some("10.0.0.9")),
            ("10.1.2.3:0", Some("10.1.2.3")),
            ("1.1.1.2:65535", Some("1.1.1.2")),
            ("2001:db8:f::2", Some("2001:db8:f::2")),
            ("[2001:db8:f::3]", Some("2001:db8:f::3")),
            ("[2001:db8:f::4]:443", Some("2001:db8:f::4")),
            ("[2001:db8::2]:1", Some("2001:db8::2")),
            ("::", Some("::")),
            ("::ffff:10.0.0.3", Some("10.0.0.3")),
            ("[::FFFF:a00:4]:80", Some("10.0.0.4")),
            ("1.1.1.3:65536", None),
            ("[10.0.0.5]:80", None),
            ("[2001:db8:f::5", None),
            ("2001:db8:f::6]:80", None),
            ("x", None),
            ("", None),
        ];
        arbtest::arbtest(|u| {
            let (mut lines, mut entries) = (Vec::new(), Vec::new());
            for _ in 0..u.int_in_range(0..=3)? {
                let mut line = String::new();
                for _ in 0..u.int_in_range(0..=4)? {
                    let word = *u.choose(&words)?;
                    entries.push(word);
                    line.push_str(word.0);
                    line.push_str(u.choose(&[",", ", ", " ,"])?);
                }
                lines.push(line);
            }
            let (proxies, proxy) = (proxies(), "10.0.0.1".parse().unwrap());
            let found = proxies.client(proxy, lines.iter().map(String::as_bytes));
            assert_eq!(found, plain(&proxies, proxy, &entries), "{lines:?}");
            Ok(())
        });
    }

    #[test]
    fn random_networks_contain_the_addresses_with_their_first_bits() {
        let flipped = |address: IpAddr, bit: u32| match address {
            IpAddr::V4(address) => {
                IpAddr::from((address.to_bits() ^ 1 << (31 - bit)).to_be_bytes())
            }
            IpAddr::V6(address) => {
                IpAddr::from((address.to_bits() ^ 1 << (127 - bit)).to_be_bytes())
            }
        };
        arbtest::arbtest(|u| {
            let v4: IpAddr = u.arbitrary::<std::net::Ipv4Addr>()?.into();
            let v6: IpAddr = u.arbitrary::<std::net::Ipv6Addr>()?.into();
            let junk = u.choose(&["/8", ".", " ", "x", "-"])?;
            // The last one is an IPv4 address behind the 96 bits of the IPv4-mapped ones.
            for (text, address, before, width) in [
                (v4.to_string(), v4, 0, 32),
                (v6.to_string(), v6, 0, 128),
                (format!("::ffff:{v4}"), v4, 96, 32),
            ] {
                for prefix in 0..before + width + 3 {
                    let text = format!("{text}/{prefix}");
                    assert_eq!(ProxyNetwork::parse(&format!("{text}{junk}")), None);
                    let network = ProxyNetwork::parse(&text);
                    assert_eq!(network.is_some(), prefix <= before + width, "{text}");
                    let proxies = TrustedProxies(network.into_iter().collect());
                    let may_contain = (before..=before + width).contains(&prefix);
                    assert_eq!(proxies.contains(address), may_contain, "{text}");
                    for bit in 0..width {
                        let wanted = may_contain && before + bit >= prefix;
                        let other = flipped(address, bit);
                        assert_eq!(proxies.contains(other), wanted, "{text}: {other}");
                    }
                }
            }
            Ok(())
        });
    }

    #[test]
    fn prepended_entries_do_not_change_the_client() {
        let (proxies, proxy) = (proxies(), "10.0.0.1".parse().unwrap());
        arbtest::arbtest(|u| {
            let forged: &[u8] = u.arbitrary()?;
            let appended = [forged, b", 198.51.100.1, 10.4.4.4"].concat();
            let lines = [&appended[..]];
            let found = proxies.client(proxy, lines.into_iter());
            assert_eq!(found, "198.51.100.1".parse::<IpAddr>().unwrap());
            Ok(())
        });
    }

    #[test]
    fn malformed_networks_are_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "10.0.0.0/",
            "::/129",
            "example.com",
            "10.0.0.1:80",
            "010.0.0.0/8",
            "::ffff:10.0.0.00/104",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(ProxyNetwork::parse(text), None, "{text:?}");
        }
        let network = ProxyNetwork::parse("10.0.0.0/8");
        assert!(network.is_some() && ProxyNetwork::parse("10.1.2.3/8") == network);
        assert!(!TrustedProxies::default().contains("127.0.0.1".parse().unwrap()));
    }
}
