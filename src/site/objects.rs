//! The objects that answers are made of, a line each, from the `OpenAPI` document.

use std::fmt::Write as _;

use serde_json::Value;

use super::document::{reference, resolved, text};

/// What answers are made of: each object with its members in the order in which they are written.
pub(super) fn objects(document: &Value) -> String {
    let mut out = String::from(
        "<h2 id=objects>Objects</h2><p>A type with ? may be null; a member without one is a string. Each answer \
         has <code>meta</code> as well, with its <code>generatedAt</code>, and on lists <code>total int, hasMore bool, \
         limit int, offset int</code>.</p><pre>",
    );
    let schemas = document["components"]["schemas"].as_object();
    let schemas = || schemas.into_iter().flatten();
    for (name, schema) in schemas() {
        let all = members(schema);
        // Those of failures and of `meta` are told above.
        if all.is_empty() || name.starts_with("Error") || name.ends_with("Meta") {
            continue;
        }
        // One that begins as another whole one does, says so.
        let begins = schemas().find(|(_, other)| {
            let begin = members(other);
            begin.len() > 4 && begin.len() < all.len() && all.starts_with(&begin)
        });
        let _ = write!(out, "<b id={name}>{name}</b> ");
        let mut rest = &all[..];
        if let Some((other, begin)) = begins {
            let _ = write!(out, "<a href=#{other}>{other}</a>, ");
            rest = &all[members(begin).len()..];
        }
        let texts: Vec<String> = rest
            .iter()
            .filter(|member| **member != "meta")
            .map(|member| {
                let kind = member_type(document, &schema["properties"][member]);
                // Most are, so that is left out.
                let text = format!("{member} {}", kind.strip_prefix("string").unwrap_or(&kind));
                text.trim_end().replace(" ?", "?")
            })
            .collect();
        let _ = writeln!(out, "{}", texts.join(", "));
    }
    out.push_str("</pre>");
    out
}

/// The names of an object's members. All are required, and listed in their order.
fn members(schema: &Value) -> Vec<&str> {
    let required = schema["required"].as_array().into_iter().flatten();
    required.map(text).collect()
}

/// The type of a member, linked where it is an object.
fn member_type(document: &Value, value: &Value) -> String {
    if let Some(name) = reference(value) {
        let target = resolved(document, value);
        return match target["enum"].as_array() {
            Some(choices) => choices.iter().map(text).collect::<Vec<_>>().join("|"),
            None => format!("<a href=#{name}>{name}</a>"),
        };
    }
    let either = value["oneOf"].as_array().or(value["anyOf"].as_array());
    if let Some(either) = either {
        let kinds: Vec<String> = either
            .iter()
            .map(|kind| member_type(document, kind))
            .collect();
        return kinds.join("|").replace("|null", "?");
    }
    if value["type"] == "array" {
        return format!("[{}]", member_type(document, &value["items"]));
    }
    match &value["type"] {
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().map(short).collect();
            kinds.join("|").replace("|null", "?")
        }
        kind => short(kind).to_owned(),
    }
}

/// A type's name in little room.
fn short(kind: &Value) -> &str {
    match text(kind) {
        "integer" => "int",
        "boolean" => "bool",
        kind => kind,
    }
}
