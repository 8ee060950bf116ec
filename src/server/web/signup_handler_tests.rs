use std::path::Path;

use super::*;
use crate::keys::KeyPrefix;
use crate::signup::SignupPolicy;

impl SignupHandler {
    /// Sign-up of keys in a directory that no server reads.
    pub(in crate::server) fn in_directory(directory: &Path) -> SignupHandler {
        let (keys, prefix) = (KeyStore::new(directory), KeyPrefix::default());
        let base_url = "http://x.test";
        let policy = SignupPolicy {
            mailer: None,
            daily_max: 1,
        };
        let service = SignupService::open(
            (keys, None),
            &policy,
            prefix,
            base_url,
            Log::start(|_| {}).unwrap(),
        );
        SignupHandler {
            service: Arc::new(Mutex::new(service.unwrap())),
            poller: PollTrigger::start("keys", |_| {}).unwrap(),
            is_shared: true,
            failed_mails: Arc::default(),
        }
    }
}

#[track_caller]
fn check_as(headers: &[(&'static str, &str)], is_posted: bool, want: bool) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().unwrap());
    }
    let found = is_same_origin(&map, "https://X.test:443/api", is_posted);
    assert_eq!(found, want, "{headers:?}");
}

#[track_caller]
fn check(headers: &[(&'static str, &str)], want: bool) {
    check_as(headers, true, want);
}

#[test]
fn forms_of_other_origins_are_rejected() {
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
    for site in ["same-origin", "none"] {
        for more in ["cross-site", "same-site", "", "same-origin"] {
            let (one, other) = (("sec-fetch-site", site), ("sec-fetch-site", more));
            check(&[one, other], false);
            check(&[other, one, ("origin", "https://x.test")], false);
        }
    }
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
fn a_rebound_name_is_not_an_own_name() {
    // The name resolved to another host when the page was loaded.
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
fn pages_are_readable_under_own_names_only() {
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
    // HTTP/1.0, which browsers do not use.
    check_as(&[], false, true);
    // A link on another site is followed, but a script of that site reads nothing.
    let linked = ("sec-fetch-site", "cross-site");
    check_as(&[("host", "x.test"), linked], false, true);
    let scripted = ("origin", "https://evil.test");
    check_as(&[("host", "x.test"), scripted], false, false);
    check_as(&[("host", "evil.test"), scripted], false, false);
}

#[test]
fn forms_are_parsed_into_requests() {
    let mail = parse_form("do=mail&email=ann%2B1%40x.test&pass=a+b&other=x");
    assert!(
        matches!(mail, Some(SignupRequest::MailLink { email, token }) if email == "ann+1@x.test" && token == "a b")
    );
    let revoke = parse_form("pass=p&id=abc&do=revoke");
    assert!(
        matches!(revoke, Some(SignupRequest::Revoke { token, id }) if id == "abc" && token == "p")
    );
    assert!(
        matches!(parse_form("do=issue"), Some(SignupRequest::Issue { token }) if token.is_empty())
    );
    for invalid in [
        "",
        "do=",
        "do=mail",
        "do=revoke&pass=p",
        "do=%zz",
        "do=drop",
        "do=issue&do=revoke",
        "do=mail&email=a&email=b",
    ] {
        assert!(parse_form(invalid).is_none(), "{invalid}");
    }
}
