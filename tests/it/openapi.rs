//! The `OpenAPI` document: its examples are responses of the server on the sample dataset.

use crate::dump_files::{HTTP_TIME, place, some_files};
use crate::dumps;
use crate::endpoint_cases::filled;
use crate::prelude::*;

#[test]
fn every_example_is_the_answer_of_the_sample() {
    let server = Server::start(&[]);
    let without_quota = Server::start(&["--limit-anonymous", "1"]);
    assert_eq!(without_quota.connect().get("/v1").status, 200);
    let mut client = server.connect();
    let document: Value = serde_json::from_slice(&client.get("/openapi.json").body).unwrap();
    let parameters = &document["components"]["parameters"];
    let example = |name: &str| parameters[name]["example"].as_str().unwrap().to_owned();
    let (code, slug) = (example("Code"), example("Slug"));
    let paths = document["paths"].as_object().unwrap();
    let (api, outside): (Vec<_>, Vec<_>) =
        paths.iter().partition(|(path, _)| path.starts_with("/v1"));
    assert_eq!((api.len(), outside.len()), (Endpoint::API_PATHS.len(), 2));
    for (path, item) in api {
        let content = &item["get"]["responses"]["200"]["content"]["application/json"];
        let example = &content["examples"]["sample"]["value"];
        // The newest day has no new islands.
        let day = example["date"]
            .as_str()
            .filter(|_| path == "/v1/new/{date}");
        let mut target = filled(path, [&code, &slug, day.unwrap_or("latest")]);
        if matches!(path.as_str(), "/v1/islands" | "/v1/creators") {
            target.push_str("?limit=2");
        }
        let reply = client.get(&target);
        assert_eq!(reply.status, 200, "{target}");
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        assert!(
            shortened(example) == shortened(&answer),
            "{path}: the example is not the answer; `python3 tests/rewrite.py` rewrites them"
        );
        is_described(&document, path, &reply);
        let etag = reply.expect("etag").to_owned();
        for (name, value, status) in [
            ("If-None-Match", &*etag, 304),
            ("Authorization", "Bearer x", 401),
        ] {
            let reply = client.request("GET", &target, &[(name, value)]);
            assert_eq!(reply.status, status, "{target} {name}");
            is_described(&document, path, &reply);
        }
        let refused = without_quota.connect().get(&target);
        let status = if path == "/v1/health" { 200 } else { 429 };
        assert_eq!(refused.status, status, "{target}");
        is_described(&document, path, &refused);
    }
}

/// `tests/contract.sh` compiles such clients. Generators for Go put the constants of all enums into one
/// namespace, and read an integer without a format as one of 32 bits.
#[test]
fn names_and_numbers_of_the_document_fit_generated_clients() {
    let server = Server::start(&[]);
    let body = server.connect().get("/openapi.json").body;
    let document: Value = serde_json::from_slice(&body).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let plain = |name: &str| {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.collect::<String>().to_lowercase()
    };
    let enums = schemas
        .values()
        .filter_map(|schema| schema["enum"].as_array());
    let values = enums.flatten().map(|value| plain(value.as_str().unwrap()));
    let names = schemas.keys().map(|name| plain(name));
    let mut known = BTreeSet::new();
    for name in names.chain(values) {
        assert!(known.insert(name.clone()), "{name} has two meanings");
    }
    let mut integers = 0;
    let mut left: Vec<(&str, &Value)> = schemas.iter().map(|(name, of)| (&**name, of)).collect();
    let operations = document["paths"].as_object().unwrap().values();
    let parameters = operations.filter_map(|of| of["get"]["parameters"].as_array());
    let parameters = parameters.flatten().map(|one| resolved(&document, one));
    left.extend(parameters.map(|one| (one["name"].as_str().unwrap(), &one["schema"])));
    while let Some((name, value)) = left.pop() {
        let kind = &value["type"];
        let kinds = kind
            .as_array()
            .map_or(std::slice::from_ref(kind), Vec::as_slice);
        if kinds.iter().any(|kind| kind == "integer") {
            integers += 1;
            let format = value["format"].as_str();
            let is_known = format.is_some_and(|format| ["int32", "int64"].contains(&format));
            // No format has the numbers that clients may send as an offset.
            assert!(is_known || name == "offset", "{name}: {format:?}");
        }
        match value {
            Value::Object(members) => left.extend(members.iter().map(|(name, of)| (&**name, of))),
            Value::Array(items) => left.extend(items.iter().map(|of| (name, of))),
            _ => {}
        }
    }
    assert!(integers > 50, "{integers}");
}

/// Longer arrays are shortened to three items in examples, but for the list of endpoints.
const WHOLE_MAX: usize = 13;

fn shortened(answer: &Value) -> Value {
    match answer {
        Value::Array(items) => {
            let shown = if items.len() > WHOLE_MAX {
                3
            } else {
                items.len()
            };
            items.iter().take(shown).map(shortened).collect()
        }
        // The index contains the server's address, which differs between runs.
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != "docs")
            .map(|(name, member)| match &**name {
                "endpoints" => (name.clone(), member.clone()),
                _ => (name.clone(), shortened(member)),
            })
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn the_document_is_the_one_that_the_command_prints() {
    let server = Server::start(&["--base-url", "https://api.example"]);
    let document_served = server.connect().get("/openapi.json").body;
    // The command describes a service without a notice of its own.
    let notice = "This is not real data: its islands, creators and numbers are made up.";
    let origin = "The underlying metrics are facts from a third-party public interface; \
        the service is not affiliated with that third party.";
    let general = str::from_utf8(&document_served).unwrap();
    let general = general.replacen(notice, origin, 1);
    let printed = Command::new(env!("CARGO_BIN_EXE_island-metrics"))
        .args(["openapi", "--base-url", "https://api.example"])
        .output()
        .unwrap();
    assert!(general.as_bytes() == printed.stdout);
    let document: Value = serde_json::from_slice(&document_served).unwrap();
    assert_eq!(document["servers"][0]["url"], "https://api.example");
}

#[test]
fn responses_to_malformed_requests_are_described_too() {
    let server = Server::start(&[]);
    let document = server.connect().get("/openapi.json").json();
    let long = "a".repeat(9_000);
    let fixed = Endpoint::API_PATHS.iter().copied();
    let fixed = fixed.filter(|template| !template.contains('{'));
    for path in fixed.chain(["/dumps/index.json"]) {
        for (header, value, status) in [
            ("X-Long", long.as_str(), 431),
            ("Transfer-Encoding", "chunked", 400),
        ] {
            let reply = server.connect().request("GET", path, &[(header, value)]);
            assert_eq!(reply.status, status, "{path} {header}");
            is_described(&document, path, &reply);
            let left = reply.expect("x-ratelimit-remaining");
            assert_eq!(left, reply.expect("x-ratelimit-limit"), "{path} {header}");
        }
    }
    // Of its query only a key is read.
    let mut client = server.connect();
    assert_eq!(client.get("/v1/health?x=%zz").status, 200);
    // A method that is not allowed uses no quota.
    let error = client.request("POST", "/v1", &[]);
    assert_eq!(error.status, 405);
    assert_eq!(error.expect("x-ratelimit-remaining"), "100");
}

/// The target of a `$ref`, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(target) => document.pointer(target.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

#[track_caller]
fn is_described(document: &Value, path: &str, reply: &Reply) {
    let responses = &document["paths"][path]["get"]["responses"];
    let described = resolved(document, &responses[reply.status.to_string()]);
    let what = format!("{path} {}", reply.status);
    assert!(described.is_object(), "{what}");
    let mut names: Vec<String> = ["connection", "date", "content-length", "content-type"]
        .map(str::to_owned)
        .into();
    for (name, header) in described["headers"].as_object().unwrap() {
        if resolved(document, header)["required"] == true {
            reply.expect(name);
        }
        names.push(name.to_lowercase());
    }
    for (name, _) in &reply.headers {
        assert!(names.contains(&name.to_lowercase()), "{what}: {name}");
    }
    let kinds = described["content"].as_object();
    let kind = reply
        .header("content-type")
        .map(|kind| kind.split(';').next().unwrap());
    match (kind, kinds) {
        (Some(kind), Some(kinds)) => assert!(kinds.contains_key(kind), "{what}: {kind}"),
        (kind, kinds) => assert!(kind.is_none() && kinds.is_none(), "{what}: {kind:?}"),
    }
}

#[test]
fn the_dumps_are_served_as_they_are_described() {
    let files = some_files();
    let (dir, server) = dumps::serve(&files);
    let mut client = server.connect();
    let document = client.get("/openapi.json").json();
    fs::remove_file(place(&dir.join("published"), &files["live/1795262400.csv"])).unwrap();
    let mut statuses = BTreeSet::new();
    for (path, names) in [
        ("/dumps/index.json", vec!["", "?x"]),
        (
            "/dumps/{file}",
            words("islands.csv islands.csv.gz islands.json nothing %ff live/1795262400.csv"),
        ),
    ] {
        for name in names {
            for (header, value) in [
                ("Accept", "*/*"),
                ("If-None-Match", "*"),
                ("If-Modified-Since", HTTP_TIME),
                ("If-Match", "\"x\""),
                ("Range", "bytes=0-9"),
                ("Range", "bytes=9999999-"),
            ] {
                let target = path.trim_end_matches("{file}").to_owned() + name;
                let reply = client.request("GET", &target, &[(header, value)]);
                is_described(&document, path, &reply);
                statuses.insert(reply.status);
            }
        }
    }
    let long = "a".repeat(9_000);
    let too_long = client.request("GET", "/dumps/islands.csv", &[("X-Long", &long)]);
    is_described(&document, "/dumps/{file}", &too_long);
    statuses.insert(too_long.status);
    let none = Server::of(&dir.join("none"), &[]);
    let none = none.connect().get("/dumps/index.json");
    is_described(&document, "/dumps/index.json", &none);
    statuses.insert(none.status);
    let described = document["paths"]["/dumps/{file}"]["get"]["responses"].as_object();
    let described: Vec<u16> = described
        .unwrap()
        .keys()
        .map(|status| status.parse().unwrap())
        .collect();
    assert!(
        described.iter().all(|status| statuses.contains(status)),
        "{statuses:?}"
    );
    let content = &document["paths"]["/dumps/index.json"]["get"]["responses"]["200"]["content"];
    let example = content["application/json"]["examples"]["sample"]["value"].clone();
    let index: island_metrics::snapshot::DumpIndex = serde_json::from_value(example).unwrap();
    assert_eq!(index.files.len(), 1);
}
