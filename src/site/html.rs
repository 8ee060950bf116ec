//! Pieces of HTML: escaped text, numbers, times, links to islands, and the frame of all pages.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The assets of pages with charts, tiles or times.
pub(super) const CHARTS: &[&str] = &["charts.css", "charts.js"];

/// SPEC section 1: the credit, and the origin of the facts.
const CREDIT: &str = "<span>Data: <a href=\"https://creativecommons.org/licenses/by/4.0/\" rel=license>CC BY 4.0</a>. \
    Credit the publisher of this service when you use it.</span>\
    <span>The metrics are facts from a third party's public interface; this service is not affiliated with that third party.</span>";

/// Returns a whole page around its content. `root` is the relative path from the page to the root
/// of the service, empty or `../` per folder, since the service may be below the root of its host.
/// `assets` are what the page loads besides the style of all pages.
pub(super) fn page(title: &str, root: &str, assets: &[&str], content: &str) -> String {
    let title = Escaped(title);
    // `./` is the name of the root on a page at the root.
    let home = if root.is_empty() { "./" } else { root };
    let assets = each(assets, |asset| {
        if asset.contains(".css") {
            format!("<link rel=stylesheet href=\"{root}assets/{asset}\">")
        } else {
            format!("<script src=\"{root}assets/{asset}\" defer></script>")
        }
    });
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <link rel=icon href=\"{root}assets/icon.svg\" type=\"image/svg+xml\">\
         <link rel=stylesheet href=\"{root}assets/style.css\">{assets}\
         <body><a class=skip href=#main>Skip to content</a>\
         <header><b><a href=\"{home}\">Island metrics</a></b><nav class=row aria-label=Pages>\
         <a href=\"{root}docs\">Docs</a> <a href=\"{root}recipes\">Recipes</a> \
         <a href=\"{root}gotchas\">Gotchas</a> <a href=\"{root}keys\">Keys</a> \
         <a href=\"{root}dumps/\">Dumps</a></nav></header>\n\
         <main id=main>{content}</main>\n<footer>{CREDIT}</footer>\n"
    )
}

/// Returns a page of a title and a sentence.
pub fn message_page(title: &str, message: &str, root: &str) -> String {
    let (heading, message) = (Escaped(title), Escaped(message));
    let content = format!("<h1>{heading}</h1><p>{message}</p>");
    page(title, root, &[], &content)
}

/// Returns the page for a body that cannot be parsed, which would be a fault of the service.
pub(super) fn unreadable_page(root: &str) -> String {
    let message = "This page could not be made. The API has the same data.";
    message_page("Nothing to show", message, root)
}

/// Concatenates the HTML of all items, or of an optional one.
pub(super) fn each<T>(items: impl IntoIterator<Item = T>, html: impl FnMut(T) -> String) -> String {
    items.into_iter().map(html).collect()
}

/// Returns `inner` between two texts, or nothing if it is empty.
pub(super) fn wrapped(before: &str, inner: &str, after: &str) -> String {
    if inner.is_empty() {
        return String::new();
    }
    [before, inner, after].concat()
}

/// Displays text escaped for an element, or for an attribute in double quotes.
#[derive(Clone, Copy)]
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                _ => "&quot;",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes text for a path segment or a query value. The result needs no escaping in HTML.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Returns a number with separated thousands, or a dash for an unknown one.
pub(super) fn count(number: impl Into<Option<u64>>) -> String {
    let Some(number) = number.into() else {
        return "\u{2013}".to_owned();
    };
    let (digits, mut out) = (number.to_string(), String::new());
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a figure and its name. `value` is HTML.
pub(super) fn tile(name: &str, value: &str) -> String {
    format!("<div><dt>{name}<dd>{value}</div>")
}

/// Returns a time, to which the script adds how long ago it was.
pub(super) fn ago(time: &str) -> String {
    let time = Escaped(time);
    format!("<time class=ago datetime=\"{time}\">{time}</time>")
}

/// Returns what an island is called: its code if its title is blank.
pub(super) fn title_or_code<'a>(title: &'a str, code: &'a str) -> &'a str {
    if title.trim().is_empty() { code } else { title }
}

/// Returns a link from a page at the root to an island, with its creator below.
pub(super) fn island_link(code: &str, title: &str, creator: Option<&str>) -> String {
    let title = Escaped(title_or_code(title, code));
    let creator = each(creator, |slug| {
        format!("<br><small><bdi>{}</bdi></small>", Escaped(slug))
    });
    let code = Escaped(code);
    format!("<a href=\"islands/{code}\"><bdi>{title}</bdi></a>{creator}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        let text = "<b a=\"x\">&amp;é";
        let want = "&lt;b a=&quot;x&quot;&gt;&amp;amp;é";
        assert_eq!(Escaped(text).to_string(), want);
    }

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [
            (Some(0), "0"),
            (Some(999), "999"),
            (Some(1_000), "1,000"),
            (Some(123_456), "123,456"),
            (Some(u64::MAX), "18,446,744,073,709,551,615"),
            (None, "\u{2013}"),
        ] {
            assert_eq!(count(number), text);
        }
    }
}
