//! Data as the upstream gives them: the shapes of real responses, and all that such data contain. What is
//! collected is sound, and what was changed or left out is counted and logged.

use std::fmt::Display;

use crate::collect::{assert_sound, once, paths};
use crate::collect_service::Collector;
use crate::fake_upstream::{FakeUpstream, now};
use crate::prelude::*;

const DAY: i64 = 86_400;
const CODE: &str = "4821-0077-1530";

/// Midnight some days ago, as the upstream writes it.
fn day(ago: i64) -> String {
    let time = jiff::Timestamp::from_second((now() / DAY - ago) * DAY).unwrap();
    format!("{time}").replace('Z', ".000Z")
}

/// Responses of an upstream, which change between runs.
#[derive(Clone, Default)]
struct Bodies(Arc<Mutex<BTreeMap<String, String>>>);

impl Bodies {
    /// Sets the body of paths that begin so.
    fn set(&self, path: &str, body: &dyn Display) {
        let mut bodies = self.0.lock().unwrap();
        bodies.insert(path.to_owned(), body.to_string());
    }

    fn upstream(&self) -> FakeUpstream {
        let bodies = self.clone();
        let find = move |path: &str| {
            let bodies = bodies.0.lock().unwrap();
            let found = bodies
                .iter()
                .rev()
                .find(|(start, _)| path.starts_with(*start));
            found.map(|(_, body)| body.clone())
        };
        FakeUpstream::with(0, Box::new(find))
    }
}

/// A dataset under construction.
struct Scene {
    bodies: Bodies,
    upstream: FakeUpstream,
    directory: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let bodies = Bodies::default();
        Scene {
            upstream: bodies.upstream(),
            bodies,
            directory: TempDir::new(),
        }
    }

    /// Sets the rows of the catalogue.
    fn catalogue(&self, rows: &[Value]) {
        let next = json!({"next": null, "prev": null});
        let page = json!({"count": rows.len(), "page": {"nextCursor": null, "prevCursor": null}});
        self.bodies.set(
            "/islands?",
            &json!({"links": next, "meta": page, "data": rows}),
        );
    }

    /// Sets the daily metrics of an island: text, since it may be unusual JSON.
    fn days(&self, code: &str, body: &dyn Display) {
        self.bodies
            .set(&format!("/islands/{code}/metrics/day"), body);
    }

    /// Collects once with a new state directory; what was collected before stays. Returns the log.
    fn collect(&self) -> String {
        let paths = paths(&self.directory);
        let _first_run = fs::remove_dir_all(&paths.1);
        let output = once(&paths, &self.upstream);
        let log = stderr_of(&output, 0);
        assert_sound(&paths);
        log
    }

    /// Rows of a file without its header.
    fn rows(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.directory.join("dataset").join(name)).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// Row of yesterday without its code.
    fn yesterday(&self) -> String {
        let rows = self.rows(&format!("daily/{}.csv", &day(1)[..10]));
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows[0].strip_prefix(CODE).unwrap().to_owned()
    }
}

/// Metrics of one day with these peaks and retention.
fn metrics(peak: &Value, d1: &Value, timestamp: &str) -> Value {
    let point = |value: &Value| json!([{"value": value, "timestamp": timestamp}]);
    json!({
        "averageMinutesPerPlayer": point(&json!(12.5)), "peakCCU": point(peak), "favorites": point(&json!(1)),
        "minutesPlayed": point(&json!(700)), "recommendations": point(&json!(null)), "plays": point(&json!(60)),
        "uniquePlayers": point(&json!(56)), "retention": [{"d1": d1, "d7": 0.02, "timestamp": timestamp}],
    })
}

/// The shapes of real responses, their members in their order, with invented values.
#[test]
fn responses_of_the_real_shapes_become_a_dataset() {
    let scene = Scene::new();
    scene.bodies.set("/islands?", &concat!(
        r#"{"links":{"next":"/ecosystem/v1/islands?after=NzAwMy0yMjE4LTQ0OTY%3D&size=2","prev":null},"#,
        r#""meta":{"count":2,"page":{"nextCursor":"NzAwMy0yMjE4LTQ0OTY=","prevCursor":null}},"data":["#,
        r#"{"code":"4821-0077-1530","creatorCode":"mira_k","title":"LAVA LADDERS 🌋 (NEW MAP)","createdIn":"UEFN","#,
        r#""tags":["parkour","just for fun","party game","casual"],"meta":{"page":{"cursor":"NDgyMS0wMDc3LTE1MzA="}}},"#,
        r#"{"code":"7003-2218-4496","creatorCode":"t0m.b","title":"AIM LAB 🎯","createdIn":"FNC","#,
        r#""tags":["1v1","practice","aim","duels"],"meta":{"page":{"cursor":"NzAwMy0yMjE4LTQ0OTY="}}}]}"#,
    ));
    scene.bodies.set("/islands?size=1000&after=NzAwMy0yMjE4LTQ0OTY%3D", &concat!(
        r#"{"links":{"next":null,"prev":"/ecosystem/v1/islands?before=MDAxMi0zNDU2LTc4OTA%3D&size=2"},"#,
        r#""meta":{"count":1,"page":{"nextCursor":null,"prevCursor":"MDAxMi0zNDU2LTc4OTA="}},"data":["#,
        r#"{"code":"0012-3456-7890","title":"old island","tags":["pve"],"meta":{"page":{"cursor":"MDAxMi0zNDU2LTc4OTA="}}}]}"#,
    ));
    let days = concat!(
        r#"{"averageMinutesPerPlayer":[{"value":21.48,"timestamp":"DAY2"},{"value":19.3,"timestamp":"DAY1"}],"#,
        r#""peakCCU":[{"value":41,"timestamp":"DAY2"},{"value":12,"timestamp":"DAY1"}],"#,
        r#""favorites":[{"value":9,"timestamp":"DAY2"},{"value":3,"timestamp":"DAY1"}],"#,
        r#""minutesPlayed":[{"value":5241,"timestamp":"DAY2"},{"value":1873,"timestamp":"DAY1"}],"#,
        r#""recommendations":[{"value":2,"timestamp":"DAY2"},{"value":null,"timestamp":"DAY1"}],"#,
        r#""plays":[{"value":301,"timestamp":"DAY2"},{"value":117,"timestamp":"DAY1"}],"#,
        r#""uniquePlayers":[{"value":244,"timestamp":"DAY2"},{"value":97,"timestamp":"DAY1"}],"#,
        r#""retention":[{"d1":0.18,"d7":0.05,"timestamp":"DAY2"},{"d1":0.11,"d7":0.03,"timestamp":"DAY1"}]}"#,
    );
    scene.days(
        "4821-0077-1530",
        &days.replace("DAY2", &day(2)).replace("DAY1", &day(1)),
    );
    let log = scene.collect();
    let line = "2 pages; 3 islands listed, 3 ever seen\n";
    assert!(log.contains(line), "{log}");
    assert_eq!(
        scene.rows("islands.csv"),
        [
            "0012-3456-7890,old island,,,pve",
            "4821-0077-1530,LAVA LADDERS 🌋 (NEW MAP),mira_k,uefn,parkour|just for fun|party game|casual",
            "7003-2218-4496,AIM LAB 🎯,t0m.b,creative,1v1|practice|aim|duels",
        ]
    );
    assert_eq!(scene.yesterday(), ",12,97,1873,3,117,,19.3,0.11,0.03");
    let before = scene.rows(&format!("daily/{}.csv", &day(2)[..10]));
    assert_eq!(
        before,
        ["4821-0077-1530,41,244,5241,9,301,2,21.48,0.18,0.05"]
    );
}

#[test]
fn what_was_cleaned_skipped_and_left_out_is_logged_and_counted() {
    let scene = Scene::new();
    scene.catalogue(&[
        // A title, a creator and two tags.
        json!({"code": CODE, "title": "a\u{7}b", "creatorCode": "a/b", "tags": ["x|y", "", "fine"]}),
        json!({"code": "playlist_solo", "title": "x", "tags": []}),
        json!({"title": "no code"}),
        // Most rows of a catalogue that is believed are sound.
        json!({"code": "7003-2218-4496", "title": "sound", "tags": []}),
        json!({"code": "0012-3456-7890", "title": "sound", "tags": []}),
    ]);
    // A peak and a retention.
    scene.days(CODE, &metrics(&json!(1e30), &json!(1.5), &day(1)));
    let log = scene.collect();
    for part in [
        "left out since the start: 2 values out of range",
        "2 rows without an island's code, title and tags",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let islands = scene.rows("islands.csv");
    assert_eq!(islands[1], "4821-0077-1530,ab,,,x/y|fine");
    assert_eq!(scene.yesterday(), ",,56,700,1,60,,12.5,,0.02");
    let collector = Collector::start(&scene.upstream, "200");
    collector.manager.await_line("READY=1");
    let counted = collector.await_metrics(|metrics| metrics["values_refused_total"] > 1.5);
    for (name, count) in [
        ("values_refused_total", 2.0),
        ("codes_skipped_total", 2.0),
        ("values_revised_total", 0.0),
    ] {
        assert!(
            (counted[name] - count).abs() < 0.1,
            "{name}: {}",
            counted[name]
        );
    }
    // Also if nothing is left to write.
    let scene = Scene::new();
    scene.catalogue(&[json!({"code": CODE, "title": "x", "tags": []})]);
    let refused = json!({"peakCCU": [{"value": 1e30, "timestamp": day(1)}]});
    scene.days(CODE, &refused);
    let log = scene.collect();
    assert!(log.contains("left out since the start: 1 values"), "{log}");
}

#[test]
fn titles_follow_the_newest_crawl_and_islands_that_vanish_stay() {
    let scene = Scene::new();
    let island = |title: &str| json!({"code": CODE, "title": title, "tags": []});
    let other = json!({"code": "7003-2218-4496", "title": "other", "tags": []});
    scene.catalogue(&[island("first"), other.clone()]);
    scene.days(CODE, &metrics(&json!(30), &json!(0.2), &day(1)));
    scene.collect();
    // It vanishes, and its metrics with it.
    scene.catalogue(std::slice::from_ref(&other));
    scene.days(CODE, &"");
    scene.collect();
    let vanished = ["4821-0077-1530,first,,,", "7003-2218-4496,other,,,"];
    assert_eq!(scene.rows("islands.csv"), vanished);
    assert_eq!(scene.yesterday(), ",30,56,700,1,60,,12.5,0.2,0.02");
    // It returns with another title; one value is revised, and another one is gone.
    scene.catalogue(&[island("second"), other]);
    scene.days(CODE, &metrics(&json!(31), &json!(null), &day(1)));
    let log = scene.collect();
    assert!(log.contains("the upstream revised 1 islands"), "{log}");
    assert_eq!(scene.rows("islands.csv")[0], "4821-0077-1530,second,,,");
    assert_eq!(scene.yesterday(), ",31,56,700,1,60,,12.5,0.2,0.02");
}
