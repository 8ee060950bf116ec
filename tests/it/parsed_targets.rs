//! Random request targets: the parser agrees with the plain reader of the fuzz targets about paths,
//! and about query strings: duplicates, empty values, percent-encoding, limits.

#[path = "../fuzz/src/plain.rs"]
mod plain;
#[path = "../fuzz/src/targets.rs"]
mod targets;

use island_metrics::request::Endpoint;

use plain::{Mistake, Plain};
use targets::differs;

/// Texts in place of a parameter of a path.
const PARAMETERS: [&str; 10] = [
    "1234-5678-9012",
    "1234-5678-901",
    "latest",
    "2024-02-29",
    "2023-02-29",
    "2024-1-01",
    "a%2Fb",
    "index.json",
    "daily/2026-11-20.csv",
    "",
];
/// Paths that are not in the table, and those of lists, whose queries have most rules.
const OTHER_PATHS: [&str; 8] = [
    "/v1/islands",
    "/v1/islands",
    "/v1/creators",
    "/",
    "/v1/",
    "/assets/x",
    "/dumps",
    "v1",
];
const PATH_ENDS: [&str; 12] = [
    "", "", "", "", "", "", "/", "/x", "%2F", "/%ff", "%", "/%2e",
];
/// Names beside those of the parameters of lists.
const OTHER_NAMES: [&str; 9] = [
    "date", "metric", "key", "x", "", "Limit", "l%69mit", "%71", "t%zz",
];
const VALUES: [&str; 37] = [
    "2024-02-29",
    "",
    "a",
    "a+b",
    "a%20b",
    "%2B",
    "%26",
    "%C3%A9",
    "%c3%a9",
    "%ff",
    "%",
    "%4",
    "+",
    "%00",
    "SHOPP%C4%B0NG",
    "%CE%9A%CE%A3",
    "%E1%BA%9E%C3%9F",
    "%CC%87",
    "uefn",
    "creative",
    "UEFN",
    "peakCCU",
    "plays",
    "asc",
    "desc",
    "Desc",
    "0",
    "1",
    "007",
    "200",
    "201",
    "%2B1",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "1e2",
    "%D9%A1",
];

fn path(u: &mut arbtest::arbitrary::Unstructured<'_>) -> arbtest::arbitrary::Result<String> {
    let paths: Vec<&str> = [Endpoint::LABELS, &OTHER_PATHS].concat();
    let mut path = (*u.choose(&paths)?).to_owned();
    if let (Some(start), Some(end)) = (path.find('{'), path.find('}')) {
        path.replace_range(start..=end, u.choose(&PARAMETERS)?);
    }
    Ok(path)
}

/// A query string of a few pairs, some of them broken.
fn query(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
) -> arbtest::arbitrary::Result<Option<String>> {
    if u.ratio(1, 8)? {
        return Ok(None);
    }
    let mut query = String::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let names = [Endpoint::Islands.query_parameters(), &OTHER_NAMES].concat();
        let (name, value) = (u.choose(&names)?, u.choose(&VALUES)?);
        let equals = u.choose(&["=", "=", "=", "=", "", "=="])?;
        let separator = u.choose(&["&", "&", "&", "&&", ""])?;
        query += &[*name, equals, value, separator].concat();
    }
    Ok(Some(query))
}

#[test]
fn the_parser_agrees_with_the_plain_reader() {
    arbtest::arbtest(|u| {
        let path = [&*path(u)?, u.choose(&PATH_ENDS)?].concat();
        let query = query(u)?;
        let difference = differs(Plain(Mistake::None), &path, query.as_deref());
        assert_eq!(difference, None, "{path:?} {query:?}");
        Ok(())
    })
    .size_min(256)
    .size_max(512)
    .budget_ms(2_000);
}

#[test]
fn a_reader_with_a_mistake_is_caught() {
    for (mistake, path, query) in [
        (Mistake::PlusStays, "/v1/islands", "q=a+b"),
        (Mistake::LastWins, "/v1/islands", "limit=1&limit=2"),
        (Mistake::DecodedTwice, "/v1/creators/%2541", ""),
        (Mistake::SlashSeparates, "/v1%2Flive", ""),
        (Mistake::LossyText, "/v1/creators/%FF", ""),
        (Mistake::SignedNumbers, "/v1/creators", "offset=%2B1"),
        (Mistake::EmptyFilters, "/v1/islands", "tag="),
        (Mistake::LastSigma, "/v1/creators", "q=%CE%A5%CE%A3"),
    ] {
        assert!(
            differs(Plain(mistake), path, Some(query)).is_some(),
            "{path}?{query}"
        );
        assert_eq!(differs(Plain(Mistake::None), path, Some(query)), None);
    }
}
