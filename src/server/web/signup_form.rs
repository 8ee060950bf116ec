//! `Form`: what a visitor of `/keys` sends; whether it comes from our own pages, and what it wants.

use std::net::IpAddr;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, StatusCode};

use crate::request;
use crate::signup::Wish;

/// Longer forms are not read. One holds an address and a pass.
const BYTES_MAX: usize = 4096;
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A visit to `/keys`, whose body may still be coming. Not shown by `Debug`: it may hold a pass.
pub(crate) struct Form {
    /// Where it comes from.
    pub(crate) client: IpAddr,
    /// A link that was opened; nothing where a form was sent.
    query: Option<String>,
    is_posted: bool,
    headers: HeaderMap,
}

/// Why a form is not even looked at.
pub(crate) type Unfit = (StatusCode, String);

impl Form {
    pub(crate) fn new(
        method: &Method,
        query: Option<&str>,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Form {
        let told = [HOST, ORIGIN, FETCH_SITE];
        let headers = headers.iter();
        let headers = headers.filter(|(name, _)| told.contains(name));
        Form {
            client,
            query: query.map(str::to_owned),
            is_posted: method == Method::POST,
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    /// What is wanted, when all of it has come. A client has as long for it as for a head.
    pub(crate) async fn wish(&self, body: Incoming, base_url: &str) -> Result<Wish, Unfit> {
        if !is_own(&self.headers, base_url, self.is_posted) {
            let message =
                format!("This request came from another site. Use the page at {base_url}/keys");
            return Err((StatusCode::FORBIDDEN, message));
        }
        if !self.is_posted {
            return Ok(look(self.query.as_deref()));
        }
        let read = Limited::new(body, BYTES_MAX).collect().await;
        let Ok(read) = read else {
            let message = "The form is too long, or broke off.";
            return Err((StatusCode::PAYLOAD_TOO_LARGE, message.to_owned()));
        };
        let bytes = read.to_bytes();
        let wish = std::str::from_utf8(&bytes).ok().and_then(wish);
        let message = "This form asks for nothing that can be done. Send do=mail with email, do=issue, \
            or do=revoke with id; each with the pass of the page.";
        wish.ok_or_else(|| (StatusCode::BAD_REQUEST, message.to_owned()))
    }
}

/// Returns `true` if a request for `/keys` was made under a name of this service, and a form that a browser
/// sends was on a page of it. A client that is no browser, and names no origin, acts for itself only.
///
/// A page of another site can have its reader's browser send forms here, for the reader's address; but
/// browsers send the origin of every form. A page whose own name is made to lead here (DNS rebinding)
/// is of the same origin to the browser, and may read all that is answered under that name; but browsers
/// send the name as `Host`. A link may come from any site, so `Sec-Fetch-Site` counts for forms only.
fn is_own(headers: &HeaderMap, base_url: &str, is_posted: bool) -> bool {
    let host = headers
        .get(HOST)
        .map(|host| host.to_str().unwrap_or_default());
    let host = host.map(str::to_ascii_lowercase);
    let own = origin_of(base_url);
    let own_name = own
        .split_once("://")
        .map(|(_, authority)| name_of(authority));
    let is_known = |host: &str| is_certain(host) || Some(name_of(host)) == own_name;
    // Without one, as HTTP/1.0 allows, it is no browser.
    if !host.as_deref().is_none_or(is_known) {
        return false;
    }
    let site = headers.get(FETCH_SITE);
    if is_posted && site.is_some_and(|site| site != "same-origin" && site != "none") {
        return false;
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(_), Some(_)) => false,
        (Some(origin), None) => {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            let is_of = |host: &str| is_certain(host) && origin == format!("http://{host}");
            origin == own || host.as_deref().is_some_and(is_of)
        }
    }
}

/// Whether a name of this host is its own: any other name may be somebody else's who made it lead here.
fn is_certain(host: &str) -> bool {
    let name = name_of(host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok()
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Scheme, host and port of an address, without a port that is the scheme's own.
fn origin_of(url: &str) -> String {
    let url = url.to_ascii_lowercase();
    let Some((scheme, rest)) = url.split_once("://") else {
        return String::new();
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let own = if scheme == "https" { ":443" } else { ":80" };
    format!(
        "{scheme}://{}",
        authority.strip_suffix(own).unwrap_or(authority)
    )
}

/// What a page is opened for, by the query of its address.
fn look(query: Option<&str>) -> Wish {
    Wish::Look {
        pass: field(query, "pass"),
    }
}

/// What a form that was sent wants; `None` for nothing that there is.
fn wish(form: &str) -> Option<Wish> {
    let field = |name| field(Some(form), name);
    let pass = field("pass").unwrap_or_default();
    match field("do")?.as_str() {
        "mail" => Some(Wish::Mail {
            email: field("email")?,
            pass,
        }),
        "issue" => Some(Wish::Issue { pass }),
        "revoke" => Some(Wish::Revoke {
            pass,
            id: field("id")?,
        }),
        _ => None,
    }
}

/// The first value of that name.
fn field(pairs: Option<&str>, name: &str) -> Option<String> {
    let mut named = request::pairs(pairs)
        .flatten()
        .filter(|pair| pair.0 == name);
    named.next().map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_as(headers: &[(&'static str, &str)], is_posted: bool, want: bool) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let found = is_own(&map, "https://X.test:443/api", is_posted);
        assert_eq!(found, want, "{headers:?}");
    }

    /// A form.
    #[track_caller]
    fn check(headers: &[(&'static str, &str)], want: bool) {
        check_as(headers, true, want);
    }

    #[test]
    fn only_pages_of_ours_act_for_a_browser() {
        check(&[("host", "x.test")], true);
        check(
            &[("origin", "https://x.test"), ("host", "127.0.0.1:8080")],
            true,
        );
        check(&[("origin", "http://x.test"), ("host", "x.test")], false);
        check(&[("origin", "https://x.test:8443")], false);
        check(&[("origin", "null"), ("host", "x.test")], false);
        check(
            &[("origin", "https://evil.test"), ("host", "x.test")],
            false,
        );
        check(&[("origin", "https://x.test.evil.test")], false);
        check(
            &[("origin", "https://x.test"), ("origin", "https://x.test")],
            false,
        );
        check(&[("sec-fetch-site", "cross-site")], false);
        check(
            &[
                ("sec-fetch-site", "same-site"),
                ("origin", "https://x.test"),
            ],
            false,
        );
        check(
            &[
                ("sec-fetch-site", "same-origin"),
                ("origin", "https://x.test"),
            ],
            true,
        );
    }

    #[test]
    fn a_name_that_leads_here_is_not_taken_for_ours() {
        // Its owner had it lead to this host after the page was loaded from another.
        check(
            &[
                ("origin", "http://evil.test:8080"),
                ("host", "evil.test:8080"),
            ],
            false,
        );
        for host in [
            "localhost:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "192.0.2.1",
        ] {
            let origin = format!("http://{host}");
            check(&[("origin", &origin), ("host", host)], true);
            check(&[("origin", "http://evil.test"), ("host", host)], false);
        }
    }

    #[test]
    fn a_page_is_read_under_names_of_ours_only() {
        for (host, want) in [
            ("x.test", true),
            ("X.TEST:8080", true),
            ("localhost", true),
            ("127.0.0.1:8080", true),
            ("[2001:db8::1]:8080", true),
            ("evil.test:8080", false),
            ("x.test.evil.test", false),
            ("evil-x.test", false),
            ("localhost.evil.test", false),
            ("127.0.0.1.evil.test", false),
            ("", false),
        ] {
            check_as(&[("host", host)], false, want);
            check_as(&[("host", host)], true, want);
        }
        // HTTP/1.0, which no browser speaks.
        check_as(&[], false, true);
        // A link on another site leads here, and its script gets nothing.
        let linked = ("sec-fetch-site", "cross-site");
        check_as(&[("host", "x.test"), linked], false, true);
        let scripted = ("origin", "https://evil.test");
        check_as(&[("host", "x.test"), scripted], false, false);
        check_as(&[("host", "evil.test"), scripted], false, false);
    }

    #[test]
    fn forms_say_what_they_want() {
        let mail = wish("do=mail&email=ann%2B1%40x.test&pass=a+b&email=other");
        assert!(
            matches!(mail, Some(Wish::Mail { email, pass }) if email == "ann+1@x.test" && pass == "a b")
        );
        let revoke = wish("pass=p&id=abc&do=revoke");
        assert!(matches!(revoke, Some(Wish::Revoke { pass, id }) if id == "abc" && pass == "p"));
        assert!(matches!(wish("do=issue"), Some(Wish::Issue { pass }) if pass.is_empty()));
        for nothing in [
            "",
            "do=",
            "do=mail",
            "do=revoke&pass=p",
            "do=%zz",
            "do=drop",
        ] {
            assert!(wish(nothing).is_none(), "{nothing}");
        }
        let opened = look(Some("a=b&pass=x%2ey"));
        assert!(matches!(opened, Wish::Look { pass: Some(pass) } if pass == "x.y"));
    }
}
