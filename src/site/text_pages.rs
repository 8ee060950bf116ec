//! Pages of text: `/objects`, `/recipes`, `/gotchas` and `/changelog`; `/llms.txt`, all documentation as one text;
//! and the texts for search engines.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::Value as Json;

use super::code::json_lines;
use super::openapi::Document;
use super::settings::SiteSettings;
use super::templates::page;
use super::text::Escaped;

/// Members that all objects have in common. Markdown, for `/objects` and `/llms.txt`.
const COMMON: &str = include_str!("objects.md");
/// Markdown, for `/gotchas` and `/llms.txt`.
const GOTCHAS: &str = include_str!("gotchas.md");
const CHANGELOG: &str = include_str!("changelog.md");
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

/// Returns the page at `/objects`: the responses of the endpoints with their members and an example each,
/// written from the `OpenAPI` document.
pub(super) fn objects(service: &SiteSettings) -> String {
    let document = Document::parsed(service);
    let (objects, operations) = (document.objects(), document.operations());
    let responses = operations.iter().map(|operation| {
        let object = objects
            .iter()
            .find(|object| object["name"] == operation["object"]);
        context! {
            object => Serde(object),
            example => example(&document, operation, &service.base_url),
            ..Value::from(Serde(operation))
        }
    });
    let is_response = |object: &Json| {
        operations
            .iter()
            .any(|operation| operation["object"] == object["name"])
    };
    let parts = objects.iter().filter(|object| !is_response(object));
    let values = context! {
        notice => &service.notice,
        common => COMMON.trim_end(),
        responses => responses.collect::<Value>(),
        parts => Serde(parts.collect::<Vec<_>>()),
    };
    page("objects.html", values)
}

/// Returns the example of a response as HTML, with the address of the service.
fn example(document: &Document, operation: &Json, base_url: &str) -> Option<Value> {
    let text = document.example(operation)?.replace(SAMPLE_URL, base_url);
    let lines = json_lines(text.as_bytes()).map(|lines| lines.join("\n"));
    let html = lines.unwrap_or_else(|| Escaped(&text).to_string());
    Some(Value::from_safe_string(html))
}

/// Returns a text for search engines, in which the address of the service is all that varies.
pub(super) fn with_base_url(name: &str, service: &SiteSettings) -> String {
    page(name, context! { base_url => &service.base_url })
}

pub(super) fn gotchas(service: &SiteSettings) -> String {
    let notice = &service.notice;
    page("gotchas.html", context! { text => GOTCHAS, notice })
}

pub(super) fn changelog(service: &SiteSettings) -> String {
    let notice = &service.notice;
    page("changelog.html", context! { text => CHANGELOG, notice })
}

pub(super) fn recipes(service: &SiteSettings) -> String {
    let recipes = RECIPES.iter().map(|&(title, file, text)| {
        // One is steps to take, not a file to save.
        let is_file = !file.contains(".md");
        let text = text.replace(SAMPLE_URL, &service.base_url);
        context! { title, file, text, is_file }
    });
    let (recipes, notice) = (recipes.collect::<Value>(), &service.notice);
    page("recipes.html", context! { recipes, notice })
}

pub(super) fn llms(service: &SiteSettings) -> String {
    let document = Document::parsed(service);
    let values = context! {
        base_url => &service.base_url,
        api => Serde(document.json()),
        endpoints => Serde(document.operations()),
        recipes => Serde(RECIPES),
        errors => document.errors().into_iter().collect::<Value>(),
        common => COMMON,
        objects => Serde(document.objects()),
        gotchas => GOTCHAS,
    };
    page("llms.txt", values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_object_with_its_members_and_every_response_with_an_example() {
        let page = objects(&SiteSettings::new("https://x.test"));
        for part in [
            "<h3 id=IslandPage>IslandPage</h3><p>Response to <a href=docs#listIslands>GET /v1/islands</a>. A page",
            "<code>islands</code> array of <a href=\"#IslandSummary\">IslandSummary</a><dd>The rows",
            "<code>createdIn</code> <code>uefn</code> or <code>creative</code> or null<dd>",
            "<code>lastSeen</code> date or null<dd>",
            "<code>points</code> array of pairs<dd>Pairs <code>[unixSeconds, players]</code>",
            "It has the members of <a href=\"#IslandSummary\">IslandSummary</a>, and also:<dl><dt><code>series",
            "<code>generatedAt</code> time or null<dd>",
            "&quot;docs&quot;: <span class=s>&quot;https://x.test/docs&quot;</span>",
            "\n  &quot;ccu&quot;: [\n    [<span class=s>&quot;2026-",
            "code,title,creator,createdIn,tags",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let document = Document::parsed(&SiteSettings::new("https://x.test"));
        let operations = document.operations();
        let examples = operations.iter().filter_map(|one| document.example(one));
        assert_eq!(page.matches("<details>").count(), examples.count());
        assert!(!page.contains('`'));
    }
    #[test]
    fn gotchas_are_lists_under_headings() {
        let page = gotchas(&SiteSettings::new("https://x.test"));
        assert_eq!(page.matches("<h2").count(), 4);
        assert_eq!(
            page.matches("<li>").count(),
            GOTCHAS.matches("\n- ").count()
        );
        assert!(!page.contains('`'));
    }

    #[test]
    fn recipes_have_the_address_of_the_service() {
        let page = recipes(&SiteSettings::new("https://x.test"));
        assert!(!page.contains(SAMPLE_URL));
        for (_, file, text) in RECIPES {
            assert!(text.contains(SAMPLE_URL), "{file}");
            assert!(page.contains(&format!("<h2 id=\"{file}\">")));
        }
    }

    #[test]
    fn steps_are_prose_and_files_are_verbatim() {
        let page = recipes(&SiteSettings::new("https://x.test"));
        let (files, steps) = page.split_once("<h2 id=\"grafana_infinity.md\">").unwrap();
        let (steps, _) = steps.split_once("<h2").unwrap();
        assert_eq!(files.matches("<pre").count(), RECIPES.len() - 1);
        for mark in ["<pre", "**", "`", "\n- ", "\n2. ", "| "] {
            assert!(!steps.contains(mark), "{mark}");
        }
        assert_eq!(steps.matches("<ol>").count(), 1);
        assert!(steps.contains("<b>Peaks of an island.</b> URL <code>/v1/"));
    }

    #[test]
    fn llms_txt_has_all_documentation() {
        let text = llms(&SiteSettings::new("https://x.test"));
        for part in [
            "Base URL: https://x.test\n",
            "- `GET /v1/islands/{code}/ccu`: Get the peak history",
            "  - `limit` (query; integer; 1 to 200; default 50): ",
            "  - `sort` (query; string; `peakCCU`, `uniquePlayers`, ",
            "  - `createdIn` (query; string; `uefn`, `creative`): ",
            "Get an island. The metadata",
            "Response: IslandDetail.",
            "- 429 `rate_limited`",
            "## IslandSummary\n",
            "- `creator` (string or null): Slug",
            "- `islands` (array of IslandSummary): ",
            "## Quota",
            "Null is not zero",
            "\n## Recipes\n- [All pages with curl, using the Link header](https://x.test/recipes#page_by_link.sh)\n",
            "](https://x.test/recipes#typescript/client.ts)\n",
            "(https://x.test/openapi.json)",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
