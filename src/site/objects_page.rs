//! `/objects`: the responses of the endpoints with their members and an example each, written from
//! the `OpenAPI` document; and the same as text for `/llms.txt`.

use super::code::json_lines;
use super::html::{Escaped, each, html_page};
use super::markdown::{inline, prose};
use super::openapi::{Document, MemberDoc, ObjectDoc, Operation};
use super::settings::SiteSettings;
use super::templates::filled;

/// Members that all objects have in common. Markdown.
const COMMON: &str = include_str!("objects.md");

/// The address of the service in the examples of the document.
const SAMPLE_URL: &str = "http://127.0.0.1:8080";

/// Returns the page.
pub(super) fn objects_page(service: &SiteSettings) -> String {
    let document = Document::parsed(service);
    let objects = document.objects(|name| format!("[{name}](#{name})"));
    let operations = document.operations();
    let object = |name: &str| objects.iter().find(|object| object.name == name);
    let common = prose(COMMON.trim_end());
    let contents = each(&operations, |operation| {
        let (id, path) = (operation.object.unwrap_or(operation.id), operation.path);
        format!("<li><a href=\"#{id}\">GET {path}</a>")
    });
    let responses = each(&operations, |operation| {
        let object = operation.object.and_then(object);
        response(&document, operation, object, &service.base_url)
    });
    let is_part = |object: &&ObjectDoc<'_>| {
        let mut responses = operations.iter().map(|operation| operation.object);
        responses.all(|name| name != Some(object.name))
    };
    let parts = each(objects.iter().filter(is_part), |object| {
        format!("<h3 id={0}>{0}</h3>{1}", object.name, description(object))
    });
    let content = filled!("objects.html"; common, contents, responses, parts);
    let description = "Every member of every response of the API.";
    html_page(["", "objects", "Objects", description], &[], &content)
}

/// Returns the section of an endpoint's response; files of the dumps are not objects.
fn response(
    document: &Document,
    operation: &Operation<'_>,
    object: Option<&ObjectDoc<'_>>,
    base_url: &str,
) -> String {
    let Operation { path, id, .. } = operation;
    let (name, anchor) = object.map_or(("A file", *id), |object| (object.name, object.name));
    let about = match object {
        Some(object) => description(object),
        None => "A file in CSV or JSON, or one of the two as gzip, by its name.".to_owned(),
    };
    let example = each(document.example(operation), |text| {
        let text = text.replace(SAMPLE_URL, base_url);
        let lines = json_lines(text.as_bytes()).map(|lines| lines.join("\n"));
        let text = lines.unwrap_or_else(|| Escaped(&text).to_string());
        format!("<details><summary>Example of {name}</summary><pre>{text}</pre></details>")
    });
    format!(
        "<h3 id={anchor}>{name}</h3><p>Response to <a href=docs#{id}>GET {path}</a>. {about}{example}"
    )
}

fn description(object: &ObjectDoc<'_>) -> String {
    let (about, base) = (inline(object.about), object.base.unwrap_or_default());
    // No table: on a phone, a name and a description side by side are too wide.
    let members = each(&object.members, |MemberDoc { name, kind, about }| {
        let (kind, about) = (inline(kind), inline(about));
        format!("<dt><code>{name}</code> {kind}<dd>{about}")
    });
    filled!("object.html"; about, base, members)
}

/// Returns all objects as Markdown without links.
pub(super) fn objects_text(document: &Document) -> String {
    let objects = each(document.objects(str::to_owned), |object| {
        let base = each(object.base, |base| {
            format!(" It has the members of {base}, and also:")
        });
        let members = each(object.members, |MemberDoc { name, kind, about }| {
            format!("- `{name}` ({kind}): {about}\n")
        });
        format!("\n## {}\n{}{base}\n{members}", object.name, object.about)
    });
    format!("{COMMON}{objects}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_object_with_its_members_and_every_response_with_an_example() {
        let page = objects_page(&SiteSettings::new("https://x.test"));
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
        assert_eq!(page.matches("<details>").count(), 15);
        assert!(!page.contains('`'));
    }
}
