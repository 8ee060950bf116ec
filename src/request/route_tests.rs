//! Paths and queries, parsed.

use super::*;
use crate::calendar::UtcDay;
use crate::model::IslandCode;
use crate::request::{CREATOR_PARAMETERS, DayRef, ISLAND_PARAMETERS, ListQuery, Query};

fn sound(path: &str) -> Route {
    parse(path, Some("key=k")).route.unwrap()
}

/// 400 or 404, and the message.
fn refused(path: &str) -> (u16, String) {
    match parse(path, None).route.unwrap_err() {
        RouteError::BadRequest(message) => (400, message),
        RouteError::NotFound(message) => (404, message),
    }
}

#[test]
fn every_argument_is_parsed() {
    let code: IslandCode = "0034-5678-9012".parse().unwrap();
    let day = DayRef::Day(UtcDay::parse("2024-02-29").unwrap());
    let no_such_day = DayRef::NoSuchDay("2023-02-29".to_owned());
    let islands =
        Argument::Islands(ListQuery::parse(&Query::default(), ISLAND_PARAMETERS).unwrap());
    let creators =
        Argument::Creators(ListQuery::parse(&Query::default(), CREATOR_PARAMETERS).unwrap());
    for (path, endpoint, argument) in [
        ("/v1", Endpoint::Index, Argument::None),
        ("/%76%31", Endpoint::Index, Argument::None),
        ("/v1/islands", Endpoint::Islands, islands.clone()),
        (
            "/v1/islands/0034%2D5678-9012/ccu",
            Endpoint::IslandCcu,
            Argument::Code(code),
        ),
        ("/v1/creators", Endpoint::Creators, creators.clone()),
        (
            "/v1/creators/a%2Fb+%C3%A9",
            Endpoint::Creator,
            Argument::Slug("a/b+é".to_owned()),
        ),
        (
            "/v1/rankings/latest",
            Endpoint::Ranking,
            Argument::Day(DayRef::Latest),
        ),
        ("/v1/new/2024-02-29", Endpoint::New, Argument::Day(day)),
        (
            "/v1/new/2023-02-29",
            Endpoint::New,
            Argument::Day(no_such_day),
        ),
        ("/", Endpoint::Home, Argument::None),
        ("/islands", Endpoint::IslandsPage, islands),
        ("/creators", Endpoint::CreatorsPage, creators),
        (
            "/islands/0034-5678-9012",
            Endpoint::IslandPage,
            Argument::Chart(code, "peakCCU", None),
        ),
        ("/assets/style.css", Endpoint::Style, Argument::None),
    ] {
        assert_eq!(sound(path), Route::new(endpoint, argument), "{path}");
        assert_eq!(
            parse(path, None).under_v1,
            path.starts_with("/v1") || path.starts_with("/%76"),
            "{path}"
        );
    }
}

#[test]
fn a_form_sends_empty_fields_for_unused_filters() {
    let islands = |query| {
        let list = ListQuery::parse(&Query::split(Some(query)), ISLAND_PARAMETERS).unwrap();
        Ok(Argument::Islands(list))
    };
    let creators = |query| {
        let list = ListQuery::parse(&Query::split(Some(query)), CREATOR_PARAMETERS).unwrap();
        Ok(Argument::Creators(list))
    };
    for (path, sent, argument) in [
        ("/islands", "limit=&q=a&offset=&sort=", islands("q=a")),
        ("/islands", "limit=7&tag=", islands("limit=7")),
        ("/islands", "limit&sort&q=a%3D", islands("q=a%3D")),
        ("/islands", "q=a=", islands("q=a%3D")),
        ("/creators", "offset=3&limit=&sort=", creators("offset=3")),
        ("/", "limit=0&q=%ff", Ok(Argument::None)),
    ] {
        let route = parse(path, Some(sent)).route;
        assert_eq!(route.map(|route| route.argument), argument, "{path}?{sent}");
    }
    for query in ["limit=0&q=", "sort==", "%zz", "%zz="] {
        assert!(parse("/islands", Some(query)).route.is_err(), "{query}");
    }
    assert!(parse("/v1/islands", Some("limit=")).route.is_err());
}

#[test]
fn pages_take_their_own_parameters_once() {
    let code: IslandCode = "0034-5678-9012".parse().unwrap();
    let chart = |days| Argument::Chart(code, "plays", days);
    let newest = Argument::Day(DayRef::Latest);
    let day = Argument::Day(DayRef::Day(UtcDay::parse("2024-02-29").unwrap()));
    for (path, sent, argument) in [
        (
            "/islands/0034-5678-9012",
            "x=1&metric=pl%61ys&days=30&x=2",
            chart(Some(30)),
        ),
        ("/islands/0034-5678-9012", "metric=plays", chart(None)),
        ("/rankings", "date=2024-02-29", day.clone()),
        ("/new", "day=2024-02-28&date=2024-02-29", day),
        ("/new", "day=2024-02-28", newest),
    ] {
        let route = parse(path, Some(sent)).route.unwrap();
        assert_eq!(route.argument, argument, "{path}?{sent}");
    }
    for (path, sent) in [
        ("/islands/0034-5678-9012", "metric=plays&metric=plays"),
        ("/islands/0034-5678-9012", "days=30&x&days=90"),
        ("/rankings", "date=2024-02-29&date="),
        ("/new", "date=x&date=2024-02-29"),
    ] {
        let refused = parse(path, Some(sent)).route.unwrap_err();
        let RouteError::BadRequest(message) = refused else {
            panic!("{refused:?}");
        };
        assert!(
            message.contains(" must be given only once, got "),
            "{message}"
        );
    }
}

#[test]
fn a_day_is_displayed_as_sent() {
    for sent in ["latest", "2024-02-29", "2023-02-29"] {
        let Argument::Day(day) = sound(&format!("/v1/new/{sent}")).argument else {
            panic!("{sent} is a day");
        };
        assert_eq!(day.to_string(), sent);
    }
}

#[test]
fn unknown_paths_are_404() {
    for path in [
        "//",
        "/assets",
        "/assets/style.css/x",
        "/island",
        "//v1",
        "/V1",
        "/v1%2Flive",
        "/v1/x",
        "/v1/live/x",
        "/v1/islands/1234/x",
        "/v1/islands/0034-5678-9012/ccu/x",
        "/v1/creators/a/b",
        "/v1//islands",
        "/openapi.json/v1",
    ] {
        let message = format!("unknown path \"{path}\"; the endpoints are listed at /v1");
        assert_eq!(refused(path), (404, message));
    }
}

#[test]
fn a_trailing_slash_is_404_and_the_message_names_the_path_without_it() {
    for path in [
        "/v1",
        "/v1/islands",
        "/v1/islands/bad",
        "/openapi.json",
        "/v1/creators",
    ] {
        let message = format!("unknown path: paths do not end with a slash; use \"{path}\"");
        assert_eq!(refused(&format!("{path}/")), (404, message.clone()));
        assert_eq!(refused(&format!("{path}//")), (404, message));
    }
}

#[test]
fn malformed_segments_are_400() {
    for (path, part) in [
        (
            "/v1/islands/12",
            "digits with hyphens, such as 1234-5678-9012, got \"12\"",
        ),
        (
            "/v1/islands//ccu",
            "the island code must be three groups of four digits",
        ),
        (
            "/v1/rankings/today",
            "the date must be latest or a day in the form YYYY-MM-DD, got \"today\"",
        ),
        ("/v1/new/2024-1-01", "the date must be"),
        ("/v1/creators/%ff", "must be percent-encoded UTF-8"),
        ("/v1/a/b/c/d/e/%2", "must be percent-encoded UTF-8"),
        ("v1/islands", "must start with /"),
        ("", "must start with /"),
        ("/%zz/v1", "must be percent-encoded UTF-8"),
    ] {
        let (status, message) = refused(path);
        assert_eq!(status, 400, "{path}");
        assert!(message.contains(part), "{message}");
        assert_eq!(
            parse(path, None).under_v1,
            path.starts_with("/v1"),
            "{path}"
        );
    }
}

#[test]
fn the_metric_and_the_days_of_a_chart_are_among_those_offered() {
    let parsed = |query| parse("/islands/0034-5678-9012", Some(query)).route;
    let code: IslandCode = "0034-5678-9012".parse().unwrap();
    for (query, metric, days) in [
        ("metric=retentionD7&days=90&x", "retentionD7", Some(90)),
        ("days=30&x", "peakCCU", Some(30)),
    ] {
        let argument = Argument::Chart(code, metric, days);
        assert_eq!(
            parsed(query),
            Ok(Route::new(Endpoint::IslandPage, argument))
        );
    }
    for (query, message) in [
        ("days=31", "days must be one of 30, 90, got \"31\""),
        ("days=030", "days must be one of 30, 90, got \"030\""),
        (
            "metric=Plays&days=1",
            "metric must be one of peakCCU, uniquePlayers, minutesPlayed, favorites, plays, recommendations, \
             averageMinutesPerPlayer, retentionD1, retentionD7, got \"Plays\"",
        ),
    ] {
        let error = RouteError::BadRequest(message.to_owned());
        assert_eq!(parsed(query), Err(error));
    }
}

#[test]
fn a_broken_query_is_400_in_the_api_and_on_pages_with_parameters() {
    for path in [
        "/v1",
        "/v1/islands",
        "/v1/creators/a",
        "/v1/new/2023-02-29",
        "/islands/0034-5678-9012",
        "/new",
    ] {
        let parsed = parse(path, Some("x=%zz"));
        assert!(
            matches!(parsed.route, Err(RouteError::BadRequest(_))),
            "{path}"
        );
        let ignored = parse(path, Some("limits=0&x=1&x=2"));
        assert!(ignored.route.is_ok(), "{path}");
    }
    assert_eq!(
        parse("/openapi.json", Some("x=%zz")).route,
        Ok(Route::new(Endpoint::OpenApi, Argument::None))
    );
    assert!(parse("/v1/live", Some("limit=0")).route.is_ok());
    assert!(parse("/v1/creators", Some("limit=0")).route.is_err());
}

#[test]
fn health_ignores_the_query() {
    for query in [None, Some("x=%zz"), Some("%"), Some("limit=0")] {
        assert_eq!(
            parse("/v1/health", query).route,
            Ok(Route::new(Endpoint::Health, Argument::None)),
            "{query:?}"
        );
    }
}

#[test]
fn the_name_of_a_dump_is_decoded_by_segment() {
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
        ("/dumps/../manifest.json", "../manifest.json"),
        ("/dumps/%2e%2E/manifest.json", "../manifest.json"),
        ("/dumps/a%00b", "a\0b"),
        ("/dumps/daily%2F2026-11-20.csv", "daily/2026-11-20.csv"),
        ("/dumps/..%2fmanifest.json", "../manifest.json"),
    ] {
        for query in [None, Some("key=x&key=y"), Some("%zz")] {
            let parsed = parse(path, query);
            assert_eq!(
                parsed.route,
                Ok(Route::new(Endpoint::Dump, Argument::Dump(name.to_owned()))),
                "{path}"
            );
            assert!(!parsed.under_v1, "{path}");
        }
    }
}

#[test]
fn only_a_path_below_dumps_names_a_dump() {
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
