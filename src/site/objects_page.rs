//! `/objects`: what the endpoints answer, member for member and with an example each, written from the
//! `OpenAPI` document. The same as text for `/llms.txt`.

use std::fmt::Write as _;

use serde_json::Value;

use super::frame::{Extra, Frame};
use super::html::{Escaped, inline, prose};
use super::openapi::{Member, Object, Operation, objects, operations};

/// What all objects have in common. Markdown.
const COMMON: &str = "Members come in the order shown and are never left out: one that may be null says so, and null means \
    \"not known\", never zero. New members may be added.\n\n\
    - A date is a string, `YYYY-MM-DD`: a UTC calendar day.\n\
    - A time is a string, `2026-11-21T12:05:00Z`: UTC, with seconds. `time` on `/v1/live` and the first of each pair of \
    `/v1/live/intraday` are integers: Unix seconds.\n\
    - A figure of an island is at most 2^53\u{2212}1, which JavaScript reads exactly. Only sums of such, and an `offset` that \
    you sent, up to 2^64\u{2212}1, can be more.\n\
    - CCU is concurrent users: the players who are on an island at the same moment. `peakCCU` is a day's highest.\n\
    - UEFN is Unreal Editor for Fortnite, one of the two tools that islands are made with; the other, Creative, is inside the game.\n\
    - Figures of an island are of one day, that of `date`, and are not totals so far: `favorites` too.\n\
    - Retention is a share of players: 0.18 is 18 %.";

/// What examples have for the service's address.
const SAMPLE_URL: &str = "http://127.0.0.1:8080";

/// The page.
pub(super) fn page(openapi: &str, base_url: &str) -> String {
    let document: Value =
        serde_json::from_str(openapi).expect("the document is JSON, which a test holds");
    let objects = objects(&document);
    let operations = operations(&document);
    let mut content = String::from(
        "<h1>Objects</h1><p>What the endpoints of the <a href=docs>reference</a> answer.</p>",
    );
    content.push_str(&prose(COMMON));
    content.push_str("<nav aria-label=Answers><ul>");
    for operation in &operations {
        let id = operation.answer().unwrap_or(operation.id());
        let _ = write!(content, "<li><a href=\"#{id}\">GET {}</a>", operation.path);
    }
    content.push_str("</ul></nav><h2 id=answers>Answers</h2>");
    for operation in &operations {
        let object = objects
            .iter()
            .find(|one| Some(one.name) == operation.answer());
        write_answer(&mut content, operation, object, base_url);
    }
    content.push_str("<h2 id=parts>Parts of answers, and failures</h2>");
    let is_part = |object: &&Object<'_>| {
        let mut answers = operations.iter().map(Operation::answer);
        !answers.any(|answer| answer == Some(object.name))
    };
    for object in objects.iter().filter(is_part) {
        let _ = write!(content, "<h3 id={0}>{0}</h3>", object.name);
        write_members(&mut content, object);
    }
    let frame = Frame {
        title: "Objects \u{2013} Island metrics",
        root: "",
        extra: Extra::Nothing,
    };
    frame.around(&content)
}

/// What an endpoint answers.
fn write_answer(
    page: &mut String,
    operation: &Operation<'_>,
    object: Option<&Object<'_>>,
    base_url: &str,
) {
    let (id, path) = (operation.id(), operation.path);
    let name = object.map_or("A file", |object| object.name);
    let _ = write!(
        page,
        "<h3 id={}>{name}</h3><p>Answers <a href=docs#{id}>GET {path}</a>. ",
        object.map_or(id, |object| object.name)
    );
    match object {
        Some(object) => write_members(page, object),
        None => page.push_str("CSV, JSON or either as gzip, by its name."),
    }
    let Some((kind, example)) = operation.example() else {
        return;
    };
    let cut = object.map_or("", |_| "; lists of more than 13 are cut to three");
    let example = match (object, example.as_str()) {
        (Some(object), _) => object.pretty(example),
        (None, text) => text.unwrap_or_default().to_owned(),
    };
    let example = example.replace(SAMPLE_URL, base_url);
    let _ = write!(
        page,
        "<details><summary>Example of {name}</summary><p class=soft>{kind}{cut}</p>\
         <pre class=code tabindex=0 role=region aria-label=\"Example of {name}\">{}</pre></details>",
        Escaped(&example)
    );
}

fn write_members(page: &mut String, object: &Object<'_>) {
    let (begin, members) = object.members();
    page.push_str(&inline(object.about()));
    if let Some(begin) = begin {
        let _ = write!(
            page,
            " The members of <a href=\"#{begin}\">{begin}</a>, and then:"
        );
    }
    // No table: on a telephone a name and a meaning beside each other are too wide.
    page.push_str("<dl>");
    for Member { name, kind, about } in members {
        let (kind, about) = (inline(&kind), inline(about));
        let _ = write!(page, "<dt><code>{name}</code> {kind}<dd>{about}");
    }
    page.push_str("</dl>");
}

/// All objects as Markdown without links.
pub(super) fn text(document: &Value) -> String {
    let mut out = format!("{COMMON}\n");
    for object in objects(document) {
        let (begin, members) = object.members();
        let _ = write!(out, "\n## {}\n{}", object.name, object.about());
        if let Some(begin) = begin {
            let _ = write!(out, " The members of {begin}, and then:");
        }
        out.push('\n');
        for Member { name, kind, about } in members {
            let _ = writeln!(out, "- `{name}` ({}): {about}", unlinked(&kind));
        }
    }
    out
}

/// Without links: `[Name](#Name)` is `Name`.
fn unlinked(kind: &str) -> String {
    let mut parts = kind.split('[');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("](").unwrap_or((part, ""));
        out += name;
        out += rest.split_once(')').map_or("", |(_, rest)| rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_stands_on_the_page_with_its_members_and_every_answer_with_an_example() {
        let page = page(&crate::site::openapi("https://x.test"), "https://x.test");
        for part in [
            "<h3 id=IslandPage>IslandPage</h3><p>Answers <a href=docs#listIslands>GET /v1/islands</a>. A page",
            "<code>islands</code> array of <a href=\"#IslandSummary\">IslandSummary</a><dd>The rows",
            "<code>createdIn</code> <code>uefn</code> or <code>creative</code> or null<dd>",
            "<code>lastSeen</code> date or null<dd>",
            "<code>points</code> array of pairs<dd>Pairs <code>[unixSeconds, players]</code>",
            "The members of <a href=\"#IslandSummary\">IslandSummary</a>, and then:<dl><dt><code>series",
            "<code>generatedAt</code> time or null<dd>",
            "&quot;docs&quot;: &quot;https://x.test/docs&quot;",
            "\n  &quot;ccu&quot;: [\n    [&quot;2026-",
            "code,title,creator,createdIn,tags",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<details>").count(), 15);
        assert!(!page.contains('`'));
    }

    #[test]
    fn text_has_no_links() {
        assert_eq!(unlinked("array of [A](#A) or null"), "array of A or null");
        assert_eq!(unlinked("integer"), "integer");
    }
}
