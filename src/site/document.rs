//! Reading the `OpenAPI` document.

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
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}
