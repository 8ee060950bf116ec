//! What request headers say of the form of the answer: `Accept-Encoding` and `If-None-Match`.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, IF_NONE_MATCH};

/// Whether gzip is to be sent (RFC 9110 section 12.5.3): when it is accepted, and not less than
/// identity where both are weighed.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for value in headers.get_all(ACCEPT_ENCODING) {
        let Ok(value) = value.to_str() else { continue };
        for item in value.split(',') {
            let (coding, weight) = coding_and_weight(item);
            match () {
                () if coding.eq_ignore_ascii_case("gzip")
                    || coding.eq_ignore_ascii_case("x-gzip") =>
                {
                    gzip = Some(weight);
                }
                () if coding.eq_ignore_ascii_case("identity") => identity = Some(weight),
                () if coding == "*" => any = Some(weight),
                () => {}
            }
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// Whether JSON is wanted rather than a page: it is named, and HTML is not, or weighs less.
pub(crate) fn prefers_json(headers: &HeaderMap) -> bool {
    let (json, html) = json_and_html(headers);
    json > html
}

/// Whether pages are wanted, by name: a browser does that.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    let (json, html) = json_and_html(headers);
    html > 0 && html >= json
}

/// What JSON and HTML weigh, where they are named.
fn json_and_html(headers: &HeaderMap) -> (u32, u32) {
    let (mut json, mut html) = (0, 0);
    for value in headers.get_all(ACCEPT) {
        let Ok(value) = value.to_str() else { continue };
        for item in value.split(',') {
            let (kind, weight) = coding_and_weight(item);
            if kind.eq_ignore_ascii_case("application/json") {
                json = weight;
            } else if kind.eq_ignore_ascii_case("text/html") {
                html = weight;
            }
        }
    }
    (json, html)
}

/// A coding and its weight in thousandths; a weight that cannot be read counts as 0.
fn coding_and_weight(item: &str) -> (&str, u32) {
    let mut parts = item.split(';');
    let coding = parts.next().unwrap_or_default().trim();
    let weight = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("q")
            .then(|| thousandths(value.trim()))
    });
    (coding, weight.unwrap_or(1000))
}

fn thousandths(text: &str) -> u32 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let sound = matches!(whole, "0" | "1")
        && fraction.len() <= 3
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !sound {
        return 0;
    }
    let fraction: u32 = format!("{fraction:0<3}").parse().unwrap_or(0);
    if whole == "1" { 1000 } else { fraction }
}

/// Whether `If-None-Match` names the entity tag (weak comparison, RFC 9110 section 13.1.2).
pub(crate) fn is_known(headers: &HeaderMap, etag: &[u8]) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        value.as_bytes().split(|byte| *byte == b',').any(|tag| {
            let tag = tag.trim_ascii();
            tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept_encoding: &str, want: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, accept_encoding.parse().unwrap());
        assert_eq!(accepts_gzip(&headers), want, "{accept_encoding}");
    }

    #[test]
    fn json_is_given_to_those_who_want_it_more_than_a_page() {
        for (accept, want) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8, */*;q=0.1", true),
            ("text/html;q=0.4, application/json;q=0.5", true),
            ("text/html, application/json;q=0.9", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("application/json;q=0", false),
            ("*/*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(prefers_json(&headers), want, "{accept}");
            let names = accept.contains("html") && !want;
            assert_eq!(names_html(&headers), names, "{accept}");
        }
        for accept in [
            "text/html;q=0",
            "text/html-x",
            "x/y;a=\"text/html\"",
            "text/html;q=0, */*",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert!(!names_html(&headers), "{accept}");
        }
        assert!(!prefers_json(&HeaderMap::new()));
    }

    #[test]
    fn weights_are_honoured() {
        check("gzip", true);
        check("br, GZIP;q=0.5", true);
        check("gzip;q=0", false);
        check("gzip;q=0.000", false);
        check("*", true);
        check("*;q=0", false);
        check("*, gzip;q=0", false);
        check("identity, gzip;q=0.5", false);
        check("identity;q=0.2, gzip;q=0.5", true);
        check("deflate, br", false);
        check("", false);
        check("gzip;q=nonsense", false);
    }
}
