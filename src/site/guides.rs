//! Guides: texts in Markdown and recipes, as templates read them.

use minijinja::Environment;
use minijinja::value::{Serde, Value};

/// The address of the service in recipes, which CI runs as they are, and in the examples of the document.
const SAMPLE_URL: &str = "http://127.0.0.1:8080";

macro_rules! recipes {
    ($($file:literal: $title:literal)*) => {
        [$(($title, $file, include_str!(concat!("recipes/", $file)))),*]
    };
}

/// Recipes: the title, the file, and the text of the file.
const RECIPES: &[(&str, &str, &str)] = &recipes! {
    "page_by_link.sh": "All pages with curl, using the Link header"
    "page_by_has_more.sh": "All pages with curl, using hasMore"
    "etag.sh": "Download only what has changed, with curl"
    "last_days.sh": "The last N days from the dumps, with curl and awk"
    "requests_session.py": "Python with requests, without hanging on a 429"
    "pandas_frames.py": "Python with pandas"
    "chart.html": "A chart in your own page, without a library"
    "most_played.html": "The hundred most played now in your own page, refreshed with an ETag"
    "browser.html": "A browser, with the key in the query or in a header"
    "typescript/client.ts": "TypeScript, with generated types"
    "dump.sql": "The dumps in DuckDB"
    "power_query.pq": "Excel and Power BI, with Power Query"
    "grafana_infinity.md": "Grafana, with the Infinity data source"
};

pub(super) fn add_to(templates: &mut Environment<'_>) {
    templates.add_global("CHANGELOG", include_str!("changelog.md"));
    templates.add_global("GOTCHAS", include_str!("gotchas.md"));
    // Members that all objects have in common.
    templates.add_global("OBJECTS", include_str!("objects.md"));
    templates.add_global("RECIPES", Value::from(Serde(RECIPES)));
    templates.add_global("SAMPLE_URL", SAMPLE_URL);
}

#[cfg(test)]
#[path = "guides_tests.rs"]
mod tests;
