//! Paths of dumps: which name each stands for.

use super::*;

#[test]
fn a_dump_is_named_by_what_follows_segment_by_segment() {
    for (path, name) in [
        ("/dumps", "index.json"),
        ("/dumps/", "index.json"),
        ("/%64umps/", "index.json"),
        ("/dumps/index.json", "index.json"),
        ("/dumps/islands.csv", "islands.csv"),
        (
            "/dumps/daily/2026%2D11-20.csv.gz",
            "daily/2026-11-20.csv.gz",
        ),
        ("/dumps/a/b/c/d/e/f", "a/b/c/d/e/f"),
        ("/dumps//islands.csv", "/islands.csv"),
        ("/dumps/islands.csv/", "islands.csv/"),
        ("/dumps/../manifest.json", "../manifest.json"),
        ("/dumps/%2e%2E/manifest.json", "../manifest.json"),
        ("/dumps/a%00b", "a\0b"),
    ] {
        for query in [None, Some("key=x&key=y"), Some("%zz")] {
            let parsed = parse(path, query);
            assert_eq!(
                parsed.route,
                Ok(Route::Outside(Outside::Dump(name.to_owned()))),
                "{path}"
            );
            assert!(!parsed.under_v1, "{path}");
        }
    }
}

#[test]
fn an_encoded_slash_names_nothing() {
    for path in [
        "daily%2F2026-11-20.csv",
        "..%2fmanifest.json",
        "%2Fetc%2Fpasswd",
        "a/%2f",
    ] {
        let refused = parse(&format!("/dumps/{path}"), None).route;
        let Err(RouteError::NotFound(message)) = refused else {
            panic!("{path}: {refused:?}");
        };
        assert!(message.contains("/dumps/index.json"), "{message}");
    }
    let broken = parse("/dumps/%ff", None).route;
    assert!(matches!(broken, Err(RouteError::BadRequest(_))));
    // Without the slash in front it is another path.
    for path in [
        "/dumpsx",
        "/dumps.json",
        "/Dumps",
        "//dumps",
        "/dumps%2Findex.json",
    ] {
        assert!(
            matches!(parse(path, None).route, Err(RouteError::NotFound(_))),
            "{path}"
        );
    }
}
