//! `/docs`: the endpoints for people, written from the `OpenAPI` document. Whole without the script,
//! which adds a Send button and keeps the curl lines in step.

use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::Value;

use super::document::{reference, resolved, scalar, text};
use super::facts::Ranking;
use super::frame::{Extra, Frame};
use super::html::{Escaped, encoded, inline, prose};
use super::objects::objects;

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
        "<h1>API reference</h1><p>Base URL <code id=base>{}</code>, described for machines by \
         <a href=openapi.json>openapi.json</a> (OpenAPI 3.1) and <a href=llms.txt>llms.txt</a>.</p>\
         <nav aria-label=Endpoints><ul>",
        Escaped(base_url)
    );
    for operation in &operations {
        let (id, path) = (operation.id(), operation.path);
        let _ = write!(content, "<li><a href=#{id}>{path}</a>");
    }
    content.push_str("</ul></nav>");
    content.push_str(&prose(text(&document["info"]["description"])));
    content.push_str(&errors(&document));
    content.push_str(
        "<h2 id=endpoints>Endpoints</h2><p id=keybox hidden class=row><label for=key>Your key</label>\
         <input id=key type=password autocomplete=off placeholder=\"none: anonymous\">\
         <small>It stays in this page's memory. Sending to /v1 spends your quota<span id=left></span>.</small></p>",
    );
    for operation in &operations {
        operation.write(&mut content, base_url);
    }
    content.push_str(&objects(&document));
    let frame = Frame {
        title: "API reference \u{2013} Island metrics",
        root: "",
        extra: Extra::Docs,
    };
    frame.around(&content)
}

/// An endpoint.
struct Operation<'a> {
    document: &'a Value,
    path: &'a str,
    about: &'a Value,
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

impl Operation<'_> {
    fn id(&self) -> &str {
        text(&self.about["operationId"])
    }

    fn write(&self, page: &mut String, base_url: &str) {
        let (id, path) = (self.id(), self.path);
        let _ = write!(
            page,
            "<form id={id}><h3>GET {path}</h3><p>{}",
            inline(text(&self.about["description"]))
        );
        let mut filled = path.to_owned();
        let parameters = self.about["parameters"].as_array();
        let parameters = parameters.map(Vec::as_slice).unwrap_or_default();
        let parameters = parameters
            .iter()
            .map(|parameter| resolved(self.document, parameter));
        let parameters: Vec<&Value> = parameters.collect();
        if !parameters.is_empty() {
            page.push_str("<table>");
            for parameter in parameters {
                self.parameter(page, parameter);
                let name = format!("{{{}}}", text(&parameter["name"]));
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
        self.statuses(page);
        page.push_str("</form>");
    }

    fn parameter(&self, page: &mut String, parameter: &Value) {
        let name = text(&parameter["name"]);
        let (kind, choices) = self.kind(&parameter["schema"]);
        let place = text(&parameter["in"]);
        let told = match place {
            "query" => String::new(),
            "path" => " <small>required</small>".to_owned(),
            place => format!(" <small>{place}</small>"),
        };
        let default = scalar(&parameter["schema"]["default"]);
        let mut about = format!("name={name}");
        match place {
            "path" => {
                let [example, _] = example(parameter);
                let _ = write!(about, " value=\"{example}\" required");
            }
            "header" => about.push_str(" data-header"),
            _ if choices.is_empty() && !default.is_empty() => {
                let _ = write!(about, " placeholder={default}");
            }
            _ => {}
        }
        let _ = write!(page, "<tr><td><label>{name}{told}");
        if choices.is_empty() {
            let _ = write!(page, "<input {about}>");
        } else {
            let _ = write!(page, "<select {about}><option value=\"\">{default}");
            for choice in choices.iter().filter(|choice| **choice != default) {
                let _ = write!(page, "<option>{choice}");
            }
            page.push_str("</select>");
        }
        let about = inline(text(&parameter["description"]));
        let _ = write!(page, "</label><td>{kind}. {about}");
    }

    /// The type with bounds and default in words, and the choices of an enumeration.
    fn kind(&self, schema: &Value) -> (String, Vec<String>) {
        let named = schema["allOf"].get(0).unwrap_or(schema);
        let named = resolved(self.document, named);
        let choices: Vec<String> = named["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .map(scalar)
            .collect();
        let mut kind = text(&named["type"]).to_owned();
        if !choices.is_empty() {
            kind = format!("<code>{}</code>", choices.join(", "));
        }
        match [&schema["minimum"], &schema["maximum"]].map(scalar) {
            [min, max] if max.len() > 15 => {
                let _ = write!(kind, ", at least {min}");
            }
            [min, max] if !min.is_empty() => {
                let _ = write!(kind, ", {min} to {max}");
            }
            _ => {}
        }
        if let Some(pattern) = schema["pattern"].as_str() {
            let _ = write!(kind, ", <code>{}</code>", Escaped(pattern));
        }
        if !schema["default"].is_null() {
            let _ = write!(kind, ", default {}", scalar(&schema["default"]));
        }
        (kind, choices)
    }

    /// The answers: the body's type, and the failures, whose meaning stands above.
    fn statuses(&self, page: &mut String) {
        let responses = self.about["responses"].as_object();
        let mut failures = Vec::new();
        for (status, response) in responses.into_iter().flatten() {
            let response = resolved(self.document, response);
            let schema = &response["content"]["application/json"]["schema"];
            match reference(schema) {
                _ if status.as_str() >= "400" => failures.push(status.as_str()),
                Some(name) => {
                    let _ = write!(page, "{status} <a href=#{name}>{name}</a>, ");
                }
                None => {
                    let _ = write!(page, "{status}, ");
                }
            }
        }
        page.push_str(&failures.join(", "));
    }
}

/// An example of a parameter in a path: as it is typed, and as it stands there.
fn example(parameter: &Value) -> [&str; 2] {
    match text(&parameter["name"]) {
        "code" => [CODE; 2],
        "slug" => [SLUG, SLUG_IN_PATH],
        // `latest`, or a name of letters.
        _ => [text(&parameter["example"]); 2],
    }
}

/// The endpoints, in the order of their tags.
fn operations(document: &Value) -> Vec<Operation<'_>> {
    let tags = document["tags"].as_array();
    let tags = tags.map(Vec::as_slice).unwrap_or_default();
    let place = |about: &Value| tags.iter().position(|tag| tag["name"] == about["tags"][0]);
    let paths = document["paths"].as_object().into_iter().flatten();
    let mut operations: Vec<Operation<'_>> = paths
        .map(|(path, item)| Operation {
            document,
            path,
            about: &item["get"],
        })
        .collect();
    operations.sort_by_key(|operation| place(operation.about));
    operations
}

/// The failures, each once.
fn errors(document: &Value) -> String {
    let mut rows = std::collections::BTreeMap::new();
    let items = document["paths"].as_object().into_iter().flatten();
    for (_, item) in items {
        for (status, response) in item["get"]["responses"].as_object().into_iter().flatten() {
            let response = resolved(document, response);
            if status.as_str() >= "400" {
                rows.entry(status.clone())
                    .or_insert(text(&response["description"]));
            }
        }
    }
    let mut out = String::from(
        "<h2 id=errors>Errors</h2><p>A failure is <code>{\"error\":{\"code\":…,\"message\":…}}</code>; the \
         message names what was wrong and what would be right.</p><table>",
    );
    for (status, description) in rows {
        let _ = write!(out, "<tr><td>{status}<td>{}", inline(description));
    }
    out.push_str("</table>");
    out
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
            "200 <a href=#IslandPage>IslandPage</a>, 304, 400, 401, 403, 429, 503",
            "<b id=IslandSummary>IslandSummary</b> code, title, creator?, createdIn uefn|creative?, tags [string],",
            "<b id=Island>Island</b> <a href=#IslandSummary>IslandSummary</a>, series [",
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
    fn what_the_page_links_to_on_itself_is_there() {
        let page = shown();
        let ids: Vec<&str> = page
            .split(" id=")
            .skip(1)
            .map(|rest| rest.split([' ', '>']).next().unwrap())
            .collect();
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[at + 1..].contains(id), "{id} twice");
        }
        for link in page.split("href=#").skip(1) {
            let name = link.split(['>', ' ']).next().unwrap();
            assert!(ids.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_page_with_its_style_and_script_is_small() {
        let parts = [
            shown().len(),
            crate::site::style().len(),
            crate::site::docs_script().len(),
        ];
        assert!(parts.iter().sum::<usize>() <= 25_000, "{parts:?}");
        assert!(parts[1] <= 4_000 && parts[2] <= 15_000, "{parts:?}");
    }
}
