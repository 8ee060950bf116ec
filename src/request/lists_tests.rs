//! Queries of the lists: parsed, and written into links.

use super::*;
use crate::model::COUNT_MAX;
use crate::request::{CREATOR_PARAMETERS, ISLAND_PARAMETERS, Query};

/// Filters by counts. No list has them.
const COUNTS: &[Parameter] = &[
    count("minPlays", |_, plays| {
        Some(Filter::AtLeast(SortField::Plays, plays))
    }),
    count("maxPlays", |_, plays| {
        Some(Filter::AtMost(SortField::Plays, plays))
    }),
];

const fn count(name: &'static str, set: fn(&mut ListQuery, u64) -> Option<Filter>) -> Parameter {
    Parameter {
        name,
        kind: Kind::Integer {
            range: (0, COUNT_MAX),
            set,
        },
        default: None,
        label: None,
        words: "",
        description: "",
        example: "7",
    }
}

fn islands(raw: &str) -> Result<ListQuery, String> {
    match ListQuery::parse(&Query::split(Some(raw)), ISLAND_PARAMETERS) {
        Ok(query) => Ok(query),
        Err(RouteError::BadRequest(message) | RouteError::NotFound(message)) => Err(message),
    }
}

#[test]
fn an_empty_query_has_the_defaults() {
    let plain = ListQuery::parse(&Query::default(), ISLAND_PARAMETERS).unwrap();
    assert_eq!(
        (plain.sort, plain.order),
        (SortField::PeakCcu, SortOrder::Desc)
    );
    assert_eq!(
        plain.page,
        Page {
            limit: 50,
            offset: 0
        }
    );
    for raw in [
        "",
        "tag=&creator=&q",
        "key=k&sorts=x",
        "limit=050&offset=0&order=desc",
    ] {
        assert_eq!(islands(raw).as_ref(), Ok(&plain), "{raw}");
    }
}

#[test]
fn messages_name_the_parameter_the_value_and_what_is_allowed() {
    let sorts = "peakCCU, uniquePlayers, minutesPlayed, favorites, plays, recommendations";
    let long = "7".repeat(41);
    let limit = "limit must be an integer from 1 to 200, got";
    for (raw, message) in [
        ("limit=0", format!("{limit} \"0\"")),
        ("limit=", format!("{limit} \"\"")),
        (
            &format!("limit={long}"),
            format!("{limit} \"{}…\"", &long[..40]),
        ),
        (
            "offset=-1",
            "offset must be an integer from 0 to 18446744073709551615, got \"-1\"".to_owned(),
        ),
        ("sort=x", format!("sort must be one of {sorts}, got \"x\"")),
        (
            "order=Desc",
            "order must be one of desc, asc, got \"Desc\"".to_owned(),
        ),
        (
            "createdIn=",
            "createdIn must be one of uefn, creative, got \"\"".to_owned(),
        ),
        (
            "q=&q=",
            "q must be given only once, got \"\" and \"\"".to_owned(),
        ),
        (
            &format!("q=%C3%A9{}", "a".repeat(1023)),
            format!("q must be at most 1024 bytes, got \"é{}…\"", "a".repeat(39)),
        ),
        (
            "tag=a&t%61g=b",
            "tag must be given only once, got \"a\" and \"b\"".to_owned(),
        ),
    ] {
        assert_eq!(islands(raw), Err(message), "{raw}");
    }
}

#[test]
fn numbers_are_ascii_digits_of_any_length() {
    let big: [u128; 12] = [
        0,
        1,
        199,
        200,
        201,
        1 << 31,
        1 << 32,
        (1 << 32) + 1,
        1 << 63,
        (1 << 64) - 1,
        1 << 64,
        10u128.pow(38) * 3,
    ];
    let mut texts: Vec<(String, Option<u128>)> = big
        .iter()
        .map(|number| (number.to_string(), Some(*number)))
        .collect();
    texts.extend(
        big.iter()
            .map(|number| (format!("{}{number}", "0".repeat(60)), Some(*number))),
    );
    texts.push((format!("1{}", "0".repeat(40)), None));
    texts.push((format!("1{}", "0".repeat(5000)), None));
    for text in [
        "", "%2B1", "+1", "-0", "1.0", "1e2", "0x1", "%D9%A1", "1+", "1_0",
    ] {
        texts.push((text.to_owned(), None));
    }
    for (text, number) in texts {
        let limit = islands(&format!("limit={text}"))
            .ok()
            .map(|query| u128::from(query.page.limit));
        assert_eq!(
            limit,
            number.filter(|number| (1..=200).contains(number)),
            "{text}"
        );
        let offset = ListQuery::parse(
            &Query::split(Some(&format!("offset={text}"))),
            CREATOR_PARAMETERS,
        )
        .ok();
        let offset = offset.map(|query| u128::from(query.page.offset));
        assert_eq!(offset, number.filter(|number| *number < 1 << 64), "{text}");
    }
}

#[test]
fn a_search_is_stored_as_sent_and_folded() {
    let query = islands("q=SHOPP%C4%B0NG+a").unwrap();
    assert_eq!(query.search(), Some(("SHOPPİNG a", "shopping a")));
    assert_eq!(islands("q=%CC%87").unwrap().search(), Some(("\u{307}", "")));
}

#[test]
fn a_search_has_at_most_1024_bytes() {
    for (bytes, fits) in [(SEARCH_BYTES_MAX, true), (SEARCH_BYTES_MAX + 1, false)] {
        let sent = format!("q={}", "a".repeat(bytes));
        assert_eq!(islands(&sent).is_ok(), fits, "{bytes}");
    }
}

#[test]
fn the_list_of_a_creator_is_filtered_by_the_creator_alone() {
    let query = ListQuery::of_creator("a b");
    assert_eq!(islands("creator=a+b").as_ref(), Ok(&query));
    assert!(query.filter("creator").is_some());
    assert_eq!(query.filter("tag"), None);
}

#[test]
fn a_filter_by_a_count_takes_the_counts_of_a_dataset() {
    let parse = |raw: &str| ListQuery::parse(&Query::split(Some(raw)), COUNTS);
    let query = parse("maxPlays=9007199254740991&minPlays=007").unwrap();
    let want = [
        ("minPlays", Filter::AtLeast(SortField::Plays, 7)),
        ("maxPlays", Filter::AtMost(SortField::Plays, COUNT_MAX)),
    ];
    assert_eq!(query.filters, want);
    for sent in ["", "-1", "9007199254740992", "1.0"] {
        let message =
            format!("minPlays must be an integer from 0 to 9007199254740991, got \"{sent}\"");
        let error = RouteError::BadRequest(message);
        assert_eq!(parse(&format!("minPlays={sent}")), Err(error));
    }
}

/// Draws a value of a parameter.
fn drawn(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
    kind: Kind,
) -> arbtest::arbitrary::Result<String> {
    Ok(match kind {
        Kind::Text { .. } => u.arbitrary()?,
        Kind::Name { names, .. } => (*u.choose(names)?).to_owned(),
        Kind::Integer { range, .. } => u.int_in_range(range.0..=range.1)?.to_string(),
    })
}

#[test]
fn links_parse_back_to_the_query_they_were_written_from() {
    let islands = [ISLAND_PARAMETERS, COUNTS].concat();
    arbtest::arbtest(|u| {
        for parameters in [&islands, CREATOR_PARAMETERS] {
            let mut query = ListQuery::default();
            for parameter in parameters {
                let value = drawn(u, parameter.kind)?;
                if u.arbitrary()? && query.set(parameter, &value).is_err() {
                    return Ok(()); // a search that is too long
                }
            }
            let written = query.to_query() + &query.page.offset.to_string();
            let parsed = ListQuery::parse(&Query::split(Some(&written)), parameters);
            assert_eq!(parsed, Ok(query), "{written}");
        }
        Ok(())
    });
}

#[test]
fn a_page_of_islands_names_each_filter() {
    let filters = ISLAND_PARAMETERS.iter().filter(|row| row.default.is_none());
    let unnamed: Vec<_> = filters.filter(|row| row.words.is_empty()).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

#[test]
fn links_are_canonical() {
    let query =
        islands("key=secret&offset=3&sort=plays&limit=007&x=1&q=a+b%26&createdIn=uefn&order=desc");
    assert_eq!(
        query.unwrap().to_query(),
        "createdIn=uefn&q=a%20b%26&sort=plays&limit=7&offset="
    );
}
