//! Pages of text against the texts and the `OpenAPI` document.

use super::{RECIPES, SAMPLE_URL};
use crate::site::openapi::Document;
use crate::site::{SiteSettings, file};

fn shown(path: &str) -> String {
    file(path, &SiteSettings::new("https://x.test"))
}

#[test]
fn the_page_has_every_object_with_its_members_and_every_response_with_an_example() {
    let page = shown("/objects");
    for part in [
        "<h3 id=IslandPage>IslandPage</h3><p>Response to <a href=docs#listIslands>GET /v1/islands</a>. A page",
        "<code>islands</code> array of <a href=\"#IslandSummary\">IslandSummary</a><dd>The rows",
        "<code>createdIn</code> <code>uefn</code> or <code>creative</code> or null<dd>",
        "<code>lastSeen</code> date or null<dd>",
        "<code>points</code> array of pairs<dd>Pairs <code>[unixSeconds, players]</code>",
        "<dt><code>series</code> array of",
        "<code>generatedAt</code> time or null<dd>",
        "&quot;docs&quot;: <span class=s>&quot;https://x.test/docs&quot;</span>",
        "\n  &quot;ccu&quot;: [\n    [<span class=s>&quot;2026-",
        "code,title,creator,createdIn,tags",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let document = Document::parsed(&SiteSettings::new("https://x.test"));
    let operations = document.operations();
    let examples = operations.iter().filter(|one| one["example"].is_string());
    assert_eq!(page.matches("<details>").count(), examples.count());
    assert!(!page.contains('`'));
}

#[test]
fn gotchas_are_lists_under_headings() {
    let page = shown("/gotchas");
    assert_eq!(page.matches("<h2").count(), 4);
    assert_eq!(
        page.matches("<li>").count(),
        include_str!("gotchas.md").matches("\n- ").count()
    );
    assert!(!page.contains('`'));
}

#[test]
fn recipes_have_the_address_of_the_service() {
    let page = shown("/recipes");
    assert!(!page.contains(SAMPLE_URL));
    for (_, file, text) in RECIPES {
        assert!(text.contains(SAMPLE_URL), "{file}");
        assert!(page.contains(&format!("<h2 id=\"{file}\">")));
    }
}

#[test]
fn steps_are_prose_and_files_are_verbatim() {
    let page = shown("/recipes");
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
    let text = shown("/llms.txt");
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
    // Where sign-up is closed, programs get an error there.
    let mut service = SiteSettings::new("https://x.test");
    assert!(!text.contains("(https://x.test/keys)"));
    service.has_sign_up = true;
    assert!(file("/llms.txt", &service).contains("- [Keys](https://x.test/keys)\n- [Changelog]"));
}

#[test]
fn robots_are_kept_from_the_api_below_any_path() {
    for (base_url, path) in [("https://x.test", "/v1"), ("https://x.test/a/b", "/a/b/v1")] {
        let robots = file("/robots.txt", &SiteSettings::new(base_url));
        let want = format!("User-agent: *\nDisallow: {path}\nSitemap: {base_url}/sitemap.xml\n");
        assert_eq!(robots.trim_end(), want.trim_end());
    }
}
