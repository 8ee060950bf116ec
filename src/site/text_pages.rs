//! Pages of prose: the gotchas, the recipes, and `/llms.txt`, which is all of it for machines.

use std::fmt::Write as _;

use serde_json::Value;

use super::frame::{Extra, Frame};
use super::html::{Escaped, prose};
use super::objects_page;
use super::openapi::{errors, operations, text};

/// Markdown, for `/gotchas` and `/llms.txt`.
const GOTCHAS: &str = include_str!("gotchas.md");
/// What recipes have for the service's address; CI runs them as they are here.
const RECIPE_URL: &str = "http://127.0.0.1:8080";

/// A recipe: what it is for, its file, and the file's text.
struct Recipe {
    title: &'static str,
    file: &'static str,
    text: &'static str,
}

macro_rules! recipes {
    ($($file:literal: $title:literal)*) => {
        [$(Recipe { title: $title, file: $file, text: include_str!(concat!("recipes/", $file)) }),*]
    };
}

const RECIPES: &[Recipe] = &recipes! {
    "page_by_link.sh": "All pages with curl, by the Link header"
    "page_by_has_more.sh": "All pages with curl, by hasMore"
    "etag.sh": "Ask only for what is new, with curl"
    "requests_session.py": "Python with requests, and a 429 that does not hang"
    "pandas_frames.py": "Python with pandas"
    "chart.html": "A chart in a page of your own, without a library"
    "browser.html": "A browser, with a key in the query or in a header"
    "typescript/client.ts": "TypeScript, with generated types"
    "dump.sql": "A dump in DuckDB"
    "power_query.pq": "Excel and Power BI, with Power Query"
    "grafana_infinity.md": "Grafana, with the Infinity data source"
};

/// `/gotchas`
pub(super) fn gotchas() -> String {
    let content = format!("<h1>Gotchas</h1>{}", prose(GOTCHAS));
    frame("Gotchas \u{2013} Island metrics").around(&content)
}

/// `/recipes`
pub(super) fn recipes(base_url: &str) -> String {
    let mut content = String::from(
        "<h1>Recipes</h1><p>Each is complete and uses this service's address; where a key helps, it comes \
         from <code>ISLAND_METRICS_KEY</code>. What to look out for is on the page of <a \
         href=gotchas>gotchas</a>.</p><ul>",
    );
    for recipe in RECIPES {
        let _ = write!(
            content,
            "<li><a href=\"#{}\">{}</a>",
            recipe.file, recipe.title
        );
    }
    content.push_str("</ul>");
    for Recipe { title, file, text } in RECIPES {
        let text = text.replace(RECIPE_URL, base_url);
        let _ = write!(content, "<h2 id=\"{file}\">{title}</h2>");
        // One is steps to take, not a file to save.
        if file.rsplit('.').next() == Some("md") {
            content.push_str(&prose(text.trim_end()));
            continue;
        }
        let _ = write!(
            content,
            "<p class=soft><code>{file}</code></p>\
             <pre class=code tabindex=0 role=region aria-label=\"{file}\">{}</pre>",
            Escaped(&text)
        );
    }
    content.push_str(
        "<h2 id=clients>Clients in other languages</h2><p>Any OpenAPI 3.1 generator makes one from \
         <a href=openapi.json>openapi.json</a>; any viewer shows it.</p>",
    );
    frame("Recipes \u{2013} Island metrics").around(&content)
}

/// `/llms.txt`, in Markdown, from the document that describes the API.
pub(super) fn llms(openapi: &str, base_url: &str) -> String {
    let document: Value =
        serde_json::from_str(openapi).expect("the document is JSON, which a test holds");
    let mut out = format!(
        "# Island metrics\n\n> {}\n\nBase URL: {base_url}\n\n## Endpoints\n",
        text(&document["info"]["summary"])
    );
    for operation in operations(&document) {
        let (path, summary) = (operation.path, operation.summary());
        let _ = write!(
            out,
            "- `GET {path}`: {summary}. {}",
            operation.description()
        );
        let _ = match operation.answer() {
            Some(name) => writeln!(out, " Answers {name}."),
            None => writeln!(out),
        };
        for parameter in operation.parameters() {
            let (name, place, kind) = (parameter.name, parameter.place, parameter.kind);
            let _ = writeln!(out, "  - `{name}` ({place}; {kind}): {}", parameter.about);
        }
    }
    out.push_str("\n## Recipes\n");
    for Recipe { title, file, .. } in RECIPES {
        let _ = writeln!(out, "- [{title}]({base_url}/recipes#{file})");
    }
    let _ = write!(
        out,
        "\n## More\n- [OpenAPI 3.1 document]({base_url}/openapi.json)\n- [Answers with an example each]({base_url}/objects)\n- [Recipes]({base_url}/recipes)\n\
         - [Dumps of all data]({base_url}/dumps/)\n- [Keys]({base_url}/keys)\n\n# How it behaves\n\n{}\n\n## Errors\n",
        text(&document["info"]["description"])
    );
    for (status, about) in errors(&document) {
        let _ = writeln!(out, "- {status} {about}");
    }
    let objects = objects_page::text(&document);
    let _ = write!(out, "\n# Objects\n\n{objects}\n# Gotchas\n\n{GOTCHAS}");
    out
}

/// A page that is found when somebody asks for what is not there.
pub(super) fn plain(title: &str, message: &str, root: &str) -> String {
    let content = format!("<h1>{}</h1><p>{}</p>", Escaped(title), Escaped(message));
    let frame = Frame {
        root,
        ..frame(title)
    };
    frame.around(&content)
}

fn frame(title: &str) -> Frame<'_> {
    Frame {
        title,
        root: "",
        extra: Extra::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gotchas_are_lists_under_headings() {
        let page = gotchas();
        assert_eq!(page.matches("<h2").count(), 4);
        assert_eq!(
            page.matches("<li>").count(),
            GOTCHAS.matches("\n- ").count()
        );
        assert!(!page.contains('`'));
    }

    #[test]
    fn recipes_name_the_service_itself() {
        let page = recipes("https://x.test");
        assert!(!page.contains(RECIPE_URL));
        for recipe in RECIPES {
            assert!(recipe.text.contains(RECIPE_URL), "{}", recipe.file);
            assert!(page.contains(&format!("<h2 id=\"{}\">", recipe.file)));
        }
    }

    #[test]
    fn steps_to_take_are_prose_and_files_are_as_they_are() {
        let page = recipes("https://x.test");
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
    fn machines_are_told_everything() {
        let text = llms(&crate::site::openapi("https://x.test"), "https://x.test");
        for part in [
            "Base URL: https://x.test\n",
            "- `GET /v1/islands/{code}/ccu`: Long-run",
            "  - `limit` (query; integer, 1 to 200, default 50): Page size",
            "  - `sort` (query; `peakCCU, uniquePlayers, ",
            "  - `createdIn` (query; `uefn, creative`): ",
            "full daily series. Metadata",
            "Answers IslandDetail.",
            "- 429 `rate_limited`",
            "## IslandSummary\n",
            "- `creator` (string or null): Slug",
            "- `islands` (array of IslandSummary): ",
            "## Quota",
            "Null is not zero",
            "\n## Recipes\n- [All pages with curl, by the Link header](https://x.test/recipes#page_by_link.sh)\n",
            "](https://x.test/recipes#typescript/client.ts)\n",
            "(https://x.test/openapi.json)",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
