//! Code on pages: JSON, indented and shortened, and light syntax colours, made when a page is
//! rendered.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::html::Escaped;

/// Longer arrays are shortened.
const WHOLE_MAX: usize = 13;
/// Items shown of a shortened array.
const SHOWN: usize = 2;
/// Arrays of scalars up to this length in characters are written on one line.
const LINE_MAX: usize = 50;

/// JSON with the order of its members, and without the rest of long arrays.
enum Json {
    Scalar(Value),
    Array(Vec<Json>, usize),
    Object(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let (mut kept, mut more) = (Vec::new(), 0);
        while kept.len() < WHOLE_MAX {
            let Some(item) = items.next_element()? else {
                return Ok(Json::Array(kept, 0));
            };
            kept.push(item);
        }
        while let Some(IgnoredAny) = items.next_element()? {
            more += 1;
        }
        if more > 0 {
            more += kept.len() - SHOWN;
            kept.truncate(SHOWN);
        }
        Ok(Json::Array(kept, more))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(member) = members.next_entry()? {
            all.push(member);
        }
        Ok(Json::Object(all))
    }
}

impl Json {
    /// Appends the value to the last line, and further lines.
    fn write(&self, lines: &mut Vec<String>, indent: usize) {
        let (open, close, items): (_, _, Vec<(Option<&str>, &Json)>) = match self {
            Json::Scalar(value) => return append(lines, &scalar(value)),
            Json::Array(items, more) => {
                if let Some(line) = self.short_line().filter(|_| *more == 0) {
                    return append(lines, &line);
                }
                ('[', ']', items.iter().map(|item| (None, item)).collect())
            }
            Json::Object(members) => {
                let members = members.iter();
                (
                    '{',
                    '}',
                    members
                        .map(|(name, value)| (Some(&**name), value))
                        .collect(),
                )
            }
        };
        append(lines, &open.to_string());
        let rest = match self {
            Json::Array(_, more) if *more > 0 => Some(*more),
            _ => None,
        };
        let count = items.len();
        for (at, (name, value)) in items.into_iter().enumerate() {
            lines.push(" ".repeat(indent + 2));
            if let Some(name) = name {
                let name = Value::from(name).to_string();
                append(lines, &format!("{}: ", Escaped(&name)));
            }
            value.write(lines, indent + 2);
            if at + 1 < count || rest.is_some() {
                append(lines, ",");
            }
        }
        if let Some(more) = rest {
            let spaces = " ".repeat(indent + 2);
            lines.push(format!("{spaces}<span class=c>\u{2026} {more} more</span>"));
        }
        lines.push(" ".repeat(indent));
        append(lines, &close.to_string());
    }

    /// Returns an array of scalars as one line, if it is short.
    fn short_line(&self) -> Option<String> {
        let Json::Array(items, _) = self else {
            return None;
        };
        let texts = items.iter().map(|item| match item {
            Json::Scalar(value) => Some(value),
            _ => None,
        });
        let values: Vec<&Value> = texts.collect::<Option<_>>()?;
        let length: usize = values.iter().map(|value| value.to_string().len() + 2).sum();
        let texts: Vec<String> = values.into_iter().map(scalar).collect();
        (length <= LINE_MAX).then(|| format!("[{}]", texts.join(", ")))
    }
}

fn append(lines: &mut [String], text: &str) {
    if let Some(line) = lines.last_mut() {
        line.push_str(text);
    }
}

fn scalar(value: &Value) -> String {
    let text = value.to_string();
    let class = if value.is_string() { 's' } else { 'n' };
    format!("<span class={class}>{}</span>", Escaped(&text))
}

/// Returns JSON as lines of HTML, indented, with long arrays shortened; `None` if it is not JSON.
pub(super) fn json_lines(text: &[u8]) -> Option<Vec<String>> {
    let json: Json = serde_json::from_slice(text).ok()?;
    let mut lines = vec![String::new()];
    json.write(&mut lines, 0);
    Some(lines)
}

/// Keywords of the languages of examples.
const KEYWORDS: &str = "and as async await by case class const create def desc distinct do done each else error \
    esac exit export extends fi for from function group having if import in interface is join \
    let limit new not null of or order print raise return select set table then throw type \
    using where while with yield None True False";

/// Returns source code as HTML in which comments, strings, numbers and keywords are marked. `file`
/// is the name of a file of the language.
pub(super) fn highlighted(source: &str, file: &str) -> String {
    let comments: &[(&str, &str)] = match file.rsplit('.').next().unwrap_or_default() {
        "sh" => &[("#", "\n")],
        "py" => &[("#", "\n"), ("\"\"\"", "\"\"\"")],
        "sql" => &[("--", "\n")],
        "html" => &[("<!--", "-->"), ("// ", "\n"), ("/*", "*/")],
        _ => &[("// ", "\n"), ("//\n", ""), ("/*", "*/")],
    };
    let (mut out, mut rest, mut before) = (String::new(), source, ' ');
    while let Some(first) = rest.chars().next() {
        let is_start = before.is_whitespace() || !matches!(first, '#' | '-');
        let comment = comments
            .iter()
            .find(|(begin, _)| is_start && rest.starts_with(begin));
        let (class, end) = if let Some((begin, end)) = comment {
            let found = rest[begin.len()..].find(end);
            let end_bytes = if *end == "\n" { 0 } else { end.len() };
            (
                "c",
                found.map_or(rest.len(), |at| begin.len() + at + end_bytes),
            )
        } else if matches!(first, '"' | '\'' | '`') {
            ("s", string_end(rest, first))
        } else if first.is_alphanumeric() || first == '_' {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let class = if first.is_ascii_digit() {
                "n"
            } else if before != '.' && KEYWORDS.split(' ').any(|word| word == &rest[..end]) {
                "w"
            } else {
                ""
            };
            (class, end)
        } else {
            ("", first.len_utf8())
        };
        let (token, after) = rest.split_at(end);
        let text = Escaped(token);
        let text = text.to_string();
        let token_html = match class {
            "" => text,
            class => ["<span class=", class, ">", &text, "</span>"].concat(),
        };
        out.push_str(&token_html);
        before = token.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    out
}

/// Returns the end of a string on its line. An apostrophe without another is not a string.
fn string_end(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' if quote != '`' => return 1,
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            c if c == quote && !is_escaped => return at + 1,
            _ => {}
        }
        is_escaped = false;
    }
    1
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

    #[test]
    fn highlighted_code_is_the_same_text() {
        arbtest::arbtest(|u| {
            let parts = [
                "# a", "\n", "'x'", "\"", "\\", "<b>", "return", " 12", "-- c", "/* d", "*/", "`",
                "é", "'",
            ];
            let mut source = String::new();
            for _ in 0..u.int_in_range(0..=12)? {
                source.push_str(u.choose(&parts)?);
            }
            for file in ["a.sh", "a.py", "a.ts", "a.sql", "a.html"] {
                assert_eq!(plain(&highlighted(&source, file)), source, "{file}");
            }
            Ok(())
        });
        let code = highlighted("x = f('a') # b\nreturn 12", "a.py");
        let want = "x = f(<span class=s>'a'</span>) <span class=c># b</span>\n<span class=w>return</span> <span class=n>12</span>";
        assert_eq!(code, want);
    }
}
