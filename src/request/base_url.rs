//! The service's own address, as links begin with it.

use std::net::Ipv6Addr;

/// The longest.
pub const BASE_URL_BYTES_MAX: usize = 256;
/// What it is made of.
pub const BASE_URL_FORM: &str = "http:// or https:// and a host, perhaps a port and a path, of letters, digits and \
    -._~/+,=@%";

/// Whether a text is of what may stand in a header, in markup, on a line of a mail, and between quotes in a
/// line for a shell.
pub fn is_base_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://");
    let rest = rest.or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        is_authority(authority) && is_path(path)
    }) && text.len() <= BASE_URL_BYTES_MAX
}

/// Whether it is a host, with or without a port. A name or password of a user has no place in links.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // A colon within brackets is a part of an IPv6 address.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = |port: &str| is_digits(port) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_label = |label: &str| {
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(sound)
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        // A name may end with the point of the root.
        None => host
            .strip_suffix('.')
            .unwrap_or(host)
            .split('.')
            .all(is_label),
    };
    is_host && port.is_none_or(is_port)
}

/// Whether it is a path, or nothing, of what needs no escape anywhere, and escapes of two digits.
fn is_path(text: &str) -> bool {
    let mut parts = text.split('%');
    let sound = |part: &str| {
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/+,=@".contains(&byte);
        part.bytes().all(sound)
    };
    let is_escape =
        |part: &str| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    parts.next().is_some_and(sound) && parts.all(|part| is_escape(part) && sound(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_scheme_a_host_and_perhaps_a_port_and_a_path() {
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
