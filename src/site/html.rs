//! Pieces of HTML: escaped text, numbers, times, links to islands, and the frame of all pages.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::api_bodies::Meta;
use super::templates::filled;
use crate::calendar::{DAY_SECONDS, UnixSeconds, UtcDay};

/// The assets of pages with charts.
pub(super) const CHARTS: &[&str] = &["charts.js"];

/// Returns a whole page around its content. Its footer has the credit and the origin of the facts
/// (SPEC section 1).
///
/// - `root`: the relative path from the page to the root of the service, empty or `../` per folder,
///   since the service may be below the root of its host
/// - `section`: the link of the header or the footer that the page belongs to, or an empty text
/// - `title`: the title without the name of the site, as text
/// - `description`: a sentence for search engines and link previews, as text
/// - `assets`: those that the page loads besides those of all pages
pub(super) fn html_page(
    [root, section, title, description]: [&str; 4],
    assets: &[&str],
    content: &str,
) -> String {
    let title = match title {
        "" => "Island metrics".to_owned(),
        title => format!("{} \u{2013} Island metrics", Escaped(title)),
    };
    let (description, home) = (Escaped(description), home(root));
    let assets = each(assets, |asset| {
        if asset.contains(".css") {
            format!("<link rel=stylesheet href=\"{root}assets/{asset}\">")
        } else {
            format!("<script src=\"{root}assets/{asset}\" defer></script>")
        }
    });
    let link = format!("\"{{root}}{section}\"");
    let current = format!("{link} aria-current=page");
    let frame = include_str!("templates/frame.html").replacen(&link, &current, 1);
    filled!(&frame; title, description, root, home, assets, content) + "\n"
}

/// Returns the path to the root: `./` is its name on a page at the root.
fn home(root: &str) -> &str {
    if root.is_empty() { "./" } else { root }
}

/// Returns the page of an error, with a search and links to other pages.
pub fn message_page(title: &str, message: &str, root: &str) -> String {
    let (heading, text) = (Escaped(title), Escaped(message));
    let (search, home) = (search_form(root), home(root));
    let content = filled!("message.html"; heading, text, search, home, root);
    html_page([root, "", title, message], &[], &content)
}

/// Returns the form that searches island titles.
pub(super) fn search_form(root: &str) -> String {
    filled!("search.html"; root)
}

/// Returns the page for a body that cannot be parsed, which would be a fault of the service.
pub(super) fn unreadable_page(root: &str) -> String {
    let message = "This page cannot be shown. The API has the same data.";
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
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Returns a number with its noun, in the singular or the plural.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Returns a figure and its name. `value` is HTML.
pub(super) fn tile(name: &str, value: &str) -> String {
    format!("<div><dt>{name}<dd>{value}</div>")
}

/// Returns a link to one of several views of a page. `url` is HTML.
pub(super) fn tab(url: &str, text: &str, is_current: bool) -> String {
    let current = if is_current { " aria-current=true" } else { "" };
    format!("<a href=\"{url}\"{current}>{text}</a> ")
}

/// Returns a time, which the script replaces by its age.
pub(super) fn ago(time: &str) -> String {
    let time = Escaped(time);
    format!("<time class=ago datetime=\"{time}\">{time}</time>")
}

/// Age of daily data at which pages mark it as old. A day is usually published on the next one.
const OLD_DAY_SECONDS: i64 = 3 * DAY_SECONDS;
/// Age of live data at which pages mark it as old.
const OLD_STEP_SECONDS: i64 = 3_600;

/// Returns a day, marked as old if it is at the time of the publish. The script updates the mark.
pub(super) fn day(date: &str, published: &str) -> String {
    let start = UtcDay::parse(date).map(|day| i64::from(day.0) * DAY_SECONDS);
    dated(date, date, start, OLD_DAY_SECONDS, published)
}

/// Returns the time of a live step, marked like a day.
pub(super) fn step(time: i64, published: &str) -> String {
    let time = UnixSeconds(time);
    each(minute(time), |text| {
        dated(
            &time.to_string(),
            &text,
            Some(time.0),
            OLD_STEP_SECONDS,
            published,
        )
    })
}

/// Returns a time up to its minute; `None` if it is outside of the calendar.
pub(super) fn minute(time: UnixSeconds) -> Option<String> {
    let iso = time.has_text().then(|| time.to_string())?;
    Some(format!("{} {} UTC", &iso[..10], &iso[11..16]))
}

fn dated(iso: &str, text: &str, start: Option<i64>, old: i64, published: &str) -> String {
    let age = UnixSeconds::parse(published)
        .zip(start)
        .map_or(0, |(published, start)| published.0 - start);
    let (number, unit) = match age / DAY_SECONDS {
        0 => (age / 3_600, "hour"),
        days => (days, "day"),
    };
    let age_text = counted(number.unsigned_abs(), unit);
    let hidden = if age < old { " hidden" } else { "" };
    let (iso, text) = (Escaped(iso), Escaped(text));
    format!(
        "<time datetime=\"{iso}\" data-old={old}>{text}</time><span class=old{hidden}> {age_text} old</span>"
    )
}

/// Returns what an island is called: its code if its title is blank.
pub(super) fn title_or_code<'a>(title: &'a str, code: &'a str) -> &'a str {
    if title.trim().is_empty() { code } else { title }
}

/// Returns a link to an island, with its creator below.
pub(super) fn island_link(root: &str, code: &str, title: &str, creator: Option<&str>) -> String {
    let title = Escaped(title_or_code(title, code));
    let creator = each(creator, |slug| {
        format!("<br><small>{}</small>", creator_link(root, slug))
    });
    let code = Escaped(code);
    format!("<a href=\"{root}islands/{code}\"><bdi>{title}</bdi></a>{creator}")
}

/// Returns a link to a creator.
pub(super) fn creator_link(root: &str, slug: &str) -> String {
    let (path, slug) = (encoded(slug), Escaped(slug));
    format!("<a href=\"{root}creators/{path}\"><bdi>{slug}</bdi></a>")
}

/// Returns the address of a list: its path, and the parameters that are given, one of them changed.
pub(super) fn list_url(path: &str, given: &[(&str, &str)], (name, value): (&str, &str)) -> String {
    let kept = given.iter().filter(|(other, _)| *other != name);
    let all = kept.copied().chain([(name, value)]);
    let pairs = all.filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    match pairs[..] {
        [] => path.to_owned(),
        _ => format!("{path}?{}", pairs.join("&amp;")),
    }
}

/// Returns the links to the previous and the next page of a list, and the rows of this one.
pub(super) fn page_links(path: &str, given: &[(&str, &str)], meta: &Meta) -> String {
    let (total, limit, offset) = (meta.total, meta.limit.max(1), meta.offset);
    let link = |offset: Option<u64>, rel: &str, text: &str| {
        each(offset, |offset| {
            let offset = match offset {
                0 => String::new(),
                offset => offset.to_string(),
            };
            let url = list_url(path, given, ("offset", &offset));
            format!(" <a rel={rel} href=\"{url}\">{text}</a>")
        })
    };
    if offset > 0 && offset >= total {
        let last = total.saturating_sub(1) / limit * limit;
        let link = link(Some(last), "prev", "Go to the last page");
        return format!("<p>This page is past the end of the list.{link}</p>");
    }
    let previous = (offset > 0).then(|| offset.saturating_sub(limit));
    let next = Some(offset + limit).filter(|next| *next < total);
    if previous.is_none() && next.is_none() {
        return String::new();
    }
    let (first, last) = (count(offset + 1), count((offset + limit).min(total)));
    let (previous, next) = (
        link(previous, "prev", "Previous page"),
        link(next, "next", "Next page"),
    );
    let total = count(total);
    format!("<p class=row>Rows {first}\u{2013}{last} of {total}{previous}{next}</p>")
}

/// Returns options of a select, given as value and text.
pub(super) fn options<'a>(
    all: impl IntoIterator<Item = (&'a str, &'a str)>,
    chosen: &str,
) -> String {
    each(all, |(value, text)| {
        let selected = if value == chosen { " selected" } else { "" };
        format!(
            "<option value=\"{}\"{selected}>{}",
            Escaped(value),
            Escaped(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_of_a_section_is_marked() {
        for section in ["", "islands", "dumps/", "llms.txt"] {
            let page = html_page(["", section, "T", "D"], &[], "C");
            let link = format!("<a href=\"{section}\" aria-current=page>");
            let marks = usize::from(!section.is_empty());
            assert_eq!(page.matches("aria-current").count(), marks, "{section}");
            assert_eq!(page.matches(&link).count(), marks, "{section}");
        }
    }

    #[test]
    fn special_characters_are_escaped() {
        let text = "<b a=\"x\">&amp;é";
        let want = "&lt;b a=&quot;x&quot;&gt;&amp;amp;é";
        assert_eq!(Escaped(text).to_string(), want);
    }

    #[test]
    fn a_day_is_marked_as_old_by_its_age_at_the_publish() {
        let published = "2026-11-21T12:05:00Z";
        assert!(day("2026-11-20", published).contains("<span class=old hidden>"));
        assert!(day("2026-11-19", published).contains("<span class=old hidden>"));
        assert!(day("2026-11-18", published).contains("<span class=old> 3 days old</span>"));
        assert!(day("2026-07-22", published).contains("<span class=old> 122 days old</span>"));
        let step = |minutes: i64| step(1_795_262_700 - minutes * 60, published);
        assert!(step(59).contains("<span class=old hidden>"));
        assert!(
            step(60).contains("<span class=old> 1 hour old</span>")
                && super::step(i64::MAX, published).is_empty()
        );
    }

    #[test]
    fn lists_link_to_their_neighbours() {
        let given = [("tag", "a&b"), ("q", "x")];
        assert_eq!(list_url("p", &given, ("tag", "")), "p?q=x");
        assert_eq!(
            list_url("p", &given, ("offset", "5")),
            "p?tag=a%26b&amp;q=x&amp;offset=5"
        );
        assert_eq!(list_url("p", &[], ("tag", "")), "p");
        let rels = |total, offset| {
            let meta = Meta {
                generated_at: String::new(),
                total,
                has_more: false,
                limit: 10,
                offset,
            };
            let links = page_links("p", &[], &meta);
            ["prev", "next"].map(|rel| {
                let (_, rest) = links.split_once(&format!("rel={rel} href=\""))?;
                rest.split('"').next().map(str::to_owned)
            })
        };
        let to = |url: &str| Some(url.to_owned());
        assert_eq!(rels(30, 0), [None, to("p?offset=10")]);
        assert_eq!(rels(30, 10), [to("p"), to("p?offset=20")]);
        assert_eq!(rels(30, 20), [to("p?offset=10"), None]);
        assert_eq!(rels(10, 0), [None, None]);
        // From past the end to the last page, however far it is.
        assert_eq!(rels(30, u64::MAX), [to("p?offset=20"), None]);
        assert_eq!(rels(0, 7), [to("p"), None]);
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
