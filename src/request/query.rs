//! The raw query string: its pairs, the values of declared parameters, the names of others, and the
//! `key`.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::memmem;
use percent_encoding::utf8_percent_encode;
use smallvec::SmallVec;

use super::error::{Quoted, RouteError};
use super::loggable::{KEY_MARK, has_key};
use super::percent::{RESERVED, decode_form};

/// The pairs of a query string, in the order sent, empty ones left out. One pair, as of a key, needs no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'q>(SmallVec<[Pair<'q>; 1]>);

/// A pair of a query string, as sent. The value of one without `=` is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair<'q> {
    text: &'q str,
    /// Length of the name.
    name_bytes: usize,
    /// Whether there is something to decode.
    is_encoded: bool,
}

impl<'q> Pair<'q> {
    /// Returns the decoded name; `None` if its encoding is broken.
    fn name(&self) -> Option<Cow<'q, str>> {
        self.decode(&self.text[..self.name_bytes])
    }

    /// Returns the decoded value; `None` if its encoding is broken.
    fn value(&self) -> Option<Cow<'q, str>> {
        self.decode(self.sent_value())
    }

    fn sent_value(&self) -> &'q str {
        self.text.get(self.name_bytes + 1..).unwrap_or_default()
    }

    fn decode(&self, text: &'q str) -> Option<Cow<'q, str>> {
        if self.is_encoded {
            decode_form(text)
        } else {
            Some(Cow::Borrowed(text))
        }
    }

    fn is_key(&self) -> bool {
        self.name().is_some_and(|name| name == "key")
    }
}

/// Returns the pairs of a query string as sent. One scan finds the ends, and whether anything is encoded: a search by
/// vectors takes longer to begin than most pairs are long.
fn pairs(mut rest: &str) -> impl Iterator<Item = Pair<'_>> {
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
        let (text, behind) = rest.split_at(end);
        rest = behind;
        (!text.is_empty()).then_some(Pair {
            text,
            name_bytes: equals.unwrap_or(end),
            is_encoded,
        })
    })
}

/// Names of ignored parameters that a response lists (CONTRACT section 5).
const IGNORED_MAX: usize = 8;
/// Encoded bytes of each of them. Longer names are cut, so that heads stay short.
const IGNORED_BYTES_MAX: usize = 96;

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

impl<'q> Query<'q> {
    /// Splits a query string as sent, if there is one.
    pub fn split(raw: Option<&'q str>) -> Query<'q> {
        Query(pairs(raw.unwrap_or_default()).collect())
    }

    /// Returns the query without the pairs that have a name only.
    pub(super) fn without_empty(&self) -> Query<'q> {
        let pairs = self.0.iter().copied();
        let is_kept = |pair: &Pair<'_>| !pair.sent_value().is_empty() || pair.name().is_none();
        Query(pairs.filter(is_kept).collect())
    }

    /// Returns the values of parameters, in the order of their names. None may be sent twice. Other pairs are ignored,
    /// but their encoding is checked.
    pub fn values<'n, const N: usize>(
        &self,
        names: &(impl IntoIterator<Item = &'n str> + Clone),
    ) -> Result<[Option<Cow<'q, str>>; N], RouteError> {
        let mut values: [Option<Cow<'q, str>>; N] = [const { None }; N];
        for pair in &self.0 {
            let (Some(name), Some(value)) = (pair.name(), pair.value()) else {
                let sent = match pair.name().as_deref() {
                    Some("key" | "pass") => &[&pair.text[..pair.name_bytes], "=…"].concat(),
                    _ => pair.text,
                };
                let (what, wanted) = ("the query string", "percent-encoded UTF-8");
                return Err(RouteError::invalid(what, wanted, sent));
            };
            let Some(at) = names.clone().into_iter().position(|one| one == name) else {
                continue;
            };
            if let Some(first) = &values[at] {
                let (first, value) = (Quoted(first), Quoted(&value));
                let message = format!("{name} must be given only once, got {first} and {value}");
                return Err(RouteError::BadRequest(message));
            }
            values[at] = Some(value);
        }
        Ok(values)
    }

    /// Returns the value of `X-Ignored-Parameters`: the names other than `key` and those of declared parameters,
    /// in the order sent, each once, percent-encoded and cut; `None` if there are none. A name with a key in it is not
    /// listed.
    pub fn ignored(&self, is_declared: impl Fn(&str) -> bool) -> Option<String> {
        let mut names: Vec<Cow<'_, str>> = Vec::new();
        for name in self.0.iter().filter_map(Pair::name) {
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

    /// Finds the keys. A broken pair elsewhere does not hide them, since keys are authenticated before parameters are
    /// parsed.
    pub fn keys(&self) -> SentKeys<'q> {
        let mut keys = SentKeys::default();
        for pair in &self.0 {
            let Some(name) = pair.name() else {
                continue;
            };
            if name == "key" {
                keys.key = match keys.key {
                    SentKey::None => SentKey::Once(pair.value().unwrap_or_default()),
                    SentKey::Once(_) | SentKey::Twice => SentKey::Twice,
                };
            } else if OTHER_NAMES.iter().any(|it| name.eq_ignore_ascii_case(it)) {
                let value = pair.value().unwrap_or(Cow::Borrowed(pair.sent_value()));
                if memmem::find(value.as_bytes(), KEY_MARK).is_some() {
                    keys.misplaced.push(value);
                }
            }
        }
        keys
    }

    /// Returns the query string without its keys and empty pairs; `None` if nothing is left.
    pub fn without_key(&self) -> Option<String> {
        let others = self.0.iter().filter(|pair| !pair.is_key());
        let others: Vec<&str> = others.map(|pair| pair.text).collect();
        (!others.is_empty()).then(|| others.join("&"))
    }
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
