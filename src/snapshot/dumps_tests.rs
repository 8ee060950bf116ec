use std::fs;
use std::path::PathBuf;

use super::*;
use crate::durable;

/// A published directory of a test, removed when dropped.
struct Published(PathBuf);

impl Drop for Published {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const TIME: &str = "2026-11-21T12:05:00Z";

impl Published {
    fn new(name: &str) -> Published {
        let path = std::env::temp_dir().join(format!("im-dumps-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("dumps-1/daily")).unwrap();
        Published(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        durable::replace(&self.0.join("dumps-1").join(name), bytes).unwrap();
    }

    fn opened(&self) -> Directory {
        Directory::open(&self.0).unwrap()
    }

    /// Opens the dumps with an index of these files.
    fn open(&self, files: &[DumpFile]) -> Result<DumpDirectory, SnapshotError> {
        let index = DumpIndex {
            generated_at: TIME.to_owned(),
            license: "CC-BY-4.0".to_owned(),
            license_url: String::new(),
            credit: String::new(),
            notice: String::new(),
            files: files.to_vec(),
        };
        let text = index.to_json();
        self.write(DumpIndex::FILE, &text);
        DumpDirectory::open(&self.opened(), &named(crc32fast::hash(&text)))
    }
}

fn named(checksum: u32) -> Dumps {
    Dumps {
        directory: "dumps-1".to_owned(),
        checksum: format!("{checksum:08x}"),
        generated_at: TIME.to_owned(),
    }
}

fn file(name: &str, bytes: u64) -> DumpFile {
    DumpFile {
        file: name.to_owned(),
        bytes,
        sha256: "aB".repeat(32),
        modified: TIME.to_owned(),
    }
}

#[test]
fn only_files_in_the_index_are_found_and_opened() {
    let published = Published::new("found");
    published.write("daily/2026-11-20.csv", b"code\n");
    published.write("unlisted.csv", b"code\n");
    let dumps = published.open(&[file("daily/2026-11-20.csv", 5)]).unwrap();
    let dump = dumps.find("daily/2026-11-20.csv").unwrap();
    assert!(dump.open().is_ok());
    assert_eq!(dump.content_type, "text/csv; charset=utf-8");
    assert_eq!(dump.etag, format!("\"{}\"", "ab".repeat(16)));
    assert_eq!(dump.modified.to_string(), TIME);
    let index = dumps.find("index.json").unwrap();
    let text = fs::read(published.0.join("dumps-1/index.json")).unwrap();
    let DumpContent::Memory(content) = &index.content else {
        panic!("the index is in memory");
    };
    assert_eq!(content, &text);
    for name in [
        "unlisted.csv",
        "daily",
        "daily/",
        "/daily/2026-11-20.csv",
        "./index.json",
        "",
    ] {
        assert!(dumps.find(name).is_none(), "{name}");
    }
}

#[test]
fn a_name_that_leads_outside_is_refused_with_the_whole_index() {
    let published = Published::new("names");
    for name in [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../manifest.json",
        "daily/../../x",
        "daily/",
        "daily//x",
        ".",
        "./x",
        "daily/.",
        "a\0b",
        "a\nb",
    ] {
        let refused = published.open(&[file(name, 5)]);
        assert!(
            matches!(refused, Err(SnapshotError::Damaged(_))),
            "{name:?}"
        );
    }
    assert!(
        published
            .open(&[file("...", 5), file("..a/b..", 5)])
            .is_ok()
    );
    // The same for the directory that the manifest names.
    for directory in [
        "",
        ".",
        "..",
        "../dumps-1",
        "dumps-1/daily",
        "/dumps-1",
        "dumps-1/",
    ] {
        let named = Dumps {
            directory: directory.to_owned(),
            ..named(0)
        };
        let refused = DumpDirectory::open(&published.opened(), &named);
        assert!(
            matches!(refused, Err(SnapshotError::Damaged(_))),
            "{directory}"
        );
    }
}

#[test]
fn a_damaged_index_is_refused_with_its_place() {
    let published = Published::new("damaged");
    let sound = file("islands.csv", 5);
    assert!(published.open(std::slice::from_ref(&sound)).is_ok());
    let twice = [sound.clone(), sound.clone()];
    let short = DumpFile {
        sha256: "ab".repeat(31),
        ..sound.clone()
    };
    let letters = DumpFile {
        sha256: "xy".repeat(32),
        ..sound.clone()
    };
    let dateless = DumpFile {
        modified: "yesterday".to_owned(),
        ..sound.clone()
    };
    let itself = file("index.json", 5);
    let long = file(&"x".repeat(101), 5);
    assert!(published.open(&[file(&"x".repeat(100), 5)]).is_ok());
    for files in [
        &twice[..],
        &[short],
        &[letters],
        &[dateless],
        &[itself],
        &[long],
    ] {
        let error = published.open(files).unwrap_err().to_string();
        assert!(error.starts_with("dumps-1/index.json: "), "{error}");
    }
    let flipped = DumpDirectory::open(&published.opened(), &named(7));
    let error = flipped.unwrap_err().to_string();
    assert!(
        error.starts_with("dumps-1/index.json is damaged: checksum "),
        "{error}"
    );
    published.write(DumpIndex::FILE, b"{}");
    let foreign = DumpDirectory::open(&published.opened(), &named(crc32fast::hash(b"{}")));
    assert!(matches!(foreign, Err(SnapshotError::Damaged(_))));
    fs::remove_file(published.0.join("dumps-1/index.json")).unwrap();
    let error = DumpDirectory::open(&published.opened(), &named(0)).unwrap_err();
    assert!(
        error.to_string().starts_with("dumps-1/index.json: "),
        "{error}"
    );
}

#[test]
fn files_are_listed_between_any_two_names() {
    let published = Published::new("listed");
    let dumps = published.open(&[file("a", 1), file("b", 2), file("c", 3)]);
    let dumps = dumps.unwrap();
    for (from, to, max, want) in [
        ("", "\u{10ffff}", 9, "a b c index.json"),
        ("a", "c", 9, "a b"),
        ("a", "c", 1, "a"),
        ("b", "b", 9, ""),
        ("c", "a", 9, ""),
        ("x", "", 9, ""),
    ] {
        let found = dumps.list(from, to, max);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.join(" "), want, "{from} to {to}");
        if max == 9 {
            let mut last = dumps.last(from, to, max);
            last.reverse();
            assert_eq!(last, names, "{from} to {to}");
            assert!(dumps.last(from, to, 1).iter().eq(last.last()));
        }
    }
}

#[test]
fn a_file_that_differs_from_the_index_is_not_opened() {
    let published = Published::new("files");
    let dumps = published.open(&[file("a.csv", 5)]).unwrap();
    let dump = dumps.find("a.csv").unwrap();
    assert!(dump.open().is_err(), "it is not there");
    for (text, opens) in [(&b"12345"[..], true), (b"1234", false), (b"123456", false)] {
        published.write("a.csv", text);
        assert_eq!(dump.open().is_ok(), opens, "{text:?}");
    }
    published.write("b.csv", b"12345");
    let path = published.0.join("dumps-1/a.csv");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("b.csv", &path).unwrap();
    assert!(dump.open().is_err(), "a link");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(dump.open().is_err(), "a directory");
}
