//! Pages of prose: `/gotchas`, `/changelog` and `/recipes`; and `/llms.txt`, all documentation as one text.

use super::code::highlighted;
use super::html::{each, html_page, wrapped};
use super::markdown::prose;
use super::objects_page::objects_text;
use super::openapi::{Document, Operation};
use super::settings::SiteSettings;
use super::templates::filled;

/// Markdown, for `/gotchas` and `/llms.txt`.
const GOTCHAS: &str = include_str!("gotchas.md");
/// Markdown, for `/changelog`.
const CHANGELOG: &str = include_str!("changelog.md");
/// The address of the service in recipes. CI runs them as they are.
const RECIPE_URL: &str = "http://127.0.0.1:8080";

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
    "requests_session.py": "Python with requests, without hanging on a 429"
    "pandas_frames.py": "Python with pandas"
    "chart.html": "A chart in your own page, without a library"
    "browser.html": "A browser, with the key in the query or in a header"
    "typescript/client.ts": "TypeScript, with generated types"
    "dump.sql": "The dumps in DuckDB"
    "power_query.pq": "Excel and Power BI, with Power Query"
    "grafana_infinity.md": "Grafana, with the Infinity data source"
};

/// Returns the page at `/gotchas`.
pub(super) fn gotchas() -> String {
    let description = "Surprises that have cost users of the API time.";
    text_page("gotchas", "Gotchas", description, GOTCHAS)
}

/// Returns the page at `/changelog`.
pub(super) fn changelog() -> String {
    let description = "Changes to the API, and how they are announced.";
    text_page("changelog", "Changelog", description, CHANGELOG)
}

fn text_page(section: &str, title: &str, description: &str, markdown: &str) -> String {
    let content = format!("<div class=text><h1>{title}</h1>{}</div>", prose(markdown));
    html_page(["", section, title, description], &[], &content)
}

/// Returns the page at `/recipes`.
pub(super) fn recipes(service: &SiteSettings) -> String {
    let contents = each(RECIPES, |(title, file, _)| {
        format!("<li><a href=\"#{file}\">{title}</a>")
    });
    let recipes = each(RECIPES, |(title, file, text)| {
        let text = text.replace(RECIPE_URL, &service.base_url);
        // One is steps to take, not a file to save.
        let text = if file.contains(".md") {
            format!("<div class=text>{}</div>", prose(text.trim_end()))
        } else {
            let text = highlighted(&text, file);
            format!("<p class=\"soft small\">Save as <code>{file}</code></p><pre>{text}</pre>")
        };
        format!("<h2 id=\"{file}\">{title}</h2>{text}")
    });
    let content = filled!("recipes.html"; contents, recipes);
    let description =
        "Complete programs that use the API: curl, Python, TypeScript, DuckDB, Excel, Grafana.";
    html_page(["", "recipes", "Recipes", description], &[], &content)
}

/// Returns `/llms.txt`, in Markdown.
pub(super) fn llms(service: &SiteSettings) -> String {
    let base_url = &service.base_url;
    let document = Document::parsed(service);
    let endpoints = each(&document.operations(), endpoint_text);
    let recipes = each(RECIPES, |(title, file, _)| {
        format!("- [{title}]({base_url}/recipes#{file})\n")
    });
    let errors = each(document.errors(), |(status, about)| {
        format!("- {status} {about}\n")
    });
    let (summary, description, objects) = (
        document.info("summary"),
        document.info("description"),
        objects_text(&document),
    );
    format!(
        "# Island metrics\n\n> {summary}\n\nBase URL: {base_url}\n\n## Endpoints\n{endpoints}\n## Recipes\n{recipes}\
         \n## More\n- [OpenAPI 3.1 document]({base_url}/openapi.json)\n- [Members of all responses]({base_url}/objects)\n- [Recipes]({base_url}/recipes)\n\
         - [Dumps of all data]({base_url}/dumps/)\n- [Keys]({base_url}/keys)\n- [Changelog]({base_url}/changelog)\n\n# Guides\n\n{description}\n\n## Errors\n{errors}\
         \n# Objects\n\n{objects}\n# Gotchas\n\n{GOTCHAS}"
    )
}

fn endpoint_text(operation: &Operation<'_>) -> String {
    let object = each(operation.object, |name| format!(" Response: {name}."));
    let parameters = each(&operation.parameters, |parameter| {
        let (name, place, kind) = (parameter.name, parameter.place, parameter.kind);
        let allowed = wrapped("; ", &parameter.allowed, "");
        let default = wrapped("; default ", &parameter.default, "");
        let about = parameter.about;
        format!("  - `{name}` ({place}; {kind}{allowed}{default}): {about}\n")
    });
    let (path, summary, about) = (operation.path, operation.summary, operation.description);
    format!("- `GET {path}`: {summary}. {about}{object}\n{parameters}")
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
    fn recipes_have_the_address_of_the_service() {
        let page = recipes(&SiteSettings::new("https://x.test"));
        assert!(!page.contains(RECIPE_URL));
        for (_, file, text) in RECIPES {
            assert!(text.contains(RECIPE_URL), "{file}");
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
