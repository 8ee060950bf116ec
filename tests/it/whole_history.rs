//! The dumps of the whole history: all rows of all days, whose members are reused by the next
//! publish.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::oracle::World;
use crate::support::{Server, TempDir, publish, write_bytes, write_file};

const TIMES: [&str; 4] = [
    "2026-11-21T00:10:00Z",
    "2026-11-21T00:20:00Z",
    "2026-11-21T00:30:00Z",
    "2026-11-21T00:40:00Z",
];

fn text(path: &Path) -> String {
    let mut text = String::new();
    let file = File::open(path).unwrap();
    MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
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
    let dumps = to.join("dumps");
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
    let files = ["history.csv.gz", "ccu.csv.gz"].map(|name| to.join("dumps").join(name));
    let read = || files.each_ref().map(|path| fs::read(path).unwrap());
    let inodes = || {
        files
            .each_ref()
            .map(|path| fs::metadata(path).unwrap().ino())
    };
    publish(&dataset, &to, TIMES[0]);
    let (first, links) = (read(), inodes());
    let rows =
        "2025-01-01,1000-0000-0000,3\n2026-11-18,1000-0000-0000,5\n2026-11-19,2000-0000-0000,7\n";
    assert_eq!(text(&files[1]), format!("date,code,peakCCU\n{rows}"));
    write_file(
        &dataset.join("live/1795263000.csv"),
        "code,players\n1000-0000-0000,2\n",
    );
    publish(&dataset, &to, TIMES[1]);
    assert_eq!(inodes(), links, "linked");
    // The members of known days are copied, not rendered again: a changed one with a correct
    // checksum shows it.
    let at = first[0].len() - 12;
    let mut marked = first[0].clone();
    marked[at] ^= 1;
    seal_last_member(&mut marked);
    rewrite_history(&to, &marked);
    write_file(
        &dataset.join("daily/2026-11-20.csv"),
        &day(&[("1000-0000-0000", "9")]),
    );
    publish(&dataset, &to, TIMES[2]);
    let second = read();
    for (known, second) in [&marked, &first[1]].into_iter().zip(&second) {
        assert!(second.starts_with(known) && second.len() > known.len());
    }
    // A changed day is rendered, and the days around it are copied.
    write_file(
        &dataset.join("daily/2026-11-19.csv"),
        &day(&[("2000-0000-0000", "8")]),
    );
    publish(&dataset, &to, TIMES[3]);
    let rows = text(&files[0]);
    assert_eq!(rows, daily_rows(&to.join("dumps")));
    let peaks: Vec<&str> = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(2).unwrap())
        .collect();
    assert_eq!(peaks, ["5", "", "8", "9"]);
}

#[test]
fn a_damaged_member_is_rendered_again() {
    let dir = TempDir::new();
    let (dataset, to) = (dir.join("dataset"), dir.join("published"));
    write_dataset(&dataset);
    let history = to.join("dumps/history.csv.gz");
    publish(&dataset, &to, TIMES[0]);
    let mut known = fs::read(&history).unwrap();
    // A byte of the compressed rows, of the checksum of the rows, and of the header of the member.
    for (number, before_end) in [(1, 12), (2, 6), (3, last_member(&known) - 24)] {
        let mut damaged = known.clone();
        let at = known.len() - before_end;
        damaged[at] ^= 1;
        rewrite_history(&to, &damaged);
        let name = format!("daily/2026-11-{}.csv", 19 + number);
        write_file(&dataset.join(name), &day(&[("1000-0000-0000", "9")]));
        publish(&dataset, &to, TIMES[number]);
        let repaired = fs::read(&history).unwrap();
        assert!(repaired.starts_with(&known), "byte {at}");
        assert_eq!(text(&history), daily_rows(&to.join("dumps")), "byte {at}");
        known = repaired;
    }
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
    let mut names: Vec<&str> = files.map(|file| file["file"].as_str().unwrap()).collect();
    assert!(names.len() > 200, "{}", names.len());
    names.push("index.json");
    for name in names {
        let found = client.get(&format!("/dumps/{name}")).body;
        assert!(
            found == fs::read(to.join("dumps").join(name)).unwrap(),
            "{name}"
        );
    }
}

/// Returns the length of the last member of a file.
fn last_member(file: &[u8]) -> usize {
    let mut left = file;
    loop {
        let length = u32::from_le_bytes(left[20..24].try_into().unwrap()) as usize;
        if length == left.len() {
            return length;
        }
        left = &left[length..];
    }
}

/// Corrects the checksum of the last member of a file.
fn seal_last_member(file: &mut [u8]) {
    let start = file.len() - last_member(file);
    let checksum = crc32fast::hash(&file[start + 20..]);
    file[start + 16..start + 20].copy_from_slice(&checksum.to_le_bytes());
}

/// Overwrites the published `history.csv.gz`.
fn rewrite_history(to: &Path, bytes: &[u8]) {
    let dumps = fs::canonicalize(to.join("dumps")).unwrap();
    write_bytes(&dumps.join("history.csv.gz"), bytes);
}

fn day(rows: &[(&str, &str)]) -> String {
    let header = "code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,recommendations,\
                  averageMinutesPerPlayer,retentionD1,retentionD7\n";
    let rows = rows
        .iter()
        .map(|(code, peak)| [code, ",", peak, ",,,,,,,,\n"].concat());
    rows.fold(header.to_owned(), |text, row| text + &row)
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
