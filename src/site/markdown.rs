//! Markdown to HTML, as much of it as the texts of pages use: headings of two signs, paragraphs,
//! lists, numbered steps, code, bold text and links.

use std::fmt::Write as _;

use super::text::Escaped;

/// Longer code may be wrapped: it may be wider than a list on a phone. Shorter code is on one line, since a
/// break at a hyphen reads like a part of a name.
const CODE_BYTES_MAX: usize = 30;

pub(super) fn prose(text: &str) -> String {
    text.split("\n\n").map(paragraph).collect()
}

fn paragraph(text: &str) -> String {
    let (heading, rest) = match text.strip_prefix("## ") {
        Some(text) => text.split_once('\n').unwrap_or((text, "")),
        None => ("", text),
    };
    let mut html = String::new();
    if !heading.is_empty() {
        let (id, heading) = (anchor(heading), Escaped(heading));
        let _ = write!(html, "<h2 id={id}>{heading}</h2>");
    }
    let item = |item: &str| format!("<li>{}", inline(item));
    if let Some(items) = rest.strip_prefix("- ") {
        let items: String = items.split("\n- ").map(item).collect();
        html + "<ul>" + &items + "</ul>"
    } else if let Some(mut left) = rest.strip_prefix("1. ") {
        let mut steps = String::new();
        for number in 2.. {
            let next = left.split_once(&format!("\n{number}. "));
            steps += &item(next.map_or(left, |(step, _)| step));
            let Some((_, after)) = next else { break };
            left = after;
        }
        html + "<ol>" + &steps + "</ol>"
    } else if rest.is_empty() {
        html
    } else {
        html + "<p>" + &inline(rest) + "</p>"
    }
}

/// Returns the id of a heading: its letters and digits, with hyphens between.
pub(super) fn anchor(heading: &str) -> String {
    let heading = heading.to_ascii_lowercase();
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Converts code between backquotes, bold text between two stars, and links as `[text](address)`,
/// none within another. For pages at the root: the paths of two other pages become links to them.
pub(super) fn inline(text: &str) -> String {
    let bold = |text: &str| format!("<b>{}</b>", Escaped(text));
    let code = |text: &str| match text {
        "/keys" | "/dumps/" => format!("<a href={}>{text}</a>", &text[1..]),
        _ if text.len() > CODE_BYTES_MAX => format!("<code class=long>{}</code>", Escaped(text)),
        _ => format!("<code>{}</code>", Escaped(text)),
    };
    alternate(text, "`", |text| alternate(text, "**", links, bold), code)
}

/// Converts the parts of a text outside and inside of pairs of marks.
fn alternate(
    text: &str,
    mark: &str,
    outside: impl Fn(&str) -> String,
    inside: impl Fn(&str) -> String,
) -> String {
    let parts = text.split(mark).enumerate();
    let html = |(at, part)| {
        if at % 2 == 0 {
            outside(part)
        } else {
            inside(part)
        }
    };
    parts.map(html).collect()
}

fn links(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once('[')
        && let Some((words, after)) = link.split_once("](")
        && let Some((address, after)) = after.split_once(')')
    {
        let (before, words, address) = (Escaped(before), Escaped(words), Escaped(address));
        let _ = write!(out, "{before}<a href=\"{address}\">{words}</a>");
        rest = after;
    }
    out + &Escaped(rest).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_text_is_escaped_and_marked_up() {
        assert_eq!(
            inline("a `<i>` [x&y](h?\"a)"),
            "a <code>&lt;i&gt;</code> <a href=\"h?&quot;a\">x&amp;y</a>"
        );
        let long = "x".repeat(31);
        assert_eq!(
            inline(&format!("`{long}`")),
            format!("<code class=long>{long}</code>")
        );
        assert_eq!(inline("at `/keys`"), "at <a href=keys>/keys</a>");
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
