//! `/docs`: the endpoints, written from the `OpenAPI` document. Complete without the script, which
//! adds a Send button and keeps the curl lines up to date. The responses are described at
//! `/objects`.

use std::sync::LazyLock;

use super::api_bodies::RankingBody;
use super::html::{Escaped, each, encoded, page, wrapped};
use super::markdown::{inline, prose};
use super::openapi::{Document, Operation, ParameterDoc};

// Placeholders for what depends on the service and its data. No other text has such characters.
const BASE: &str = "\u{1}base\u{1}";
const CODE: &str = "\u{1}code\u{1}";
const SLUG: &str = "\u{1}slug\u{1}";
const SLUG_IN_PATH: &str = "\u{1}slug in a path\u{1}";

/// Returns the page. Its examples come from a ranking, the body of `/v1/rankings/latest`, or else
/// from the document. The page is rendered once; a publish fills in its own examples.
pub fn docs(base_url: &str, ranking: Option<&[u8]>) -> String {
    static TEMPLATE: LazyLock<String> = LazyLock::new(template);
    let (code, slug) = example_island(ranking);
    TEMPLATE
        .replace(BASE, &Escaped(base_url).to_string())
        .replace(CODE, &Escaped(&code).to_string())
        .replace(SLUG, &Escaped(&slug).to_string())
        .replace(SLUG_IN_PATH, &encoded(&slug))
}

fn template() -> String {
    let document = Document::parsed();
    let operations = document.operations();
    let contents = each(&operations, |operation| {
        let (id, path, summary) = (operation.id, operation.path, Escaped(operation.summary));
        format!("<li><a href=#{id}>{path}</a> {summary}")
    });
    // The licence is in the footer of every page.
    let sections = document.info("description").split("\n\n");
    let sections = sections.filter(|text| !text.starts_with("## Licence"));
    let sections = each(sections, prose);
    let errors = each(document.errors(), |(status, about)| {
        format!("<tr><td>{status}<td>{}", inline(about))
    });
    let endpoints = each(&operations, endpoint);
    let content = format!(
        "<h1>API reference</h1><p>Base URL <code id=base>{BASE}</code>. Every answer with its members and an \
         example: <a href=objects>objects</a>. For machines: <a href=openapi.json>openapi.json</a> (OpenAPI 3.1), \
         <a href=llms.txt>llms.txt</a>.</p><nav aria-label=Endpoints><ul>{contents}</ul></nav>{sections}\
         <h2 id=errors>Errors</h2><p>A failure is <code>{{\"error\":{{\"code\":…,\"message\":…}}}}</code>; the \
         message names what was wrong and what would be right.</p><table>{errors}\
         </table><h2 id=endpoints>Endpoints</h2><p id=keybox hidden class=row><label for=key>Your key</label>\
         <input id=key type=password autocomplete=off placeholder=\"none: anonymous\">\
         <small>It stays in this page's memory. Sending to /v1 spends your quota<span id=left></span>.</small></p>{endpoints}",
    );
    let title = "API reference \u{2013} Island metrics";
    page(title, "", &["docs.js"], &content)
}

/// Returns the code and creator of the highest island with a known creator, or else of the
/// sample's.
fn example_island(ranking: Option<&[u8]>) -> (String, String) {
    let ranking = ranking.and_then(|body| serde_json::from_slice::<RankingBody>(body).ok());
    let mut entries = ranking.into_iter().flat_map(|body| body.ranking);
    let found = entries.find_map(|entry| Some((entry.code, entry.creator?)));
    found.unwrap_or_else(|| ("2708-3623-7025".to_owned(), "ruby.gg65".to_owned()))
}

/// Returns the form of an endpoint: description, parameters, request, and statuses.
fn endpoint(operation: &Operation<'_>) -> String {
    let Operation { path, id, .. } = operation;
    let description = inline(operation.description);
    let mut filled = (*path).to_owned();
    for parameter in &operation.parameters {
        let name = format!("{{{}}}", parameter.name);
        filled = filled.replace(&name, example(parameter)[1]);
    }
    let rows = each(&operation.parameters, parameter_row);
    let table = wrapped("<table>", &rows, "</table>");
    let response = match operation.object {
        Some(name) => format!("<a href=objects#{name}>{name}</a>"),
        None => format!("<a href=objects#{id}>the file</a>"),
    };
    let errors = operation.statuses.iter().filter(|status| **status != "200");
    let errors: Vec<&str> = errors.copied().collect();
    format!(
        "<form id={id}><h3>GET {path}</h3><p>{description}{table}<pre>curl '{BASE}{}'</pre><p>200 {response}, {}</form>",
        Escaped(&filled),
        errors.join(", ")
    )
}

fn parameter_row(parameter: &ParameterDoc<'_>) -> String {
    let (name, default, choices) = (parameter.name, &parameter.default, &parameter.choices);
    let note = match parameter.place {
        "query" => String::new(),
        "path" => " <small>required</small>".to_owned(),
        place => format!(" <small>{place}</small>"),
    };
    let example = Escaped(example(parameter)[0]);
    let attributes = match parameter.place {
        "path" => format!(" value=\"{example}\" required"),
        "header" => " data-header".to_owned(),
        _ if !choices.is_empty() => String::new(),
        _ if default.is_empty() => format!(" placeholder=\"{example}\""),
        _ => format!(" placeholder={default}"),
    };
    let field = if choices.is_empty() {
        format!("<input name={name}{attributes}>")
    } else {
        let others = choices.iter().filter(|choice| *choice != default);
        let others = each(others, |choice| format!("<option>{choice}"));
        format!("<select name={name}{attributes}><option value=\"\">{default}{others}</select>")
    };
    // Most are text, which needs no mention.
    let kind = Some(&parameter.kind).filter(|kind| *kind != "string");
    let kind = each(kind, |kind| format!("{}. ", inline(kind)));
    let about = inline(parameter.about);
    format!("<tr><td><label>{name}{note}{field}</label><td>{kind}{about}")
}

/// Returns an example of a parameter: as text, and encoded for a path.
fn example<'a>(parameter: &'a ParameterDoc<'_>) -> [&'a str; 2] {
    match parameter.name {
        "code" => [CODE; 2],
        "slug" | "creator" => [SLUG, SLUG_IN_PATH],
        // The others are `latest`, or letters.
        _ => [&parameter.example; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> String {
        docs("https://metrics.example.org", None)
    }

    #[test]
    fn the_page_has_every_endpoint_with_parameters_and_errors() {
        let page = shown();
        for path in [
            "/v1",
            "/v1/islands/{code}/ccu",
            "/v1/new/{date}",
            "/dumps/{file}",
        ] {
            assert!(page.contains(&format!("<h3>GET {path}</h3>")), "{path}");
        }
        for part in [
            "integer, 1 to 200, default 50",
            "integer, at least 0, default 0",
            "<code>uefn, creative</code>",
            "name=sort><option value=\"\">peakCCU<option>uniquePlayers",
            "<tr><td>429",
            "200 <a href=objects#IslandPage>IslandPage</a>, 304, 400, 401, 403, 429, 431, 503",
            "<input name=tag placeholder=\"pvp\">",
            "<li><a href=#getIsland>/v1/islands/{code}</a> One island with its full daily series",
            "<tr><td>405",
            "at <a href=keys>/keys</a>",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(
            !page.contains("<p></p>"),
            "an endpoint without a description"
        );
    }

    #[test]
    fn examples_come_from_the_published_ranking() {
        let ranking =
            br#"{"date":"2026-11-20","previousDate":null,"ranking":[{"rank":1,"delta":null,
            "code":"0000-0000-0001","title":"t","creator":null,"peakCCU":2},{"rank":2,"delta":null,
            "code":"0000-0000-0002","title":"t","creator":"a\"/b","peakCCU":1}]}"#;
        let page = docs("https://x.test", Some(ranking));
        for part in [
            "<input name=code value=\"0000-0000-0002\" required>",
            "<input name=slug value=\"a&quot;/b\" required>",
            "<input name=creator placeholder=\"a&quot;/b\">",
            "curl 'https://x.test/v1/islands/0000-0000-0002/ccu'",
            "curl 'https://x.test/v1/creators/a%22%2Fb'",
            "curl 'https://x.test/v1/rankings/latest'",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains('\u{1}'));
        assert_eq!(example_island(None), example_island(Some(b"{}")));
    }

    #[test]
    fn links_lead_to_existing_ids() {
        let page = shown();
        let objects = crate::site::file("/objects", "https://metrics.example.org");
        for (page, links) in [
            (&page, page.split("href=#")),
            (&objects, page.split("href=objects#")),
            (&objects, objects.split("href=\"#")),
            (&page, objects.split("href=docs#")),
        ] {
            let ids: Vec<&str> = page
                .split(" id=")
                .skip(1)
                .map(|rest| rest.split([' ', '>']).next().unwrap())
                .collect();
            for (at, id) in ids.iter().enumerate() {
                assert!(!ids[at + 1..].contains(id), "{id} twice");
            }
            let links: Vec<&str> = links.skip(1).collect();
            assert!(links.len() > 12, "{links:?}");
            for link in links {
                let name = link.split(['"', '>', ' ']).next().unwrap();
                assert!(ids.contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn the_page_with_its_style_script_and_icon_is_small() {
        // An address as long as they come stands on it for each endpoint.
        let base_url = format!("https://{}", "m".repeat(52));
        let parts = [
            docs(&base_url, None).len(),
            crate::site::file("/assets/style.css", "").len(),
            crate::site::file("/assets/docs.js", "").len(),
            crate::site::file("/assets/icon.svg", "").len(),
        ];
        assert!(parts.iter().sum::<usize>() <= 25_000, "{parts:?}");
        assert!(parts[1] <= 4_000 && parts[2] <= 15_000, "{parts:?}");
    }
}
