//! `/` with a question: the islands that a search finds.

use std::fmt::Write as _;

use super::facts::{Island, IslandPage};
use super::frame::{Extra, Frame};
use super::html::{Count, Escaped};
use super::unread;

/// The form that searches titles.
pub(super) fn search_form(root: &str, sought: &str) -> String {
    let (action, sought) = (if root.is_empty() { "./" } else { root }, Escaped(sought));
    format!(
        "<form class=row role=search action=\"{action}\"><label for=q>Title</label>\
         <input id=q name=q type=search value=\"{sought}\" placeholder=\"part of a title\" maxlength=200>\
         <button>Search</button></form>"
    )
}

/// The page of a search, from the body of `/v1/islands` for the same question. `sought` is its `q`, and
/// `pages` the questions of the page before and the page behind, percent-encoded.
pub fn search(body: &[u8], sought: &str, pages: [Option<String>; 2]) -> String {
    let Ok(IslandPage { islands, meta }) = serde_json::from_slice(body) else {
        return unread("");
    };
    let mut content = format!("<h1>Islands</h1>{}", search_form("", sought));
    let what = if meta.total == 1 { "island" } else { "islands" };
    let about = if sought.is_empty() {
        String::new()
    } else {
        format!(" for \u{201c}{}\u{201d}", Escaped(sought))
    };
    let _ = write!(
        content,
        "<p role=status>{} {what}{about}.</p>",
        Count(Some(meta.total))
    );
    if !islands.is_empty() {
        content.push_str(
            "<table><thead><tr><th>Island<th class=wide>Tags<th class=n>Peak<th class=\"n wide\">Players</thead>",
        );
        content.extend(islands.iter().map(row));
        content.push_str("</table>");
    }
    let [before, behind] = pages;
    let before = before.filter(|_| meta.offset > 0);
    let behind = behind.filter(|_| meta.has_more);
    if islands.is_empty() && before.is_some() {
        content.push_str("<p>This page lies past the end.</p>");
    } else if before.is_some() || behind.is_some() {
        let last = meta.offset.saturating_add(meta.limit).min(meta.total);
        let first = Count(Some(meta.offset.saturating_add(1)));
        let _ = write!(content, "<p class=row>{first}\u{2013}{}", Count(Some(last)));
        for (query, rel, name) in [(before, "prev", "Previous"), (behind, "next", "Next")] {
            if let Some(query) = query {
                let query = Escaped(&query);
                let _ = write!(content, " <a rel={rel} href=\"./?{query}\">{name}</a>");
            }
        }
        content.push_str("</p>");
    }
    let title = format!("{sought} \u{2013} Island metrics");
    let frame = Frame {
        title: title.trim_start_matches([' ', '\u{2013}']),
        root: "",
        extra: Extra::Nothing,
    };
    frame.around(&content)
}

fn row(island: &Island) -> String {
    let creator = island.creator.as_ref().map_or_else(String::new, |slug| {
        format!("<br><small><bdi>{}</bdi></small>", Escaped(slug))
    });
    let tags = island.tags.join(", ");
    format!(
        "<tr><td><a href=\"islands/{}\"><bdi>{}</bdi></a>{creator}<td class=wide>{}<td class=n>{}<td class=\"n wide\">{}",
        Escaped(&island.code),
        Escaped(&island.title),
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
        format!(
            r#"{{"islands":[{{"code":"0000-0000-0001","title":"<i>","creator":null,"createdIn":null,
            "tags":["a&b","c"],"firstSeen":null,"lastSeen":null,"date":null,"peakCCU":null,
            "uniquePlayers":7000,"minutesPlayed":null,"favorites":null,"plays":null,"recommendations":null,
            "averageMinutesPerPlayer":null,"retentionD1":null,"retentionD7":null}}],
            "meta":{{"generatedAt":"t","total":{total},"hasMore":{has_more},"limit":1,"offset":{offset}}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn what_is_found_and_what_was_sought_are_text() {
        let page = search(&page(1, 0), "\"><script>", [None, Some("x".to_owned())]);
        assert!(page.contains("<a href=\"islands/0000-0000-0001\"><bdi>&lt;i&gt;</bdi></a>"));
        assert!(page.contains("<td class=wide>a&amp;b, c<td class=n>\u{2013}"));
        assert!(page.contains("1 island for \u{201c}&quot;&gt;&lt;script&gt;\u{201d}"));
        assert!(!page.contains("<script>") && !page.contains("rel=next"));
    }

    #[test]
    fn there_is_a_way_to_each_neighbour_there_is() {
        let ways = |total, offset| {
            let pages = [
                Some("q=a&offset=0".to_owned()),
                Some("q=a&offset=2".to_owned()),
            ];
            let page = search(&page(total, offset), "a", pages);
            [
                page.contains("rel=prev href=\"./?q=a&amp;offset=0\""),
                page.contains("rel=next href=\"./?q=a&amp;offset=2\""),
            ]
        };
        assert_eq!(ways(3, 0), [false, true]);
        assert_eq!(ways(3, 1), [true, true]);
        assert_eq!(ways(3, 2), [true, false]);
        assert_eq!(ways(1, 0), [false, false]);
    }
}
