//! Request targets: what the server reads in one is what a second reader does, written apart from it;
//! and what is logged of one is plain, short, and holds no key.
//!
//! An input is a path and, behind its first `?`, a query.
#![no_main]

mod plain;

use std::sync::LazyLock;

use island_metrics::model::{CreatedIn, SortField, SortOrder};
use island_metrics::request::{
    CreatorQuery, DayRef, IslandQuery, Outside, Route, RouteError, SentKey, key, loggable, parse,
};
use libfuzzer_sys::fuzz_target;

use plain::{List, Meaning, Mistake, Plain};

/// Bytes of a target that are logged, and what tells that there were more.
const LOGGED_BYTES_MAX: usize = 512 + 5;

fn of_route(route: Result<Route, RouteError>) -> Meaning {
    let day = |path, day: DayRef| Meaning::Day {
        path,
        text: day.to_string(),
        exists: !matches!(day, DayRef::NoSuchDay(_)),
    };
    match route {
        Err(RouteError::BadRequest(_)) => Meaning::Bad,
        Err(RouteError::NotFound(_)) => Meaning::Unknown,
        Ok(Route::Index) => Meaning::Fixed("/v1"),
        Ok(Route::Health) => Meaning::Fixed("/v1/health"),
        Ok(Route::Live) => Meaning::Fixed("/v1/live"),
        Ok(Route::Intraday) => Meaning::Fixed("/v1/live/intraday"),
        Ok(Route::RankingDays) => Meaning::Fixed("/v1/rankings"),
        Ok(Route::NewDays) => Meaning::Fixed("/v1/new"),
        Ok(Route::Outside(outside)) => of_outside(outside),
        Ok(Route::Island(code)) => Meaning::Island {
            code: code.to_string(),
            ccu: false,
        },
        Ok(Route::IslandCcu(code)) => Meaning::Island {
            code: code.to_string(),
            ccu: true,
        },
        Ok(Route::Creator(slug)) => Meaning::Creator(slug),
        Ok(Route::Ranking(of)) => day("/v1/rankings", of),
        Ok(Route::New(of)) => day("/v1/new", of),
        Ok(Route::Islands(query)) => of_islands("/v1/islands", query),
        Ok(Route::Creators(query)) => Meaning::List(List {
            path: "/v1/creators",
            q: query.q,
            folded: query.folded,
            sort: "peakCCU".to_owned(),
            order: "desc".to_owned(),
            limit: query.page.limit.into(),
            offset: query.page.offset,
            ..List::default()
        }),
    }
}

fn of_outside(outside: Outside) -> Meaning {
    match outside {
        Outside::OpenApi => Meaning::Fixed("/openapi.json"),
        Outside::Docs => Meaning::Fixed("/docs"),
        Outside::Site(file) => Meaning::Fixed(file.path()),
        Outside::Home => Meaning::Fixed("/"),
        Outside::Search(query) => of_islands("/", query),
        Outside::Island(code) => Meaning::Island {
            code: code.to_string(),
            ccu: false,
        },
        Outside::Keys => Meaning::Fixed("/keys"),
        Outside::Dump(name) => Meaning::Dump(name),
    }
}

fn of_islands(path: &'static str, query: IslandQuery) -> Meaning {
    Meaning::List(List {
        path,
        tag: query.tag,
        creator: query.creator,
        created_in: query.created_in.map(CreatedIn::as_str).map(str::to_owned),
        q: query.q,
        folded: query.folded,
        sort: SortField::as_str(query.sort).to_owned(),
        order: SortOrder::as_str(query.order).to_owned(),
        limit: query.page.limit.into(),
        offset: query.page.offset,
    })
}

/// What the two readers disagree about, if they do.
fn differs(plain: Plain, path: &str, query: Option<&str>) -> Option<String> {
    let parsed = parse(path, query);
    let found = (parsed.under_v1, of_route(parsed.route));
    let want = plain.read(path, query);
    if found != want {
        return Some(format!("{found:?}, and it means {want:?}"));
    }
    let sent: Vec<Option<String>> = match key(query) {
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

/// What a link to the same list says reads as the same list.
fn links_lead_back(path: &str, query: Option<&str>) {
    match parse(path, query).route {
        Ok(Route::Islands(query) | Route::Outside(Outside::Search(query))) => {
            let link = format!("{}{}", query.to_query(), query.page.offset);
            assert_eq!(IslandQuery::parse(Some(&link)), Ok(query), "{link}");
        }
        Ok(Route::Creators(query)) => {
            let link = format!("{}{}", query.to_query(), query.page.offset);
            assert_eq!(CreatorQuery::parse(Some(&link)), Ok(query), "{link}");
        }
        _ => {}
    }
}

/// One step of decoding that is as lenient as any reader of logs.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
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

/// What is wrong with what is logged, if anything is.
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
        let lower = text.to_ascii_lowercase();
        if lower.windows(6).any(|word| word == b"_live_") {
            return Some("it holds a key");
        }
        let next = decoded(&text);
        if next == text {
            return None;
        }
        text = next;
    }
}

/// Readers and logs that are wrong are told from those that are not.
static CONTROLS: LazyLock<()> = LazyLock::new(|| {
    for (mistake, path, query) in [
        (Mistake::PlusStays, "/v1/islands", "q=a+b"),
        (Mistake::LastWins, "/v1/islands", "limit=1&limit=2"),
        (Mistake::DecodedTwice, "/v1/creators/%2541", ""),
        (Mistake::SlashSeparates, "/v1%2Flive", ""),
        (Mistake::LossyText, "/v1/creators/%FF", ""),
        (Mistake::SignedNumbers, "/v1/creators", "offset=%2B1"),
        (Mistake::EmptyFilters, "/v1/islands", "tag="),
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
