//! The places outside the code of the program where a new endpoint or query parameter has to be added. Each
//! test fails until every file of its list has it.

use std::fs;
use std::path::Path;

use island_metrics::request::{Endpoint, IslandQuery};

use crate::tidy::names;

/// Files that name every endpoint of the API. `tests/examples.py` rewrites the examples of openapi.json, where the
/// sample has the data.
const ENDPOINT_FILES: [&str; 11] = [
    "README.md",
    "src/site/openapi.json",
    "src/request/route_tests.rs",
    "tests/it/oracle.rs",
    "tests/it/parsed_targets.rs",
    "tests/it/responses.rs",
    "tests/it/quota_model.rs",
    "tests/fuzz/src/plain.rs",
    "tests/client.py",
    "tests/it/random_requests.rs",
    "tests/fuzz/src/targets.rs",
];

/// Files that name every query parameter of `/v1/islands`. In openapi.json they have the order of
/// `IslandQuery::PARAMETERS`.
const PARAMETER_FILES: [&str; 9] = [
    "README.md",
    "src/site/openapi.json",
    "src/request/lists_tests.rs",
    "tests/it/oracle.rs",
    "tests/it/parsed_targets.rs",
    "tests/fuzz/src/plain.rs",
    "tests/fuzz/src/replies.rs",
    "tests/it/random_requests.rs",
    "tests/fuzz/src/snapshot.rs",
];

/// Which words are missing in which of the files.
fn missing(files: &[&str], words: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |file: &&str| {
        (
            file.to_string(),
            fs::read_to_string(root.join(file)).unwrap(),
        )
    };
    let texts: Vec<(String, String)> = files.iter().map(text).collect();
    let pairs = texts
        .iter()
        .flat_map(|text| words.iter().map(move |word| (text, word)));
    pairs
        .filter(|((_, text), word)| !names(text, word))
        .map(|((file, _), word)| format!("{file} lacks `{word}`"))
        .collect()
}

#[test]
fn every_endpoint_is_in_all_its_places() {
    // The files write parameters in different ways. The last fixed segment stands for the path, so a path
    // that ends in the same segment as another is not checked; nor is one whose segment is a common word
    // that a file contains anyway.
    let segments = Endpoint::API_PATHS.iter().map(|path| {
        let mut segments = path.rsplit('/').filter(|segment| !segment.starts_with('{'));
        segments.next().unwrap()
    });
    let missing = missing(&ENDPOINT_FILES, &segments.collect::<Vec<_>>());
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_query_parameter_is_in_all_its_places() {
    let missing = missing(&PARAMETER_FILES, &IslandQuery::PARAMETERS);
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn a_missing_word_is_found() {
    let found = missing(&["README.md"], &["islands", "zonk"]);
    assert_eq!(found, ["README.md lacks `zonk`"]);
}
