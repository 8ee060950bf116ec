//! Pages drawn from bodies in which any value is another one.

use super::*;

/// Returns the paths of all values in a body that are not objects or lists.
fn leaves(value: &Json, path: &str, found: &mut Vec<String>) {
    match value {
        Json::Object(members) => {
            for (name, value) in members {
                leaves(value, &format!("{path}/{name}"), found);
            }
        }
        Json::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                leaves(value, &format!("{path}/{at}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn a_value_of_a_body_may_be_anything() {
    let values = [
        json!(i64::MIN),
        json!(i64::MIN + 1),
        json!(-1),
        json!(0),
        json!(253_402_300_800_i64),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(0.5),
        json!(f64::MAX),
        json!(f64::MIN),
        json!("-9999-01-01"),
        json!("0000-01-01"),
        json!("9999-12-31T23:59:60+99:99"),
        json!("\u{10ffff}"),
        Json::Null,
        json!(true),
        json!([]),
        json!({}),
    ];
    for (changed, body) in bodies(true) {
        let mut paths = Vec::new();
        leaves(&body, "", &mut paths);
        for path in paths {
            for value in &values {
                let drawn = pages(true, |kind, body| {
                    if kind == changed {
                        *body.pointer_mut(&path).unwrap() = value.clone();
                    }
                });
                assert_eq!(drawn.len(), 9, "{changed}{path}: {value}");
            }
        }
    }
}
