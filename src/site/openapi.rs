//! The `OpenAPI` document, and what pages read from it as words in Markdown: the endpoints, their
//! parameters, and the objects of their responses.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::settings::SiteSettings;
use super::text::count;

const OPENAPI: &str = include_str!("openapi.json");

/// Returns the `OpenAPI` 3.1 document, with the service's own address as its one server (SPEC
/// section 1), its limits and its contact.
pub fn openapi(service: &SiteSettings) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    // Within a string, so without quotes.
    let inner = |text: &str| quoted(text).trim_matches('"').to_owned();
    let [anonymous, free, starter, pro] = service.limits.map(|limit| count(u64::from(limit)));
    OPENAPI
        .replacen("\"{base_url}\"", &quoted(&service.base_url), 1)
        .replacen("\"{contact}\"", &service.openapi_contact().to_string(), 1)
        .replacen("{keys}", &inner(&service.keys_text()), 1)
        .replacen("{anonymous}", &anonymous, 1)
        .replacen("{free}", &free, 1)
        .replacen("{starter}", &starter, 1)
        .replacen("{pro}", &pro, 1)
}

/// Returns the name of the schema that a `$ref` points at.
fn reference(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.rsplit('/').next()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the text of a string or number, empty for anything else.
fn scalar(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        other => text(other).to_owned(),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> + Clone {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}

/// Returns the names of an object's members, all of which are required, in the order of responses.
fn member_names(schema: &Value) -> Vec<&str> {
    items(&schema["required"]).iter().map(text).collect()
}

#[derive(Serialize)]
pub(super) struct Operation<'a> {
    pub(super) path: &'a str,
    pub(super) tag: &'a str,
    pub(super) id: &'a str,
    pub(super) summary: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: Vec<ParameterDoc<'a>>,
    /// The name of the object of its response. Files of the dumps have none.
    pub(super) object: Option<&'a str>,
    /// An example of the response, the first one that is text.
    #[serde(skip)]
    example: Option<&'a Value>,
    /// The statuses of its other responses, with a meaning if that is not the general one.
    pub(super) statuses: Vec<(&'a str, Option<&'a str>)>,
}

#[derive(Serialize)]
pub(super) struct ParameterDoc<'a> {
    pub(super) name: &'a str,
    /// `path`, `query` or `header`.
    pub(super) place: &'a str,
    pub(super) about: &'a str,
    pub(super) example: String,
    pub(super) default: String,
    /// The allowed values if they are listed.
    pub(super) choices: Vec<&'a str>,
    /// Its type: `string` or `integer`.
    pub(super) kind: &'a str,
    /// The allowed values in Markdown, empty if all are.
    pub(super) allowed: String,
}

#[derive(Serialize)]
pub(super) struct ObjectDoc<'a> {
    pub(super) name: &'a str,
    pub(super) about: &'a str,
    /// A long object, with all members of which this one begins.
    pub(super) base: Option<&'a str>,
    /// The members, except those of the base.
    pub(super) members: Vec<MemberDoc<'a>>,
}

#[derive(Serialize)]
pub(super) struct MemberDoc<'a> {
    pub(super) name: &'a str,
    /// Its type in words.
    pub(super) kind: String,
    pub(super) about: &'a str,
}

/// The document, parsed. It is dropped when the pages are written, since it takes 0.8 MiB.
pub(super) struct Document(Value);

impl Document {
    pub(super) fn parsed(service: &SiteSettings) -> Document {
        let parsed = serde_json::from_str(&openapi(service));
        Document(parsed.expect("the document is JSON, as the tests of this module show"))
    }

    /// Returns a text of the section `info`.
    pub(super) fn info(&self, member: &str) -> &str {
        text(&self.0["info"][member])
    }

    /// Returns the tags with their descriptions.
    pub(super) fn tags(&self) -> impl Iterator<Item = (&str, &str)> {
        let tags = items(&self.0["tags"]).iter();
        tags.map(|tag| (text(&tag["name"]), text(&tag["description"])))
    }

    /// Returns the endpoints in the order of their tags.
    pub(super) fn operations<'a>(&'a self) -> Vec<Operation<'a>> {
        let tags = items(&self.0["tags"]);
        let mut paths: Vec<_> = members(&self.0["paths"])
            .map(|(path, item)| (path, &item["get"]))
            .collect();
        paths.sort_by_key(|(_, get)| tags.iter().position(|tag| tag["name"] == get["tags"][0]));
        let operation = |(path, get): (_, &'a Value)| {
            let content = &get["responses"]["200"]["content"];
            let text_kinds = ["text/csv", "application/json"];
            let media = text_kinds.iter().find_map(|kind| content.get(kind));
            Operation {
                path,
                tag: text(&get["tags"][0]),
                id: text(&get["operationId"]),
                summary: text(&get["summary"]),
                description: text(&get["description"]),
                parameters: (items(&get["parameters"])
                    .iter()
                    .map(|one| self.parameter(one)))
                .collect(),
                object: reference(&content["application/json"]["schema"]),
                example: media.map(|media| &media["examples"]["sample"]["value"]),
                statuses: members(&get["responses"])
                    .filter(|(status, _)| *status != "200")
                    .map(|(status, response)| (status, response["description"].as_str()))
                    .collect(),
            }
        };
        paths.into_iter().map(operation).collect()
    }

    fn parameter<'a>(&'a self, value: &'a Value) -> ParameterDoc<'a> {
        let value = self.resolved(value);
        let schema = &value["schema"];
        let named = self.resolved(schema["allOf"].get(0).unwrap_or(schema));
        let choices: Vec<&str> = items(&named["enum"]).iter().map(text).collect();
        let [min, max, default] =
            ["minimum", "maximum", "default"].map(|member| scalar(&schema[member]));
        let pattern = schema["pattern"].as_str();
        let allowed = if !choices.is_empty() {
            format!("`{}`", choices.join("`, `"))
        } else if let Some(pattern) = pattern {
            format!("`{pattern}`")
        } else if max.len() > 15 {
            format!("{min} or more")
        } else if min.is_empty() {
            String::new()
        } else {
            format!("{min} to {max}")
        };
        ParameterDoc {
            name: text(&value["name"]),
            place: text(&value["in"]),
            about: text(&value["description"]),
            example: scalar(&value["example"]),
            default,
            choices,
            kind: text(&named["type"]),
            allowed,
        }
    }

    /// Returns all objects, by name. `link` returns the name of an object as types show it.
    pub(super) fn objects<'a>(&'a self, link: fn(&str) -> String) -> Vec<ObjectDoc<'a>> {
        let schemas = members(&self.0["components"]["schemas"]);
        let schemas = schemas.filter(|(_, schema)| schema["type"] == "object");
        let object = |(name, schema)| {
            let all = member_names(schema);
            let others = schemas.clone();
            let mut others = others.map(|(name, other)| (name, member_names(other)));
            let base = others
                .find(|(_, begin)| (5..all.len()).contains(&begin.len()) && all.starts_with(begin));
            let (base, known) = base.map_or((None, 0), |(name, begin)| (Some(name), begin.len()));
            let member = |name: &&'a str| {
                let value = &schema["properties"][*name];
                let about = match text(&value["description"]) {
                    "" => text(&self.resolved(value)["description"]),
                    about => about,
                };
                let kind = self.kind(value, link);
                MemberDoc { name, kind, about }
            };
            let members = all[known..].iter().map(member).collect();
            ObjectDoc {
                name,
                about: text(&schema["description"]),
                base,
                members,
            }
        };
        schemas.clone().map(object).collect()
    }

    /// Returns the meaning of each error status. The endpoints of the API come last and have the
    /// most general meanings.
    pub(super) fn errors(&self) -> BTreeMap<&str, &str> {
        // No response to GET, so no endpoint has it.
        let not_allowed =
            "`method_not_allowed`: the method is not allowed; `Allow` lists those that are.";
        let mut errors = BTreeMap::from([("405", not_allowed)]);
        let responses =
            members(&self.0["paths"]).flat_map(|(_, item)| members(&item["get"]["responses"]));
        for (status, response) in responses.filter(|(status, _)| *status >= "400") {
            errors.insert(status, text(&self.resolved(response)["description"]));
        }
        errors
    }

    /// Returns the example of a response: JSON with the members in their order, or the text of a file.
    pub(super) fn example(&self, operation: &Operation<'_>) -> Option<String> {
        let example = operation.example?;
        Some(match operation.object {
            Some(name) => self.ordered(&self.0["components"]["schemas"][name], example),
            None => text(example).to_owned(),
        })
    }

    fn ordered(&self, schema: &Value, value: &Value) -> String {
        let schema = self.resolved(schema);
        match value {
            Value::Array(list) => {
                let item = |one| self.ordered(&schema["items"], one);
                let items: Vec<String> = list.iter().map(item).collect();
                format!("[{}]", items.join(","))
            }
            Value::Object(_) => {
                let member = |name: &str| {
                    let value = self.ordered(&schema["properties"][name], &value[name]);
                    format!("\"{name}\":{value}")
                };
                let names = member_names(schema).into_iter();
                let members: Vec<String> = names.map(member).collect();
                format!("{{{}}}", members.join(","))
            }
            other => other.to_string(),
        }
    }

    /// Returns a type in words.
    fn kind(&self, value: &Value, link: fn(&str) -> String) -> String {
        let either = |kinds: Vec<String>| kinds.join(" or ");
        let choices = items(&self.resolved(value)["enum"]).iter();
        let choices: Vec<String> = choices.map(|one| format!("`{}`", text(one))).collect();
        if !choices.is_empty() {
            return either(choices);
        }
        if let Some(name) = reference(value) {
            return link(name);
        }
        let plain = |one: &Value| match (text(one), text(&value["format"])) {
            ("string", "date") => "date".to_owned(),
            ("string", "date-time") => "time".to_owned(),
            (name, _) => name.to_owned(),
        };
        match (&value["oneOf"], &value["type"], &value["items"]) {
            (Value::Array(kinds), ..) => {
                either(kinds.iter().map(|one| self.kind(one, link)).collect())
            }
            (_, Value::Array(kinds), _) => either(kinds.iter().map(plain).collect()),
            (_, one, item) if one == "array" && item["prefixItems"].is_array() => {
                "array of pairs".to_owned()
            }
            (_, one, item) if one == "array" => format!("array of {}", self.kind(item, link)),
            (_, one, _) => plain(one),
        }
    }

    /// Returns the target of a `$ref` into the document, or the value itself if it is not one.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let target = value["$ref"].as_str();
        let pointer = target.and_then(|target| target.strip_prefix('#'));
        let target = pointer.and_then(|pointer| self.0.pointer(pointer));
        target.unwrap_or(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::code::json_lines;

    #[test]
    fn every_member_and_parameter_has_a_type_and_a_description() {
        let document = Document::parsed(&SiteSettings::new("https://x.test"));
        for object in document.objects(str::to_owned) {
            assert!(!object.about.is_empty(), "{}", object.name);
            for MemberDoc { name, kind, about } in object.members {
                assert!(
                    !kind.is_empty() && !about.is_empty(),
                    "{} {name}",
                    object.name
                );
            }
        }
        for parameter in document
            .operations()
            .into_iter()
            .flat_map(|operation| operation.parameters)
        {
            assert!(!parameter.kind.is_empty(), "{}", parameter.name);
            assert!(!parameter.about.is_empty(), "{}", parameter.name);
        }
    }

    #[test]
    fn examples_are_written_whole_in_the_order_of_members() {
        let document = Document::parsed(&SiteSettings::new("https://x.test"));
        for operation in document.operations() {
            let Some(name) = operation.object else {
                continue;
            };
            let example = operation.example.unwrap();
            let text = document.example(&operation).unwrap();
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, *example, "{name}");
            let shown = json_lines(text.as_bytes()).unwrap().join("\n");
            let places = member_names(&document.0["components"]["schemas"][name])
                .into_iter()
                .map(|name| {
                    let start = format!("\n  &quot;{name}&quot;: ");
                    shown.find(&start).unwrap()
                });
            assert!(places.is_sorted(), "{name}");
        }
    }

    #[test]
    fn errors_have_their_general_meaning() {
        let document = Document::parsed(&SiteSettings::new("https://x.test"));
        let errors = document.errors();
        let statuses: Vec<&str> = errors.keys().copied().collect();
        let all = [
            "400", "401", "403", "404", "405", "412", "416", "429", "431", "500", "503",
        ];
        assert_eq!(statuses, all);
        assert!(errors["400"].contains("a malformed island code"));
    }
}
