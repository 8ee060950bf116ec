//! Pages of lists: their columns, and the links to other pages.

use super::*;
use crate::model::COUNT_MAX;
use crate::request::{Filter, Query};

/// A filter by a count. No list has it.
pub(super) const MIN_PLAYS: Parameter = Parameter {
    name: "minPlays",
    kind: Kind::Integer {
        range: (0, COUNT_MAX),
        set: |_, plays| Some(Filter::AtLeast(SortField::Plays, plays)),
    },
    default: None,
    label: Some("Plays from"),
    words: "with at least these plays:",
    description: "",
    example: "7",
};

fn islands_at(offset: u64, total: u64) -> String {
    let body = json!({
        "islands": [row(true)],
        "meta": {"generatedAt": TIME, "total": total, "hasMore": true, "limit": 50, "offset": offset},
    });
    let query =
        ListQuery::parse(&Query::split(Some("tag=a&sort=plays")), ISLAND_PARAMETERS).unwrap();
    let list = (ISLAND_PARAMETERS, &query);
    islands(body.to_string().as_bytes(), list, &[], None).unwrap()
}

#[test]
fn a_page_of_a_list_has_its_number_and_links_to_the_pages_around() {
    let links = |page: &str| -> Vec<(String, String)> {
        let links = page.match_indices(" page</a>").map(|(end, _)| {
            let (start, text) = page[..end].rsplit_once("\">").unwrap();
            let (_, url) = start.rsplit_once("href=\"").unwrap();
            (text.to_owned(), url.to_owned())
        });
        links.collect()
    };
    let url = |offset: &str| format!("islands?tag=a&amp;sort=plays{offset}");
    for (offset, total, place, wanted) in [
        (0, 50, "", &[][..]),
        (
            0,
            51,
            "Page 1 of 2, rows 1–50 of 51",
            &[("Next", "&amp;offset=50")],
        ),
        (50, 51, "Page 2 of 2, rows 51–51 of 51", &[("Previous", "")]),
        (
            0,
            3_000,
            "Page 1 of 60, rows 1–50 of 3,000",
            &[("Next", "&amp;offset=50"), ("Last", "&amp;offset=2950")],
        ),
        (
            100,
            3_000,
            "Page 3 of 60, rows 101–150 of 3,000",
            &[
                ("First", ""),
                ("Previous", "&amp;offset=50"),
                ("Next", "&amp;offset=150"),
                ("Last", "&amp;offset=2950"),
            ],
        ),
        (
            2_950,
            3_000,
            "Page 60 of 60, rows 2,951–3,000 of 3,000",
            &[("First", ""), ("Previous", "&amp;offset=2900")],
        ),
        // An offset within a page.
        (
            7,
            90,
            ">Rows 8–57 of 90",
            &[("Previous", ""), ("Next", "&amp;offset=57")],
        ),
        (
            90,
            90,
            "past the end of the list",
            &[("Go to the last", "&amp;offset=50")],
        ),
    ] {
        let page = islands_at(offset, total);
        assert!(page.contains(place), "{place}");
        let wanted = wanted
            .iter()
            .map(|(text, at)| ((*text).to_owned(), url(at)));
        let wanted: Vec<_> = wanted.collect();
        assert_eq!(links(&page), wanted, "{offset} of {total}");
        let offset = if offset == 0 {
            String::new()
        } else {
            format!("&amp;offset={offset}")
        };
        let request = format!("<code class=long>/v1/{}</code>", url(&offset));
        assert!(page.contains(&request), "{request}");
    }
}

#[test]
fn lists_name_metrics_as_their_form_does_and_mark_their_order() {
    let page = islands_at(0, 1);
    for label in ["Peak players", "Unique players", "Recommendations"] {
        assert!(page.contains(&format!("\">{label}</a>")), "{label}");
    }
    assert!(
        page.contains("<th class=n aria-sort=descending><a href=")
            && page.contains("Plays\u{a0}▼</a>")
    );
    for (name, page) in pages(true, |_, _| ()) {
        let page = page.unwrap();
        if ["creators", "creator", "new"].contains(&name) {
            assert!(page.contains("Recommendations"), "{name}");
        }
        let has_arrow = page.contains('▼') || page.contains('▲');
        assert_eq!(has_arrow, page.contains("aria-sort"), "{name}");
    }
}

#[test]
fn a_list_explains_its_signs_and_sums() {
    for (is_known, name, count) in [
        (true, "creators", 0),
        (false, "creators", 1),
        (true, "islands", 1),
    ] {
        let drawn = pages(is_known, |_, _| ());
        let page = drawn.into_iter().find(|(kind, _)| *kind == name);
        let page = page.unwrap().1.unwrap();
        assert_eq!(
            page.matches("– is a value that is not known").count(),
            count,
            "{name}"
        );
        assert_eq!(
            page.contains("are sums over their islands"),
            name == "creators"
        );
    }
}

#[test]
fn a_filter_by_a_count_has_a_field_and_words() {
    let pages = pages(true, |_, _| {});
    let (_, page) = pages.iter().find(|(name, _)| *name == "islands").unwrap();
    for part in [
        "<label>Plays from<input name=minPlays type=number min=0 value=\"7\"></label>",
        ", with at least these plays: <b><bdi>7</bdi></b>",
        "islands?tag=%3Cq%3E&amp;creator=b&amp;createdIn=uefn&amp;q=%3Cq%3E&amp;minPlays=7",
    ] {
        assert!(page.as_ref().unwrap().contains(part), "{part}");
    }
}
