//! The raw query string: its pairs, the values of declared parameters, and the `key`.

use std::borrow::Cow;

use memchr::memmem;

use super::error::RouteError;
use super::percent::decode_form;

/// Returns the pairs of a raw query string in the order sent, names and values decoded. A pair
/// whose encoding is broken is `None`. Empty pairs are skipped; a pair without `=` has an empty
/// value.
pub fn pairs(raw: Option<&str>) -> impl Iterator<Item = Option<(Cow<'_, str>, Cow<'_, str>)>> {
    raw_pairs(raw).map(|(name, value)| Some((decode_form(name)?, decode_form(value)?)))
}

/// Returns the pairs as sent, undecoded.
fn raw_pairs(raw: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = raw.unwrap_or_default().split('&');
    let pairs = pairs.filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Returns the values of the declared parameters, in the order declared. Other pairs are ignored,
/// but their encoding is checked.
pub(super) fn declared<'a, const N: usize>(
    raw: Option<&'a str>,
    names: [&str; N],
) -> Result<[Option<Cow<'a, str>>; N], RouteError> {
    let mut values = [const { None }; N];
    for pair in pairs(raw) {
        let (name, value) = pair.ok_or_else(|| {
            let message = "the query string must be percent-encoded UTF-8";
            RouteError::BadRequest(message.to_owned())
        })?;
        if let Some(at) = names.iter().position(|declared| *declared == name)
            && values[at].replace(value).is_some()
        {
            let message = format!("{name} must be given only once");
            return Err(RouteError::BadRequest(message));
        }
    }
    Ok(values)
}

/// The `key` of a query string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentKey<'a> {
    /// There is none.
    None,
    /// The decoded value; empty if its encoding is broken.
    Once(Cow<'a, str>),
    /// There is more than one, equal or not.
    Twice,
}

/// Returns the `key` of a query string. A broken pair elsewhere does not hide it, since keys are
/// authenticated before parameters are parsed.
pub fn key(raw: Option<&str>) -> SentKey<'_> {
    let text = raw.unwrap_or_default();
    // Without a percent sign, the name is not encoded.
    if memmem::find(text.as_bytes(), b"key").is_none() && !text.contains('%') {
        return SentKey::None;
    }
    let is_key = |(name, _): &(&str, &str)| decode_form(name).is_some_and(|name| name == "key");
    let mut keys = raw_pairs(raw).filter(is_key);
    match (keys.next(), keys.next()) {
        (None, _) => SentKey::None,
        (Some((_, value)), None) => SentKey::Once(decode_form(value).unwrap_or_default()),
        (Some(_), Some(_)) => SentKey::Twice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_before_they_are_decoded() {
        let sent = pairs(Some("&&a=1%262=3&b&=c&&d+e=%3D&"));
        let sent: Vec<_> = sent.map(Option::unwrap).collect();
        let sent: Vec<(&str, &str)> = sent.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(sent, [("a", "1&2=3"), ("b", ""), ("", "c"), ("d e", "=")]);
        assert_eq!(pairs(None).count(), 0);
    }

    #[test]
    fn a_key_is_found_in_any_encoding() {
        assert_eq!(key(None), SentKey::None);
        assert_eq!(key(Some("keys=1&Key=2&a=key")), SentKey::None);
        assert_eq!(key(Some("%6bez=1")), SentKey::None);
        let once = |raw| match key(Some(raw)) {
            SentKey::Once(key) => key.into_owned(),
            other => panic!("{raw}: {other:?}"),
        };
        assert_eq!(once("a=%zz&%6Bey=x%2By"), "x+y");
        assert_eq!(once("%zz=1&key=%ff"), "");
        assert_eq!(once("key"), "");
        assert_eq!(key(Some("key=1&a=2&%6bey=1")), SentKey::Twice);
        assert_eq!(key(Some("key=&key")), SentKey::Twice);
    }

    #[test]
    fn only_encoding_is_checked_without_declared_parameters() {
        assert_eq!(declared(None, []), Ok([]));
        assert_eq!(declared(Some("limit=x&limit=y&é=%C3%A9"), []), Ok([]));
        for raw in ["%", "a=%f", "a=1&b%ff=2", "x=%C3"] {
            let message = "the query string must be percent-encoded UTF-8".to_owned();
            let bad = Err(RouteError::BadRequest(message));
            assert_eq!(declared(Some(raw), []), bad, "{raw}");
        }
    }
}
