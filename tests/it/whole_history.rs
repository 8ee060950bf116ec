//! The dumps with the rows of many days, each one gzip member.

use std::os::unix::fs::MetadataExt as _;

use flate2::bufread::GzDecoder;

use crate::prelude::*;

const TIMES: [&str; 4] = [
    "2026-11-21T00:10:00Z",
    "2026-11-21T00:20:00Z",
    "2026-11-21T00:30:00Z",
    "2026-11-21T00:40:00Z",
];

/// The text of the first gzip member of a file, which has no other.
fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let (mut text, mut member) = (String::new(), GzDecoder::new(&bytes[..]));
    member.read_to_string(&mut text).unwrap();
    assert!(member.into_inner().is_empty(), "{}", path.display());
    text
}

/// A directory beside a published one with its dumps under their public names.
fn dumps_of(published: &Path) -> PathBuf {
    let to = published.with_extension("dumps");
    Published::at(published).copy_dumps(&to);
    to
}

/// The rows of the daily dumps, each with its date.
fn daily_rows(dumps: &Path) -> String {
    let mut names: Vec<_> = fs::read_dir(dumps.join("daily")).unwrap().collect();
    names.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    let (mut rows, mut header) = (String::new(), String::new());
    for entry in names {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "csv") {
            continue;
        }
        let date = path.file_stem().unwrap().to_str().unwrap();
        let table = fs::read_to_string(&path).unwrap();
        let (first, rest) = table.split_once('\n').unwrap();
        header = format!("date,{first}\n");
        for row in rest.lines() {
            rows += &[date, ",", row, "\n"].concat();
        }
    }
    header + &rows
}

#[test]
fn the_files_have_all_rows_of_all_days() {
    let dir = TempDir::new();
    let world = World::with_more_than(5, 2, 12);
    let to = world.publish(&dir);
    let dumps = dumps_of(&to);
    assert_eq!(text(&dumps.join("history.csv.gz")), daily_rows(&dumps));
    // The peaks, as the API has them by island.
    let server = Server::of(&to, &[]);
    let mut client = server.connect();
    let islands = fs::read_to_string(dumps.join("islands.csv")).unwrap();
    let mut rows = BTreeSet::new();
    for island in islands.lines().skip(1) {
        let code = &island[..14];
        let ccu = client.get(&format!("/v1/islands/{code}/ccu")).json();
        for pair in ccu["ccu"].as_array().unwrap() {
            rows.insert(format!(
                "{},{code},{}\n",
                pair[0].as_str().unwrap(),
                pair[1]
            ));
        }
    }
    assert!(rows.len() > 20, "{}", rows.len());
    let want: String = rows.into_iter().collect();
    let found = text(&dumps.join("ccu.csv.gz"));
    assert_eq!(found, format!("date,code,peakCCU\n{want}"));
    // Each file in both forms has the same content in both.
    let names = Published::at(&to).dumps();
    let pairs = names
        .keys()
        .filter_map(|name| Some((name, name.strip_suffix(".gz")?)));
    let pairs: Vec<_> = pairs
        .filter(|(_, plain)| names.contains_key(*plain))
        .collect();
    assert!(pairs.len() > 30, "{}", pairs.len());
    for (gzip, plain) in pairs {
        let plain = fs::read_to_string(dumps.join(plain)).unwrap();
        assert!(text(&dumps.join(gzip)) == plain, "{gzip}");
    }
    for name in ["history.csv.gz", "ccu.csv.gz"] {
        let reply = client.get(&format!("/dumps/{name}"));
        assert_eq!(reply.expect("content-type"), "application/gzip");
        assert_eq!(reply.body, fs::read(dumps.join(name)).unwrap());
    }
}

#[test]
fn a_new_day_appends_and_a_live_step_changes_nothing() {
    let dir = TempDir::new();
    let (dataset, to) = (dir.join("dataset"), dir.join("published"));
    write_dataset(&dataset);
    let places = || ["history.csv.gz", "ccu.csv.gz"].map(|name| Published::at(&to).dump(name));
    let inodes = || places().map(|path| fs::metadata(path).unwrap().ino());
    publish(&dataset, &to, TIMES[0]);
    let written = inodes();
    let rows =
        "2025-01-01,1000-0000-0000,3\n2026-11-18,1000-0000-0000,5\n2026-11-19,2000-0000-0000,7\n";
    assert_eq!(text(&places()[1]), format!("date,code,peakCCU\n{rows}"));
    write_file(
        &dataset.join("live/1795263000.csv"),
        "code,players\n1000-0000-0000,2\n",
    );
    publish(&dataset, &to, TIMES[1]);
    assert_eq!(inodes(), written, "kept");
    // A new day has its rows behind the others.
    write_file(
        &dataset.join("daily/2026-11-20.csv"),
        &day(&[("1000-0000-0000", "9")]),
    );
    publish(&dataset, &to, TIMES[2]);
    assert_eq!(
        text(&places()[1]),
        format!("date,code,peakCCU\n{rows}2026-11-20,1000-0000-0000,9\n")
    );
    // So has a changed one.
    write_file(
        &dataset.join("daily/2026-11-19.csv"),
        &day(&[("2000-0000-0000", "8")]),
    );
    publish(&dataset, &to, TIMES[3]);
    let rows = text(&places()[0]);
    assert_eq!(rows, daily_rows(&dumps_of(&to)));
    let peaks: Vec<&str> = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(2).unwrap())
        .collect();
    assert_eq!(peaks, ["5", "", "8", "9"]);
}

#[test]
fn the_file_of_the_newest_days_has_thirty_of_them() {
    let dir = TempDir::new();
    let (dataset, to) = (dir.join("dataset"), dir.join("published"));
    write_dataset(&dataset);
    // The day of ccu/ has no daily rows, and is none of them.
    for number in 1..=40 {
        let name = format!(
            "daily/2025-{:02}-{:02}.csv",
            1 + number / 20,
            2 + number % 20
        );
        write_file(&dataset.join(name), &day(&[("1000-0000-0000", "4")]));
    }
    publish(&dataset, &to, TIMES[0]);
    let dumps = dumps_of(&to);
    let all = daily_rows(&dumps);
    let (header, rows) = all.split_once('\n').unwrap();
    let mut held: Vec<&str> = rows.lines().map(|row| &row[..10]).collect();
    held.dedup();
    assert_eq!(held.len(), 42);
    let first = held[held.len() - 30];
    let newest = rows.lines().filter(|row| &row[..10] >= first);
    let want = newest.fold(format!("{header}\n"), |text, row| text + row + "\n");
    assert_eq!(text(&dumps.join("last30days.csv.gz")), want);
    // With fewer days, it has all of them.
    let other = dir.join("other");
    let few = dir.join("few");
    write_dataset(&few);
    publish(&few, &other, TIMES[0]);
    let dumps = dumps_of(&other);
    assert_eq!(text(&dumps.join("last30days.csv.gz")), daily_rows(&dumps));
}

#[test]
fn the_sample_has_the_dumps_of_its_publish() {
    let dir = TempDir::new();
    let dataset = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample");
    let to = dir.join("published");
    publish(&dataset, &to, "2026-11-21T12:05:00Z");
    let server = Server::start(&[]);
    let mut client = server.connect();
    let index = client.get("/dumps/index.json").json();
    let files = index["files"].as_array().unwrap().iter();
    let names: Vec<&str> = files.map(|file| file["file"].as_str().unwrap()).collect();
    assert!(names.len() > 200, "{}", names.len());
    let published = Published::at(&to);
    for name in names {
        let found = client.get(&format!("/dumps/{name}")).body;
        assert!(found == fs::read(published.dump(name)).unwrap(), "{name}");
    }
    let index = published.manifest().unwrap()["dumps"]["file"].take();
    let index = fs::read(to.join(index.as_str().unwrap())).unwrap();
    assert!(client.get("/dumps/index.json").body == index);
}

fn day(rows: &[(&str, &str)]) -> String {
    let rows = rows
        .iter()
        .map(|(code, peak)| [code, ",", peak, ",,,,,,,,\n"].concat());
    rows.fold(DAILY.to_owned(), |text, row| text + &row)
}

fn write_dataset(dataset: &Path) {
    for (name, text) in [
        (
            "islands.csv",
            "code,title,creator,createdIn,tags\n1000-0000-0000,A,,,\n2000-0000-0000,B,,,\n",
        ),
        (
            "ccu/2025-01-01.csv",
            "code,peakCCU\n1000-0000-0000,3\n2000-0000-0000,\n",
        ),
        (
            "daily/2026-11-18.csv",
            &day(&[("1000-0000-0000", "5"), ("2000-0000-0000", "")]),
        ),
        ("daily/2026-11-19.csv", &day(&[("2000-0000-0000", "7")])),
        ("live/1795262400.csv", "code,players\n1000-0000-0000,1\n"),
    ] {
        write_file(&dataset.join(name), text);
    }
}
