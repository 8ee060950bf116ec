//! Publishes whose checksums are correct and whose content is not: each is refused, or served in bounded
//! memory and time, and the next publish is served.

use std::os::unix::fs::FileExt;

use crate::payload_file::{
    CREATOR_ROWS, DAYS, PayloadFile, ROW_END, ROWS, TAG_NAMES, manifest, replace_manifest,
};
use crate::prelude::*;
use zlib_rs::crc32::crc32;

const LATER: &str = "2026-11-21T00:20:00Z";
const SPARSE_BYTES: u64 = 1 << 30;

/// A server of a valid publish.
struct Scene {
    dir: TempDir,
    published: PathBuf,
    admin: SocketAddr,
    server: Server,
}

impl Scene {
    fn new(more: &[&str]) -> Scene {
        let dir = TempDir::new();
        let published = World::with_more_than(10, 3, 40).publish(&dir);
        let (admin, port) = address();
        let server = Server::of(&published, &[&["--admin", &port], more].concat());
        // After the line about the first publish.
        server.await_line("listening on");
        Scene {
            dir,
            published,
            admin,
            server,
        }
    }

    fn payload(&self, part: &'static str) -> PayloadFile {
        PayloadFile::read(&self.published, part)
    }

    /// The code of an island, the first in the list.
    fn code(&self) -> String {
        let page = self.server.connect().get("/v1/islands?limit=1").json();
        page["islands"][0]["code"].as_str().unwrap().to_owned()
    }

    /// The exit code of `check`, and what it prints.
    fn check(&self) -> (Option<i32>, String) {
        let (code, stderr) = Published::at(&self.published).check();
        assert!(!stderr.contains("panicked"), "{stderr}");
        (code, stderr)
    }

    /// The server is alive, and serves the next publish.
    #[track_caller]
    fn goes_on(&self) {
        let admin = |path: &str| Client::connect(self.admin).get(path).status;
        assert_eq!((admin("/livez"), admin("/readyz")), (200, 200));
        publish(&self.dir.join("dataset"), &self.published, LATER);
        shows(&mut self.server.connect(), LATER);
    }

    /// The publish is refused by the server and by `check`, with this text.
    #[track_caller]
    fn is_refused(&self, text: &str) {
        self.server.await_line(text);
        let (code, printed) = self.check();
        assert!(
            code == Some(65) && printed.contains(text),
            "{code:?} {printed}"
        );
        self.goes_on();
    }
}

#[test]
fn numbers_of_any_size_in_bodies_are_served_and_end_no_page() {
    for number in ["-9223372036854775808", "9223372036854775807", "1e308", "-1"] {
        let scene = Scene::new(&[]);
        let code = scene.code();
        let mut history = scene.payload("history");
        let none = (&b""[..], 0);
        for body in history.newest_day_bodies() {
            let text = format!(
                r#"{{"date":{number},"previousDate":{number},"ranking":[],"meta":{{"generatedAt":"{LATER}"}},"islands":[]}}"#
            );
            history.set_body(body, &text, none, "");
        }
        for body in 0..20 {
            let text = format!(
                r#"{{"island":{{"code":"1","date":{number},"series":[{{"date":{number},"peakCCU":{number}}}]}},"meta":{{"generatedAt":"{LATER}"}}}}"#
            );
            history.set_body(body, &text, none, "");
        }
        history.publish();
        let mut live = scene.payload("live");
        let text = format!(r#"{{"time":{number},"players":{number},"islands":[]}}"#);
        live.set_body(0, &text, none, "");
        let text = format!(
            r#"{{"resolutionSeconds":{number},"points":[[9000000000000000000,1],[9000000000000000000,1],[0,1]]}}"#
        );
        live.set_body(1, &text, none, "");
        live.publish();
        scene.server.await_line("serving the publish of");
        let mut client = scene.server.connect();
        // The names of the payloads have changed, and no time: the entity tag shows the new ones.
        wait_for("the body", || {
            client.get("/v1/live").text().contains(number)
        });
        for page in [
            "/".to_owned(),
            "/docs".to_owned(),
            format!("/islands/{code}"),
            format!("/islands/{code}?metric=plays"),
            "/rankings".to_owned(),
            "/new".to_owned(),
        ] {
            let status = client.get(&page).status;
            assert!([200, 500].contains(&status), "{page}: {status}");
        }
        assert_eq!(client.get("/").status, 200);
        assert_eq!(scene.check().0, Some(0));
        scene.goes_on();
    }
}

#[test]
fn days_outside_of_the_calendar_are_refused() {
    let changes: [fn(&mut [i32]); 6] = [
        |days| days[0] = i32::MIN,
        |days| days[0] = -719_529,
        |days| *days.last_mut().unwrap() = 2_932_897,
        |days| *days.last_mut().unwrap() = i32::MAX,
        |days| days[1] = days[0],
        |days| days.swap(0, 1),
    ];
    for change in changes {
        let scene = Scene::new(&[]);
        let mut history = scene.payload("history");
        let section = history.section(DAYS);
        let mut days: Vec<i32> = (100..).take(section.len() / 4).collect();
        change(&mut days);
        *section = days.iter().flat_map(|day| day.to_le_bytes()).collect();
        history.publish();
        scene.is_refused("section Days: its days are not in ");
    }
}

/// Long enough for several polls.
const POLLS: Duration = Duration::from_secs(2);

/// The server reads next to nothing during several polls.
#[track_caller]
fn is_idle(server: &Server) {
    let before = server.bytes_read();
    thread::sleep(POLLS);
    let read = server.bytes_read() - before;
    assert!(read < 1 << 20, "{read} bytes read");
}

#[test]
fn a_refused_publish_is_read_again_only_at_a_reload() {
    let scene = Scene::new(&[]);
    let mut history = scene.payload("history");
    // A section that no reader knows: four megabytes that are read, and more than all polls read.
    history.payload.sections.push((1000, vec![7; 4 << 20]));
    let change = |path: &Path, bits: u8| {
        flip(path, path.metadata().unwrap().len() - (1 << 20), bits);
    };
    let (path, manifest) = history.write();
    change(&path, 1);
    replace_manifest(&scene.published, &manifest);
    scene
        .server
        .await_line("the part behind the bodies is damaged");
    let refusals = |server: &Server| {
        let lines = server.lines();
        lines
            .iter()
            .filter(|line| line.contains("is damaged: "))
            .count()
    };
    is_idle(&scene.server);
    assert_eq!(refusals(&scene.server), 1);
    let before = scene.server.bytes_read();
    scene.server.hang_up();
    wait_for("another look", || {
        scene.server.bytes_read() - before > 3 << 20
    });
    thread::sleep(POLLS / 4);
    is_idle(&scene.server);
    assert_eq!(refusals(&scene.server), 2, "one line for each reading");
    let served = scene.server.connect().get("/v1").json();
    assert_eq!(served["meta"]["generatedAt"], GENERATED_AT);
    // Repaired in place, it is served after a reload.
    change(&path, 1);
    is_idle(&scene.server);
    scene.server.hang_up();
    scene.server.await_line("serving the publish of");
    scene.goes_on();
}

#[test]
fn a_file_that_is_not_the_one_in_the_manifest_is_not_read() {
    let scene = Scene::new(&[]);
    let path = scene.payload("history").publish();
    scene.server.await_line("serving the publish of");
    let original = fs::read(path).unwrap();
    let name = "history-other.snap";
    let other = scene.published.join(name);
    let mut manifest = manifest(&scene.published);
    manifest["history"]["file"] = name.into();
    manifest["history"]["checksum"] = "00000000".into();
    // The same file with a hole of a gigabyte, of which the trailer says that it is to be read.
    let trailer = &original[original.len() - 32..];
    let grown = [&8_u64.to_le_bytes(), &trailer[8..]].concat();
    for bytes in [original.len() as u64, SPARSE_BYTES] {
        write_bytes(&other, &original[..8]);
        let file = File::options().write(true).open(&other).unwrap();
        file.set_len(SPARSE_BYTES).unwrap();
        file.write_all_at(&grown, SPARSE_BYTES - 32).unwrap();
        manifest["history"]["bytes"] = bytes.into();
        replace_manifest(&scene.published, &manifest);
        let before = scene.server.bytes_read();
        scene
            .server
            .await_line("it must be the file in the manifest");
        assert!(scene.server.bytes_read() - before < 1 << 20);
    }
    let peak = scene.server.peak_kib();
    assert!(peak < 300 << 10, "{peak} KiB");
    let (code, printed) = scene.check();
    assert!(
        code == Some(65) && printed.contains("it must be the file in the manifest"),
        "{code:?} {printed}"
    );
    fs::remove_file(other).unwrap();
    scene.goes_on();
}

#[test]
fn damaged_dumps_are_read_again_only_at_a_reload() {
    let scene = Scene::new(&[]);
    let mut manifest = manifest(&scene.published);
    let index = manifest["dumps"]["file"].as_str().unwrap();
    let index = scene.published.join(index);
    let good = fs::read(&index).unwrap();
    let mut long = good.clone();
    long.extend(vec![b' '; 4 << 20]);
    write_bytes(&index, &[&long[..], b"x"].concat());
    manifest["dumps"]["checksum"] = format!("{:08x}", crc32(0, &long)).into();
    manifest["dumps"]["bytes"] = long.len().into();
    replace_manifest(&scene.published, &manifest);
    scene
        .server
        .await_line("everything except /dumps is served");
    thread::sleep(POLLS / 4);
    is_idle(&scene.server);
    let mut client = scene.server.connect();
    assert_eq!(client.get("/dumps/index.json").status, 503);
    write_bytes(&index, &long);
    is_idle(&scene.server);
    assert_eq!(client.get("/dumps/index.json").status, 503);
    scene.server.hang_up();
    wait_for("the dumps", || {
        client.get("/dumps/index.json").status == 200
    });
    scene.goes_on();
}

#[test]
fn a_live_payload_that_inflates_to_more_than_the_memory_is_refused() {
    let scene = Scene::new(&["--memory", "64MiB"]);
    let mut live = scene.payload("live");
    let row = br#"{"code":"1000-0000-0000","title":"t","players":1},"#;
    let start = r#"{"time":1795262400,"resolutionSeconds":600,"players":1,"islands":["#;
    live.set_body(0, start, (row, (300 << 20) / row.len()), "]}");
    let path = live.publish();
    assert!(
        path.metadata().unwrap().len() < 8 << 20,
        "it is small itself"
    );
    scene.is_refused("the live bodies: they must have at most 268435456 bytes in memory");
    let peak = scene.server.peak_kib();
    assert!(peak < 200 << 10, "{peak} KiB");
}

#[test]
fn of_a_long_body_a_page_reads_only_the_start() {
    let scene = Scene::new(&["--memory", "64MiB"]);
    let code = scene.code();
    let mut history = scene.payload("history");
    let [islands, ..] = history.counts();
    let day = br#"{"date":"2026-11-20","plays":7},"#;
    let filler = (&day[..], (300 << 20) / day.len());
    let none = (&b""[..], 0);
    let detail = scene.server.connect().get(&format!("/v1/islands/{code}"));
    let (start, _) = detail.text().split_once("\"series\":[").unwrap();
    for island in 0..islands {
        if island == 0 {
            history.set_body(0, &format!("{start}\"series\":["), filler, "]}}");
        } else {
            history.copy_body(0, 2 * island);
        }
        history.set_body(2 * island + 1, r#"{"ccu":["#, none, "");
    }
    for body in history.newest_day_bodies() {
        history.copy_body(0, body);
    }
    history.publish();
    scene.server.await_line("serving the publish of");
    let mut client = scene.server.connect();
    let target = format!("/islands/{code}?metric=plays");
    wait_for("a page without a chart", || {
        let page = client.get(&target);
        assert!(page.status == 200, "{}: {}", page.status, page.text());
        page.text().contains("too long for a page")
    });
    for page in [&target, "/rankings", "/new", "/"] {
        assert!(client.get(page).body.len() < 1 << 20, "{page}");
    }
    let peak = scene.server.peak_kib();
    assert!(peak < 200 << 10, "{peak} KiB");
    scene.goes_on();
}

#[test]
fn rows_tags_and_row_ends_longer_than_those_of_a_publish_are_refused() {
    for (section, bytes, text) in [
        (ROWS, 17 << 10, "section Rows: a text has more than 16384"),
        (
            CREATOR_ROWS,
            17 << 10,
            "section CreatorRows: a text has more than 16384",
        ),
        (
            TAG_NAMES,
            1025,
            "section TagNames: a text has more than 1024",
        ),
        (ROW_END, 1 << 10, "section RowEnd: it has more than 1024"),
    ] {
        let scene = Scene::new(&[]);
        let mut history = scene.payload("history");
        if section == ROW_END {
            history.section(section).resize(bytes + 1, b' ');
        } else {
            history.lengthen_last_text(section, bytes);
        }
        history.publish();
        scene.is_refused(text);
    }
}
