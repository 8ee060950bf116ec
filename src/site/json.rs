//! JSON on pages: indented, shortened, and with colours for values.

use serde::de::IgnoredAny;
use serde_json::Deserializer;

use super::text::Escaped;

/// Longer arrays are shortened.
const WHOLE_MAX: usize = 13;
/// Items shown of a shortened array.
const SHOWN: usize = 2;
/// Arrays of scalars up to this length in bytes are written on one line.
const LINE_MAX: usize = 50;

/// Returns a JSON value as lines of HTML: members in their order, without the rest of long arrays.
fn lines_of(json: &str) -> Option<Vec<String>> {
    let (ends, width) = match json.as_bytes().first()? {
        b'{' => (["{", "}"], 2),
        b'[' => (["[", "]"], 1),
        b'"' => return Some(vec![format!("<span class=s>{}</span>", Escaped(json))]),
        _ => return Some(vec![format!("<span class=n>{}</span>", Escaped(json))]),
    };
    let parts: Vec<&str> = parts(json).collect::<Option<_>>()?;
    let count = parts.len() / width;
    let shown = if width == 1 && count > WHOLE_MAX {
        SHOWN
    } else {
        count
    };
    let mut values = Vec::new();
    for part in parts.chunks_exact(width).take(shown) {
        let mut lines = lines_of(part[width - 1])?;
        if let [name, _] = part {
            lines[0] = format!("{}: {}", Escaped(name), lines[0]);
        }
        values.push(lines);
    }
    let is_scalar = |part: &&str| !part.starts_with(['[', '{']);
    let bytes: usize = parts.iter().map(|part| part.len() + 2).sum();
    if width == 1 && shown == count && bytes <= LINE_MAX && parts.iter().all(is_scalar) {
        return Some(vec![format!("[{}]", values.concat().join(", "))]);
    }
    let mut lines = vec![ends[0].to_owned()];
    for (at, value) in values.iter().enumerate() {
        lines.extend(value.iter().map(|line| format!("  {line}")));
        if let Some(last) = lines.last_mut().filter(|_| at + 1 < count) {
            last.push(',');
        }
    }
    if shown < count {
        let more = count - shown;
        lines.push(format!("  <span class=c>\u{2026} {more} more</span>"));
    }
    lines.push(ends[1].to_owned());
    Some(lines)
}

/// Iterates over the items of a JSON array, or over the names and values of an object, in their order. The last one is
/// `None` if it is not JSON.
fn parts(json: &str) -> impl Iterator<Item = Option<&str>> {
    let mut rest = json[1..].trim_start();
    std::iter::from_fn(move || {
        if rest.starts_with([']', '}']) {
            return None;
        }
        let Some((part, after)) = first_value(rest) else {
            rest = "]";
            return Some(None);
        };
        rest = after.trim_start_matches([',', ':']).trim_start();
        Some(Some(part))
    })
}

/// Returns the value of a member of a JSON object as it is written. No name has an escaped character.
pub(super) fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = parts(json).flatten();
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        if key.trim_matches('"') == name {
            return Some(value);
        }
    }
    None
}

/// Divides a text after the JSON value at its start.
fn first_value(text: &str) -> Option<(&str, &str)> {
    let mut values = Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let (value, after) = text.split_at(values.byte_offset());
    Some((value, after.trim_start()))
}

/// Returns JSON as lines of HTML, indented, with long arrays shortened; `None` if it is not JSON.
pub(super) fn json_lines(text: &[u8]) -> Option<Vec<String>> {
    let (json, after) = first_value(str::from_utf8(text).ok()?.trim_start())?;
    lines_of(json).filter(|_| after.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removes the markup.
    fn plain(html: &str) -> String {
        let mut parts = html.split('<');
        let first = parts.next().unwrap_or_default().to_owned();
        let rest = parts.map(|part| part.split_once('>').unwrap().1);
        let text = first + &rest.collect::<String>();
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&")
    }

    #[test]
    fn json_keeps_its_order_and_shortens_long_arrays() {
        let text = br#"{"b":[1,2],"a":{"x":null,"y":"<"},"many":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,[14]],"f":1.5,
            "pairs":[["2026-11-20",1],["2026-11-21",2]]}"#;
        let lines = json_lines(text).unwrap();
        let want = "{\n  \"b\": [1, 2],\n  \"a\": {\n    \"x\": null,\n    \"y\": \"<\"\n  },\n  \"many\": [\n    0,\n    1,\n    \
            \u{2026} 13 more\n  ],\n  \"f\": 1.5,\n  \"pairs\": [\n    [\"2026-11-20\", 1],\n    [\"2026-11-21\", 2]\n  ]\n}";
        assert_eq!(plain(&lines.join("\n")), want);
        assert!(
            lines
                .join("")
                .contains("<span class=s>&quot;&lt;&quot;</span>")
        );
        assert!(json_lines(b"{\"a\":[1").is_none());
    }
}
