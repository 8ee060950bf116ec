//! Parsing of responses of the upstream's real shapes, and of damaged ones.

use super::*;
use crate::model::SortField;

const DAYS: &str = r#"{"averageMinutesPerPlayer":[{"value":38.22,"timestamp":"2026-09-21T00:00:00.000Z"}],
"peakCCU":[{"value":16,"timestamp":"2026-09-21T00:00:00.000Z"},{"value":null,"timestamp":"2026-09-22T00:00:00.000Z"}],
"favorites":[],"minutesPlayed":[{"value":3363.0,"timestamp":"2026-09-21T00:00:00Z"}],
"recommendations":[{"value":9007199254740992,"timestamp":"2026-09-21T00:00:00.000Z"}],
"plays":[{"value":-1,"timestamp":"2026-09-21T00:00:00.000Z"},{"value":3,"timestamp":"2026-09-21T12:00:00.000Z"}],
"uniquePlayers":[{"value":88,"timestamp":"2026-09-20T00:00:00.123456Z"}],
"retention":[{"d1":0.15,"d7":1.5,"timestamp":"2026-09-21T00:00:00.000Z"}],"newMember":{"x":1}}"#;

#[test]
fn an_islands_days_are_read_and_bad_values_left_out() {
    let found = island_days(DAYS.as_bytes()).unwrap();
    let days: Vec<String> = found.rows.keys().map(ToString::to_string).collect();
    assert_eq!(days, ["2026-09-20", "2026-09-21"]);
    // Too large, negative, not at midnight, retention over 1.
    assert_eq!(found.refused, 4);
    let (_, metrics) = found.rows.last_key_value().unwrap();
    assert_eq!(metrics.count(SortField::PeakCcu), Some(16));
    assert_eq!(metrics.count(SortField::MinutesPlayed), Some(3363));
    assert_eq!(metrics.count(SortField::Recommendations), None);
    assert_eq!(metrics.count(SortField::Plays), None);
    assert_eq!(metrics.decimals(), [Some(38.22), Some(0.15), None]);
}

#[test]
fn a_response_without_an_expected_member_is_refused() {
    assert!(island_days(b"{}").is_err());
    assert!(island_days(DAYS.replace("\"plays\"", "\"sessions\"").as_bytes()).is_err());
    assert!(catalogue_page(b"{\"islands\":[]}").is_err());
    assert!(island_steps(b"[]").is_err());
    assert!(platform_steps(b"{\"inMatchPeakCCU\":[]}", PlatformSeries::InClient).is_err());
}

#[test]
fn a_page_of_the_catalogue_survives_its_worst_row() {
    let body = br#"{"links":{"next":"/x?after=Yg%3D%3D","prev":null},"meta":{"count":3,"page":{"nextCursor":"Yg=="}},
        "data":[{"code":"1321-3263-2308","creatorCode":"paul2m","title":"A \ud83d lone","createdIn":"UEFN","tags":["pvp"]},
        {"code":"experience_x","title":1,"tags":null},{"title":"no code"},{"code":"9752-7254-5801","title":"B\u0000C"}]}"#;
    let page = catalogue_page(body).unwrap();
    assert_eq!(page.next.as_deref(), Some("Yg=="));
    let titles: Vec<&str> = page.islands.iter().map(|island| &*island.title).collect();
    assert_eq!(titles, ["A \u{FFFD} lone", "BC"]);
    assert_eq!((page.cleaned.codes, page.cleaned.titles), (2, 2));
}

#[test]
fn the_last_page_has_no_next() {
    for body in [
        r#"{"data":[{"code":"1321-3263-2308"}],"meta":{"page":{"nextCursor":null}},"links":{"next":null}}"#,
        r#"{"data":[{"code":"1321-3263-2308"}],"meta":{"page":{"nextCursor":"x"}},"links":{"next":null}}"#,
        r#"{"data":[],"meta":{"page":{"nextCursor":"x"}},"links":{"next":"/y"}}"#,
        r#"{"data":[]}"#,
    ] {
        assert_eq!(
            catalogue_page(body.as_bytes()).unwrap().next,
            None,
            "{body}"
        );
    }
}

#[test]
fn genres_are_slugs_or_objects() {
    let found =
        genres(br#"{"data":["party",{"slug":"shooter","name":"Shooter"},"../x",""]}"#).unwrap();
    assert_eq!(found, ["party", "shooter"]);
    let missing = ranking_page(br#"{"data":[],"meta":{"snapshotAvailable":false}}"#).unwrap();
    assert_eq!(missing, RankingPage::default());
}

#[test]
fn steps_are_those_with_a_value() {
    let body = br#"{"peakCCU":[{"value":7,"timestamp":"2026-09-21T00:10:00.000Z"},{"value":null,"timestamp":"2026-09-21T00:20:00.000Z"},
        {"value":5,"timestamp":"2026-09-21T00:00:00.000Z"},{"value":5,"timestamp":"2026-09-21T00:00:01.000Z"}]}"#;
    let steps = island_steps(body).unwrap();
    let start = UnixSeconds::parse("2026-09-21T00:00:00Z").unwrap().0;
    assert_eq!(
        steps,
        [(UnixSeconds(start), 5), (UnixSeconds(start + 600), 7)]
    );
}
