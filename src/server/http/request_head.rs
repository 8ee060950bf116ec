//! `RequestHead`, and the headers that select the form of a response: `Accept`, `Accept-Encoding`
//! and `If-None-Match`.

use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, HOST, HeaderName, HeaderValue, IF_NONE_MATCH, TRANSFER_ENCODING,
};
use hyper::{HeaderMap, Method, Request, Version};

use crate::request::{Endpoint, Query};
use crate::snapshot::EntityTag;

/// The part of a request that the pipeline sees. The only bodies read are forms of sign-up,
/// elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHead<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) version: Version,
    pub(crate) headers: &'a HeaderMap,
    has_accept_encoding: bool,
    has_if_none_match: bool,
    pub(in crate::server) has_transfer_encoding: bool,
}

impl<'a> RequestHead<'a> {
    pub(in crate::server) fn new(request: &'a Request<Incoming>) -> RequestHead<'a> {
        RequestHead {
            query: request.uri().query(),
            version: request.version(),
            ..RequestHead::get(request.method(), request.uri().path(), request.headers())
        }
    }

    /// The head of a request without a query.
    pub(in crate::server) fn get(
        method: &'a Method,
        path: &'a str,
        headers: &'a HeaderMap,
    ) -> RequestHead<'a> {
        let mut head = RequestHead {
            method,
            path,
            query: None,
            version: Version::HTTP_11,
            headers,
            has_accept_encoding: false,
            has_if_none_match: false,
            has_transfer_encoding: false,
        };
        for name in headers.keys() {
            head.has_accept_encoding |= *name == ACCEPT_ENCODING;
            head.has_if_none_match |= *name == IF_NONE_MATCH;
            head.has_transfer_encoding |= *name == TRANSFER_ENCODING;
        }
        head
    }

    /// The names of the parameters that its response ignores.
    #[cold]
    pub(crate) fn ignored(&self, endpoint: Endpoint) -> Option<String> {
        Query::split(self.query).ignored(|name| endpoint.declares(name))
    }

    pub(crate) fn accepts_gzip(&self) -> bool {
        self.has_accept_encoding && accepts_gzip(self.headers)
    }

    /// Whether the client has the body with this entity tag.
    pub(crate) fn knows(&self, etag: &EntityTag) -> bool {
        self.has_if_none_match && is_not_modified(self.headers, etag.as_bytes())
    }

    /// Checks RFC 9112 section 3.2: HTTP/1.1 requires exactly one Host header, with a valid host.
    pub(in crate::server) fn host_error(&self) -> Option<&'static str> {
        let mut hosts = values(self.headers, &HOST);
        match (hosts.next(), hosts.next()) {
            (None, _) if self.version < Version::HTTP_11 => None,
            (None, _) => Some("the Host header is missing; HTTP/1.1 requires exactly one"),
            (Some(_), Some(_)) => {
                Some("the Host header is repeated; HTTP/1.1 requires exactly one")
            }
            (Some(host), None) => {
                let error = "the Host header must be name, name:port or [address]:port";
                (!is_host(host.as_bytes())).then_some(error)
            }
        }
    }
}

/// Whether a Host header has a valid form (RFC 3986 section 3.2.2). It may be empty.
#[inline]
fn is_host(host: &[u8]) -> bool {
    let port = memchr::memrchr(b':', host).filter(|_| host.last() != Some(&b']'));
    let (name, port) = host.split_at(port.unwrap_or(host.len()));
    let (name, is_bracketed) = match name {
        [b'[', address @ .., b']'] if !address.is_empty() => (address, true),
        name => (name, false),
    };
    let in_name = |byte: &u8| IN_HOST[usize::from(*byte)] || (is_bracketed && *byte == b':');
    name.iter().all(in_name) && port.iter().skip(1).all(u8::is_ascii_digit)
}

/// Whether a byte may be in the name of a host, by its value.
const IN_HOST: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._~%!$&'()*+,;=";
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
};

/// The values of a header, in the order sent. Comparing the few names of a request takes less time
/// than hashing one.
#[inline]
pub(in crate::server) fn values<'a>(
    headers: &'a HeaderMap,
    name: &'a HeaderName,
) -> impl Iterator<Item = &'a HeaderValue> {
    let named = headers.iter().filter(move |(other, _)| *other == name);
    named.map(|(_, value)| value)
}

/// Whether to send gzip (RFC 9110 section 12.5.3): it is accepted, and weighs no less than identity
/// where both have weights.
#[inline(never)]
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for (coding, weight) in weighted(headers, &ACCEPT_ENCODING) {
        if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
            gzip = Some(weight);
        } else if coding.eq_ignore_ascii_case(b"identity") {
            identity = Some(weight);
        } else if coding == b"*" {
            any = Some(weight);
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// Whether the client accepts HTML by name, as browsers do, and does not prefer JSON.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    let (mut json, mut html) = (0, 0);
    for (media_type, weight) in weighted(headers, &ACCEPT) {
        if media_type.eq_ignore_ascii_case(b"application/json") {
            json = weight;
        } else if media_type.eq_ignore_ascii_case(b"text/html") {
            html = weight;
        }
    }
    html > 0 && html >= json
}

/// The items of a list header, each with its weight in thousandths; 0 for one that is malformed.
fn weighted<'a>(
    headers: &'a HeaderMap,
    name: &'a HeaderName,
) -> impl Iterator<Item = (&'a [u8], u32)> {
    let items = values(headers, name).flat_map(|value| split(value.as_bytes(), b','));
    items.map(|item| {
        let mut parts = split(item, b';');
        let coding = parts.next().unwrap_or_default().trim_ascii();
        let weight = parts.find_map(|part| {
            let (name, value) = std::str::from_utf8(part).ok()?.split_once('=')?;
            let is_weight = name.trim().eq_ignore_ascii_case("q");
            is_weight.then(|| thousandths(value.trim()))
        });
        (coding, weight.unwrap_or(1000))
    })
}

fn split(bytes: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    bytes.split(move |byte| *byte == separator)
}

fn thousandths(text: &str) -> u32 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_valid = matches!(whole, "0" | "1")
        && fraction.len() <= 3
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_valid {
        return 0;
    }
    let fraction: u32 = format!("{fraction:0<3}").parse().unwrap_or(0);
    if whole == "1" { 1000 } else { fraction }
}

/// Whether `If-None-Match` names the entity tag (weak comparison, RFC 9110 section 13.1.2).
#[inline(never)]
pub(crate) fn is_not_modified(headers: &HeaderMap, etag: &[u8]) -> bool {
    values(headers, &IF_NONE_MATCH).any(|value| {
        // Most clients send the tag as they got it.
        if value.as_bytes() == etag {
            return true;
        }
        split(value.as_bytes(), b',').any(|tag| {
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
    fn html_is_named_and_weighs_no_less_than_json() {
        for (accept, want) in [
            ("application/json", false),
            ("text/html;q=0.4, application/json;q=0.5", false),
            ("text/html, application/json;q=0.9", true),
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("Text/HTML; charset=utf-8, */*;q=0.1", true),
            ("text/html;q=0.5, application/json;q=0.5", true),
            ("*/*", false),
            ("", false),
            ("text/html;q=0", false),
            ("text/html-x", false),
            ("x/y;a=\"text/html\"", false),
            ("text/html;q=0, */*", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(names_html(&headers), want, "{accept}");
        }
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
