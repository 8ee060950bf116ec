//! The e-mail addresses to which links are mailed: fewer than those of keys issued by the operator.
//!
//! Input of a form ends up in a header of a mail. An address has no character with a meaning there, in
//! a shell or at a relay, and cannot be mistaken for an option.

use crate::keys::KeyAddress;

/// RFC 5321 section 4.5.3.1.1.
const LOCAL_BYTES_MAX: usize = 64;
/// RFC 1035 section 2.3.4.
const LABEL_BYTES_MAX: usize = 63;

/// Parses an address; `None` if no mail is sent to one of this form.
pub(super) fn parse(text: &str) -> Option<KeyAddress> {
    // Spaces are often copied with an address; other invisible characters are not accidental.
    let text = text.trim_matches(' ');
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let address: KeyAddress = text.parse().ok()?;
    let (local, domain) = address.as_str().split_once('@')?;
    (is_local(local) && is_domain(domain)).then_some(address)
}

fn is_local(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+=~'&-".contains(&byte);
    text.len() <= LOCAL_BYTES_MAX
        && text.bytes().all(is_allowed)
        && !text.starts_with(['-', '.'])
        && !text.ends_with('.')
        && !text.contains("..")
}

/// Requires a name below a top-level domain, not a host of the local network by its name or number.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let top = text.rsplit_once('.').map(|(_, top)| top);
    text.split('.').all(is_label) && top.is_some_and(|top| top.starts_with(char::is_alphabetic))
}

/// Returns the canonical form of a mailbox. Most providers ignore the text after a `+`, and the largest
/// ignores dots, so that one mailbox has thousands of addresses.
pub(super) fn mailbox(address: &KeyAddress) -> String {
    let (local, domain) = address.as_str().split_once('@').unwrap_or_default();
    let name = local.split('+').next().unwrap_or_default();
    format!("{}@{domain}", name.replace('.', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_addresses_are_normalized() {
        for (text, want) in [
            (" Ann@Example.COM ", "ann@example.com"),
            ("ann@example.com.", "ann@example.com"),
            (
                "o'neil&co~x=y_z-1@a.b.example",
                "o'neil&co~x=y_z-1@a.b.example",
            ),
            ("a+b@xn--bcher-kva.example", "a+b@xn--bcher-kva.example"),
        ] {
            assert_eq!(parse(text).unwrap().as_str(), want);
        }
        let longest = format!("{}@{}.b.test", "a".repeat(64), "c".repeat(63));
        assert!(parse(&longest).is_some());
    }

    #[test]
    fn header_and_command_line_syntax_is_rejected() {
        for text in [
            "ann@example.com\nBcc: eve@example.com",
            "ann@example.com\r\nBcc:eve@example.com",
            "ann@example.com\n",
            "\nann@example.com",
            "\tann@example.com",
            "ann@example.com\u{2028}",
            "ann\0@example.com",
            "ann@example.com,eve@example.com",
            "ann,eve@example.com",
            "ann@example.com;eve@example.com",
            "eve<ann@example.com>",
            "<ann@example.com>",
            "\"ann\"@example.com",
            "(ann)@example.com",
            "ann @example.com",
            "-oQ/tmp@example.com",
            "--@example.com",
            "|sh@example.com",
            "/etc/passwd@example.com",
            "`id`@example.com",
            "$HOME@example.com",
            "\\ann@example.com",
            ":include:x@example.com",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn relays_and_hosts_of_the_local_network_are_rejected() {
        for text in [
            "",
            "@",
            "ann",
            "ann@",
            "@example.com",
            "192.0.2.1",
            "2001:db8::/64",
            "ann@localhost",
            "ann@192.0.2.1",
            "ann@[192.0.2.1]",
            "ann@[::1]",
            "ann%example.com@relay.test",
            "relay.test!ann@example.com",
            "ann@example@relay.test",
            "@relay.test:ann@example.com",
            "ann@-x.test",
            "ann@x-.test",
            "ann@x..test",
            "ann@x_y.test",
            "ann@bücher.test",
            ".ann@example.com",
            "ann.@example.com",
            "a..b@example.com",
            "root#@example.com",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        let long = [
            format!("{}@b.test", "a".repeat(65)),
            format!("a@{}.test", "b".repeat(64)),
            format!("a@{}test", "b.".repeat(125)),
        ];
        for text in long {
            assert_eq!(parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn accepted_addresses_have_harmless_characters_only() {
        arbtest::arbtest(|u| {
            let mut text = String::new();
            for _ in 0..u.int_in_range(0..=5)? {
                text.push_str(u.choose(&["a", ".", "@", "-", "x.y", "@x.test", "\n", "+"])?);
                text.push(char::from(u.arbitrary::<u8>()?));
            }
            if let Some(address) = parse(&text) {
                let harmless = |c: char| c.is_ascii_alphanumeric() || "._+=~'&-@".contains(c);
                let text = address.as_str();
                assert!(text.chars().all(harmless) && text.len() <= 254, "{text:?}");
                assert_eq!(parse(text), Some(address.clone()));
            }
            Ok(())
        });
    }

    #[test]
    fn addresses_of_one_mailbox_are_equal() {
        for text in [
            "ann@x.test",
            "a.nn@x.test",
            "ann+1@x.test",
            "a.n.n+b+c@x.test",
        ] {
            assert_eq!(mailbox(&parse(text).unwrap()), "ann@x.test", "{text}");
        }
        assert_ne!(mailbox(&parse("ann@y.test").unwrap()), "ann@x.test");
    }
}
