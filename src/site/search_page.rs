//! `/` with a question: the islands that a search finds.

use std::fmt::{self, Write as _};

use super::api_bodies::{Island, IslandPage, PageMeta, titled};
use super::frame::{Extra, Frame};
use super::html::{Count, Escaped, encoded};
use super::unread;
use crate::model::IslandCode;

/// What is asked for with a search.
#[derive(Clone, Copy)]
pub struct Sought<'a> {
    /// The part of a title, as sent.
    pub q: &'a str,
    /// The other parameters that are not as they are by default, by their names.
    pub others: &'a [(&'static str, &'a str)],
    /// The island that has it as its code.
    pub island: Option<IslandCode>,
    /// The query of the page that begins at an offset, percent-encoded.
    pub page_at: &'a dyn Fn(u64) -> String,
}

/// Shows nothing of what somebody seeks.
impl fmt::Debug for Sought<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sought").finish_non_exhaustive()
    }
}

/// The form that searches titles, among what other parameters leave.
pub(super) fn search_form(sought: &str, others: &[(&str, &str)]) -> String {
    let mut kept = String::new();
    for (name, value) in others {
        let value = Escaped(value);
        let _ = write!(kept, "<input type=hidden name={name} value=\"{value}\">");
    }
    format!(
        "<form class=row role=search action=\"./\"><label for=q>Title</label>\
         <input id=q name=q type=search value=\"{}\" placeholder=\"part of a title\" maxlength=200>{kept}\
         <button>Search</button></form>",
        Escaped(sought)
    )
}

/// The page of a search, from the body of `/v1/islands` for the same question.
pub fn search(body: &[u8], sought: Sought<'_>) -> String {
    let Ok(IslandPage { islands, meta }) = serde_json::from_slice(body) else {
        return unread("");
    };
    let mut content = format!("<h1>Islands</h1>{}", search_form(sought.q, sought.others));
    let what = if meta.total == 1 { "island" } else { "islands" };
    let _ = write!(
        content,
        "<p role=status>{} {what}{}.</p>",
        Count(Some(meta.total)),
        about(sought)
    );
    if let Some(code) = sought.island {
        let _ = write!(
            content,
            "<p>To the island <a href=\"islands/{code}\">{code}</a></p>"
        );
    }
    if meta.total == 0 && meta.offset == 0 {
        content.push_str(&elsewhere(sought.q));
    }
    if !islands.is_empty() {
        content.push_str(
            "<table><thead><tr><th>Island<th class=wide>Tags<th class=n>Peak<th class=\"n wide\">Players</thead>",
        );
        content.extend(islands.iter().map(row));
        content.push_str("</table>");
    }
    content.push_str(&neighbours(&meta, islands.is_empty(), sought.page_at));
    let title = if sought.q.is_empty() {
        "Islands \u{2013} Island metrics".to_owned()
    } else {
        format!("{} \u{2013} Island metrics", sought.q)
    };
    let frame = Frame {
        title: &title,
        root: "",
        extra: Extra::Nothing,
    };
    frame.around(&content)
}

/// What was sought, behind what was found.
fn about(sought: Sought<'_>) -> String {
    let mut about = String::new();
    if !sought.q.is_empty() {
        let q = Escaped(sought.q);
        let _ = write!(about, " for \u{201c}<bdi>{q}</bdi>\u{201d}");
    }
    for (name, value) in sought.others {
        let words = match *name {
            "tag" => "with the tag",
            "creator" => "by",
            "createdIn" => "made in",
            "sort" => "sorted by",
            _ => "in order",
        };
        let _ = write!(about, " {words} <b><bdi>{}</bdi></b>", Escaped(value));
    }
    about
}

/// Where else to look for what no title has.
fn elsewhere(q: &str) -> String {
    if q.is_empty() {
        return "<p><a href=\"./?limit=50\">All islands</a></p>".to_owned();
    }
    let (encoded, q) = (encoded(q), Escaped(q));
    format!(
        "<p>Titles are searched for all of it, accents included. Is it a creator or a tag? \
         <a href=\"./?creator={encoded}\">By <bdi>{q}</bdi></a> · \
         <a href=\"./?tag={encoded}\">With the tag <bdi>{q}</bdi></a></p>"
    )
}

/// The ways to the pages before and behind; from past the end, to the last.
fn neighbours(meta: &PageMeta, is_empty: bool, page_at: &dyn Fn(u64) -> String) -> String {
    let limit = meta.limit.max(1);
    if is_empty && meta.offset > 0 {
        let last = meta.total.saturating_sub(1) / limit * limit;
        let query = page_at(last);
        return format!(
            "<p>This page lies past the end. <a rel=prev href=\"./?{}\">Back to the last one</a></p>",
            Escaped(&query)
        );
    }
    let before = (meta.offset > 0).then(|| meta.offset.saturating_sub(limit));
    let behind = meta.offset.checked_add(limit).filter(|_| meta.has_more);
    if before.is_none() && behind.is_none() {
        return String::new();
    }
    let last = meta.offset.saturating_add(limit).min(meta.total);
    let first = Count(Some(meta.offset.saturating_add(1)));
    let mut out = format!("<p class=row>{first}\u{2013}{}", Count(Some(last)));
    for (offset, rel, name) in [(before, "prev", "Previous"), (behind, "next", "Next")] {
        if let Some(offset) = offset {
            let query = page_at(offset);
            let query = Escaped(&query);
            let _ = write!(out, " <a rel={rel} href=\"./?{query}\">{name}</a>");
        }
    }
    out + "</p>"
}

fn row(island: &Island) -> String {
    let creator = island.creator.as_ref().map_or_else(String::new, |slug| {
        format!("<br><small><bdi>{}</bdi></small>", Escaped(slug))
    });
    let tags = island.tags.join(", ");
    format!(
        "<tr><td><a href=\"islands/{}\"><bdi>{}</bdi></a>{creator}<td class=wide><bdi>{}</bdi><td class=n>{}\
         <td class=\"n wide\">{}",
        Escaped(&island.code),
        Escaped(titled(&island.title, &island.code)),
        Escaped(&tags),
        Count(island.peak_ccu),
        Count(island.unique_players),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(total: u64, offset: u64) -> Vec<u8> {
        let has_more = offset + 1 < total;
        let island = r#"{"code":"0000-0000-0001","title":"<i>","creator":null,"createdIn":null,
            "tags":["a&b","c"],"firstSeen":null,"lastSeen":null,"date":null,"peakCCU":null,
            "uniquePlayers":7000,"minutesPlayed":null,"favorites":null,"plays":null,"recommendations":null,
            "averageMinutesPerPlayer":null,"retentionD1":null,"retentionD7":null}"#;
        let islands = if offset < total { island } else { "" };
        format!(
            r#"{{"islands":[{islands}],"meta":{{"generatedAt":"t","total":{total},"hasMore":{has_more},"limit":1,
            "offset":{offset}}}}}"#
        )
        .into_bytes()
    }

    fn found(total: u64, offset: u64, q: &str, others: &[(&'static str, &str)]) -> String {
        let page_at = &|offset| format!("q=a&offset={offset}");
        let island = q.trim().parse().ok();
        let sought = Sought {
            q,
            others,
            island,
            page_at,
        };
        search(&page(total, offset), sought)
    }

    #[test]
    fn what_is_found_and_what_was_sought_are_text() {
        let page = found(1, 0, "\"><script>", &[("creator", "<b>"), ("order", "asc")]);
        assert!(page.contains("<a href=\"islands/0000-0000-0001\"><bdi>&lt;i&gt;</bdi></a>"));
        assert!(page.contains("<td class=wide><bdi>a&amp;b, c</bdi><td class=n>\u{2013}"));
        let about = "1 island for \u{201c}<bdi>&quot;&gt;&lt;script&gt;</bdi>\u{201d} by <b><bdi>&lt;b&gt;</bdi></b> in order <b><bdi>asc</bdi></b>.";
        assert!(page.contains(about), "{page}");
        assert!(page.contains("<input type=hidden name=creator value=\"&lt;b&gt;\">"));
        assert!(page.contains("<input type=hidden name=order value=\"asc\">"));
        assert!(!page.contains("<script>") && !page.contains("rel=next"));
        assert!(page.contains("<title>&quot;&gt;&lt;script&gt; \u{2013} Island metrics</title>"));
        assert!(found(1, 0, "", &[]).contains("<title>Islands \u{2013} Island metrics</title>"));
    }

    #[test]
    fn who_finds_nothing_is_told_where_else_to_look() {
        let page = found(0, 0, "é.b", &[]);
        assert!(page.contains("href=\"./?creator=%C3%A9.b\""), "{page}");
        assert!(page.contains("href=\"./?tag=%C3%A9.b\""));
        assert!(found(0, 0, "", &[("tag", "x")]).contains("All islands"));
        let code = found(0, 0, " 1234-5678-9012", &[]);
        assert!(code.contains("<a href=\"islands/1234-5678-9012\">"));
    }

    #[test]
    fn there_is_a_way_to_each_neighbour_there_is() {
        let ways = |total, offset| {
            let page = found(total, offset, "a", &[]);
            let way = |rel: &str| {
                let (_, rest) = page.split_once(&format!("rel={rel} href=\"./?q=a&amp;offset="))?;
                rest.split('"').next().map(str::to_owned)
            };
            [way("prev"), way("next")]
        };
        let to = |offset: u64| Some(offset.to_string());
        assert_eq!(ways(3, 0), [None, to(1)]);
        assert_eq!(ways(3, 1), [to(0), to(2)]);
        assert_eq!(ways(3, 2), [to(1), None]);
        assert_eq!(ways(1, 0), [None, None]);
        // From past the end to the last page, however far it is.
        assert_eq!(ways(3, 3), [to(2), None]);
        assert_eq!(ways(3, u64::MAX - 1), [to(2), None]);
        assert_eq!(ways(0, 7), [to(0), None]);
    }
}
