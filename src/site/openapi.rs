//! Reading the `OpenAPI` document: its endpoints, their parameters, and the objects of their answers. What
//! is read is words in Markdown, for pages and for plain text alike.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The name of the schema that a `$ref` points at.
pub(super) fn reference(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.rsplit('/').next()
}

/// What a `$ref` into the document points at; the value itself where it is none.
pub(super) fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"]
        .as_str()
        .and_then(|target| target.strip_prefix('#'));
    target
        .and_then(|pointer| document.pointer(pointer))
        .unwrap_or(value)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A string or number as it stands in text; nothing for anything else.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// An endpoint.
pub(super) struct Operation<'a> {
    document: &'a Value,
    pub(super) path: &'a str,
    about: &'a Value,
}

impl<'a> Operation<'a> {
    pub(super) fn id(&self) -> &'a str {
        text(&self.about["operationId"])
    }

    pub(super) fn summary(&self) -> &'a str {
        text(&self.about["summary"])
    }

    pub(super) fn description(&self) -> &'a str {
        text(&self.about["description"])
    }

    pub(super) fn parameters(&self) -> Vec<Parameter<'a>> {
        let parameters = items(&self.about["parameters"]).iter();
        let parameters = parameters.map(|one| Parameter::of(self.document, one));
        parameters.collect()
    }

    /// The name of the object that it answers; a file of the dumps is none.
    pub(super) fn answer(&self) -> Option<&'a str> {
        reference(&self.about["responses"]["200"]["content"]["application/json"]["schema"])
    }

    /// An answer, and the media type it is of: the first that is text.
    pub(super) fn example(&self) -> Option<(&'a str, &'a Value)> {
        let content = self.about["responses"]["200"]["content"].as_object()?;
        let kind = ["text/csv", "application/json"]
            .into_iter()
            .find(|kind| content.contains_key(*kind))?;
        Some((kind, &content[kind]["examples"]["sample"]["value"]))
    }

    /// The statuses of its answers.
    pub(super) fn statuses(&self) -> Vec<&'a str> {
        let responses = self.about["responses"].as_object().into_iter().flatten();
        responses.map(|(status, _)| status.as_str()).collect()
    }
}

/// The endpoints, in the order of their tags.
pub(super) fn operations(document: &Value) -> Vec<Operation<'_>> {
    let tags = items(&document["tags"]);
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

/// What an endpoint may be asked with.
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    /// `path`, `query` or `header`.
    pub(super) place: &'a str,
    pub(super) about: &'a str,
    pub(super) example: String,
    pub(super) default: String,
    /// All that it may be, where they are few.
    pub(super) choices: Vec<String>,
    /// Type, bounds and default in words.
    pub(super) kind: String,
}

impl<'a> Parameter<'a> {
    fn of(document: &'a Value, value: &'a Value) -> Parameter<'a> {
        let value = resolved(document, value);
        let schema = &value["schema"];
        let named = resolved(document, schema["allOf"].get(0).unwrap_or(schema));
        let choices: Vec<String> = items(&named["enum"]).iter().map(scalar).collect();
        let default = scalar(&schema["default"]);
        let mut kind = text(&named["type"]).to_owned();
        if !choices.is_empty() {
            kind = format!("`{}`", choices.join(", "));
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
            let _ = write!(kind, ", `{pattern}`");
        }
        if !default.is_empty() {
            let _ = write!(kind, ", default {default}");
        }
        Parameter {
            name: text(&value["name"]),
            place: text(&value["in"]),
            about: text(&value["description"]),
            example: scalar(&value["example"]),
            default,
            choices,
            kind,
        }
    }
}

/// An object that answers are made of.
pub(super) struct Object<'a> {
    document: &'a Value,
    pub(super) name: &'a str,
    schema: &'a Value,
}

/// A member of an object.
pub(super) struct Member<'a> {
    pub(super) name: &'a str,
    /// Its type in words; objects are links to where they stand on the page.
    pub(super) kind: String,
    pub(super) about: &'a str,
}

impl<'a> Object<'a> {
    pub(super) fn about(&self) -> &'a str {
        text(&self.schema["description"])
    }

    /// The names of its members. All are required, and listed in the order in which they are written.
    fn names(&self) -> Vec<&'a str> {
        items(&self.schema["required"]).iter().map(text).collect()
    }

    /// The object that it begins as, if there is a long one, and the members that it has more.
    pub(super) fn members(&self) -> (Option<&'a str>, Vec<Member<'a>>) {
        let all = self.names();
        let others = objects(self.document);
        let begin = others.iter().find(|other| {
            let begin = other.names();
            begin.len() > 4 && begin.len() < all.len() && all.starts_with(&begin)
        });
        let told = begin.map_or(0, |begin| begin.names().len());
        let member = |name: &&'a str| {
            let value = &self.schema["properties"][*name];
            let about = match text(&value["description"]) {
                "" => text(&resolved(self.document, value)["description"]),
                about => about,
            };
            let kind = kind(self.document, value);
            Member { name, kind, about }
        };
        let members = all[told..].iter().map(member).collect();
        (begin.map(|begin| begin.name), members)
    }

    /// A value of it as JSON for readers: members in their order, and a line for each but in short arrays.
    pub(super) fn pretty(&self, value: &Value) -> String {
        let mut out = String::new();
        pretty(&mut out, self.document, self.schema, value, 0);
        out
    }
}

/// All objects, by name.
pub(super) fn objects(document: &Value) -> Vec<Object<'_>> {
    let schemas = document["components"]["schemas"].as_object();
    let schemas = schemas.into_iter().flatten();
    let objects = schemas.filter(|(_, schema)| schema["type"] == "object");
    objects
        .map(|(name, schema)| Object {
            document,
            name,
            schema,
        })
        .collect()
}

/// A type in words.
fn kind(document: &Value, value: &Value) -> String {
    if let Some(name) = reference(value) {
        let choices = items(&resolved(document, value)["enum"]);
        if choices.is_empty() {
            return format!("[{name}](#{name})");
        }
        let choices: Vec<String> = choices
            .iter()
            .map(|one| format!("`{}`", text(one)))
            .collect();
        return choices.join(" or ");
    }
    let either = items(&value["oneOf"]);
    if !either.is_empty() {
        let kinds: Vec<String> = either.iter().map(|one| kind(document, one)).collect();
        return kinds.join(" or ");
    }
    if value["type"] == "array" {
        let inner = &value["items"];
        if inner["maxItems"] == 2 {
            return "array of pairs".to_owned();
        }
        return format!("array of {}", kind(document, inner));
    }
    let plain = |one: &Value| match (text(one), text(&value["format"])) {
        ("string", "date") => "date".to_owned(),
        ("string", "date-time") => "time".to_owned(),
        (name, _) => name.to_owned(),
    };
    match &value["type"] {
        Value::Array(kinds) => kinds.iter().map(plain).collect::<Vec<_>>().join(" or "),
        one => plain(one),
    }
}

fn pretty(out: &mut String, document: &Value, schema: &Value, value: &Value, depth: usize) {
    let schema = resolved(document, schema);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    match value {
        Value::Array(list) if list.iter().any(|one| one.is_object() || one.is_array()) => {
            for (at, one) in list.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                line(out, depth + 1);
                pretty(out, document, &schema["items"], one, depth + 1);
            }
            line(out, depth);
            out.push(']');
        }
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(Value::to_string).collect();
            let _ = write!(out, "[{}]", list.join(", "));
        }
        Value::Object(members) => {
            for (at, name) in items(&schema["required"]).iter().map(text).enumerate() {
                out.push(if at == 0 { '{' } else { ',' });
                line(out, depth + 1);
                let _ = write!(out, "\"{name}\": ");
                let inner = &schema["properties"][name];
                let value = members.get(name).unwrap_or(&Value::Null);
                pretty(out, document, inner, value, depth + 1);
            }
            line(out, depth);
            out.push('}');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

/// Every failure with its meaning, each once. The endpoints of the API come last and have the most
/// general meanings.
pub(super) fn errors(document: &Value) -> BTreeMap<&str, &str> {
    // No answer to GET, so no endpoint has it.
    let not_allowed = "`method_not_allowed`: only GET, HEAD and OPTIONS are; `Allow` lists them.";
    let mut rows = BTreeMap::from([("405", not_allowed)]);
    let paths = document["paths"].as_object().into_iter().flatten();
    for (_, item) in paths {
        let responses = item["get"]["responses"].as_object().into_iter().flatten();
        for (status, response) in responses {
            if status.as_str() >= "400" {
                let response = resolved(document, response);
                rows.insert(status, text(&response["description"]));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Value {
        serde_json::from_str(&crate::site::openapi("https://x.test")).unwrap()
    }

    #[test]
    fn every_member_and_parameter_is_told() {
        let document = document();
        for object in objects(&document) {
            assert!(!object.about().is_empty(), "{}", object.name);
            for Member { name, kind, about } in object.members().1 {
                assert!(
                    !kind.is_empty() && !about.is_empty(),
                    "{} {name}",
                    object.name
                );
            }
        }
        for operation in operations(&document) {
            for parameter in operation.parameters() {
                assert!(!parameter.kind.is_empty(), "{}", parameter.name);
                assert!(!parameter.about.is_empty(), "{}", parameter.name);
            }
        }
    }

    #[test]
    fn examples_are_written_whole_in_the_order_of_members() {
        let document = document();
        for operation in operations(&document) {
            let Some(name) = operation.answer() else {
                continue;
            };
            let objects = objects(&document);
            let object = objects.iter().find(|object| object.name == name).unwrap();
            let (_, example) = operation.example().unwrap();
            let shown = object.pretty(example);
            let read: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(read, *example, "{name}");
            let places = object.names().into_iter().map(|name| {
                let start = format!("\n  \"{name}\": ");
                shown.find(&start).unwrap()
            });
            assert!(places.is_sorted(), "{name}");
        }
    }

    #[test]
    fn failures_have_their_general_meaning() {
        let document = document();
        let errors = errors(&document);
        let statuses: Vec<&str> = errors.keys().copied().collect();
        let all = [
            "400", "401", "403", "404", "405", "412", "416", "429", "431", "500", "503",
        ];
        assert_eq!(statuses, all);
        assert!(errors["400"].contains("a malformed island code"));
    }
}
