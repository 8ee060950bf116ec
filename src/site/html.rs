//! Text as it stands on a page.

use std::fmt::{self, Write as _};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Text in which nothing is taken for markup, in an element or in an attribute between double quotes.
#[derive(Clone, Copy, Debug)]
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

/// Text as a segment of a path or a value of a query, in which nothing is taken for markup either.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A whole number with its thousands apart; a dash where it is not known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count(pub(super) Option<u64>);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(count) = self.0 else {
            return f.write_str("\u{2013}");
        };
        let digits = count.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// Markdown of paragraphs, of which a page is made: headings of two signs, lists, numbered steps,
/// code words, bold ones and links. More is not needed.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::new();
    for paragraph in text.split("\n\n") {
        let (heading, rest) = match paragraph.strip_prefix("## ") {
            Some(text) => text.split_once('\n').unwrap_or((text, "")),
            None => ("", paragraph),
        };
        if !heading.is_empty() {
            let name = anchor(heading);
            let _ = write!(out, "<h2 id={name}>{}</h2>", Escaped(heading));
        }
        if rest.starts_with("- ") {
            out.push_str("<ul>");
            for item in rest.split("\n- ") {
                let item = item.trim_start_matches("- ");
                let _ = write!(out, "<li>{}", inline(item));
            }
            out.push_str("</ul>");
        } else if let Some(mut steps) = rest.strip_prefix("1. ") {
            out.push_str("<ol>");
            let mut number = 2;
            while let Some((step, after)) = steps.split_once(&format!("\n{number}. ")) {
                let _ = write!(out, "<li>{}", inline(step));
                (steps, number) = (after, number + 1);
            }
            let _ = write!(out, "<li>{}</ol>", inline(steps));
        } else if !rest.is_empty() {
            let _ = write!(out, "<p>{}</p>", inline(rest));
        }
    }
    out
}

/// What a heading is linked by: its letters and digits.
fn anchor(heading: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric();
    let mut name: String = heading
        .chars()
        .map(|c| if keep(c) { c.to_ascii_lowercase() } else { '-' })
        .collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    name.trim_matches('-').to_owned()
}

/// Text with code words between backquotes, bold ones between two stars, and links as
/// `[text](address)`; none of them inside another. For pages at the root: paths of others beside them lead
/// there.
pub(super) fn inline(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        let _ = match (at % 2, part) {
            (0, _) => write!(out, "{}", bold(part)),
            (_, "/keys" | "/dumps/") => write!(out, "<a href={}>{part}</a>", &part[1..]),
            _ => write!(out, "<code>{}</code>", Escaped(part)),
        };
    }
    out
}

fn bold(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split("**").enumerate() {
        if at % 2 == 1 {
            let _ = write!(out, "<b>{}</b>", Escaped(part));
        } else {
            out.push_str(&links(part));
        }
    }
    out
}

fn links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[')
        && let Some((words, after)) = link.split_once("](")
        && let Some((address, after)) = after.split_once(')')
    {
        let (before, words, address) = (Escaped(before), Escaped(words), Escaped(address));
        let _ = write!(out, "{before}<a href=\"{address}\">{words}</a>");
        rest = after;
    }
    out.push_str(&Escaped(rest).to_string());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_for_markup() {
        let text = "<b a=\"x\">&amp;é";
        let want = "&lt;b a=&quot;x&quot;&gt;&amp;amp;é";
        assert_eq!(Escaped(text).to_string(), want);
        assert_eq!(
            inline("a `<i>` [x&y](h?\"a)"),
            "a <code>&lt;i&gt;</code> <a href=\"h?&quot;a\">x&amp;y</a>"
        );
        assert_eq!(inline("at `/keys`"), "at <a href=keys>/keys</a>");
    }

    #[test]
    fn thousands_stand_apart() {
        for (count, text) in [
            (Some(0), "0"),
            (Some(999), "999"),
            (Some(1_000), "1,000"),
            (Some(123_456), "123,456"),
            (Some(u64::MAX), "18,446,744,073,709,551,615"),
            (None, "\u{2013}"),
        ] {
            assert_eq!(Count(count).to_string(), text);
        }
    }

    #[test]
    fn prose_is_headings_paragraphs_and_lists() {
        let page = prose("One\n\n## Two & more\ntext\n\n- a\n- `b`");
        let want = "<p>One</p><h2 id=two-more>Two &amp; more</h2><p>text</p>\
                    <ul><li>a<li><code>b</code></ul>";
        assert_eq!(page, want);
    }

    #[test]
    fn prose_has_numbered_steps_and_bold_words() {
        let page = prose("1. **A & b.** `**c**`\ngoes on\n2. 3. d\n3. e\n\n2. f");
        let want =
            "<ol><li><b>A &amp; b.</b> <code>**c**</code>\ngoes on<li>3. d<li>e</ol><p>2. f</p>";
        assert_eq!(page, want);
    }
}
