//! [`KeyAddress`]: the e-mail or IP address that a key is issued to, normalized. The number of free
//! keys is limited per address.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::token::Malformed;

/// Maximum length of an e-mail address in bytes (RFC 5321 section 4.5.3.1).
const EMAIL_BYTES_MAX: usize = 254;

/// An e-mail address in lower case, an IPv4 address, or the /64 of an IPv6 address: a host with one
/// address of such a network can use all of them (CONTRACT section 7).
///
/// E-mail addresses are ASCII, internationalized domains in their `xn--` form: a domain in Unicode has
/// several spellings, each of which would be a different address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyAddress(Box<str>);

impl KeyAddress {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<IpAddr> for KeyAddress {
    fn from(address: IpAddr) -> KeyAddress {
        let text = match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                format!("{}/64", Ipv6Addr::from_bits(network))
            }
        };
        KeyAddress(text.into())
    }
}

const MALFORMED: Malformed = Malformed("an ASCII e-mail address or an IP address");

impl FromStr for KeyAddress {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<KeyAddress, Malformed> {
        let text = text.trim();
        // Networks are stored with this suffix.
        let network = text.strip_suffix("/64").unwrap_or(text);
        if let Ok(address) = network.parse::<IpAddr>() {
            let is_valid = network.len() == text.len() || address.is_ipv6();
            return is_valid.then(|| address.into()).ok_or(MALFORMED);
        }
        let text = text.trim_end_matches('.');
        let (name, domain) = text.split_once('@').ok_or(MALFORMED)?;
        let is_label_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_label_byte);
        let is_valid = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_graphic())
            && domain.split('.').all(is_label)
            && text.len() <= EMAIL_BYTES_MAX;
        let address = is_valid.then(|| KeyAddress(text.to_ascii_lowercase().into()));
        address.ok_or(MALFORMED)
    }
}

impl fmt::Display for KeyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let address: KeyAddress = text.parse().unwrap();
        assert_eq!(address.as_str(), want);
        assert_eq!(address.to_string(), want);
        assert_eq!(want.parse(), Ok(address), "reads back");
    }

    #[test]
    fn spellings_of_one_address_are_equal() {
        check(" Ann@Example.COM ", "ann@example.com");
        check("ann@example.com.", "ann@example.com");
        check("ann@example.com...", "ann@example.com");
        check("a+b'c@xn--bcher-kva.example", "a+b'c@xn--bcher-kva.example");
        check("192.0.2.1", "192.0.2.1");
        check("::ffff:192.0.2.1", "192.0.2.1");
        check("2001:DB8:0:1::5", "2001:db8:0:1::/64");
        check("2001:db8:0:1:ffff::", "2001:db8:0:1::/64");
    }

    #[test]
    fn every_accepted_address_reads_back_as_itself() {
        let parts = [
            "a",
            "A",
            "@",
            ".",
            "-",
            "b.c",
            "192.0.2.1",
            "::",
            "2001:DB8::1",
            "/64",
            " ",
            "[",
            "\u{130}",
        ];
        arbtest::arbtest(|u| {
            let mut text = String::new();
            for _ in 0..u.int_in_range(0..=6)? {
                text.push_str(u.choose(&parts)?);
            }
            if let Ok(address) = text.parse::<KeyAddress>() {
                assert_eq!(address.as_str().parse(), Ok(address.clone()), "{text:?}");
                let is_normal = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
                assert!(address.as_str().bytes().all(is_normal), "{text:?}");
            }
            Ok(())
        });
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for text in [
            "",
            "ann",
            "@x",
            "ann@",
            "a@b@c",
            "a b@c",
            "ann@bücher.test",
            "é@x.test",
            "a@x_y",
            "a@ x",
            "a@.",
            "a@b..c",
            "a@.b",
            "192.0.2.1/64",
            "1.2.3",
            "a@b\n@",
        ] {
            assert_eq!(text.parse::<KeyAddress>(), Err(MALFORMED), "{text:?}");
        }
        let long = "a".repeat(250) + "@b.example";
        assert_eq!(long.parse::<KeyAddress>(), Err(MALFORMED));
    }
}
