//! The table of endpoints against the parser.

use super::super::parse;
use super::*;

/// A path of the table with its parameters filled in.
fn filled(label: &str) -> String {
    label
        .replace("{code}", "0000-0000-0001")
        .replace("{date}", "latest")
        .replace("{slug}", "a-b")
        .replace("{name}", "islands.csv")
}

#[test]
fn every_path_of_the_table_parses_to_its_endpoint() {
    for (number, endpoint) in Endpoint::all().enumerate() {
        assert_eq!(endpoint as usize, number);
        let parsed = parse(&filled(endpoint.label()), None);
        assert_eq!(parsed.endpoint, endpoint);
        assert!(parsed.route.is_ok(), "{}", endpoint.label());
        assert_eq!(parsed.under_v1, number < Endpoint::API_PATHS.len());
    }
    assert_eq!(Endpoint::all().count(), TABLE.len());
    assert_eq!(Endpoint::Unknown.label(), "unknown");
    assert_eq!(Endpoint::LABELS.len(), TABLE.len() + 1);
    let longest = TABLE.iter().map(|row| row.path.len()).max();
    assert_eq!(longest, Some(Endpoint::SEGMENTS_MAX - 1));
}

#[test]
fn an_invalid_path_has_the_endpoint_that_its_segments_select() {
    for (path, endpoint) in [
        ("/v1/islands/12", Endpoint::Island),
        ("/v1/islands/12/ccu", Endpoint::IslandCcu),
        ("/v1/islands/%ff", Endpoint::Island),
        ("/v1/rankings/yesterday", Endpoint::Ranking),
        ("/v1/new/", Endpoint::New),
        ("/v1/nothing", Endpoint::Unknown),
        ("/v1/live/x", Endpoint::Unknown),
        ("/v1/islands/1/ccu/2", Endpoint::Unknown),
        ("/assets/x", Endpoint::Unknown),
        ("*", Endpoint::Unknown),
        ("", Endpoint::Unknown),
        ("//", Endpoint::Unknown),
        ("/x", Endpoint::Unknown),
        ("/dumps/%ff", Endpoint::Dump),
    ] {
        let parsed = parse(path, None);
        assert_eq!(parsed.endpoint, endpoint, "{path}");
        assert!(parsed.route.is_err(), "{path}");
    }
    for path in ["/v1/islands", "/v1/creators", "/islands"] {
        let parsed = parse(path, Some("limit=0"));
        assert_eq!(parsed.endpoint.label(), path);
        assert!(parsed.route.is_err(), "{path}");
    }
    assert_eq!(parse("/dumps/a/b/c/d/e", None).endpoint, Endpoint::Dump);
}

#[test]
fn a_relative_link_climbs_out_of_the_folders_of_a_path() {
    for (endpoint, folders) in [
        (Endpoint::Unknown, 0),
        (Endpoint::Home, 0),
        (Endpoint::Islands, 1),
        (Endpoint::IslandPage, 1),
        (Endpoint::IslandCcu, 3),
    ] {
        assert_eq!(endpoint.depth(), folders, "{}", endpoint.label());
    }
}
