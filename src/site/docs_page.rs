//! `/docs`, written from the `OpenAPI` document: endpoints and guides, with responses from the published
//! data. Works without the script, which remembers the language and adds a form that sends requests.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::{Value as Json, from_slice};

use super::bodies::BodyOf;
use super::filters::encoded;
use super::json::json_lines;
use super::openapi::Document;
use super::settings::SiteSettings;
use super::templates::page;

/// Lines of an example response that are shown before it is expanded.
const LINES_SHOWN: usize = 14;

/// Returns `/docs`. `new_day` is the newest day with new islands.
pub fn docs(service: &SiteSettings, new_day: Option<&str>, body_of: BodyOf<'_>) -> String {
    let document = Document::parsed(service);
    let first = |list: &str, member: &str| {
        let body = body_of(&format!("/v1/{list}?limit=1"))?;
        let body: Json = from_slice(&body).ok()?;
        Some(body[list][0][member].clone()).filter(Json::is_string)
    };
    // Without any, the parameters keep the examples of the document.
    let (code, slug) = (first("islands", "code"), first("creators", "slug"));
    let endpoint = |mut operation: Json| {
        let is_new = operation["operationId"] == "getNewIslands";
        for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
            let published = match parameter["name"].as_str() {
                Some("code") => code.clone(),
                Some("date") if is_new => Some(new_day.unwrap_or("latest").into()),
                Some("slug" | "creator") => slug.clone(),
                _ => None,
            };
            if let Some(published) = published {
                parameter["example"] = published;
            }
        }
        let target = target(&operation);
        // A long body is cut off, and is no example.
        let published = body_of(&target).filter(|body| body.ends_with(b"}}"));
        let published = published.and_then(|body| json_lines(&body));
        let example = || json_lines(operation["example"].as_str()?.as_bytes());
        let lines = published.or_else(example).unwrap_or_default();
        context! {
            url => service.base_url.clone() + &target,
            response => html_lines(&lines),
            start => (lines.len() > LINES_SHOWN).then(|| html_lines(&lines[..LINES_SHOWN])),
            lines => lines.len(),
            is_file => operation["object"].is_null(),
            ..Value::from(Serde(&operation))
        }
    };
    let values = context! {
        endpoints => document.operations().into_iter().map(endpoint).collect::<Value>(),
        ..document.values(service)
    };
    page("docs.html", values)
}

fn html_lines(lines: &[String]) -> Value {
    Value::from_safe_string(lines.join("\n"))
}

/// Returns the path of the example request, with a query where the response would be long.
fn target(operation: &Json) -> String {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let (mut target, mut query) = (text(&operation["path"]), "");
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = format!("{{{}}}", text(&parameter["name"]));
        target = target.replace(&name, &encoded(&text(&parameter["example"])));
        if parameter["name"] == "limit" {
            query = "?limit=2";
        }
    }
    target + query
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::model::TierLimits;

    fn shown() -> String {
        docs(
            &SiteSettings::new("https://metrics.example.org"),
            None,
            &|_| None,
        )
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
            assert!(
                page.contains(&format!("<code class=path><b>GET</b> {path}</code>")),
                "{path}"
            );
        }
        for part in [
            "<td><code>limit</code><td data-label=Type>integer<td data-label=Default>50<td data-label=Allowed>1 to 200<td>",
            "<td><code>offset</code><td data-label=Type>integer<td data-label=Default>0<td data-label=Allowed>0 or more<td>",
            "<code>uefn</code>, <code>creative</code>",
            "name=sort><option value=\"\">peakCCU<option>uniquePlayers",
            "<tr><td>429",
            "Other <a href=#statuses>statuses</a>: 304, 400, 401, 403, 429, 431, 503.",
            "<label>tag<input name=tag placeholder=\"pvp\"></label>",
            "<li><a href=#getIsland>",
            "<tr><td>405",
            "<li>404 ",
            "<h2 id=quota>",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(
            !page.contains("<p></p>"),
            "an endpoint without a description"
        );
    }

    #[test]
    fn the_page_begins_with_a_request() {
        let page = shown();
        let request = "<pre>curl 'https://metrics.example.org/v1/islands?limit=2'</pre>";
        let (start, _) = page.split_once("<div class=guides>").unwrap();
        assert!(start.contains(request), "{start}");
    }

    #[test]
    fn examples_come_from_the_published_data() {
        // The first island need not have a creator.
        let body_of = |target: &str| match target {
            "/v1/islands?limit=1" => {
                Some(br#"{"islands":[{"code":"0000-0000-0002","creator":null}]}"#.to_vec())
            }
            "/v1/creators?limit=1" => Some(br#"{"creators":[{"slug":"a\"/b"}]}"#.to_vec()),
            "/v1/creators/a%22%2Fb" => Some(br#"{"creator":{"slug":"the body"}}"#.to_vec()),
            // Cut off: the example of the document is in its place.
            "/v1/live" => {
                Some(br#"{"time":1,"players":"the start","islands":[{"code":"0000-"#.to_vec())
            }
            _ => None,
        };
        let page = docs(
            &SiteSettings::new("https://x.test"),
            Some("2026-11-08"),
            &body_of,
        );
        for part in [
            "<input name=code value=\"0000-0000-0002\" required>",
            "<input name=slug value=\"a&quot;/b\" required>",
            "<input name=creator placeholder=\"a&quot;/b\">",
            "'https://x.test/v1/islands/0000-0000-0002/ccu'",
            "'https://x.test/v1/creators/a%22%2Fb'",
            "&quot;https://x.test/v1/rankings/latest&quot;",
            "&quot;https://x.test/v1/new/2026-11-08&quot;",
            "<span class=s>&quot;the body&quot;</span>",
        ] {
            assert!(page.contains(part), "{part}");
        }
        let examples = |page: &str| page.matches("resolutionSeconds&quot;: ").count();
        let without = docs(&SiteSettings::new("https://x.test"), None, &|_| None);
        assert!(examples(&without) > 1 && !page.contains("the start"));
        assert_eq!(examples(&page), examples(&without));
        let nothing = docs(&SiteSettings::new("https://x.test"), None, &|target| {
            let list = target.contains("?limit=1").then_some(b"{\"islands\":[]}");
            list.map(|body| body.to_vec())
        });
        assert_eq!(nothing, without);
    }

    #[test]
    fn the_page_states_the_settings_of_the_server() {
        let mut service = SiteSettings::new("https://x.test");
        service.limits = TierLimits {
            anonymous: 7,
            free: 8,
            starter: 9,
            pro: 12_345,
        };
        service.contact = Some("me@x.test".to_owned());
        let page = docs(&service, None, &|_| None);
        assert!(
            page.contains("<li>7 requests without a key") && page.contains("<li>12,345 requests")
        );
        let closed = "Sign-up is closed on this server; ask the publisher for a key: <a href=\"mailto:me@x.test\">";
        assert!(page.contains(closed), "{page}");
        service.has_sign_up = true;
        assert!(docs(&service, None, &|_| None).contains("Sign-up is open"));
    }

    #[test]
    fn links_lead_to_existing_ids() {
        let page = shown();
        let objects = crate::site::file(
            "/objects",
            &SiteSettings::new("https://metrics.example.org"),
        );
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
                // The main content is part of each page.
                assert!(ids.contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn the_page_with_its_styles_scripts_and_icon_is_small() {
        let service = SiteSettings::new(&format!("https://{}", "m".repeat(52)));
        let assets = ["style.css", "docs.css", "site.js", "docs.js", "icon.svg"];
        let assets = assets.map(|name| crate::site::file(&format!("/assets/{name}"), &service));
        let bytes = [docs(&service, None, &|_| None)]
            .into_iter()
            .chain(assets)
            .map(|text| {
                let mut gzip =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(text.as_bytes()).unwrap();
                gzip.finish().unwrap().len()
            });
        let bytes: Vec<usize> = bytes.collect();
        assert!(bytes.iter().sum::<usize>() <= 30_000, "{bytes:?}");
    }
}
