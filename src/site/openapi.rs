//! The `OpenAPI` document, and the parts of it that templates read: the endpoints, and the objects of their
//! responses.

use std::collections::BTreeMap;

use minijinja::context;
use minijinja::value::Serde;
use serde_json::{Value, json};

use super::json::member;
use super::settings::SiteSettings;
use super::text::count;
use crate::request::{CREATOR_PARAMETERS, ISLAND_PARAMETERS, Kind, Parameter};

const OPENAPI: &str = include_str!("openapi.json");
/// The origin of data without a notice of its own (SPEC section 1).
const ORIGIN: &str = "The underlying metrics are facts from a third-party public interface; \
    the service is not affiliated with that third party.";

/// Returns the `OpenAPI` 3.1 document, with the parameters of the lists, and with the service's own address as its one
/// server (SPEC section 1), its limits and its contact.
pub fn openapi(service: &SiteSettings) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    // Within a string, so without the quotes around it.
    let inner = |text: &str| {
        let quoted = quoted(text);
        quoted[1..quoted.len() - 1].to_owned()
    };
    let origin = service.notice.as_deref().unwrap_or(ORIGIN);
    let limits = service.limits;
    // Texts of the operator are inserted last, in reverse order of their places, so that no placeholder in one of them
    // is replaced.
    let replaced = [
        ("\"{base_url}\"", quoted(&service.base_url)),
        ("\"{island_parameters}\"", parameters(ISLAND_PARAMETERS)),
        ("\"{creator_parameters}\"", parameters(CREATOR_PARAMETERS)),
        ("{anonymous}", count(limits.anonymous.into())),
        ("{free}", count(limits.free.into())),
        ("{starter}", count(limits.starter.into())),
        ("{pro}", count(limits.pro.into())),
        ("\"{contact}\"", service.openapi_contact().to_string()),
        ("{keys}", inner(&service.keys_text())),
        ("{origin}", inner(origin)),
    ];
    let replace = |text: String, (name, value): (&str, String)| text.replacen(name, &value, 1);
    replaced.into_iter().fold(OPENAPI.to_owned(), replace)
}

/// Returns the parameters of a list as JSON, one on a line.
fn parameters(parameters: &[Parameter]) -> String {
    let described = parameters.iter().map(|parameter| {
        let mut schema = schema(parameter.kind);
        let value = |text: &str| {
            let number = text.parse::<u64>().ok();
            let number = number.filter(|_| schema["type"] == "integer");
            number.map_or_else(|| Value::from(text), Value::from)
        };
        let example = value(parameter.example);
        if let Some(default) = parameter.default.map(value) {
            if schema["$ref"].is_string() {
                schema = json!({"allOf": [schema]});
            }
            schema["default"] = default;
        }
        let described = json!({
            "name": parameter.name, "in": "query", "required": false,
            "description": parameter.description, "schema": schema, "example": example,
        });
        described.to_string()
    });
    let indent = "\n          ";
    let described: Vec<String> = described.collect();
    format!(
        "[{indent}{}\n        ]",
        described.join(&format!(",{indent}"))
    )
}

fn schema(kind: Kind) -> Value {
    match kind {
        Kind::Text { .. } => json!({"type": "string"}),
        Kind::Name { schema, .. } => json!({"$ref": format!("#/components/schemas/{schema}")}),
        Kind::Integer { range, .. } => {
            let (minimum, maximum) = range;
            let mut schema = json!({"type": "integer", "minimum": minimum, "maximum": maximum});
            if i32::try_from(maximum).is_ok() {
                schema["format"] = "int32".into();
            } else if i64::try_from(maximum).is_ok() {
                schema["format"] = "int64".into();
            }
            // Otherwise, no format has the numbers that clients may send.
            schema
        }
    }
}

/// Returns the name of the schema that a `$ref` points at.
fn reference(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.rsplit('/').next()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> + Clone {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}

/// The document, parsed, and the text of its paths. It is dropped when the pages are written, since it takes 0.8 MiB.
pub(super) struct Document(pub(super) Value, String);

impl Document {
    pub(super) fn parsed(service: &SiteSettings) -> Document {
        let text = openapi(service);
        let parsed = serde_json::from_str(&text);
        let parsed = parsed.expect("the document is JSON, as the tests of this module show");
        Document(
            parsed,
            member(&text, "paths").unwrap_or_default().to_owned(),
        )
    }

    /// Returns the values of templates: the settings of the server, the document, and its parts.
    pub(super) fn values(&self, service: &SiteSettings) -> minijinja::Value {
        context! {
            api => Serde(&self.0),
            endpoints => Serde(self.operations()),
            objects => Serde(self.objects()),
            errors => self.errors().into_iter().collect::<minijinja::Value>(),
            ..minijinja::Value::from(Serde(service))
        }
    }

    /// Returns the endpoints in the order of their tags: the description of each GET, with complete parameters, its
    /// `path`, the `example` of its response as text, and as `object` the name of the object of its response, which
    /// files of the dumps do not have.
    pub(super) fn operations(&self) -> Vec<Value> {
        let operation = |(path, item): (&str, &Value)| {
            let mut get = item["get"].clone();
            let parameters = items(&get["parameters"]).iter();
            get["parameters"] = parameters.map(|one| self.complete(one)).collect();
            get["object"] = reference(&content(&get)["application/json"]["schema"]).into();
            get["example"] = self.example(path, &get).into();
            get["path"] = path.into();
            get
        };
        let mut operations: Vec<Value> = members(&self.0["paths"]).map(operation).collect();
        let tags = items(&self.0["tags"]);
        operations.sort_by_key(|get| tags.iter().position(|tag| tag["name"] == get["tags"][0]));
        operations
    }

    /// Returns a part of the document with the members of what it refers to, except of objects: of these, pages show
    /// the names.
    fn complete(&self, value: &Value) -> Value {
        let target = self.resolved(value["allOf"].get(0).unwrap_or(value));
        if std::ptr::eq(target, value) {
            return match value {
                Value::Array(all) => all.iter().map(|one| self.complete(one)).collect(),
                Value::Object(_) => members(value)
                    .map(|(name, member)| (name, self.complete(member)))
                    .collect(),
                scalar => scalar.clone(),
            };
        }
        let is_object = target["type"] == "object";
        let mut complete = if is_object {
            value.clone()
        } else {
            self.complete(target)
        };
        for name in ["description", "default"] {
            if let Some(value) = value.get(name).or(target.get(name)) {
                complete[name] = value.clone();
            }
        }
        complete
    }

    /// Returns the schemas of all objects with complete properties, each with its `name`.
    pub(super) fn objects(&self) -> Vec<Value> {
        let schemas = members(&self.0["components"]["schemas"]);
        let schemas = schemas.filter(|(_, schema)| schema["type"] == "object");
        let object = |(name, schema): (&str, &Value)| {
            let mut object = schema.clone();
            object["properties"] = self.complete(&object["properties"]);
            object["name"] = name.into();
            object
        };
        schemas.map(object).collect()
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

    /// Returns the example of a response as it is written: JSON with the members in the order of responses, or the text
    /// of a file.
    fn example<'a>(&'a self, path: &str, operation: &'a Value) -> Option<&'a str> {
        let csv = &content(operation)["text/csv"]["examples"]["sample"]["value"];
        let place = "get responses 200 content application/json examples sample value";
        let mut place = [path].into_iter().chain(place.split(' '));
        csv.as_str().or_else(|| place.try_fold(&*self.1, member))
    }

    /// Returns the target of a `$ref` into the document, or the value itself if it is not one.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        let target = value["$ref"].as_str();
        let pointer = target.and_then(|target| target.strip_prefix('#'));
        let target = pointer.and_then(|pointer| self.0.pointer(pointer));
        target.unwrap_or(value)
    }
}

/// Returns the content of the response of an endpoint, by its media type.
fn content(operation: &Value) -> &Value {
    &operation["responses"]["200"]["content"]
}

/// Returns the values that a schema allows in Markdown, empty if all are.
pub(super) fn allowed(schema: &Value) -> String {
    let scalar = |value: &Value| match value {
        Value::Number(number) => number.to_string(),
        other => text(other).to_owned(),
    };
    let [min, max] = ["minimum", "maximum"].map(|member| scalar(&schema[member]));
    let choices: Vec<&str> = items(&schema["enum"]).iter().map(text).collect();
    if !choices.is_empty() {
        format!("`{}`", choices.join("`, `"))
    } else if let Some(pattern) = schema["pattern"].as_str() {
        // In words: `0000-0000-0000`, `YYYY-MM-DD` or `latest`.
        let form = pattern
            .trim_matches(['^', '(', ')', '$'])
            .replace('|', "` or `");
        let form = form.replace(r"\d{4}-\d{2}-\d{2}", "YYYY-MM-DD");
        format!("`{}`", form.replace(r"\d{4}", "0000"))
    } else if max.len() > 15 {
        format!("{min} or more")
    } else if min.is_empty() {
        String::new()
    } else {
        format!("{min} to {max}")
    }
}

/// Returns a type in words, in Markdown. Names of objects are links to them if `has_links`.
pub(super) fn kind(schema: &Value, has_links: bool) -> String {
    let either = |kinds: Vec<String>| kinds.join(" or ");
    let choices = items(&schema["enum"]).iter();
    let choices: Vec<String> = choices.map(|one| format!("`{}`", text(one))).collect();
    if !choices.is_empty() {
        return either(choices);
    }
    if let Some(name) = reference(schema) {
        return if has_links {
            format!("[{name}](#{name})")
        } else {
            name.to_owned()
        };
    }
    let plain = |one: &Value| match (text(one), text(&schema["format"])) {
        ("string", "date") => "date".to_owned(),
        ("string", "date-time") => "time".to_owned(),
        (name, _) => name.to_owned(),
    };
    match (&schema["oneOf"], &schema["type"], &schema["items"]) {
        (Value::Array(kinds), ..) => either(kinds.iter().map(|one| kind(one, has_links)).collect()),
        (_, Value::Array(kinds), _) => either(kinds.iter().map(plain).collect()),
        (_, one, item) if one == "array" && item["prefixItems"].is_array() => {
            "array of pairs".to_owned()
        }
        (_, one, item) if one == "array" => format!("array of {}", kind(item, has_links)),
        (_, one, _) => plain(one),
    }
}

#[cfg(test)]
#[path = "openapi_tests.rs"]
mod tests;
