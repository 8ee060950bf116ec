//! `/docs`: endpoints and guides of the `OpenAPI` document, with responses from the published data.
//! Works without the script, which remembers the language and adds a form that sends requests.

use super::api_bodies::{BodyOf, RankingBody};
use super::code::{highlighted, json_lines};
use super::html::{Escaped, each, encoded, html_page};
use super::markdown::{anchor, inline, prose};
use super::openapi::{Document, Operation, ParameterDoc};
use super::settings::SiteSettings;
use super::templates::filled;

/// Lines of an example response that are shown before it is expanded.
const LINES_SHOWN: usize = 14;

/// The languages of example requests: class, name, extension of a file.
const LANGUAGES: [(&str, &str, &str); 3] = [
    ("curl", "curl", "sh"),
    ("python", "Python", "py"),
    ("js", "JavaScript", "js"),
];

/// The inputs of the examples.
struct Examples<'a> {
    base_url: &'a str,
    /// The code of an island, and the slug of its creator.
    code: String,
    slug: String,
    document: &'a Document,
    body_of: BodyOf<'a>,
}

/// Returns the page.
pub fn docs(service: &SiteSettings, body_of: BodyOf<'_>) -> String {
    let document = Document::parsed(service);
    let (code, slug) = example_island(body_of("/v1/rankings/latest"));
    let examples = Examples {
        base_url: &service.base_url,
        code,
        slug,
        document: &document,
        body_of,
    };
    let operations = document.operations();
    let mut guides = document.info("description").split("\n\n## ");
    let introduction = prose(guides.next().unwrap_or_default());
    // The licence is in the footer of every page.
    let guides: Vec<&str> = guides.filter(|text| !text.starts_with("Licence")).collect();
    let guide_links = each(&guides, |text| {
        let title = text.lines().next().unwrap_or_default();
        format!("<li><a href=#{}>{title}</a>", anchor(title))
    });
    let of = |tag| {
        operations
            .iter()
            .filter(move |operation| operation.tag == tag)
    };
    let endpoint_links = each(document.tags(), |(tag, _)| {
        let links = each(of(tag), |Operation { id, summary, .. }| {
            format!("<li><a href=#{id}>{}</a>", Escaped(summary))
        });
        format!("<p>{tag}<ul>{links}</ul>")
    });
    let endpoints = each(document.tags(), |(tag, about)| {
        let all = each(of(tag), |operation| examples.endpoint(operation));
        let (id, about) = (anchor(tag), inline(about));
        format!("<h2 id=tag-{id}>{tag}</h2><p>{about}</p>{all}")
    });
    let guides = each(&guides, |text| prose(&format!("## {text}")));
    let errors = each(document.errors(), |(status, about)| {
        format!("<tr><td>{status}<td>{}", inline(about))
    });
    let base = Escaped(&service.base_url);
    let content = filled!(
        "docs.html"; guide_links, endpoint_links, introduction, base, endpoints, guides, errors
    );
    html_page(
        ["", "docs", "API reference", document.info("summary")],
        &["docs.css", "docs.js"],
        &content,
    )
}

/// Returns the code and creator of the highest island with a known creator, or else of the
/// sample's.
fn example_island(ranking: Option<Vec<u8>>) -> (String, String) {
    let ranking = ranking.and_then(|body| serde_json::from_slice::<RankingBody>(&body).ok());
    let mut entries = ranking.into_iter().flat_map(|body| body.ranking);
    let found = entries.find_map(|entry| Some((entry.code, entry.creator?)));
    found.unwrap_or_else(|| ("2708-3623-7025".to_owned(), "ruby.gg65".to_owned()))
}

impl Examples<'_> {
    /// Returns the section of an endpoint: description, parameters and statuses beside a request
    /// and its response.
    fn endpoint(&self, operation: &Operation<'_>) -> String {
        let Operation { path, id, .. } = operation;
        let parameters = each(&operation.parameters, parameter_row);
        let (about, summary) = (inline(operation.description), Escaped(operation.summary));
        let target = self.target(operation);
        let inputs = each(&operation.parameters, |parameter| self.input(parameter));
        let statuses: Vec<&str> = operation.statuses.iter().map(|one| one.0).collect();
        let statuses = statuses.join(", ");
        // Those that mean more than in general.
        let special = each(&operation.statuses, |(status, about)| {
            each(*about, |about| format!("<li>{status} {}", inline(about)))
        });
        let (requests, response) = (
            self.requests(id, &target),
            self.response(operation, &target),
        );
        filled!(
            "endpoint.html"; id, path, summary, about, parameters, statuses, special, requests, inputs, response
        )
    }

    /// Returns the path of the example request, with a query where the response would be long.
    fn target(&self, operation: &Operation<'_>) -> String {
        let (mut target, mut query) = (operation.path.to_owned(), "");
        for parameter in &operation.parameters {
            let name = format!("{{{}}}", parameter.name);
            target = target.replace(&name, &self.value(parameter)[1]);
            if parameter.name == "limit" {
                query = "?limit=2";
            }
        }
        target + query
    }

    /// Returns the example of a parameter: as text, and encoded for a path.
    fn value(&self, parameter: &ParameterDoc<'_>) -> [String; 2] {
        match parameter.name {
            "code" => [self.code.clone(), self.code.clone()],
            "slug" | "creator" => [self.slug.clone(), encoded(&self.slug)],
            _ => [parameter.example.clone(), parameter.example.clone()],
        }
    }

    /// Returns the example request in each language.
    fn requests(&self, id: &str, target: &str) -> String {
        let url = format!("{}{target}", self.base_url);
        let tabs = each(LANGUAGES, |(class, name, _)| {
            let checked = if class == "curl" { " checked" } else { "" };
            format!(
                "<label><input type=radio name=language-{id} value={class}{checked}>{name}</label>"
            )
        });
        let is_file = target.starts_with("/dumps/") && target != "/dumps/index.json";
        let member = if is_file { "text" } else { "json" };
        let call = if is_file { "" } else { "()" };
        let blocks = each(LANGUAGES, |(class, _, extension)| {
            let text = match class {
                "curl" => format!("curl '{url}'"),
                "python" => format!(
                    "import requests\n\nresponse = requests.get(\"{url}\", timeout=30)\nprint(response.{member}{call})"
                ),
                _ => format!(
                    "const response = await fetch(\"{url}\");\nconsole.log(await response.{member}());"
                ),
            };
            format!("<pre class={class}>{}</pre>", highlighted(&text, extension))
        });
        format!("<fieldset class=languages><legend>Request</legend>{tabs}</fieldset>{blocks}")
    }

    /// Returns the response, shortened and expandable.
    fn response(&self, operation: &Operation<'_>, target: &str) -> String {
        let example = || Some(self.document.example(operation)?.into_bytes());
        let body = (self.body_of)(target).or_else(example);
        let (anchor, name) = operation
            .object
            .map_or((operation.id, "file"), |name| (name, name));
        let lines = body.and_then(|body| json_lines(&body)).unwrap_or_default();
        let (all, count) = (lines.join("\n"), lines.len());
        let (whole, start) = match lines.get(..LINES_SHOWN) {
            Some(start) if count > LINES_SHOWN => ("", start.join("\n") + "\n\u{2026}"),
            _ => (all.as_str(), String::new()),
        };
        filled!("response.html"; anchor, name, whole, start, count, all)
    }

    /// Returns the field for a parameter.
    fn input(&self, parameter: &ParameterDoc<'_>) -> String {
        let (name, default, choices) = (parameter.name, &parameter.default, &parameter.choices);
        let example = self.value(parameter)[0].clone();
        let example = Escaped(&example);
        let attributes = match parameter.place {
            "path" => format!(" value=\"{example}\" required"),
            "header" => " data-header".to_owned(),
            _ if name == "limit" => " value=2".to_owned(),
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
        format!("<label>{name}{field}</label>")
    }
}

fn parameter_row(parameter: &ParameterDoc<'_>) -> String {
    let note = match parameter.place {
        "query" => "",
        "path" => "required",
        place => place,
    };
    let (name, kind, about) = (parameter.name, parameter.kind, inline(parameter.about));
    let (default, allowed) = (&parameter.default, inline(&parameter.allowed));
    filled!("parameter.html"; name, note, kind, default, allowed, about)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn shown() -> String {
        docs(&SiteSettings::new("https://metrics.example.org"), &|_| None)
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
    fn examples_come_from_the_published_data() {
        let ranking =
            br#"{"date":"2026-11-20","previousDate":null,"ranking":[{"rank":1,"delta":null,"previousRank":null,
            "code":"0000-0000-0001","title":"t","creator":null,"peakCCU":2},{"rank":2,"delta":null,"previousRank":null,
            "code":"0000-0000-0002","title":"t","creator":"a\"/b","peakCCU":1}],"meta":{"generatedAt":"t"}}"#;
        let body_of = |target: &str| match target {
            "/v1/rankings/latest" => Some(ranking.to_vec()),
            "/v1/creators/a%22%2Fb" => Some(br#"{"creator":{"slug":"the body"}}"#.to_vec()),
            _ => None,
        };
        let page = docs(&SiteSettings::new("https://x.test"), &body_of);
        for part in [
            "<input name=code value=\"0000-0000-0002\" required>",
            "<input name=slug value=\"a&quot;/b\" required>",
            "<input name=creator placeholder=\"a&quot;/b\">",
            "'https://x.test/v1/islands/0000-0000-0002/ccu'",
            "'https://x.test/v1/creators/a%22%2Fb'",
            "&quot;https://x.test/v1/rankings/latest&quot;",
            "<span class=s>&quot;the body&quot;</span>",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(example_island(None), example_island(Some(b"{}".to_vec())));
    }

    #[test]
    fn the_page_states_the_settings_of_the_server() {
        let mut service = SiteSettings::new("https://x.test");
        service.limits = [7, 8, 9, 12_345];
        service.contact = Some("me@x.test".to_owned());
        let page = docs(&service, &|_| None);
        assert!(
            page.contains("<li>7 requests without a key") && page.contains("<li>12,345 requests")
        );
        assert!(page.contains("Sign-up is closed") && page.contains("href=\"mailto:me@x.test\""));
        service.has_sign_up = true;
        assert!(docs(&service, &|_| None).contains("Sign-up is open"));
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
        let bytes = [docs(&service, &|_| None)]
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
