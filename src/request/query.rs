//! The raw query string: its pairs, the values of declared parameters, the names of others, and the
//! `key`.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::memmem;
use percent_encoding::utf8_percent_encode;

use super::error::{Quoted, RouteError};
use super::loggable::{KEY_MARK, has_key};
use super::percent::{RESERVED, decode_form};

/// Returns the first value of a name, decoded. Pairs whose encoding is broken are skipped.
pub fn first_value<'q>(raw: Option<&'q str>, name: &str) -> Option<Cow<'q, str>> {
    raw_pairs(raw).find_map(|pair| {
        let (other, value) = (pair.name()?, pair.value()?);
        (other == name).then_some(value)
    })
}

/// A pair of a query string, as sent. The value of one without `=` is empty.
struct Pair<'q> {
    name: &'q str,
    value: &'q str,
    /// Whether there is something to decode.
    is_encoded: bool,
}

impl<'q> Pair<'q> {
    /// Returns the decoded name; `None` if its encoding is broken.
    fn name(&self) -> Option<Cow<'q, str>> {
        self.decode(self.name)
    }

    /// Returns the decoded value; `None` if its encoding is broken.
    fn value(&self) -> Option<Cow<'q, str>> {
        self.decode(self.value)
    }

    fn decode(&self, text: &'q str) -> Option<Cow<'q, str>> {
        if self.is_encoded {
            decode_form(text)
        } else {
            Some(Cow::Borrowed(text))
        }
    }
}

/// Returns the pairs of a raw query string in the order sent. Empty pairs are skipped. One scan finds the ends, and
/// whether anything is encoded: a search by vectors takes longer to begin than most pairs are long.
fn raw_pairs(raw: Option<&str>) -> impl Iterator<Item = Pair<'_>> {
    let mut rest = raw.unwrap_or_default();
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches('&');
        let (mut end, mut equals, mut is_encoded) = (rest.len(), None, false);
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                b'=' if equals.is_none() => equals = Some(at),
                b'%' | b'+' => is_encoded = true,
                b'&' => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let (pair, behind) = rest.split_at(end);
        rest = behind;
        let (name, value) = equals.map_or((pair, ""), |at| (&pair[..at], &pair[at + 1..]));
        (!pair.is_empty()).then_some(Pair {
            name,
            value,
            is_encoded,
        })
    })
}

/// Finds the values of declared parameters, by the number of each name. Other pairs are ignored, but their encoding is
/// checked.
pub(super) fn declared<'a>(
    raw: Option<&'a str>,
    number: impl Fn(&str) -> Option<usize>,
    values: &mut [Option<Cow<'a, str>>],
) -> Result<(), RouteError> {
    for pair in raw_pairs(raw) {
        let (Some(decoded), Some(value)) = (pair.name(), pair.value()) else {
            let (what, wanted) = ("the query string", "percent-encoded UTF-8");
            let Pair { name, value, .. } = pair;
            let separator = if value.is_empty() { "" } else { "=" };
            let is_secret = pair
                .name()
                .is_some_and(|name| name == "key" || name == "pass");
            let sent = [name, separator, if is_secret { "…" } else { value }].concat();
            return Err(RouteError::invalid(what, wanted, &sent));
        };
        let Some(at) = number(&decoded) else {
            continue;
        };
        if let Some(first) = &values[at] {
            let (first, value) = (Quoted(first), Quoted(&value));
            let message = format!("{decoded} must be given only once, got {first} and {value}");
            return Err(RouteError::BadRequest(message));
        }
        values[at] = Some(value);
    }
    Ok(())
}

/// Names of ignored parameters that a response lists (CONTRACT section 5).
const IGNORED_MAX: usize = 8;
/// Encoded bytes of each of them. Longer names are cut, so that heads stay short.
const IGNORED_BYTES_MAX: usize = 96;

/// Returns the value of `X-Ignored-Parameters`: the names other than `key` and those of declared parameters,
/// in the order sent, each once, percent-encoded and cut; `None` if there are none. A name with a key in it is not listed.
pub fn ignored(raw: Option<&str>, is_declared: impl Fn(&str) -> bool) -> Option<String> {
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    for name in raw_pairs(raw).filter_map(|pair| pair.name()) {
        let is_declared = name == "key" || is_declared(&name);
        if is_declared || name.is_empty() || names.contains(&name) || has_key(name.as_bytes()) {
            continue;
        }
        names.push(name);
        if names.len() == IGNORED_MAX {
            break;
        }
    }
    let mut listed = String::new();
    for name in &names {
        listed.push_str(if listed.is_empty() { "" } else { ", " });
        let start = listed.len();
        for letter in name.chars() {
            let end = listed.len();
            let letter = letter.encode_utf8(&mut [0; 4]).to_owned();
            let _ = write!(listed, "{}", utf8_percent_encode(&letter, RESERVED));
            if listed.len() - start > IGNORED_BYTES_MAX {
                listed.truncate(end);
                break;
            }
        }
    }
    (!names.is_empty()).then_some(listed)
}

/// Names, in any case, under which clients of other services send their keys; `key` stands for `Key` and `KEY`.
const OTHER_NAMES: [&str; 5] = ["key", "api_key", "apikey", "token", "access_token"];

/// The keys in a query string.
#[derive(Debug, Default)]
pub struct SentKeys<'a> {
    pub key: SentKey<'a>,
    /// The values with the mark of a key of parameters that a client may have meant as its `key`.
    pub misplaced: Vec<Cow<'a, str>>,
}

/// The values of the parameter `key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SentKey<'a> {
    #[default]
    None,
    /// The decoded value; empty if its encoding is broken.
    Once(Cow<'a, str>),
    /// There is more than one, equal or not.
    Twice,
}

/// Finds the keys in a query string. A broken pair elsewhere does not hide them, since keys are authenticated
/// before parameters are parsed.
pub fn keys(raw: Option<&str>) -> SentKeys<'_> {
    let mut keys = SentKeys::default();
    for pair in raw_pairs(raw) {
        let Some(name) = pair.name() else {
            continue;
        };
        if name == "key" {
            keys.key = match keys.key {
                SentKey::None => SentKey::Once(pair.value().unwrap_or_default()),
                SentKey::Once(_) | SentKey::Twice => SentKey::Twice,
            };
        } else if OTHER_NAMES.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            let value = pair.value().unwrap_or(Cow::Borrowed(pair.value));
            if memmem::find(value.as_bytes(), KEY_MARK).is_some() {
                keys.misplaced.push(value);
            }
        }
    }
    keys
}

/// Returns the query string without its keys; `None` if nothing is left.
pub fn without_key(raw: Option<&str>) -> Option<String> {
    let pairs = raw.unwrap_or_default().split('&');
    let others = pairs.filter(|pair| keys(Some(pair)).key == SentKey::None);
    let others = others.collect::<Vec<_>>().join("&");
    Some(others).filter(|others| !others.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Endpoint;

    #[test]
    fn without_its_keys_a_query_has_all_other_pairs_as_sent() {
        for (sent, left) in [
            (None, None),
            (Some(""), None),
            (Some("key=a"), None),
            (Some("key"), None),
            (Some("a=1&key=x"), Some("a=1")),
            (
                Some("key=x&a=1&b&&%6Bey=y&a=%31&KEY=z"),
                Some("a=1&b&&a=%31&KEY=z"),
            ),
            (Some("a=key&monkey=1&%zz=1"), Some("a=key&monkey=1&%zz=1")),
        ] {
            let without = without_key(sent);
            assert_eq!(without.as_deref(), left, "{sent:?}");
            assert_eq!(keys(without.as_deref()).key, SentKey::None);
        }
    }

    #[test]
    fn pairs_are_split_before_they_are_decoded() {
        let sent = raw_pairs(Some("&&a=1%262=3&b&=c&&d+e=%3D&"));
        let sent = sent.map(|pair| (pair.name().unwrap(), pair.value().unwrap()));
        let sent: Vec<_> = sent.collect();
        let sent: Vec<(&str, &str)> = sent.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(sent, [("a", "1&2=3"), ("b", ""), ("", "c"), ("d e", "=")]);
        assert_eq!(raw_pairs(None).count(), 0);
        assert_eq!(
            first_value(Some("a=%&b=1&a=2&a=3"), "a").as_deref(),
            Some("2")
        );
    }

    #[test]
    fn a_key_is_found_in_any_encoding() {
        let key = |raw| keys(Some(raw)).key;
        assert_eq!(keys(None).key, SentKey::None);
        assert_eq!(key("keys=1&Key=2&a=key"), SentKey::None);
        assert_eq!(key("%6bez=1"), SentKey::None);
        let once = |raw| match key(raw) {
            SentKey::Once(key) => key.into_owned(),
            other => panic!("{raw}: {other:?}"),
        };
        assert_eq!(once("a=%zz&%6Bey=x%2By"), "x+y");
        assert_eq!(once("%zz=1&key=%ff"), "");
        assert_eq!(once("key"), "");
        assert_eq!(key("key=1&a=2&%6bey=1"), SentKey::Twice);
        assert_eq!(key("key=&key"), SentKey::Twice);
    }

    #[test]
    fn ignored_names_are_listed_once_in_order_encoded_and_without_keys() {
        let of = |raw, endpoint: Endpoint| ignored(Some(raw), |name| endpoint.declares(name));
        assert_eq!(ignored(None, |_| false), None);
        for raw in [
            "",
            "&&",
            "=1",
            "key=1&k%65y=2",
            "%zz=1",
            "im_live_a_b=1&im%5flive%5Fa",
        ] {
            assert_eq!(of(raw, Endpoint::Live), None, "{raw}");
        }
        for (raw, islands, creators) in [
            ("limit=1&page=2&q=a&page=3", "page", "page"),
            (
                "tag[]=a&Limit=1&t%61g=b",
                "tag%5B%5D, Limit",
                "tag%5B%5D, Limit, tag",
            ),
            (
                "a+b&%C3%A9=&%0D%0Ax",
                "a%20b, %C3%A9, %0D%0Ax",
                "a%20b, %C3%A9, %0D%0Ax",
            ),
            (
                "a&b&c&d&e&f&g&key&h&i&j",
                "a, b, c, d, e, f, g, h",
                "a, b, c, d, e, f, g, h",
            ),
        ] {
            assert_eq!(
                of(raw, Endpoint::Islands).as_deref(),
                Some(islands),
                "{raw}"
            );
            assert_eq!(
                of(raw, Endpoint::Creators).as_deref(),
                Some(creators),
                "{raw}"
            );
        }
        assert_eq!(
            of("limit=1&x", Endpoint::Index).as_deref(),
            Some("limit, x")
        );
        let long = |letter: char| letter.to_string().repeat(500);
        for (letter, bytes) in [('a', 96), ('é', 96), ('死', 90), ('🔥', 96)] {
            let listed = ignored(Some(&long(letter)), |_| false).unwrap();
            let encoded = utf8_percent_encode(&long(letter), RESERVED).to_string();
            assert_eq!(listed, encoded[..bytes], "{letter}");
        }
        // Each name is cut by itself.
        let both = ignored(Some(&format!("{}&{}", long('a'), long('b'))), |_| false);
        let cut = |letter: char| letter.to_string().repeat(IGNORED_BYTES_MAX);
        assert_eq!(both, Some(format!("{}, {}", cut('a'), cut('b'))));
    }

    #[test]
    fn keys_are_looked_for_under_the_names_of_other_services() {
        let of = |raw| keys(Some(raw)).misplaced;
        assert!(keys(None).misplaced.is_empty());
        assert!(of("key=a_live_&keys=b_live_&k=c_live_&api-keys=d_live_&%zz=e_live_").is_empty());
        assert!(of("token=a&KEY=live&Token=_LIVE_").is_empty());
        assert_eq!(of("limit=2&token=im_live_a"), ["im_live_a"]);
        let sent = "api_key=a_live_&apikey=b_live_&KEY=c_live_&Key=d_live_&token=e_live_\
            &access_token=f_live_&apiKey=g%5Flive_&%74oken=h+_live_&Token=%zz_live_";
        let found = [
            "a_live_",
            "b_live_",
            "c_live_",
            "d_live_",
            "e_live_",
            "f_live_",
            "g_live_",
            "h _live_",
            "%zz_live_",
        ];
        assert_eq!(of(sent), found);
    }

    #[test]
    fn only_encoding_is_checked_without_declared_parameters() {
        assert_eq!(declared(None, |_| None, &mut []), Ok(()));
        assert_eq!(
            declared(Some("limit=x&limit=y&é=%C3%A9"), |_| None, &mut []),
            Ok(())
        );
        for (raw, sent) in [
            ("%", "%"),
            ("a=%f", "a=%f"),
            ("a=1&b%ff=2", "b%ff=2"),
            ("x=%C3&y=%", "x=%C3"),
            ("key=im_live%_a", "key=…"),
            ("a=im_live_a%", "…"),
        ] {
            let message = format!("the query string must be percent-encoded UTF-8, got \"{sent}\"");
            let bad = Err(RouteError::BadRequest(message));
            assert_eq!(declared(Some(raw), |_| None, &mut []), bad, "{raw}");
        }
    }
}
