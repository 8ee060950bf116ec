use std::collections::{BTreeSet, HashSet};

use super::*;
use crate::calendar::UnixSeconds;
use crate::request::Payload;
use crate::server::web::pages::{HTML, page, private_page, uncached_page};
use crate::snapshot::EntityTag;

const QUOTA: QuotaStatus = QuotaStatus {
    limit: u32::MAX,
    remaining: 0,
    reset_seconds: 86_400,
};

fn body(gzip: bool, links: Option<&'static str>) -> Encoded {
    Encoded {
        content: Content::Whole(Bytes::from_static(b"body")),
        etag: EntityTag::new(UnixSeconds(i64::MAX), u32::MAX, gzip),
        gzip,
        links: links.map(Bytes::from),
        next_due: None,
        is_costly: false,
    }
}

fn errors() -> Vec<ApiError> {
    // Messages stand in the body; none may come into the head.
    let text = "a\r\nb: c";
    let not_allowed = |takes_forms| ApiError::MethodNotAllowed {
        method: text.to_owned(),
        takes_forms,
    };
    vec![
        ApiError::BadRequest(text.to_owned()),
        ApiError::InvalidKey(text),
        ApiError::KeyRevoked,
        ApiError::NotFound(text.to_owned()),
        not_allowed(true),
        not_allowed(false),
        ApiError::RateLimited {
            has_key: true,
            limit: 7,
            reset_seconds: 9,
            free_key: None,
        },
        ApiError::NotReady(Payload::Live),
        ApiError::Busy,
        ApiError::TooManyPages(3),
        ApiError::Damaged,
        ApiError::PreconditionFailed,
        ApiError::RangeNotSatisfiable { bytes: u64::MAX },
    ]
}

/// One of each kind, with a name.
fn responses() -> Vec<(String, ApiResponse)> {
    let mut responses = Vec::new();
    let mut add = |name: String, response| responses.push((name, response));
    for takes_forms in [false, true] {
        add(
            "preflight".to_owned(),
            ApiResponse::preflight(Endpoint::Index, takes_forms),
        );
    }
    let part = 1..3;
    for (status, range) in [
        (StatusCode::OK, None),
        (StatusCode::PARTIAL_CONTENT, Some(&part)),
        (StatusCode::NOT_MODIFIED, None),
    ] {
        let dump = Dump::in_memory("islands.csv", b"text");
        let mut response = ApiResponse::dump(&dump, dump.modified, (status, range));
        if status != StatusCode::NOT_MODIFIED {
            response.body = ResponseBody::Whole(Bytes::from_static(b"text"));
        }
        add(format!("dump {status}"), response);
    }
    for (gzip, is_known) in [(false, false), (false, true), (true, false), (true, true)] {
        for links in [None, Some("</v1/x?a=1>; rel=\"next\"")] {
            for lines in [&[CACHED_A_MINUTE], &[REVALIDATED]] {
                let response = ApiResponse::cacheable(is_known, body(gzip, links), lines, JSON);
                assert_eq!(response.gzip, gzip && !is_known);
                add(format!("body, gzip {gzip}, known {is_known}"), response);
            }
        }
        let due = Encoded {
            next_due: Some(UnixSeconds(5)),
            ..body(gzip, None)
        };
        let response = ApiResponse::published(is_known, due, UnixSeconds(0));
        add(format!("due body, gzip {gzip}, known {is_known}"), response);
        let response = page(is_known, body(gzip, None), HTML);
        add(format!("page, gzip {gzip}, known {is_known}"), response);
    }
    for (retry_after, page) in [
        (None, uncached_page as fn(_, _, _) -> _),
        (Some(7), private_page),
    ] {
        let response = page(StatusCode::FORBIDDEN, "<p>".to_owned(), retry_after);
        add("uncached page".to_owned(), response);
    }
    responses.extend(
        errors()
            .into_iter()
            .map(|error| (format!("{error:?}"), error.into())),
    );
    responses
}

/// All header lines, and the length of the body.
fn complete(response: ApiResponse) -> (String, u64) {
    let (lines, body) = response.complete(QUOTA, 7);
    (String::from_utf8(lines).unwrap(), body.bytes())
}

/// Names and values. Panics at what is no header line.
fn parsed(text: &str) -> Vec<(&str, &str)> {
    let text = text.strip_suffix("\r\n").expect("the last line ends");
    let lines = text.split("\r\n");
    lines
        .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("{line:?}")))
        .collect()
}

#[test]
fn header_lines_are_well_formed_and_none_comes_twice() {
    for (what, response) in responses() {
        let mut names = BTreeSet::new();
        let (lines, _) = complete(response);
        for (name, value) in parsed(&lines) {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(name.bytes().all(fits), "{name:?} of {what}");
            let visible = |byte: u8| matches!(byte, b' '..=b'~');
            assert!(value.bytes().all(visible), "{name}: {value:?}");
            assert!(!value.is_empty() && value.trim() == value, "{name}");
            assert!(names.insert(name), "{name} twice in {what}");
        }
        // Hyper adds these, or the writer of a whole response.
        for name in ["connection", "date"] {
            assert!(!names.contains(name), "{name} in {what}");
        }
    }
}

#[test]
fn headers_that_describe_a_body_come_with_a_body_only() {
    for (what, response) in responses() {
        let (status, gzip) = (response.status, response.gzip);
        let (text, bytes) = complete(response);
        let has = |name| parsed(&text).iter().any(|line| line.0 == name);
        let full = bytes > 0;
        assert_eq!(full, status != 304 && status != 204, "{what}");
        assert_eq!(has("content-type"), full, "{what}");
        assert_eq!(has("content-length"), full, "{what}");
        assert_eq!(has("content-encoding"), gzip, "{what}");
        assert!(full || !gzip, "{what}");
        let tagged = matches!(status.as_u16(), 200 | 206 | 304);
        assert_eq!(has("etag"), tagged, "{what}");
        let ranged = matches!(status.as_u16(), 206 | 416);
        assert_eq!(has("content-range"), ranged, "{what}");
        let waits = matches!(status.as_u16(), 429 | 500 | 503);
        assert!(has("retry-after") || !waits, "{what}");
    }
}

#[test]
fn no_request_id_repeats_and_its_digits_read_back() {
    let ids = RequestIds::default();
    let mut seen = HashSet::new();
    for _ in 0..100_000 {
        let id = ids.next();
        let digits = hex_digits(id);
        let text = std::str::from_utf8(&digits).unwrap();
        assert_eq!(u64::from_str_radix(text, 16), Ok(id));
        assert!(seen.insert(id));
    }
}
