//! The form of a request target that is safe to log: without keys, wherever they are in it.

use std::fmt::Write as _;

use memchr::memmem;

use super::percent::decode_form;

const LOGGED_BYTES_MAX: usize = 512;
/// How often a text is decoded in search of a key.
const DECODED_MAX: usize = 4;
/// A part of every key, whatever its prefix. Links write it as it is.
pub const KEY_MARK: &[u8] = b"_live_";

/// Returns a path and query string without `key` and the `pass` of sign-up, in visible ASCII
/// without quotes. A target with a key elsewhere, as in a search or in the path, becomes `-`; a
/// long one is cut.
pub fn loggable(path: &str, query: Option<&str>) -> String {
    let mut text = path.to_owned();
    let mut separator = '?';
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        // A name whose encoding is broken may be meant as one of these.
        if decode_form(name).is_some_and(|name| name != "key" && name != "pass") {
            text.push(separator);
            text.push_str(pair);
            separator = '&';
        }
    }
    if has_key(text.as_bytes()) {
        return "-".to_owned();
    }
    let mut logged = String::with_capacity(text.len());
    for byte in text.bytes() {
        if logged.len() >= LOGGED_BYTES_MAX {
            logged.push_str("...");
            break;
        }
        match byte {
            b'!'..=b'~' if byte != b'"' && byte != b'\\' => logged.push(byte.into()),
            _ => {
                let _ = write!(logged, "%{byte:02X}");
            }
        }
    }
    logged
}

/// Returns whether the text has the mark of a key, plain or encoded any number of times.
pub(super) fn has_key(text: &[u8]) -> bool {
    let mut text = text.to_ascii_lowercase();
    for _ in 0..DECODED_MAX {
        if memmem::find(&text, KEY_MARK).is_some() {
            return true;
        }
        let decoded: Vec<u8> = percent_encoding::percent_decode(&text).collect();
        let decoded = decoded.to_ascii_lowercase();
        if decoded == text {
            return false;
        }
        text = decoded;
    }
    // No client needs to encode a text this often.
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_logged_as_sent_without_its_key() {
        for (path, query, logged) in [
            ("/v1", None, "/v1"),
            (
                "/v1/islands",
                Some("limit=2&q=a+b"),
                "/v1/islands?limit=2&q=a+b",
            ),
            ("/v1/islands", Some("key=im_live_a_b"), "/v1/islands"),
            ("/v1", Some("key=x&limit=2&key"), "/v1?limit=2"),
            ("/v1", Some("%6Be%79=x&a"), "/v1?a"),
            ("/v1", Some("a=1&k%zz=x"), "/v1?a=1"),
            ("/keys", Some("pass=6a.0.b&p%61ss=c&x"), "/keys?x"),
            ("/v1", Some("Key=x"), "/v1?Key=x"),
            ("/a\"b\\c\u{e9}", Some(""), "/a%22b%5Cc%C3%A9?"),
        ] {
            assert_eq!(loggable(path, query), logged);
        }
        assert_eq!(
            loggable(&"/x".repeat(400), None).len(),
            LOGGED_BYTES_MAX + 3
        );
    }

    #[test]
    fn a_key_in_any_other_place_hides_the_target() {
        let key = "im_live_abc_def";
        let all = percent_encoding::NON_ALPHANUMERIC;
        let encoded = percent_encoding::utf8_percent_encode(key, all).to_string();
        let twice = encoded.replace('%', "%25");
        let ever = (0..9).fold(encoded.clone(), |text, _| text.replace('%', "%25"));
        for hidden in [key, &encoded, &twice, &ever, &key.to_uppercase()] {
            for (path, query) in [
                (format!("/v1/{hidden}"), None),
                ("/v1/islands".to_owned(), Some(format!("q={hidden}"))),
                ("/v1".to_owned(), Some(format!("a&{hidden}=1"))),
            ] {
                assert_eq!(loggable(&path, query.as_deref()), "-", "{path} {query:?}");
            }
        }
    }
}
