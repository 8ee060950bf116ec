//! Request targets: the server's parser and an independent second parser agree, and the logged text of a
//! target is printable, short, and contains no key.
//!
//! An input is a path and, after the first `?`, a query.
#![no_main]

mod plain;

use std::sync::LazyLock;

use island_metrics::model::{SortField, SortOrder};
use island_metrics::request::{
    Argument, CREATOR_PARAMETERS, DayRef, ISLAND_PARAMETERS, ListQuery, Query, Route, RouteError,
    SentKey, loggable, parse,
};
use libfuzzer_sys::fuzz_target;

use plain::{List, Meaning, Mistake, Plain};

/// Maximum number of logged bytes of a target, and the mark of a truncated one.
const LOGGED_BYTES_MAX: usize = 512 + 5;

fn of_route(route: Result<Route, RouteError>) -> Meaning {
    let route = match route {
        Err(RouteError::BadRequest(_)) => return Meaning::Bad,
        Err(RouteError::NotFound(_)) => return Meaning::Unknown,
        Ok(route) => route,
    };
    let path = route.endpoint.label();
    let named = |text: String, exists| Meaning::Named { path, text, exists };
    match route.argument {
        Argument::None => Meaning::Fixed(path),
        Argument::Code(code) => named(code.to_string(), true),
        Argument::Slug(slug) => named(slug, true),
        Argument::Dump(name) => named(name, true),
        Argument::Day(day) => named(day.to_string(), !matches!(day, DayRef::NoSuchDay(_))),
        Argument::Chart(code, metric, days) => Meaning::Chart {
            code: code.to_string(),
            metric: metric.to_owned(),
            days: days.map(|days| days.to_string()),
        },
        Argument::Islands(query) | Argument::Creators(query) => of_list(path, &query),
    }
}

fn of_list(path: &'static str, query: &ListQuery) -> Meaning {
    Meaning::List(List {
        path,
        folded: query.search().map(|(_, folded)| folded.to_owned()),
        filters: query
            .filters
            .iter()
            .map(|(name, filter)| (*name, filter.text().into_owned()))
            .collect(),
        sort: SortField::as_str(query.sort).to_owned(),
        order: SortOrder::as_str(query.order).to_owned(),
        limit: query.page.limit.into(),
        offset: query.page.offset,
    })
}

/// Returns the difference between the two parsers, if there is one.
fn differs(plain: Plain, path: &str, query: Option<&str>) -> Option<String> {
    let parsed = parse(path, query);
    let found = (parsed.under_v1, of_route(parsed.route));
    let want = plain.read(path, query);
    if found != want {
        return Some(format!("{found:?}, and it means {want:?}"));
    }
    let sent: Vec<Option<String>> = match Query::split(query).keys().key {
        SentKey::None => Vec::new(),
        SentKey::Once(key) => vec![Some(key.into_owned())],
        SentKey::Twice => vec![None; 2],
    };
    let want = plain.keys(query);
    let agree = match (&sent[..], &want[..]) {
        ([found], [want]) => found.as_deref().unwrap_or("") == want.as_deref().unwrap_or(""),
        (found, want) => found.len().min(2) == want.len().min(2),
    };
    (!agree).then(|| format!("the keys {sent:?}, and they are {want:?}"))
}

/// A link to the same list parses as the same list.
fn links_lead_back(path: &str, query: Option<&str>) {
    let (query, parameters) = match parse(path, query).route.map(|route| route.argument) {
        Ok(Argument::Islands(query)) => (query, ISLAND_PARAMETERS),
        Ok(Argument::Creators(query)) => (query, CREATOR_PARAMETERS),
        _ => return,
    };
    let link = format!("{}{}", query.to_query(), query.page.offset);
    assert_eq!(
        ListQuery::parse(&Query::split(Some(&link)), parameters),
        Ok(query),
        "{link}"
    );
}

/// One step of lenient decoding, as a reader of logs may do it.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut left = text;
    while let [first, rest @ ..] = left {
        let digits = rest.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let is_hex = digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if *first == b'%' && is_hex {
            let digits = digits.expect("just seen");
            out.push(u8::from_str_radix(digits, 16).expect("two digits"));
            left = &rest[2..];
        } else {
            out.push(*first);
            left = rest;
        }
    }
    out
}

/// Fault of a logged target, if there is one.
fn spoils_log(logged: &str) -> Option<&'static str> {
    if !logged
        .bytes()
        .all(|byte| matches!(byte, b'!'..=b'~') && byte != b'"' && byte != b'\\')
    {
        return Some("it is not plain");
    }
    if logged.len() > LOGGED_BYTES_MAX {
        return Some("it is long");
    }
    let query = logged.split_once('?').map(|(_, query)| query);
    if !Plain(Mistake::None).keys(query).is_empty() {
        return Some("it has a key parameter");
    }
    let mut text = logged.as_bytes().to_vec();
    loop {
        // Compares one byte first: most are not the mark's.
        let is_mark = |word: &[u8]| word[0] == b'_' && word.eq_ignore_ascii_case(b"_live_");
        if text.windows(6).any(is_mark) {
            return Some("it holds a key");
        }
        if !text.contains(&b'%') {
            return None;
        }
        let next = decoded(&text);
        if next == text {
            return None;
        }
        text = next;
    }
}

/// Self-test: wrong parsers and logs are detected.
static CONTROLS: LazyLock<()> = LazyLock::new(|| {
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
    for wrong in [
        "/v1?%6bey=x",
        "/v1?q=a_%4cive_b",
        "/a b",
        "/a\"",
        "/%255flive_",
        &"x".repeat(600),
    ] {
        assert!(spoils_log(wrong).is_some(), "{wrong}");
    }
    assert_eq!(spoils_log("/v1?keys=x_live"), None);
});

fuzz_target!(|input: &[u8]| {
    LazyLock::force(&CONTROLS);
    let text = String::from_utf8_lossy(input);
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*text, None),
    };
    if let Some(difference) = differs(Plain(Mistake::None), path, query) {
        panic!("{path:?} {query:?}: it is read as {difference}");
    }
    links_lead_back(path, query);
    let logged = loggable(path, query);
    assert_eq!(spoils_log(&logged), None, "{path:?} {query:?}: {logged}");
});
