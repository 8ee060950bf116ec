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
        ("1e400", None, 1),
        ("-1e400", None, 1),
        ("NaN", None, 1),
        ("-Infinity", None, 1),
        ("007", None, 1),
        ("undefined ", None, 1),
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

/// The other values of the reply stay, and the other rows of a page.
#[test]
fn a_word_that_is_no_value_costs_only_its_own() {
    for word in ["1e400", "NaN", "-.5"] {
        let found = days(&DAYS.replace("38.22", word)).unwrap();
        let sound = days(DAYS).unwrap();
        assert_eq!(found.refused, sound.refused + 1, "{word}");
        let peaks = |found: &IslandDays| -> Vec<_> {
            let rows = found.rows.values();
            rows.map(|row| row.count(SortField::PeakCcu)).collect()
        };
        assert_eq!(peaks(&found), peaks(&sound), "{word}");
        let rows = format!(
            r#"{{"data":[{{"islandCode":"0000-0000-0007","rank":{word}}},{{"islandCode":"0000-0000-0005","rank":2}}]}}"#
        );
        let page = ranking_page(rows.as_bytes()).unwrap();
        assert_eq!((page.rows.len(), page.skipped), (1, 1), "{word}");
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
    assert!(steps(b"[]", "peakCCU", &times(0..9)).is_err());
    assert!(steps(b"{\"peakCCU\":[]}", "peakCCU", &times(0..9)).is_err());
    assert!(steps(b"{\"inMatchPeakCCU\":[]}", "inClientPeakCCU", &times(0..9)).is_err());
    assert!(genres(b"{\"data\":[]}").is_err());
}

#[test]
fn a_page_of_the_catalogue_survives_its_worst_row() {
    let body = br#"{"links":{"next":"/x?after=Yg%3D%3D","prev":null},"meta":{"count":3,"page":{"nextCursor":"Yg=="}},
        "data":[{"code":"1321-3263-2308","creatorCode":"paul2m","title":"A \ud83d lone","createdIn":"UEFN","tags":["pvp"]},
        {"code":"experience_x","title":1,"tags":null},{"title":"no code"},{"code":"9752-7254-5801","title":"B\u0000C","tags":[]}]}"#;
    let page = catalogue_page(body).unwrap();
    assert_eq!(page.next.as_deref(), Some("Yg=="));
    let titles: Vec<&str> = page.rows.iter().map(|island| &*island.title).collect();
    assert_eq!(titles, ["A \u{FFFD} lone", "BC"]);
    assert_eq!(page.skipped, 2);
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
    // As if both had other names.
    for (rows, is_end) in [(PAGE_SIZE - 1, true), (PAGE_SIZE, false)] {
        let rows = vec![r#"{"code":"1321-3263-2308"}"#; rows].join(",");
        let page =
            catalogue_page(format!("{{\"data\":[{rows}],\"links\":{{\"after\":1}}}}").as_bytes());
        assert_eq!(page.is_ok(), is_end);
        let page =
            catalogue_page(format!("{{\"data\":[{rows}],\"links\":{{\"next\":null}}}}").as_bytes());
        assert_eq!(page.unwrap().next, None);
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
    assert_eq!(missing, Page::EMPTY);
}

/// Times of some 10-minute steps of a day.
fn times(steps: Range<i64>) -> Range<UnixSeconds> {
    let start = UnixSeconds::parse("2026-09-21T00:00:00Z").unwrap().0;
    UnixSeconds(start + 600 * steps.start)..UnixSeconds(start + 600 * steps.end)
}

#[test]
fn steps_are_those_of_the_requested_times_with_a_value() {
    let body = br#"{"peakCCU":[{"value":7,"timestamp":"2026-09-21T00:10:00.000Z"},{"value":null,"timestamp":"2026-09-21T00:20:00.000Z"},
        {"value":5,"timestamp":"2026-09-21T00:00:00.000Z"},{"value":5,"timestamp":"2026-09-21T00:00:01.000Z"}]}"#;
    let found = |requested| steps(body, "peakCCU", &times(requested)).ok();
    let at = |step| times(step..step).start;
    assert_eq!(found(0..3), Some([(at(0), 5), (at(1), 7)].into()));
    assert_eq!(found(1..3), Some([(at(1), 7)].into()));
    assert_eq!(found(0..1), Some([(at(0), 5)].into()));
    assert_eq!(found(2..3), Some(BTreeMap::new()));
    assert_eq!(found(3..9), None);
}

#[test]
fn a_sound_row_stays_as_it_is() {
    let listed = clean(&serde_json::json!({
        "code": "0034-5678-9012", "title": "MTR BETA 🥊", "creatorCode": "anas_s", "createdIn": "FNC",
        "tags": ["1v1", "difficulty: easy"], "category": "LEGO",
    }));
    let listed = listed.unwrap();
    assert_eq!(listed.code.to_string(), "0034-5678-9012");
    assert_eq!(
        (&*listed.title, &*listed.tags),
        ("MTR BETA 🥊", "1v1|difficulty: easy")
    );
    assert_eq!(listed.creator.unwrap().as_str(), "anas_s");
    assert_eq!(listed.created_in, Some(CreatedIn::Creative));
    for creator in [Value::Null, "".into()] {
        let listed = clean(&serde_json::json!({
            "code": "0034-5678-9012", "title": "t", "creatorCode": creator, "createdIn": "OTHER",
            "tags": [], "new": {"x": [1]},
        }));
        let listed = listed.unwrap();
        assert_eq!((listed.creator, listed.created_in), (None, None));
    }
}

#[test]
fn faults_are_cleaned() {
    let long = "ü".repeat(600);
    for (json, want) in [
        (
            serde_json::json!({"code": "playlist_solo", "title": "x", "tags": []}),
            None,
        ),
        (serde_json::json!({"title": "x", "tags": []}), None),
        // An island that is known keeps its title and tags.
        (
            serde_json::json!({"code": "1234-5678-9012", "title": "x"}),
            None,
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "tags": []}),
            None,
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "title": "a\u{0}b\u{85}c\u{200B}", "tags": []}),
            Some(("abc\u{200B}", "")),
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "title": long, "tags": []}),
            Some((&long[..1024], "")),
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "title": 7, "tags": "x"}),
            None,
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "title": "\u{0}\u{1}", "tags": []}),
            Some(("", "")),
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "title": "t", "tags": ["x\u{7}y"]}),
            Some(("t", "xy")),
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "title": "t", "creatorCode": "a/b", "tags": []}),
            Some(("t", "")),
        ),
        (
            serde_json::json!({"code": "1234-5678-9012", "title": "t", "tags": ["a|b", "", "a/b", null, "c"]}),
            Some(("t", "a/b|c")),
        ),
    ] {
        let listed = clean(&json);
        let found = listed
            .as_ref()
            .map(|listed| (&*listed.title, &*listed.tags));
        assert_eq!(found, want, "{json}");
        assert!(listed.is_none_or(|listed| listed.creator.is_none()));
    }
}

#[test]
fn tags_that_do_not_fit_are_left_out() {
    let tags: Vec<String> = (0..100).map(|number| format!("{number:020}")).collect();
    let listed = clean(&serde_json::json!({"code": "1234-5678-9012", "title": "t", "tags": tags}));
    let listed = listed.unwrap();
    assert!(listed.tags.len() <= 1024 && listed.tags.len() > 1000);
    assert!(listed.tags.split('|').all(|tag| tag.len() == 20));
}

fn parsed(body: &[u8]) -> String {
    serde_json::from_str(&repair(body)).unwrap()
}

#[test]
fn bad_escapes_are_replaced_and_good_ones_kept() {
    for (body, want) in [
        (&br#""a\ud83d\ude00b""#[..], "a😀b"),
        (br#""a\ud83db""#, "a\u{FFFD}b"),
        (br#""\ude00\ud83d""#, "\u{FFFD}\u{FFFD}"),
        (br#""\ud83d\ud83d\ude00""#, "\u{FFFD}😀"),
        (br#""\\ud83d""#, r"\ud83d"),
        (br#""\\\ud83d""#, "\\\u{FFFD}"),
        (br#""\u0041\n\"""#, "A\n\""),
        (br#""1e400,\":1e400""#, "1e400,\":1e400"),
        (b"\"a\x00b\tc\"", "a b c"),
        (b"\"a\xff\"", "a\u{FFFD}"),
        (br#""\ud83""#.as_slice(), ""),
    ]
    .into_iter()
    .filter(|(body, _)| *body != br#""\ud83""#)
    {
        assert_eq!(parsed(body), want, "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn no_input_panics_and_sound_text_stays() {
    arbtest::arbtest(|u| {
        let alphabet = *b"\\ud8D3dcDE0 \"a\x00\xff:,!-";
        let mut body = Vec::new();
        for _ in 0..u.int_in_range(0..=24)? {
            body.push(*u.choose(&alphabet)?);
        }
        let once = repair(&body);
        assert_eq!(repair(once.as_bytes()), once);
        if let Ok(text) = serde_json::from_slice::<String>(&body) {
            assert_eq!(serde_json::from_str::<String>(&once).unwrap(), text);
        }
        Ok(())
    });
}
