//! The `OpenAPI` document against the server on the sample dataset: its examples are real answers.

use serde_json::Value;

use crate::support::Server;

#[test]
fn every_example_is_the_answer_of_the_sample() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let document: Value = serde_json::from_slice(&client.get("/openapi.json").body).unwrap();
    let parameters = &document["components"]["parameters"];
    let example = |name: &str| parameters[name]["example"].as_str().unwrap().to_owned();
    let (code, slug) = (example("Code"), example("Slug"));
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 13);
    for (path, item) in paths {
        let mut target = path
            .replace("{code}", &code)
            .replace("{slug}", &slug)
            .replace("{date}", "latest");
        if matches!(path.as_str(), "/v1/islands" | "/v1/creators") {
            target.push_str("?limit=2");
        }
        let reply = client.get(&target);
        assert_eq!(reply.status, 200, "{target}");
        let answer: Value = serde_json::from_slice(&reply.body).unwrap();
        let content = &item["get"]["responses"]["200"]["content"]["application/json"];
        let example = &content["examples"]["sample"]["value"];
        assert!(
            shortened(example) == shortened(&answer),
            "{path}: the example is not the answer; `python3 tests/examples.py` rewrites them"
        );
    }
}

/// Arrays longer than this show three items: who reads an example wants the shape.
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
        // The index names the address that it is served from, which differs from run to run.
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != "docs")
            .map(|(name, member)| (name.clone(), shortened(member)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn the_document_is_the_one_that_the_command_prints() {
    let server = Server::start(&["--base-url", "https://api.example"]);
    let document_served = server.connect().get("/openapi.json").body;
    let printed = std::process::Command::new(env!("CARGO_BIN_EXE_island-metrics"))
        .args(["openapi", "--base-url", "https://api.example"])
        .output()
        .unwrap();
    assert_eq!(document_served, printed.stdout);
    let document: Value = serde_json::from_slice(&document_served).unwrap();
    assert_eq!(document["servers"][0]["url"], "https://api.example");
}
