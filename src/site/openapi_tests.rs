//! The `OpenAPI` document: its parts for pages, and what it has of the table of endpoints, against the parser.

use std::collections::BTreeSet;

use super::*;
use crate::request::{Endpoint, parse};
use crate::site::json::json_lines;

#[test]
fn every_member_and_parameter_has_a_type_and_a_description() {
    let document = Document::parsed(&SiteSettings::new("https://x.test"));
    let has_text = |value: &Value| !text(&value["description"]).is_empty();
    for object in document.objects() {
        assert!(has_text(&object), "{}", object["name"]);
        for name in items(&object["members"]) {
            let member = &object["properties"][text(name)];
            let is_typed = !kind(member, false).is_empty();
            assert!(is_typed && has_text(member), "{} {name}", object["name"]);
        }
    }
    for operation in document.operations() {
        for parameter in items(&operation["parameters"]) {
            assert!(parameter["schema"]["type"].is_string(), "{parameter}");
            assert!(has_text(parameter), "{parameter}");
        }
    }
}

#[test]
fn examples_are_written_whole_in_the_order_of_members() {
    let document = Document::parsed(&SiteSettings::new("https://x.test"));
    for operation in document.operations() {
        let Some(name) = operation["object"].as_str() else {
            continue;
        };
        let example = &content(&operation)["application/json"]["examples"]["sample"]["value"];
        let example_text = operation["example"].as_str().unwrap();
        let read: Value = serde_json::from_str(example_text).unwrap();
        assert_eq!(read, *example, "{name}");
        let shown = json_lines(example_text.as_bytes()).unwrap().join("\n");
        let names = items(&document.0["components"]["schemas"][name]["required"]);
        let places = names.iter().map(|member| {
            let start = format!("\n  &quot;{}&quot;: ", text(member));
            let place = shown.find(&start);
            place.unwrap_or_else(|| {
                panic!(
                    "the example of {name} lacks {}; run `python3 tests/rewrite.py`",
                    text(member)
                )
            })
        });
        assert!(places.is_sorted(), "{name}");
    }
}

#[test]
fn texts_of_the_operator_stand_in_the_document_as_they_are() {
    let service = SiteSettings {
        notice: Some("The publisher calls them \"facts\" of {keys}\\\"".to_owned()),
        contact: Some("{free}{origin}@x.test".to_owned()),
        ..SiteSettings::new("https://x.test")
    };
    let document = Document::parsed(&service);
    let info = &document.0["info"];
    let description = text(&info["description"]);
    for part in [
        "The publisher calls them \"facts\" of {keys}\\\"\n\n## Authentication\n".to_owned(),
        service.keys_text() + "\n\n## Quota\n",
        "\n- 1,000 requests with a free key\n".to_owned(),
    ] {
        assert!(description.contains(&part), "{part}: {description}");
    }
    assert_eq!(info["contact"]["email"], "{free}{origin}@x.test");
}

#[test]
fn errors_have_their_general_meaning() {
    let document = Document::parsed(&SiteSettings::new("https://x.test"));
    let errors = document.errors();
    let statuses: Vec<&str> = errors.keys().copied().collect();
    let all = [
        "400", "401", "403", "404", "405", "412", "416", "429", "431", "500", "503",
    ];
    assert_eq!(statuses, all);
    assert!(errors["400"].contains("a malformed island code"));
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
    let document = serde_json::from_str(&openapi(&SiteSettings::new("https://x.test")));
    let document: Value = document.unwrap();
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
        let endpoint = Endpoint::all().find(|endpoint| endpoint.label() == path);
        let declared = endpoint.map_or(&[][..], Endpoint::query_parameters);
        let declared: Vec<&str> = declared.iter().map(|one| one.name).collect();
        let in_query = documented(&document, &item["get"], "query");
        assert_eq!(names(&in_query), declared, "{path}");
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
    let example = &parameter["example"];
    let example = example.as_str().map_or(example.to_string(), str::to_owned);
    assert!(accepts(&example), "{name}: {example}");
    let default = &schema["default"];
    if let Some(text) = default
        .as_str()
        .map(str::to_owned)
        .or(default.as_u64().map(|n| n.to_string()))
    {
        let sent = format!("{name}={text}");
        let sent = parse(path, Some(&sent)).route;
        assert_eq!(
            sent,
            parse(path, None).route,
            "{path}: the default of {name}"
        );
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
    let mut rows = ISLAND_PARAMETERS.iter().chain(CREATOR_PARAMETERS);
    let known = match rows.find(|row| row.name == name).unwrap().kind {
        Kind::Name { names, .. } => names,
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
