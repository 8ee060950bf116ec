//! `/docs`: the endpoints for people, written from the `OpenAPI` document. Whole without the script,
//! which adds a Send button and keeps the curl lines in step. What is answered stands at `/objects`.

use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::Value;

use super::api_bodies::Ranking;
use super::frame::{Extra, Frame};
use super::html::{Escaped, encoded, inline, prose};
use super::openapi::{Operation, Parameter, errors, operations, text};

/// What stands on the page where a service and its data differ from others. Nothing else has such signs.
const BASE: &str = "\u{1}base\u{1}";
const CODE: &str = "\u{1}code\u{1}";
const SLUG: &str = "\u{1}slug\u{1}";
const SLUG_IN_PATH: &str = "\u{1}slug in a path\u{1}";

/// The page, with examples of a ranking, or else of the document. Written but once from the document: a publish
/// only puts its own into it.
pub(super) fn page(base_url: &str, ranking: Option<&[u8]>) -> String {
    static PAGE: OnceLock<String> = OnceLock::new();
    let page = PAGE.get_or_init(|| written(&super::openapi(BASE)));
    let Examples { code, slug } = Examples::of(ranking);
    page.replace(BASE, &Escaped(base_url).to_string())
        .replace(CODE, &Escaped(&code).to_string())
        .replace(SLUG, &Escaped(&slug).to_string())
        .replace(SLUG_IN_PATH, &encoded(&slug))
}

fn written(openapi: &str) -> String {
    let document: Value =
        serde_json::from_str(openapi).expect("the document is JSON, which a test holds");
    let base_url = text(&document["servers"][0]["url"]);
    let operations = operations(&document);
    let mut content = format!(
        "<h1>API reference</h1><p>Base URL <code id=base>{}</code>. Every answer with its members and an \
         example: <a href=objects>objects</a>. For machines: <a href=openapi.json>openapi.json</a> (OpenAPI 3.1), \
         <a href=llms.txt>llms.txt</a>.</p><nav aria-label=Endpoints><ul>",
        Escaped(base_url)
    );
    for operation in &operations {
        let (id, path, summary) = (operation.id(), operation.path, operation.summary());
        let _ = write!(content, "<li><a href=#{id}>{path}</a> {}", Escaped(summary));
    }
    content.push_str("</ul></nav>");
    // The licence stands at the foot of every page.
    for section in text(&document["info"]["description"]).split("\n\n") {
        if !section.starts_with("## Licence") {
            content.push_str(&prose(section));
        }
    }
    content.push_str(
        "<h2 id=errors>Errors</h2><p>A failure is <code>{\"error\":{\"code\":…,\"message\":…}}</code>; the \
         message names what was wrong and what would be right.</p><table>",
    );
    for (status, about) in errors(&document) {
        let _ = write!(content, "<tr><td>{status}<td>{}", inline(about));
    }
    content.push_str(
        "</table><h2 id=endpoints>Endpoints</h2><p id=keybox hidden class=row><label for=key>Your key</label>\
         <input id=key type=password autocomplete=off placeholder=\"none: anonymous\">\
         <small>It stays in this page's memory. Sending to /v1 spends your quota<span id=left></span>.</small></p>",
    );
    for operation in &operations {
        write_operation(&mut content, operation, base_url);
    }
    let frame = Frame {
        title: "API reference \u{2013} Island metrics",
        root: "",
        extra: Extra::Docs,
    };
    frame.around(&content)
}

/// What is there to ask for: an island and its creator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Examples {
    code: String,
    slug: String,
}

impl Examples {
    /// Those of the highest island whose creator is known; else of the sample.
    fn of(ranking: Option<&[u8]>) -> Examples {
        let ranking = ranking.and_then(|body| serde_json::from_slice::<Ranking>(body).ok());
        let mut entries = ranking.into_iter().flat_map(|ranking| ranking.entries);
        let found = entries.find_map(|entry| Some((entry.code, entry.creator?)));
        let (code, slug) =
            found.unwrap_or_else(|| ("2708-3623-7025".to_owned(), "ruby.gg65".to_owned()));
        Examples { code, slug }
    }
}

/// An endpoint: what it is, what it takes, how it is asked, and what comes.
fn write_operation(page: &mut String, operation: &Operation<'_>, base_url: &str) {
    let (id, path) = (operation.id(), operation.path);
    let _ = write!(
        page,
        "<form id={id}><h3>GET {path}</h3><p>{}",
        inline(operation.description())
    );
    let mut filled = path.to_owned();
    let parameters = operation.parameters();
    if !parameters.is_empty() {
        page.push_str("<table>");
        for parameter in &parameters {
            write_parameter(page, parameter);
            let name = format!("{{{}}}", parameter.name);
            filled = filled.replace(&name, example(parameter)[1]);
        }
        page.push_str("</table>");
    }
    let _ = write!(
        page,
        "<pre>curl '{}{}'</pre><p>",
        Escaped(base_url),
        Escaped(&filled)
    );
    // The failures' meaning stands above.
    let answer = operation.answer();
    let link = match answer {
        Some(name) => format!("200 <a href=objects#{name}>{name}</a>"),
        None => format!("200 <a href=objects#{id}>the file</a>"),
    };
    let others = operation.statuses();
    let others: Vec<&str> = others.into_iter().filter(|one| *one != "200").collect();
    let _ = write!(page, "{link}, {}</form>", others.join(", "));
}

fn write_parameter(page: &mut String, parameter: &Parameter<'_>) {
    let Parameter {
        name,
        place,
        ref default,
        ref choices,
        ..
    } = *parameter;
    let told = match place {
        "query" => String::new(),
        "path" => " <small>required</small>".to_owned(),
        place => format!(" <small>{place}</small>"),
    };
    let mut about = format!("name={name}");
    let [example, _] = example(parameter);
    let _ = match place {
        "path" => write!(about, " value=\"{}\" required", Escaped(example)),
        "header" => write!(about, " data-header"),
        _ if !choices.is_empty() => Ok(()),
        _ if default.is_empty() => write!(about, " placeholder=\"{}\"", Escaped(example)),
        _ => write!(about, " placeholder={default}"),
    };
    let _ = write!(page, "<tr><td><label>{name}{told}");
    if choices.is_empty() {
        let _ = write!(page, "<input {about}>");
    } else {
        let _ = write!(page, "<select {about}><option value=\"\">{default}");
        for choice in choices.iter().filter(|choice| *choice != default) {
            let _ = write!(page, "<option>{choice}");
        }
        page.push_str("</select>");
    }
    let [kind, about] = [&parameter.kind, parameter.about].map(inline);
    page.push_str("</label><td>");
    // Most are, and text is what a box takes.
    if kind != "string" {
        let _ = write!(page, "{kind}. ");
    }
    page.push_str(&about);
}

/// An example of a parameter: as it is typed, and as it stands in a path.
fn example<'a>(parameter: &'a Parameter<'_>) -> [&'a str; 2] {
    match parameter.name {
        "code" => [CODE; 2],
        "slug" | "creator" => [SLUG, SLUG_IN_PATH],
        // In a path `latest`, or a name of letters.
        _ => [&parameter.example; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> String {
        page("https://metrics.example.org", None)
    }

    #[test]
    fn every_endpoint_stands_on_the_page_with_its_parameters_and_failures() {
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
    fn examples_are_of_what_is_published() {
        let ranking =
            br#"{"date":"2026-11-20","previousDate":null,"ranking":[{"rank":1,"delta":null,
            "code":"0000-0000-0001","title":"t","creator":null,"peakCCU":2},{"rank":2,"delta":null,
            "code":"0000-0000-0002","title":"t","creator":"a\"/b","peakCCU":1}]}"#;
        let page = page("https://x.test", Some(ranking));
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
        assert_eq!(Examples::of(None), Examples::of(Some(b"{}")));
    }

    #[test]
    fn what_the_page_links_to_is_there() {
        let page = shown();
        let objects = crate::site::objects("https://metrics.example.org");
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
            page(&base_url, None).len(),
            crate::site::style().len(),
            crate::site::docs_script().len(),
            crate::site::ICON.len(),
        ];
        assert!(parts.iter().sum::<usize>() <= 25_000, "{parts:?}");
        assert!(parts[1] <= 4_000 && parts[2] <= 15_000, "{parts:?}");
    }
}
