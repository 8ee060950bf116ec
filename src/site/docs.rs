//! `/docs`: the endpoints for people, written from the `OpenAPI` document. No script, no outside asset.

use std::fmt::Write as _;

use serde_json::Value;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;\
color-scheme:light dark}code,pre{font-size:.9em}pre{overflow-x:auto;padding:.7rem;border:1px solid #8886}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.2rem .6rem .2rem 0}";

/// The page, from the document that it describes.
pub(crate) fn page(openapi: &str) -> String {
    let document: Value =
        serde_json::from_str(openapi).expect("the document is JSON, which a test holds");
    let base_url = text(&document["servers"][0]["url"]);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Island metrics</title>\
         <style>{STYLE}</style><h1>Island metrics</h1>"
    );
    for paragraph in document["info"]["description"]
        .as_str()
        .unwrap_or_default()
        .split("\n\n")
    {
        // The description is Markdown of paragraphs, headings and code words; more is not needed.
        let (heading, rest) = match paragraph.strip_prefix("## ") {
            Some(text) => text.split_once('\n').unwrap_or((text, "")),
            None => ("", paragraph),
        };
        if !heading.is_empty() {
            let _ = write!(page, "<h2>{}</h2>", escaped(heading));
        }
        if !rest.is_empty() {
            let _ = write!(page, "<p>{}</p>", escaped(rest));
        }
    }
    let _ = write!(
        page,
        "<p>The machine-readable description is <a href=\"{base_url}/openapi.json\">/openapi.json</a>.</p>"
    );
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        endpoint(&mut page, &document, &base_url, path, &item["get"]);
    }
    page.push_str("</html>\n");
    page
}

fn endpoint(page: &mut String, document: &Value, base_url: &str, path: &str, operation: &Value) {
    let _ = write!(
        page,
        "<h2><code>GET {path}</code></h2><p>{}</p>",
        text(&operation["description"])
    );
    let mut filled = path.to_owned();
    let parameters: Vec<&Value> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|parameter| resolved(document, parameter))
        .collect();
    if !parameters.is_empty() {
        page.push_str("<table><tr><th>parameter<th>in<th>meaning</tr>");
        for parameter in &parameters {
            let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
            let _ = write!(
                page,
                "<tr><td><code>{name}</code><td>{place}<td>{}</tr>",
                text(&parameter["description"])
            );
            if let Some(example) = parameter["example"].as_str() {
                filled = filled.replace(&format!("{{{name}}}"), example);
            }
        }
        page.push_str("</table>");
    }
    let _ = write!(page, "<pre>curl '{base_url}{}'</pre>", escaped(&filled));
}

/// What a `$ref` into the document points at; the value itself where it is none.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"]
        .as_str()
        .and_then(|target| target.strip_prefix('#'));
    target
        .and_then(|pointer| document.pointer(pointer))
        .unwrap_or(value)
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_stands_on_the_page() {
        let page = page(&crate::site::openapi("http://x.test"));
        for path in [
            "/v1",
            "/v1/islands/{code}/ccu",
            "/v1/new/{date}",
            "/dumps/{file}",
        ] {
            assert!(page.contains(&format!("<code>GET {path}</code>")), "{path}");
        }
        assert!(
            !page.contains("<p></p>"),
            "an endpoint without a description"
        );
    }
}
