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

/// Parses the response to a request of the days until 2026-09-23.
fn days(body: &str) -> Result<IslandDays, String> {
    let end = UnixSeconds::parse("2026-09-23T00:00:00Z").unwrap().day();
    island_days(body.as_bytes(), &(UtcDay(end.0 - 7)..end))
}

#[test]
fn an_islands_days_are_read_and_bad_values_left_out() {
    let found = days(DAYS).unwrap();
    let names: Vec<String> = found.rows.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["2026-09-20", "2026-09-21", "2026-09-22"]);
    // Too large, negative, not at midnight, retention over 1.
    assert_eq!(found.refused, 4);
    assert_eq!(days(&DAYS.replace("1.5", "-0.1")).unwrap().refused, 4);
    let rows: Vec<_> = found.rows.values().collect();
    assert_eq!(rows[1].count(SortField::PeakCcu), Some(16));
    assert_eq!(rows[1].count(SortField::MinutesPlayed), Some(3363));
    assert_eq!(rows[1].count(SortField::Recommendations), None);
    assert_eq!(rows[1].count(SortField::Plays), None);
    assert_eq!(rows[1].decimals(), [Some(38.22), Some(0.15), None]);
    // A null is a reading.
    assert_eq!(*rows[2], Metrics::NULL);
}

#[test]
fn no_series_is_required_and_a_row_may_be_null_or_text() {
    let point = |value: &str| {
        format!(
            r#"{{"peakCCU":[null,{{"value":{value},"timestamp":"2026-09-21T00:00:00Z"}}],"plays":null}}"#
        )
    };
    for (value, count, refused) in [
        ("16", Some(16), 0),
        (r#""16""#, Some(16), 0),
        ("16.0", Some(16), 0),
        ("null", None, 0),
        (r#""""#, None, 1),
        (r#""+16""#, None, 1),
        ("true", None, 1),
        ("{}", None, 1),
        ("1e30", None, 1),
        ("1.5", None, 1),
        ("9007199254740991", Some((1 << 53) - 1), 0),
    ] {
        let found = days(&point(value)).unwrap();
        let row = found.rows.values().next().unwrap();
        assert_eq!(
            (row.count(SortField::PeakCcu), found.refused),
            (count, refused),
            "{value}"
        );
    }
}

#[test]
fn timestamps_of_any_precision_are_read() {
    for end in ["Z", ".0Z", ".000000Z", ".000000000+00:00"] {
        let body = DAYS.replace(".000Z", end);
        assert_eq!(days(&body).unwrap().rows, days(DAYS).unwrap().rows, "{end}");
    }
}

#[test]
fn a_response_without_anything_that_was_requested_is_refused() {
    for body in [
        "{}",
        "[]",
        r#"{"peakCCU":[]}"#,
        r#"{"peakCCU":{"value":1}}"#,
        r#"{"peak":[{"value":1,"timestamp":"2026-09-21T00:00:00Z"}]}"#,
        r#"{"peakCCU":[{"value":1,"timestamp":"2026-09-21T00:00:00"}]}"#,
        r#"{"peakCCU":[{"value":1,"timestamp":1790000000}]}"#,
        r#"{"peakCCU":[{"value":1,"timestamp":"2026-09-23T00:00:00Z"}]}"#,
        r#"{"peakCCU":[{"value":1,"timestamp":"2026-09-15T00:00:00Z"}]}"#,
    ] {
        assert!(days(body).is_err(), "{body}");
    }
    assert!(catalogue_page(b"{\"islands\":[]}").is_err());
    assert!(steps(b"[]", "peakCCU").is_err());
    assert!(steps(b"{\"peakCCU\":[]}", "peakCCU").is_err());
    assert!(steps(b"{\"inMatchPeakCCU\":[]}", "inClientPeakCCU").is_err());
    assert!(genres(b"{\"data\":[]}").is_err());
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
fn the_last_page_has_no_next_and_members_that_disagree_are_no_end() {
    let row = r#""data":[{"code":"1321-3263-2308"}]"#;
    for (body, want) in [
        (
            r#""meta":{"page":{"nextCursor":null}},"links":{"next":null}"#,
            Ok(None),
        ),
        (r#""meta":{}"#, Ok(None)),
        (r#""meta":{"page":{"nextCursor":"x"}}"#, Ok(Some("x"))),
        (
            r#""meta":{"page":{"nextCursor":"x"}},"links":{"next":"/y"}"#,
            Ok(Some("x")),
        ),
        (
            r#""meta":{"page":{"nextCursor":"x"}},"links":{"next":null}"#,
            Err(()),
        ),
        (
            r#""meta":{"page":{"nextCursor":null}},"links":{"next":"/y"}"#,
            Err(()),
        ),
        (r#""links":{"next":"/y"}"#, Err(())),
    ] {
        let page = catalogue_page(format!("{{{row},{body}}}").as_bytes());
        let next = page.map(|page| page.next).map_err(drop);
        assert_eq!(next, want.map(|next| next.map(str::to_owned)), "{body}");
        let ranking = ranking_page(format!("{{\"data\":[],{body}}}").as_bytes());
        assert_eq!(ranking.is_err(), want.is_err());
    }
    let empty = r#"{"data":[],"meta":{"page":{"nextCursor":null}},"links":{"next":null}}"#;
    assert!(catalogue_page(empty.as_bytes()).is_err());
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
    let steps = steps(body, "peakCCU").unwrap();
    let start = UnixSeconds::parse("2026-09-21T00:00:00Z").unwrap().0;
    assert_eq!(
        steps,
        [(UnixSeconds(start), 5), (UnixSeconds(start + 600), 7)]
    );
}
