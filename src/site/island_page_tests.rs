//! Pages of an island with histories of every kind.

use super::*;

/// Draws the page of an island with these peaks by day. The newest published day is 2026-11-20.
fn page_with(peaks: &[(&str, u64)]) -> String {
    let (_, detail) = bodies(true).swap_remove(5);
    let detail = published("island", detail);
    let history = json!({"ccu": peaks}).to_string();
    let page = island(IslandPage {
        history: Some(history.as_bytes()),
        ..plain(&detail)
    });
    page.unwrap()
}

#[test]
fn a_page_of_an_island_compares_the_newest_peak_with_the_last_one_before() {
    for (peaks, wanted) in [
        (
            &[("2026-11-19", 10), ("2026-11-20", 15)][..],
            "<span><span class=up>+5 (+50.0%)</span> since <time>2026-11-19</time></span></small>",
        ),
        (
            &[("2026-11-17", 7), ("2026-11-18", 10), ("2026-11-20", 4)],
            "<span><span class=down>\u{2212}6 (\u{2212}60.0%)</span> since <time>2026-11-18</time></span></small>",
        ),
        (
            &[("2026-11-19", 0), ("2026-11-20", 1_000)],
            "<span><span class=up>+1,000</span> since <time>2026-11-19</time></span></small>",
        ),
        (
            &[("2026-11-20", 4)],
            "<span>no earlier peak is known</span></small>",
        ),
        (
            &[("2026-11-18", 10), ("2026-11-19", 15)],
            "<span>last known: 15 on <time>2026-11-19</time></span></small>",
        ),
        (
            &[],
            " hidden> <span class=old>1 day old</span></span></small></div></dl>",
        ),
    ] {
        let shown = page_with(peaks);
        assert!(shown.contains(wanted), "{peaks:?}: {shown}");
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
            let page = island(IslandPage {
                history,
                ..plain(&body[..bytes])
            });
            assert_eq!(page.is_some(), bytes >= list, "{bytes}");
            page.unwrap_or_default()
        };
        let (own, other) = (page(None), page(Some(&history[..])));
        assert_eq!(own.contains("<svg "), bytes >= end, "{bytes}");
        let is_cut_off = (list..end).contains(&bytes);
        assert_eq!(own.contains("too long for a page"), is_cut_off, "{bytes}");
        assert_eq!(other.contains("<svg "), bytes >= list, "{bytes}");
        let other = page(Some(&history[..history.len() / 2]));
        assert_eq!(other.contains("<svg "), bytes >= end, "{bytes}");
    }
}

#[test]
fn a_page_of_an_island_has_the_figures_of_each_month_and_day_with_their_changes() {
    let last = ("2026-11-01", u64::MAX);
    let page_of_three = page_with(&[("2026-10-01", 1_000), ("2026-10-31", 1_003), last]);
    let row = |[month, days, average, change, highest]: [&str; 5]| {
        format!(
            "<tr><td>{month}<td class=\"n wide\">{days}<td class=n>{average}<td class=\"n change {change}<td class=n>{highest}"
        )
    };
    let largest = "18,446,744,073,709,551,615";
    let gain = "up\">+18,446,744,073,709,550,613 (+1,840,992,422,525,903,254.8%)";
    let rows = row(["2026-11", "1", largest, gain, largest])
        + &row(["2026-10", "2", "1,002", "soft\">–", "1,003"]);
    assert!(page_of_three.contains(&rows), "{page_of_three}");
    let days = "<tr><td>2026-10-31<td class=n>1,003<td class=\"n change up\">+3 (+0.3%)\
        <tr><td>2026-10-01<td class=n>1,000<td class=\"n change soft\">–</table>";
    assert!(page_of_three.contains(days), "{page_of_three}");
    assert!(!page_with(&[last]).contains("<th>Month"));
}
