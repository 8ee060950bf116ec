//! The name of a dump, from the part of the path behind `/dumps/`.

use super::percent::decode_segment;
use super::route::{Route, RouteError};
use super::shown::Shown;

/// What `/dumps` and `/dumps/` stand for.
const INDEX: &str = "index.json";

/// The dump that the rest of a path names. Segments are decoded one by one: an encoded slash separates
/// nothing, and so names nothing. Whether there is such a dump is judged later.
pub(super) fn dump(rest: &str) -> Result<Route, RouteError> {
    if rest.is_empty() {
        return Ok(Route::Dump(INDEX.to_owned()));
    }
    let decoded: Result<Vec<_>, _> = rest.split('/').map(decode_segment).collect();
    let segments = decoded.map_err(|broken| {
        let message = format!(
            "the name {} is not percent-encoded UTF-8; {broken}",
            Shown(rest)
        );
        RouteError::BadRequest(message)
    })?;
    if segments.iter().any(|segment| segment.contains('/')) {
        return Err(no_dump(rest));
    }
    Ok(Route::Dump(segments.join("/")))
}

/// The answer to a name that no dump has.
pub fn no_dump(name: &str) -> RouteError {
    let shown = Shown(name);
    RouteError::NotFound(format!(
        "no dump is named {shown}; their names are listed at /dumps/{INDEX}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::route::parse;
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
                assert_eq!(parsed.route, Ok(Route::Dump(name.to_owned())), "{path}");
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
}
