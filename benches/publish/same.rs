//! Comparison of the JSON of DuckDB with that of the server.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use island_metrics::model::{IslandCode, METRIC_NAMES};
use island_metrics::regular_file::Directory;
use island_metrics::request::{Argument, Endpoint, Route};
use island_metrics::site::SiteSettings;
use island_metrics::snapshot::{Manifest, Snapshot};
use serde_json::Value;

use crate::common::prelude::*;

/// One line in so many is compared.
const SHARE: usize = 97;

/// Compares details and histories of islands; returns the number of islands.
pub(crate) fn compare(published: &Path, rival: &Path) -> Outcome<usize> {
    let directory = Directory::open(published)?;
    let manifest = Manifest::read(&directory)?.ok_or("nothing is published")?;
    let snapshot = Snapshot::open((&directory, &manifest), &SiteSettings::new(""), None)?;
    let mut compared = 0;
    for file in ["islands.json", "ccu.json"] {
        let lines = BufReader::new(File::open(rival.join(file))?).lines();
        for line in lines.step_by(SHARE) {
            let theirs: Value = serde_json::from_str(&line?)?;
            // A history has the code, a detail an island with it.
            let detail = theirs.get("island");
            let code = detail.unwrap_or(&theirs)["code"].as_str();
            let code = code.and_then(|code| code.parse().ok());
            let code: IslandCode = code.ok_or("a line without a code")?;
            compared += usize::from(detail.is_some());
            let endpoint = detail.map_or(Endpoint::IslandCcu, |_| Endpoint::Island);
            let route = Route::new(endpoint, Argument::Code(code));
            let found = snapshot.find(&route, false);
            let found = found.map_err(|missing| format!("{code}: {missing:?}"))?;
            let body = found.start(u32::MAX)?;
            let mut ours: Value = serde_json::from_slice(&body)?;
            // DuckDB leaves out members such as the days an island was seen, which would take another join.
            if let (Some(ours), Some(theirs)) =
                (ours["island"].as_object_mut(), theirs["island"].as_object())
            {
                let is_compared = |name: &&str| theirs.contains_key(*name);
                let needed = METRIC_NAMES
                    .iter()
                    .chain(&["title", "creator", "tags", "series"]);
                if let Some(name) = needed.copied().find(|name| !is_compared(name)) {
                    return Err(format!("DuckDB has no member {name} of {code}").into());
                }
                ours.retain(|name, _| is_compared(&name.as_str()));
            }
            if ours != theirs {
                return Err(format!("not the same JSON: {ours} and {theirs}").into());
            }
        }
    }
    Ok(compared)
}
