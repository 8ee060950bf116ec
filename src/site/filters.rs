//! Filters and functions of the templates: numbers, times, addresses, and HTML of Markdown and JSON.

use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, Value};
use percent_encoding::{AsciiSet, utf8_percent_encode};
use serde_json::Value as Json;

use super::json::json_lines;
use super::markdown::{anchor, inline, prose};
use super::metrics::metric_text;
use super::openapi::{allowed, kind};
use super::text::{Escaped, count, grouped, in_thousands, is_visible};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::request::RESERVED;

/// Adds them to the templates. Those that return HTML escape what they are given.
pub(super) fn add_to(templates: &mut Environment<'_>) {
    let html = Value::from_safe_string;
    templates.add_filter("allowed", |schema: Serde<Json>| allowed(&schema.0));
    templates.add_filter("anchor", anchor);
    templates.add_filter("counted", counted);
    templates.add_filter("encoded", encoded);
    templates.add_filter("encoded_path", encoded_path);
    templates.add_filter("example", move |text: &str| html(example(text)));
    templates.add_filter("inline", move |text: &str| html(inline(text)));
    templates.add_filter("is_visible", is_visible);
    templates.add_filter("isolated", move |text: &str| html(isolated(text)));
    templates.add_filter("kind", |schema: Serde<Json>, has_links: bool| {
        kind(&schema.0, has_links)
    });
    templates.add_filter("metric_text", metric_text);
    templates.add_filter("minute", |time: i64| minute(UnixSeconds(time)));
    templates.add_filter("number", number);
    templates.add_filter("prose", move |text: &str| html(prose(text)));
    templates.add_filter("size", size);
    templates.add_filter("timestamp", |time: i64| UnixSeconds(time).to_string());
    templates.add_filter("with_days", move |text: &str| html(with_days(text)));
    templates.add_function("age", age);
    templates.add_function("list_url", list_url);
}

/// Returns the example of a response: JSON, shortened, or the text of a file.
fn example(text: &str) -> String {
    let lines = json_lines(text.as_bytes()).map(|lines| lines.join("\n"));
    lines.unwrap_or_else(|| Escaped(text).to_string())
}

/// Percent-encodes a path of several segments. None of its letters is a scheme's colon or begins a query.
pub(super) fn encoded_path(text: &str) -> String {
    const RESERVED_IN_PATHS: &AsciiSet = &RESERVED.remove(b'/');
    utf8_percent_encode(text, RESERVED_IN_PATHS).to_string()
}

/// Percent-encodes text for a path segment or a query value.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Returns the address of a list: its path and parameters, which are those that are given, changed by the
/// named arguments. Empty ones are left out.
#[expect(
    clippy::needless_pass_by_value,
    reason = "templates pass named arguments by value"
)]
fn list_url(
    path: &str,
    given: Serde<Vec<(String, String)>>,
    changed: Kwargs,
) -> Result<String, Error> {
    let mut pairs = given.0;
    pairs.retain(|(name, _)| !changed.has(name));
    for name in changed.args() {
        pairs.push((name.to_owned(), changed.get(name)?));
    }
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    Ok(match pairs[..] {
        [] => path.to_owned(),
        _ => format!("{path}?{}", pairs.join("&")),
    })
}

/// Returns a number with separated thousands, or a dash for null.
fn number(value: &Value) -> Result<String, Error> {
    if value.is_none() {
        return Ok("\u{2013}".to_owned());
    }
    let number = u64::try_from(value.clone());
    number.map(count).or_else(|error| {
        // A sum over many islands can exceed 64 bits.
        let large = f64::try_from(value.clone()).ok();
        let large = large.filter(|large| *large >= 2_f64.powi(64) && large.is_finite());
        large
            .map(|large| grouped(&format!("{large:.0}")))
            .ok_or(error)
    })
}

/// Returns a number with its noun, in the singular or the plural.
fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Marks up the days in a text, each of which is then on one line: browsers break lines at hyphens.
fn with_days(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let parts = word.split_at_checked("2026-11-20".len());
        match parts.filter(|(day, _)| UtcDay::parse(day).is_some()) {
            Some((day, rest)) => format!("<time>{day}</time>{}", Escaped(rest)),
            None => Escaped(word).to_string(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Isolates the quoted parts of a message, so that right-to-left text in them does not reorder the words around them. A
/// quoted text with quotes in it becomes several parts.
fn isolated(text: &str) -> String {
    let parts = text.split('"').map(|part| {
        let escaped = Escaped(part);
        if part.is_ascii() {
            escaped.to_string()
        } else {
            format!("<bdi>{escaped}</bdi>")
        }
    });
    parts.collect::<Vec<_>>().join("&quot;")
}

/// Returns a size in the largest unit that it fills.
fn size(bytes: u64) -> String {
    match in_thousands(bytes) {
        (0, bytes, _) => format!("{bytes} B"),
        (power, whole, tenth) => {
            let unit = ["kB", "MB", "GB", "TB", "PB"][power - 1];
            format!("{whole}.{tenth} {unit}")
        }
    }
}

/// Returns a time up to its minute; `None` if it is outside of the calendar.
pub(super) fn minute(time: UnixSeconds) -> Option<String> {
    let iso = time.has_text().then(|| time.to_string())?;
    Some(format!("{} {} UTC", &iso[..10], &iso[11..16]))
}

/// Returns the seconds from a time, which is a day or in Unix seconds, to the publish; 0 if one of the two
/// has another form or is outside of the calendar.
fn age(time: &Value, published: &str) -> i64 {
    let start = match time.as_str() {
        Some(day) => UtcDay::parse(day).map(|day| day.start().0),
        None => time.as_i64().filter(|time| UnixSeconds(*time).has_text()),
    };
    let published = UnixSeconds::parse(published);
    published
        .zip(start)
        .map_or(0, |(published, start)| published.0 - start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::message_page;

    #[test]
    fn thousands_are_separated() {
        for (value, text) in [
            (Value::from(0), "0"),
            (Value::from(999), "999"),
            (Value::from(1_000), "1,000"),
            (Value::from(123_456), "123,456"),
            (Value::from(u64::MAX), "18,446,744,073,709,551,615"),
            (Value::from(2_f64.powi(64)), "18,446,744,073,709,551,616"),
            (Value::from(()), "\u{2013}"),
        ] {
            assert_eq!(number(&value).unwrap(), text);
        }
        for value in [
            Value::UNDEFINED,
            Value::from("x"),
            Value::from(0.5),
            Value::from(-1),
        ] {
            assert!(number(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn sizes_are_in_the_largest_unit_that_they_fill() {
        let told = [
            0,
            999,
            1_000,
            14_979,
            999_999,
            1_000_000,
            2_500_000_000,
            u64::MAX,
        ]
        .map(size);
        let want = [
            "0 B",
            "999 B",
            "1.0 kB",
            "14.9 kB",
            "999.9 kB",
            "1.0 MB",
            "2.5 GB",
            "18446.7 PB",
        ];
        assert_eq!(told, want);
    }

    #[test]
    fn quoted_parts_of_a_message_are_isolated() {
        for (text, want) in [
            ("plain & short", "plain &amp; short"),
            ("got \"a\\\"b\"", "got &quot;a\\&quot;b&quot;"),
            (
                "no \"\u{5d0}<\", not \"\u{5d1}\"",
                "no &quot;<bdi>\u{5d0}&lt;</bdi>&quot;, not &quot;<bdi>\u{5d1}</bdi>&quot;",
            ),
            (
                "got \"\u{5d0}\" x \u{5d1}\"",
                "got &quot;<bdi>\u{5d0}</bdi>&quot;<bdi> x \u{5d1}</bdi>&quot;",
            ),
        ] {
            let page = message_page(("", text), "", None, None);
            assert!(page.contains(&format!("</h1><p>{want}</p>")), "{page}");
        }
    }

    #[test]
    fn days_in_a_text_are_marked_up() {
        let want = "a&lt;b on <time>2026-11-20</time>, 2026-11-2\u{e9} 2026-13-20";
        assert_eq!(
            with_days("a<b on 2026-11-20, 2026-11-2\u{e9} 2026-13-20"),
            want
        );
    }
}
