//! Pages of an island with histories of every kind.

use super::*;

#[test]
fn a_page_of_an_island_shows_the_change_of_its_newest_day_only() {
    let (_, detail) = bodies(true).swap_remove(5);
    let detail = published("island", detail);
    let page = |peaks: [(&str, u64); 2]| {
        let history = json!({"ccu": peaks}).to_string();
        island(IslandPage {
            history: Some(history.as_bytes()),
            ..plain(&detail)
        })
    };
    // The newest day is 2026-11-20.
    let shown = page([("2026-11-19", 10), ("2026-11-20", 15)]);
    assert!(shown.contains("<span class=up>+5 (50.0%)</span> on the day before"));
    let shown = page([("2026-11-19", 10), ("2026-11-20", 4)]);
    assert!(shown.contains("<span class=down>\u{2212}6 (60.0%)</span> on the day before"));
    for peaks in [
        [("2026-11-18", 10), ("2026-11-20", 15)],
        [("2026-11-18", 10), ("2026-11-19", 15)],
    ] {
        assert!(!page(peaks).contains("on the day before"), "{peaks:?}");
    }
}

#[test]
fn a_page_of_an_island_shows_a_history_that_is_whole_or_none() {
    let (_, body) = bodies(true).swap_remove(5);
    let body = published("island", body);
    let text = str::from_utf8(&body).unwrap();
    let list = text.find(",\"series\":[").unwrap() + ",\"series\":[".len();
    let end = text.find("}]}").unwrap() + "}]".len();
    let history = br#"{"code":"1","ccu":[["2026-11-19",5],["2026-11-20",7]],"meta":{}}"#;
    for bytes in 0..=body.len() {
        let page = |history| {
            island(IslandPage {
                history,
                ..plain(&body[..bytes])
            })
        };
        let (own, other) = (page(None), page(Some(&history[..])));
        assert_eq!(is_whole(Some(&own)), bytes >= list, "{bytes}");
        assert_eq!(own.contains("<svg "), bytes >= end, "{bytes}");
        let is_cut_off = (list..end).contains(&bytes);
        assert_eq!(own.contains("too long for a page"), is_cut_off, "{bytes}");
        assert_eq!(other.contains("<svg "), bytes >= list, "{bytes}");
        let other = page(Some(&history[..history.len() / 2]));
        assert_eq!(other.contains("<svg "), bytes >= end, "{bytes}");
    }
}
