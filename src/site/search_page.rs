//! `/` with a query: the islands that a search finds.

use super::api_bodies::{IslandListBody, IslandSummary, ListMeta};
use super::html::{Escaped, count, each, encoded, island_link, page, unreadable_page, wrapped};
use crate::model::IslandCode;

/// A query of the island list, as the page of its results needs it.
#[derive(Clone, Copy)]
pub struct SearchQuery<'a> {
    /// The part of a title, as sent.
    pub q: &'a str,
    /// The other parameters that differ from their defaults, by name.
    pub others: &'a [(&'static str, &'a str)],
    /// The island whose code the part of a title is.
    pub island: Option<IslandCode>,
    /// Returns the percent-encoded query of the page at an offset.
    pub page_at: &'a dyn Fn(u64) -> String,
}

/// Returns the form that searches titles, together with other parameters.
pub(super) fn search_form(q: &str, others: &[(&str, &str)]) -> String {
    let others = each(others, |(name, value)| {
        let value = Escaped(value);
        format!("<input type=hidden name={name} value=\"{value}\">")
    });
    let q = Escaped(q);
    format!(
        "<form class=row role=search action=\"./\"><label for=q>Title</label>\
         <input id=q name=q type=search value=\"{q}\" placeholder=\"part of a title\" maxlength=200>{others}\
         <button>Search</button></form>",
    )
}

/// Returns the page of a search, given the body of `/v1/islands` for the same query.
pub fn search(body: &[u8], query: SearchQuery<'_>) -> String {
    let Ok(IslandListBody { islands, meta }) = serde_json::from_slice(body) else {
        return unreadable_page("");
    };
    let form = search_form(query.q, query.others);
    let (total, about) = (count(meta.total), about(query));
    let noun = if meta.total == 1 { "island" } else { "islands" };
    let island = each(query.island, |code| {
        format!("<p>To the island <a href=\"islands/{code}\">{code}</a></p>")
    });
    let no_match = (meta.total == 0 && meta.offset == 0).then_some(query.q);
    let other_searches = each(no_match, other_searches);
    let head = "<table><thead><tr><th>Island<th class=wide>Tags<th class=n>Peak<th class=\"n wide\">Players</thead>";
    let table = wrapped(head, &each(&islands, row), "</table>");
    let page_links = page_links(&meta, islands.is_empty(), query.page_at);
    let content = format!(
        "<h1>Islands</h1>{form}<p role=status>{total} {noun}{about}.</p>{island}{other_searches}{table}{page_links}"
    );
    let subject = if query.q.is_empty() {
        "Islands"
    } else {
        query.q
    };
    let title = format!("{subject} \u{2013} Island metrics");
    page(&title, "", &[], &content)
}

/// Returns the query in words.
fn about(query: SearchQuery<'_>) -> String {
    let q = Escaped(query.q).to_string();
    wrapped(" for \u{201c}<bdi>", &q, "</bdi>\u{201d}")
        + &each(query.others, |(name, value)| {
            let words = match *name {
                "tag" => "with the tag",
                "creator" => "by",
                "createdIn" => "made in",
                "sort" => "sorted by",
                _ => "in order",
            };
            format!(" {words} <b><bdi>{}</bdi></b>", Escaped(value))
        })
}

/// Returns links to other searches for a text that no title contains.
fn other_searches(q: &str) -> String {
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

/// Returns the links to the previous and the next page; past the end, to the last page.
fn page_links(meta: &ListMeta, is_empty: bool, page_at: &dyn Fn(u64) -> String) -> String {
    let limit = meta.limit.max(1);
    if is_empty && meta.offset > 0 {
        let last = page_at(meta.total.saturating_sub(1) / limit * limit);
        let last = Escaped(&last);
        return format!(
            "<p>This page lies past the end. <a rel=prev href=\"./?{last}\">Back to the last one</a></p>"
        );
    }
    let previous = (meta.offset > 0).then(|| meta.offset.saturating_sub(limit));
    let next = meta.offset.checked_add(limit).filter(|_| meta.has_more);
    if previous.is_none() && next.is_none() {
        return String::new();
    }
    let link = |offset: Option<u64>, rel: &str, name: &str| {
        each(offset.map(page_at), |query| {
            let query = Escaped(&query);
            format!(" <a rel={rel} href=\"./?{query}\">{name}</a>")
        })
    };
    let previous = link(previous, "prev", "Previous");
    let next = link(next, "next", "Next");
    let first = count(meta.offset.saturating_add(1));
    let last = count(meta.offset.saturating_add(limit).min(meta.total));
    format!("<p class=row>{first}\u{2013}{last}{previous}{next}</p>")
}

fn row(island: &IslandSummary) -> String {
    let link = island_link(&island.code, &island.title, island.creator.as_deref());
    let tags = Escaped(&island.tags.join(", ")).to_string();
    let (peak, players) = (count(island.peak_ccu), count(island.unique_players));
    format!(
        "<tr><td>{link}<td class=wide><bdi>{tags}</bdi><td class=n>{peak}<td class=\"n wide\">{players}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(total: u64, offset: u64) -> Vec<u8> {
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
        let query = SearchQuery {
            q,
            others,
            island,
            page_at,
        };
        search(&body(total, offset), query)
    }

    #[test]
    fn results_and_queries_are_escaped() {
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
    fn a_search_without_results_links_to_other_searches() {
        let page = found(0, 0, "é.b", &[]);
        assert!(page.contains("href=\"./?creator=%C3%A9.b\""), "{page}");
        assert!(page.contains("href=\"./?tag=%C3%A9.b\""));
        assert!(found(0, 0, "", &[("tag", "x")]).contains("All islands"));
        let code = found(0, 0, " 1234-5678-9012", &[]);
        assert!(code.contains("<a href=\"islands/1234-5678-9012\">"));
    }

    #[test]
    fn pages_link_to_the_previous_and_the_next_page() {
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
