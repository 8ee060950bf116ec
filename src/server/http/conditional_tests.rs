//! The oracles are slow and obvious: bytes are selected one by one, conditions are evaluated from
//! what a request means and not from its text.

use arbtest::arbitrary::{Result as Arbitrary, Unstructured};
use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::*;

const OURS: &str = "\"0123456789abcdef\"";
const MODIFIED: UnixSeconds = UnixSeconds(1_795_262_700);

/// Status, and the part of a 206.
fn outcome(
    selected: Result<(StatusCode, Option<Range<u64>>), ApiError>,
) -> (u16, Option<Range<u64>>) {
    match selected {
        Ok((status, part)) => (status.as_u16(), part),
        Err(error) => (error.status().as_u16(), None),
    }
}

fn of_range(value: &[u8], bytes: u64) -> (u16, Option<Range<u64>>) {
    let mut headers = HeaderMap::new();
    headers.insert(RANGE, HeaderValue::from_bytes(value).unwrap());
    let validators = Validators {
        etag: OURS,
        modified: MODIFIED,
        bytes,
    };
    outcome(select(&Method::GET, &headers, validators))
}

/// Checks for each byte whether it is selected. Numbers are compared by hand, digit by digit.
fn slow_range(value: &str, bytes: u64) -> (u16, Option<Range<u64>>) {
    let whole = (200, None);
    let Some(at) = value.find('=') else {
        return whole;
    };
    let (unit, range) = (value[..at].to_lowercase(), &value[at + 1..]);
    let digits = range.chars().all(|letter| "0123456789-".contains(letter));
    let [first, last] = range.split('-').collect::<Vec<_>>()[..] else {
        return whole;
    };
    if unit != "bytes" || !digits || range == "-" {
        return whole;
    }
    let padded = |digits: &str| format!("{digits:0>200}");
    let number = |at: u64| padded(&at.to_string());
    let is_meant = |at: &u64| match (first, last) {
        ("", count) => number(bytes - at) <= padded(count),
        (first, "") => number(*at) >= padded(first),
        (first, last) => number(*at) >= padded(first) && number(*at) <= padded(last),
    };
    if !first.is_empty() && !last.is_empty() && padded(last) < padded(first) {
        return whole;
    }
    // The last so many bytes of nothing are nothing, and there are no more.
    if first.is_empty() && bytes == 0 && padded(last) > number(0) {
        return whole;
    }
    let meant: Vec<u64> = (0..bytes).filter(is_meant).collect();
    match (meant.first(), meant.last()) {
        (Some(&first), Some(&last)) => (206, Some(first..last + 1)),
        _ => (416, None),
    }
}

/// Draws random cases for a second, and on a slow machine for longer, until so many statuses have come up.
fn draw_all_statuses(count: usize, mut draw: impl FnMut(&mut Unstructured<'_>) -> Arbitrary<u16>) {
    let mut statuses = std::collections::BTreeMap::new();
    for _ in 0..60 {
        arbtest::arbtest(|u| {
            *statuses.entry(draw(u)?).or_insert(0) += 1;
            Ok(())
        })
        .budget_ms(1_000);
        if statuses.len() == count {
            return;
        }
    }
    panic!("{statuses:?}");
}

#[test]
fn ranges_agree_with_the_obvious_reading() {
    const PIECES: [&str; 24] = [
        "bytes=",
        "bytes=",
        "bytes=",
        "Bytes=",
        "bytes",
        "=",
        "-",
        "-",
        "-",
        ",",
        " ",
        "0",
        "1",
        "2",
        "7",
        "9",
        "00",
        "19",
        "lines=",
        "+",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999",
        "x",
    ];
    draw_all_statuses(3, |u| {
        // Most draws begin well: few others are ranges, and a slow machine has time for few draws.
        let mut value = if u.ratio(3, 4)? { "bytes=" } else { "" }.to_owned();
        for _ in 0..u.int_in_range(1..=5)? {
            value.push_str(u.choose::<&str>(&PIECES)?);
        }
        let bytes = u.int_in_range(0..=40)?;
        let found = of_range(value.as_bytes(), bytes);
        // Spaces around a value are no part of it.
        assert_eq!(
            found,
            slow_range(value.trim_matches(' '), bytes),
            "{value:?} of {bytes}"
        );
        Ok(found.0)
    });
}

#[test]
fn ranges_of_a_length_near_the_greatest_number_are_cut_at_the_end() {
    let bytes = u64::MAX;
    let part = |first, last| (206, Some(first..last + 1));
    for (value, want) in [
        ("bytes=0-", part(0, bytes - 1)),
        ("bytes=5-5", part(5, 5)),
        ("bytes=05-5", part(5, 5)),
        ("bytes=18446744073709551614-", part(bytes - 1, bytes - 1)),
        ("bytes=18446744073709551615-", (416, None)),
        ("bytes=5-99999999999999999999999", part(5, bytes - 1)),
        ("bytes=-99999999999999999999999", part(0, bytes - 1)),
        ("bytes=-18446744073709551615", part(0, bytes - 1)),
        ("bytes=-1", part(bytes - 1, bytes - 1)),
        ("bytes=99999999999999999999-", (416, None)),
        // Both are too long to hold, and the range ends before it begins.
        (
            "bytes=99999999999999999999-18446744073709551616",
            (200, None),
        ),
        ("bytes=0-1,3-4", (200, None)),
        ("bytes=0-1,", (200, None)),
        ("bytes=0-1-2", (200, None)),
        ("bytes=\u{e9}-", (200, None)),
    ] {
        assert_eq!(of_range(value.as_bytes(), bytes), want, "{value}");
    }
    assert_eq!(of_range(b"bytes=0-\xff", 9), (200, None));
    let mut headers = HeaderMap::new();
    headers.append(RANGE, HeaderValue::from_static("bytes=0-1"));
    headers.append(RANGE, HeaderValue::from_static("bytes=0-1"));
    let validators = Validators {
        etag: OURS,
        modified: MODIFIED,
        bytes: 9,
    };
    let twice = outcome(select(&Method::GET, &headers, validators));
    assert_eq!(twice, (200, None));
}

/// Meaning of a list of entity tags.
#[derive(Clone, Debug)]
struct Tags {
    text: Vec<String>,
    any: bool,
    strong: bool,
    weak: bool,
}

fn tags(u: &mut Unstructured<'_>) -> Arbitrary<Option<Tags>> {
    if u.ratio(2, 5)? {
        return Ok(None);
    }
    let mut tags = Tags {
        text: vec![String::new()],
        any: false,
        strong: false,
        weak: false,
    };
    for _ in 0..u.int_in_range(0..=3)? {
        let tag = match u.int_in_range(0..=6)? {
            0 => {
                tags.any = true;
                "*".to_owned()
            }
            1 => {
                tags.strong = true;
                OURS.to_owned()
            }
            2 => {
                tags.weak = true;
                format!("W/{OURS}")
            }
            3 => "\"0123456789abcdef-gz\"".to_owned(),
            4 => "\"\"".to_owned(),
            5 => OURS.replace('"', ""),
            _ => "W/\"other\"".to_owned(),
        };
        let line = tags.text.last_mut().unwrap();
        if u.arbitrary()? {
            tags.text.push(tag);
        } else {
            line.push_str(u.choose(&[",", ", ", " ,\t"])?);
            line.push_str(&tag);
        }
    }
    Ok(Some(tags))
}

/// Meaning of a date header: none if it is malformed or repeated.
#[derive(Clone, Debug)]
struct Date {
    text: Vec<String>,
    moment: Option<i64>,
}

fn date_header(u: &mut Unstructured<'_>) -> Arbitrary<Option<Date>> {
    if u.ratio(2, 5)? {
        return Ok(None);
    }
    let moment = MODIFIED.0 + u.int_in_range(-2..=2)?;
    let text = UnixSeconds(moment).to_http();
    Ok(Some(match u.int_in_range(0..=5)? {
        0 => Date {
            text: vec![text.clone(), text],
            moment: None,
        },
        1 => Date {
            text: vec![u.choose(&["", "0", "tomorrow", OURS])?.to_string()],
            moment: None,
        },
        _ => Date {
            text: vec![text],
            moment: Some(moment),
        },
    }))
}

/// `If-Range`, and whether it names what there is.
fn if_range(u: &mut Unstructured<'_>) -> Arbitrary<Option<(Vec<String>, bool)>> {
    if u.ratio(2, 5)? {
        return Ok(None);
    }
    let weak = format!("W/{OURS}");
    let date = |by: i64| UnixSeconds(MODIFIED.0 + by).to_http();
    Ok(Some(match u.int_in_range(0..=7)? {
        0 => (vec![weak], false),
        1 => (vec![date(0)], true),
        2 => (vec![date(1)], false),
        3 => (vec![date(-1)], false),
        4 => (vec![format!("{OURS}, {OURS}")], false),
        5 => (vec![OURS.to_owned(), OURS.to_owned()], false),
        6 => (vec!["*".to_owned()], false),
        _ => (vec![OURS.to_owned()], true),
    }))
}

#[test]
fn conditions_agree_with_the_steps_of_the_rfc() {
    draw_all_statuses(5, |u| {
        let (if_match, if_none_match) = (tags(u)?, tags(u)?);
        let (unmodified, modified) = (date_header(u)?, date_header(u)?);
        let if_range = if_range(u)?;
        let range = u.choose(&[None, Some((3, 5)), Some((0, 9)), Some((10, 11))])?;
        let is_get = u.ratio(3, 4)?;

        let mut headers = HeaderMap::new();
        let mut put = |name: &HeaderName, values: &[String]| {
            for value in values {
                headers.append(name, value.parse().unwrap());
            }
        };
        for (name, tags) in [(&IF_MATCH, &if_match), (&IF_NONE_MATCH, &if_none_match)] {
            put(name, tags.as_ref().map_or(&[], |tags| &tags.text));
        }
        for (name, date) in [
            (&IF_UNMODIFIED_SINCE, &unmodified),
            (&IF_MODIFIED_SINCE, &modified),
        ] {
            put(name, date.as_ref().map_or(&[], |date| &date.text));
        }
        put(&IF_RANGE, if_range.as_ref().map_or(&[], |(text, _)| text));
        if let Some((first, last)) = range {
            put(&RANGE, &[format!("bytes={first}-{last}")]);
        }
        let method = if is_get { Method::GET } else { Method::HEAD };
        let validators = Validators {
            etag: OURS,
            modified: MODIFIED,
            bytes: 10,
        };
        let found = outcome(select(&method, &headers, validators));

        let moment = |date: &Option<Date>| date.as_ref().and_then(|date| date.moment);
        let want = 'evaluated: {
            // Steps 1 and 2.
            if let Some(tags) = &if_match {
                if !tags.any && !tags.strong {
                    break 'evaluated (412, None);
                }
            } else if moment(&unmodified).is_some_and(|since| MODIFIED.0 > since) {
                break 'evaluated (412, None);
            }
            // Steps 3 and 4.
            if let Some(tags) = &if_none_match {
                if tags.any || tags.strong || tags.weak {
                    break 'evaluated (304, None);
                }
            } else if moment(&modified).is_some_and(|since| MODIFIED.0 == since) {
                // The RFC accepts later dates too, which do not show which bytes the client has.
                break 'evaluated (304, None);
            }
            // Steps 5 and 6.
            match range {
                Some((first, last))
                    if is_get && if_range.as_ref().is_none_or(|(_, holds)| *holds) =>
                {
                    if *first >= 10 {
                        break 'evaluated (416, None);
                    }
                    let (first, last) = (*first, (*last).min(9));
                    (206, Some(first..last + 1))
                }
                _ => (200, None),
            }
        };
        assert_eq!(found, want, "{method} {headers:?}");
        Ok(found.0)
    });
}

#[test]
fn failures_have_statuses_and_codes_of_their_own() {
    let error = ApiError::RangeNotSatisfiable { bytes: 7 };
    assert_eq!(error.status(), StatusCode::RANGE_NOT_SATISFIABLE);
    let text = String::from_utf8(error.body().to_vec()).unwrap();
    assert!(
        text.contains("\"range_not_satisfiable\"") && text.contains('7'),
        "{text}"
    );
}
