//! Tests of pages, drawn from whole, unusual and damaged bodies.

#[path = "island_page_tests.rs"]
mod islands;
#[path = "page_list_tests.rs"]
mod lists;
#[path = "page_notice_tests.rs"]
mod notice;
#[path = "page_value_tests.rs"]
mod values;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value as Json, json};

use super::data_pages::ROWS_MAX;
use super::*;
use crate::model::{METRIC_NAMES, SortField};
use crate::request::{ISLAND_PARAMETERS, Kind, ListQuery, Parameter, Query};

const TIME: &str = "2026-11-21T12:05:00Z";
const NOTICE: Option<&str> = Some("<made up>");

fn row(is_known: bool) -> Json {
    let text = |text: &str| is_known.then(|| text.to_owned());
    let mut row = json!({
        "code": "1000-0000-0000", "title": text("<t>").unwrap_or_default(), "creator": text("a/b"),
        "createdIn": text("uefn"), "tags": if is_known { vec!["x\"y"] } else { vec![] },
        "firstSeen": text("2026-11-01"), "lastSeen": text("2026-11-20"), "date": text("2026-11-20"),
    });
    for name in METRIC_NAMES {
        row[name] = if is_known { json!(1.0) } else { Json::Null };
    }
    for name in SUMS {
        row[name] = if is_known { json!(1_234) } else { Json::Null };
    }
    // Members of the document that no test draws.
    for name in &*ISLAND_MEMBERS {
        let members = row.as_object_mut().unwrap();
        members.entry(name).or_insert(Json::Null);
    }
    row
}

static ISLAND_MEMBERS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let document = Document::parsed(&SiteSettings::new(""));
    let required = document.0["components"]["schemas"]["Island"]["required"].clone();
    serde_json::from_value(required).unwrap()
});

fn list(name: &str, rows: &[Json]) -> Json {
    json!({ name: rows, "meta": {"generatedAt": "2026-11-21T12:05:00Z", "total": 3, "hasMore": true, "limit": 2, "offset": 0} })
}

/// The members that islands and creators have in common.
const SUMS: [&str; 6] = [
    "peakCCU",
    "uniquePlayers",
    "minutesPlayed",
    "favorites",
    "plays",
    "recommendations",
];

/// A page without a history, live players or a rank, with the peak as metric.
fn plain(detail: &[u8]) -> IslandPage<'_> {
    IslandPage {
        detail,
        published: TIME,
        notice: NOTICE,
        history: None,
        live: None,
        rank: None,
        metric: "peakCCU",
        days: None,
    }
}

/// Bodies by kind, with known or unknown values.
fn bodies(is_known: bool) -> Vec<(&'static str, Json)> {
    let rows = [row(is_known), row(false)];
    let meta = json!({"generatedAt": "2026-11-21T12:05:00Z"});
    let mut creator = json!({"slug": "a/b", "islandCount": 2});
    for name in SUMS {
        creator[name] = rows[0][name].clone();
    }
    let creators = list("creators", std::slice::from_ref(&creator));
    let (name, number) = (is_known.then_some("<n>"), is_known.then_some(5));
    creator["profile"] =
        json!({"name": name, "followers": number, "following": number, "lifetimePlays": number});
    let mut island = row(is_known);
    island["series"] = json!([row(is_known), row(false)]);
    let places = [Some(0), Some(2), Some(-2), None].map(|delta| {
        let previous = delta.map(|by| 3 + by);
        json!({"rank": 3, "delta": delta, "previousRank": previous, "code": "1", "title": "t",
            "creator": rows[0]["creator"], "peakCCU": 9})
    });
    let previous = is_known.then_some("2026-11-19");
    let live_rows = json!([{"code": "1", "title": " ", "players": 7}]);
    vec![
        (
            "index",
            json!({"generatedAt": "2026-11-21T12:05:00Z", "counts": {"islands": 1, "creators": 2, "rankings": 3}}),
        ),
        (
            "intraday",
            json!({"resolutionSeconds": 600, "points": [[1_795_262_100, 5], [1_795_262_700, 7]]}),
        ),
        ("islands", list("islands", &rows)),
        ("creators", creators),
        ("creator", json!({"creator": creator})),
        ("island", json!({"island": island, "meta": meta})),
        (
            "live",
            json!({"time": 1_795_262_700, "players": 7, "islands": live_rows}),
        ),
        (
            "ranking",
            json!({"date": "2026-11-20", "previousDate": previous, "ranking": places, "meta": meta}),
        ),
        (
            "new",
            json!({"date": "2026-11-20", "meta": meta, "islands": &rows[usize::from(!is_known)..]}),
        ),
    ]
}

/// Returns a body as it is published: the list of islands comes after what pages read from its start.
fn published(kind: &str, mut body: Json) -> Vec<u8> {
    let text = match kind {
        "creator" => {
            let text = body.to_string();
            let start = text.strip_suffix("}}").unwrap_or(&text);
            format!("{start},\"islands\":[")
        }
        "island" => {
            let island = body["island"].as_object_mut().unwrap();
            let series = island.remove("series");
            let series = series.map_or_else(String::new, |series| format!(",\"series\":{series}"));
            let text = body["island"].to_string();
            let start = text.strip_suffix('}').unwrap();
            format!("{{\"island\":{start}{series}}},\"meta\":{}}}", body["meta"])
        }
        "live" | "new" => {
            let islands = body.as_object_mut().unwrap().remove("islands");
            let (text, islands) = (body.to_string(), islands.unwrap());
            let start = text.strip_suffix('}').unwrap();
            format!("{start},\"islands\":{islands}}}")
        }
        _ => body.to_string(),
    };
    text.into_bytes()
}

/// Draws all pages of data, after a change of the bodies.
fn pages(is_known: bool, change: impl Fn(&str, &mut Json)) -> Vec<(&'static str, Option<String>)> {
    let bodies: BTreeMap<&str, Vec<u8>> = bodies(is_known)
        .into_iter()
        .map(|(kind, mut body)| {
            change(kind, &mut body);
            (kind, published(kind, body))
        })
        .collect();
    let of = |kind: &str| &bodies[kind][..];
    let body_of = |target: &str| match target {
        "/v1" => Some(of("index").to_vec()),
        "/v1/live" => Some(of("live").to_vec()),
        "/v1/live/intraday" => is_known.then(|| of("intraday").to_vec()),
        "/v1/islands?limit=1" => Some(of("islands").to_vec()),
        _ => Some(of("ranking").to_vec()),
    };
    let links = DayLinks {
        previous: is_known.then_some("2026-11-19"),
        next: None,
        range: ["2026-11-01", "2026-11-20"],
        root: "../",
        notice: NOTICE,
    };
    let known =
        "tag=%3Cq%3E&creator=b&createdIn=uefn&q=%3Cq%3E&minPlays=7&sort=plays&order=asc&limit=2";
    let parameters = [ISLAND_PARAMETERS, &[lists::MIN_PLAYS]].concat();
    let query = ListQuery::parse(&Query::split(is_known.then_some(known)), &parameters).unwrap();
    let (list, tags) = ((&parameters[..], &query), ["a".to_owned()]);
    let q = if is_known { "<q>" } else { "" };
    let live = Some((of("live"), is_known.then_some(7)));
    let mut service = SiteSettings::new("https://x.test");
    service.notice = NOTICE.map(str::to_owned);
    vec![
        ("home", Some(home(&service, &body_of))),
        ("islands", islands(of("islands"), list, &tags, NOTICE)),
        (
            "creators",
            creators(of("creators"), q, Some("2026-11-20"), NOTICE),
        ),
        ("creator", creator(of("creator"), of("islands"), NOTICE)),
        (
            "island",
            island(IslandPage {
                live,
                rank: Some((2, 3)),
                ..plain(of("island"))
            }),
        ),
        (
            "island",
            island(IslandPage {
                metric: "retentionD7",
                ..plain(of("island"))
            }),
        ),
        ("live", super::live(Some(of("live")), TIME, NOTICE)),
        ("ranking", ranking(of("ranking"), links)),
        ("new", new_islands(of("new"), TIME, links)),
    ]
}

/// Whether a page is drawn, and not that of an unreadable body.
fn is_whole(page: Option<&String>) -> bool {
    page.is_some_and(|page| !page.contains("<h1>Nothing to show</h1>"))
}

#[test]
fn pages_are_drawn_from_known_and_unknown_values() {
    let emptied = |_: &str, body: &mut Json| {
        for list in ["islands", "creators", "ranking"] {
            if body.get(list).is_some() {
                body[list] = json!([]);
                body["meta"]["total"] = json!(0);
            }
        }
    };
    for (is_known, is_empty) in [(true, false), (false, false), (true, true)] {
        for (name, page) in pages(is_known, |kind, body| {
            if is_empty {
                emptied(kind, body);
            }
        }) {
            assert!(is_whole(page.as_ref()), "{name}");
            let page = page.unwrap();
            assert!(page.ends_with("</footer>\n"));
            let start = "<main id=main><p class=note>&lt;made up&gt;</p><h1>";
            assert!(page.contains(start), "{name}");
            assert!(!page.contains("third party"), "{name}");
            let page = page.replace("preserveAspectRatio=none", "");
            for mark in ["<t>", "<n>", "<q>", "x\"y", "None", "none"] {
                assert!(!page.contains(mark), "{mark} in {name}: {page}");
            }
        }
    }
    let service = SiteSettings::new("https://x.test");
    let page = home(&service, &|_| None);
    assert!(page.contains("<main id=main><h1>") && page.contains("third party"));
    assert!(page.contains("Nothing has been published yet."));
    for (published, has_time) in [(TIME, true), ("", false)] {
        let page = live(None, published, None).unwrap();
        assert!(page.contains("No live data is published on this server"));
        assert_eq!(page.contains(&format!("datetime=\"{TIME}\"")), has_time);
    }
}

#[test]
fn a_body_without_a_member_gives_no_page_in_part() {
    // Members that a page shows, each removed from one body.
    for (body, path, pages_of) in [
        ("islands", "/meta/total", &["islands", "creator"][..]),
        ("islands", "/meta/limit", &["islands"]),
        ("islands", "/meta/hasMore", &["creator"]),
        ("islands", "/islands/1/title", &["islands", "creator"]),
        ("islands", "/islands/0/peakCCU", &["islands", "creator"]),
        ("islands", "/islands", &["islands", "creator"]),
        ("creators", "/creators/0/slug", &["creators"]),
        ("creator", "/creator/profile", &["creator"]),
        ("island", "/island/code", &["island"]),
        ("island", "/island/retentionD7", &["island"]),
        ("island", "/island/series", &["island"]),
        ("ranking", "/ranking/2/delta", &["ranking", "home"]),
        ("ranking", "/date", &["ranking", "home"]),
        ("new", "/date", &["new"]),
        ("new", "/islands/0/plays", &["new"]),
        ("live", "/time", &["home", "live"]),
        ("live", "/players", &["live"]),
        ("index", "/counts/rankings", &["home"]),
    ] {
        let (parent, name) = path.rsplit_once('/').unwrap();
        for damaged in [None, Some(json!("text")), Some(json!([-1.5]))] {
            // Texts and conditions take any text, and a list of islands can be any list.
            let is_text = ["title", "slug", "code", "date", "delta", "hasMore"].contains(&name);
            if damaged.is_some() && (is_text || name == "islands") {
                continue;
            }
            let change = |changed: &str, whole: &mut Json| {
                if changed == body {
                    let parent = whole.pointer_mut(parent).unwrap();
                    match &damaged {
                        None => drop(parent.as_object_mut().unwrap().remove(name)),
                        Some(value) => parent[name] = value.clone(),
                    }
                }
            };
            for (page, drawn) in pages(true, change) {
                let is_affected = pages_of.contains(&page);
                assert_eq!(
                    is_whole(drawn.as_ref()),
                    !is_affected,
                    "{path} {damaged:?} {page}"
                );
            }
        }
    }
    for body in [&b"{"[..], b"[]", b"7", b""] {
        for page in [
            islands(body, (ISLAND_PARAMETERS, &ListQuery::default()), &[], None),
            creators(body, "", None, None),
            island(plain(body)),
        ] {
            assert!(page.is_none());
        }
    }
}

#[test]
fn pages_of_days_count_islands_only_if_they_show_all() {
    let links = DayLinks {
        previous: None,
        next: None,
        range: ["2026-11-20"; 2],
        root: "",
        notice: None,
    };
    for count in [0, 1, 2, ROWS_MAX - 1, ROWS_MAX, ROWS_MAX + 1] {
        let body = published(
            "new",
            json!({"date": "2026-11-20", "islands": vec![row(true); count]}),
        );
        let list_bytes = json!(vec![row(true); count]).to_string().len();
        let first_row_end = body.len() - list_bytes + row(true).to_string().len();
        // The list may be cut off anywhere behind the first row, also between two rows.
        for bytes in (first_row_end..body.len()).step_by(23).chain([body.len()]) {
            let page = new_islands(&body[..bytes], "2026-11-21T12:05:00Z", links).unwrap();
            let shown = page.matches("<bdi>&lt;t&gt;</bdi>").count();
            let is_whole = shown == count && bytes >= body.len() - 1;
            let expected = match count {
                0 => "No island was first seen on this day".to_owned(),
                1 if is_whole => "1 island was first seen on this day".to_owned(),
                _ if is_whole => format!("{count} islands were first seen on this day"),
                _ => format!("These {shown} islands have the highest peaks"),
            };
            assert!(
                page.contains(&expected),
                "{count} islands, {bytes} bytes: {expected}"
            );
        }
    }
    let empty = json!({"date": "2026-11-20", "previousDate": null, "ranking": [], "meta": {"generatedAt": ""}});
    let page = ranking(&published("ranking", empty), links).unwrap();
    assert!(page.contains("No island has a peak on this day."));
}

#[test]
fn pages_of_keys_are_drawn_in_every_state() {
    let mut service = SiteSettings::new("https://x.test");
    let page = keys_closed(&service);
    assert!(page.contains("<td>not issued online<") && !page.contains("the publisher<"));
    service.contact = Some("a&b@x.test".to_owned());
    let link = "<a href=\"mailto:a&amp;b@x.test\">the publisher</a>";
    let page = keys_closed(&service);
    assert!(page.contains(&format!("<td>ask {link}")));
    assert!(
        page.contains("Sign-up is closed on this server; ask the publisher for a key: <a href")
    );
    assert!(keys_form("p\"q", &service).contains("name=pass value=\"p&quot;q\""));
    assert!(keys_mailed(&service).contains("Check your mail"));
    let page = keys_refused("<m>", Some("p&q"), &service);
    assert!(page.contains("&lt;m&gt;") && page.contains("href=\"keys?pass=p%26q\""));
    assert!(keys_refused("m", None, &service).contains("href=\"keys\""));
    let page = keys_list(&AddressKeys {
        address: "192.0.2.1",
        keys: vec![ListedKey {
            id: "id0".to_owned(),
            tier: "pro",
            issued: "2026-11-20T00:00:00Z".to_owned(),
            revoked: None,
        }],
        token: "",
        issued: None,
        revoked: Some("<r>".to_owned()),
        is_shared: true,
        service: &service,
    });
    for part in [
        "Key &lt;r&gt; is revoked.",
        "belong to your IP address",
        "<td>pro<td class=wide>2026-11-20T00:00:00Z<td>active<",
    ] {
        assert!(page.contains(part), "{part}");
    }
}
