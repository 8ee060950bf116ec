use std::collections::BTreeSet;

use super::*;
use crate::calendar::UnixSeconds;
use crate::server::web::page::Kind;
use crate::snapshot::EntityTag;

const LIMITS: Limits = Limits {
    limit: u32::MAX,
    remaining: 0,
    reset_seconds: 86_400,
};

/// One of each kind.
fn answers() -> Vec<Answer> {
    let mut answers = Vec::from([false, true].map(|takes_forms| Answer::Preflight { takes_forms }));
    let part = Part { first: 1, last: 2 };
    for selection in [Selection::Whole, Selection::Part(part), Selection::Known] {
        let dump = Arc::new(Dump::in_memory("index.json", b"text"));
        answers.push(Answer::Dump {
            dump,
            selection,
            is_page: true,
        });
    }
    for (gzip, known) in [(false, false), (false, true), (true, false), (true, true)] {
        let body = Encoded {
            content: Content::Whole(Bytes::from_static(b"body")),
            etag: EntityTag::new(UnixSeconds(i64::MAX), u32::MAX, gzip),
            gzip,
        };
        for links in [None, Some(Bytes::from_static(b"</v1/x?a=1>; rel=\"next\""))] {
            let body = body.clone();
            answers.push(Answer::Found { body, links, known });
        }
        let page = body.clone();
        answers.push(Answer::Momentary { body, known });
        for kind in [Kind::Html, Kind::HtmlOfRoot, Kind::Svg] {
            let body = page.clone();
            answers.push(Answer::Page(Page { body, known, kind }));
        }
    }
    for (retry_after, is_apart) in [(None, false), (Some(7), true)] {
        answers.push(Answer::Notice(Notice {
            status: StatusCode::FORBIDDEN,
            html: Bytes::from_static(b"<p>"),
            retry_after,
            is_apart,
        }));
    }
    answers.push(Answer::SignUp);
    // Texts stand in the body; none may come into the head.
    let text = "a\r\nb: c";
    answers.extend(
        [
            ApiError::BadRequest(text.to_owned()),
            ApiError::InvalidKey(text),
            ApiError::KeyRevoked,
            ApiError::NotFound(text.to_owned()),
            ApiError::MethodNotAllowed { takes_forms: true },
            ApiError::MethodNotAllowed { takes_forms: false },
            ApiError::RateLimited { limit: 7 },
            ApiError::NotReady,
            ApiError::Busy,
            ApiError::UnreadableHead(StatusCode::URI_TOO_LONG),
            ApiError::Damaged,
            ApiError::PreconditionFailed,
            ApiError::RangeNotSatisfiable { bytes: u64::MAX },
        ]
        .map(Answer::Failed),
    );
    answers
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
    for answer in answers() {
        let mut lines = b"before\r\n".to_vec();
        answer.write_lines(LIMITS, RequestId(7), &mut lines);
        let text = std::str::from_utf8(&lines).unwrap();
        let text = text.strip_prefix("before\r\n").unwrap();
        let mut names = BTreeSet::new();
        for (name, value) in parsed(text) {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(name.bytes().all(fits), "{name:?} of {answer:?}");
            let visible = |byte: u8| matches!(byte, b' '..=b'~');
            assert!(value.bytes().all(visible), "{name}: {value:?}");
            assert!(!value.is_empty() && value.trim() == value, "{name}");
            assert!(names.insert(name), "{name} twice in {answer:?}");
        }
        // Hyper, or whoever writes the whole answer, adds these.
        for name in ["connection", "content-length", "date"] {
            assert!(!names.contains(name), "{name} in {answer:?}");
        }
    }
}

#[test]
fn what_describes_a_body_comes_with_a_body_only() {
    for answer in answers() {
        let mut lines = Vec::new();
        answer.write_lines(LIMITS, RequestId(7), &mut lines);
        let text = String::from_utf8(lines).unwrap();
        let has = |name| parsed(&text).iter().any(|line| line.0 == name);
        let gzip = matches!(
            &answer,
            Answer::Found { body, .. } | Answer::Momentary { body, .. } | Answer::Page(Page { body, .. })
                if body.gzip
        );
        let what = format!("{answer:?}");
        let status = answer.status();
        let full = answer.into_body().bytes() > 0;
        assert_eq!(full, status != 304 && status != 204, "{what}");
        assert_eq!(has("content-type"), full, "{what}");
        assert_eq!(has("content-encoding"), full && gzip, "{what}");
        let tagged = matches!(status.as_u16(), 200 | 206 | 304);
        assert_eq!(has("etag"), tagged, "{what}");
        let ranged = matches!(status.as_u16(), 206 | 416);
        assert_eq!(has("content-range"), ranged, "{what}");
    }
}
