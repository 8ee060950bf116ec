//! The table of endpoints against the parser and the `OpenAPI` document.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::parse;
use super::*;
use crate::model::{CreatedIn, SortField, SortOrder};

const DOCUMENT: &str = include_str!("../site/openapi.json");

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
        ("/dumps/a%2Fb", Endpoint::Dump),
    ] {
        let parsed = parse(path, None);
        assert_eq!(parsed.endpoint, endpoint, "{path}");
        assert!(parsed.route.is_err(), "{path}");
    }
    for path in ["/v1/islands", "/v1/creators", "/"] {
        let parsed = parse(path, Some("limit=0"));
        assert_eq!(parsed.endpoint.label(), path);
        assert!(parsed.route.is_err(), "{path}");
    }
    assert_eq!(parse("/dumps/a/b/c/d/e", None).endpoint, Endpoint::Dump);
}

/// The parameters of a documented endpoint that are in `place`.
fn documented<'a>(document: &'a Value, operation: &'a Value, place: &str) -> Vec<&'a Value> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.map(|parameter| match parameter["$ref"].as_str() {
        Some(target) => document.pointer(&target[1..]).unwrap(),
        None => parameter,
    });
    parameters.filter(|one| one["in"] == place).collect()
}

fn names<'a>(parameters: &[&'a Value]) -> Vec<&'a str> {
    let names = parameters.iter().map(|one| one["name"].as_str());
    names.map(Option::unwrap).collect()
}

#[test]
fn the_document_has_the_paths_and_parameters_of_the_table() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let outside = ["/dumps/index.json", "/dumps/{file}"];
    let table: BTreeSet<&str> = Endpoint::API_PATHS.iter().copied().chain(outside).collect();
    assert_eq!(
        paths.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        table
    );
    for (path, item) in paths {
        let methods: Vec<&String> = item.as_object().unwrap().keys().collect();
        assert_eq!(methods, ["get"], "{path}");
        let parsed = parse(&filled(&path.replace("{file}", "{name}")), None);
        if !outside.contains(&path.as_str()) {
            assert_eq!(parsed.endpoint.label(), path);
        }
        let in_query = documented(&document, &item["get"], "query");
        assert_eq!(
            names(&in_query),
            parsed.endpoint.query_parameters(),
            "{path}"
        );
        let in_path: Vec<&str> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        assert_eq!(names(&documented(&document, &item["get"], "path")), in_path);
        for parameter in in_query {
            the_parser_agrees_with(&document, path, parameter);
        }
    }
}

/// Sends values in and out of the documented bounds of a query parameter.
fn the_parser_agrees_with(document: &Value, path: &str, parameter: &Value) {
    let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
    let accepts = |value: &str| parse(path, Some(&format!("{name}={value}"))).route.is_ok();
    let default = &schema["default"];
    if let Some(text) = default
        .as_str()
        .map(str::to_owned)
        .or(default.as_u64().map(|n| n.to_string()))
    {
        let sent = parse(path, Some(&format!("{name}={text}")));
        assert_eq!(sent, parse(path, None), "{path}: the default of {name}");
    }
    if let (Some(min), Some(max)) = (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
        let (below, above) = (i128::from(min) - 1, i128::from(max) + 1);
        assert!(
            accepts(&min.to_string()) && accepts(&max.to_string()),
            "{name}"
        );
        assert!(
            !accepts(&below.to_string()) && !accepts(&above.to_string()),
            "{name}"
        );
        return;
    }
    let named = schema["allOf"].get(0).unwrap_or(schema);
    let named = match named["$ref"].as_str() {
        Some(target) => document.pointer(&target[1..]).unwrap(),
        None => named,
    };
    let known: &[&str] = match name {
        "sort" => &SortField::ALL.map(SortField::as_str),
        "order" => &SortOrder::ALL.map(SortOrder::as_str),
        "createdIn" => &CreatedIn::ALL.map(CreatedIn::as_str),
        _ => &[],
    };
    let choices = named["enum"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    assert!(choices.iter().eq(known), "{name}");
    assert_eq!(accepts("%C3%A9"), known.is_empty(), "{name}");
    assert!(known.iter().all(|choice| accepts(choice)), "{name}");
}
