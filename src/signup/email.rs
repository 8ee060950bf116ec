//! Which e-mail addresses are mailed to: fewer than a key may be issued to by hand.
//!
//! What is typed into a form ends up in a header of a mail. An address here has nothing in it that
//! means anything there, to a shell or to a relay, and is never mistaken for an option.

use crate::keys::KeyAddress;

/// RFC 5321 section 4.5.3.1.1.
const LOCAL_BYTES_MAX: usize = 64;
/// RFC 1035 section 2.3.4.
const LABEL_BYTES_MAX: usize = 63;

/// The address that a text spells, if it is one that is mailed to.
pub(super) fn parse(text: &str) -> Option<KeyAddress> {
    // People copy an address with the space beside it; whatever else is invisible is no accident.
    let text = text.trim_matches(' ');
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let address: KeyAddress = text.parse().ok()?;
    let (local, domain) = address.as_str().split_once('@')?;
    (is_local(local) && is_domain(domain)).then_some(address)
}

fn is_local(text: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"._+=~'&-".contains(&byte);
    text.len() <= LOCAL_BYTES_MAX
        && text.bytes().all(sound)
        && !text.starts_with(['-', '.'])
        && !text.ends_with('.')
        && !text.contains("..")
}

/// A name below a top-level domain: no host of our own network by its bare name or its number.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let top = text.rsplit_once('.').map(|(_, top)| top);
    text.split('.').all(is_label) && top.is_some_and(|top| top.starts_with(char::is_alphabetic))
}

/// What stands for the mailbox that an address leads to: most providers leave out what follows a
/// `+`, and the largest the points too, so that one mailbox has thousands of addresses.
pub(super) fn mailbox(address: &KeyAddress) -> String {
    let (local, domain) = address.as_str().split_once('@').unwrap_or_default();
    let name = local.split('+').next().unwrap_or_default();
    format!("{}@{domain}", name.replace('.', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_addresses_are_taken_in_one_spelling() {
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
    fn nothing_gets_into_a_header_or_onto_a_command_line() {
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
    fn no_relay_is_asked_for_and_no_host_of_the_network_is_reached() {
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
    fn whatever_is_accepted_is_of_harmless_characters() {
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
    fn addresses_of_one_mailbox_are_one() {
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
