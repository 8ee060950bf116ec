//! The form of the service's own address, which links begin with.

use std::net::Ipv6Addr;

use super::percent::has_whole_escapes;
use crate::model::digits;

pub const BASE_URL_BYTES_MAX: usize = 256;

/// Returns whether a text can be the address. It then needs no escaping in headers, markup, mails
/// and quoted words of a shell.
pub fn is_base_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://");
    rest.or_else(|| text.strip_prefix("https://"))
        .is_some_and(|rest| {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            is_authority(authority) && is_path(path)
        })
        && text.len() <= BASE_URL_BYTES_MAX
}

/// Returns whether a text is a host, with a port or without. User names and passwords are not
/// allowed.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // A colon within brackets is a part of an IPv6 address.
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, "80"),
    };
    let is_label = |label: &str| {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(is_sound)
    };
    let bare = host.strip_prefix('[');
    let is_host = match bare.and_then(|host| host.strip_suffix(']')) {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        // A name may end with the dot of the root.
        None => (host.strip_suffix('.').unwrap_or(host).split('.')).all(is_label),
    };
    is_host && digits::<u16>(port).is_some_and(|port| port > 0)
}

/// Returns whether a text is a path, perhaps empty, of characters that need no escape, and escapes.
fn is_path(text: &str) -> bool {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/+,=@%".contains(&byte);
    text.bytes().all(is_sound) && has_whole_escapes(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_a_scheme_a_host_an_optional_port_and_an_optional_path() {
        for good in [
            "http://a",
            "https://a.test/",
            "http://a:80/b",
            "http://[::1]",
            "http://[::1]:8080/b",
            "http://10.0.0.1:65535",
            "https://metrics.test/a-b/~c/d%20e",
            "http://localhost",
        ] {
            assert!(is_base_url(good), "{good}");
        }
        for bad in [
            "",
            "a.test",
            "https://a/ b",
            "https://a\nBcc: a@x.test",
            "https://a/<b>",
            "ftp://a",
            "http://",
            "http:///b",
            "http://:80",
            "http://a:0",
            "http://a:65536",
            "http://a:b",
            "http://a:",
            "http://::1",
            "http://ann:word@a",
            "http://a b",
            "http://a?b",
            "http://é",
            "http://x%",
            "http://[zz]",
            "http://..",
            "http://.",
            "http://x:+8",
            "http://x/a%zz",
            "http://x/a%4",
            "http://x/[a]",
            "http://a=b.test",
            // It is written between quotes into lines for a shell.
            "https://a/b'c",
            "https://a/b;c",
            "https://a/b`c`",
            "https://a/$(b)",
            &format!("https://a/{}", "b".repeat(247)),
        ] {
            assert!(!is_base_url(bad), "{bad}");
        }
    }
}
