use std::fs;
use std::path::PathBuf;

use super::*;
use crate::durable;
use crate::snapshot::Content;
use zlib_rs::crc32::crc32;

/// A published directory of a test, removed when dropped.
struct Published(PathBuf);

impl Drop for Published {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Dump {
    pub(crate) fn in_memory(name: &str, text: &'static [u8]) -> Dump {
        let file = DumpFile {
            file: name.to_owned(),
            bytes: text.len() as u64,
            sha256: "0".repeat(64),
            modified: TIME.to_owned(),
            media_type: "",
        };
        Dump::of_file(file, DumpContent::Memory(Bytes::from_static(text))).unwrap()
    }
}

const TIME: &str = "2026-11-21T12:05:00Z";
const INDEX: &str = "dumps-1.json";
/// A byte of the SHA-256 of all files.
const SHA256: &str = "aB";

impl Published {
    fn new(name: &str) -> Published {
        let path = std::env::temp_dir().join(format!("im-dumps-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join(Dumps::FOLDER)).unwrap();
        Published(path)
    }

    /// Writes the file of every entry of [`file`].
    fn write(&self, bytes: &[u8]) {
        durable::replace(&self.stored(), bytes).unwrap();
    }

    fn stored(&self) -> PathBuf {
        self.0.join(Dumps::FOLDER).join(SHA256.repeat(32))
    }

    fn open_named(&self, named: &Payload) -> Result<Dumps, SnapshotError> {
        Dumps::open(&Directory::open(&self.0).unwrap(), named)
    }

    /// Opens the dumps with an index of these files.
    fn open(&self, files: &[DumpFile]) -> Result<Dumps, SnapshotError> {
        let text = index(files).to_json().unwrap();
        durable::replace(&self.0.join(INDEX), &text).unwrap();
        self.open_named(&named(&text))
    }
}

fn index(files: &[DumpFile]) -> DumpIndex {
    DumpIndex {
        generated_at: TIME.to_owned(),
        license: "CC-BY-4.0".to_owned(),
        license_url: String::new(),
        credit: String::new(),
        notice: "made up".to_owned(),
        files: files.to_vec(),
    }
}

/// The entry of an index for the manifest.
fn named(text: &[u8]) -> Payload {
    Payload {
        file: INDEX.to_owned(),
        bytes: text.len() as u64,
        checksum: format!("{:08x}", crc32(0, text)),
        generated_at: TIME.to_owned(),
    }
}

fn file(name: &str, bytes: u64) -> DumpFile {
    DumpFile {
        file: name.to_owned(),
        bytes,
        sha256: SHA256.repeat(32),
        modified: TIME.to_owned(),
        media_type: "",
    }
}

#[test]
fn only_files_in_the_index_are_found_and_opened() {
    let published = Published::new("found");
    published.write(b"code\n");
    let dumps = published.open(&[file("daily/2026-11-20.csv", 5)]).unwrap();
    let dump = dumps.find("daily/2026-11-20.csv").unwrap();
    assert!(dump.open().is_ok());
    assert_eq!(dump.file.media_type, "text/csv; charset=utf-8");
    assert_eq!(dump.etag, format!("\"{}\"", "ab".repeat(16)));
    assert_eq!(dump.modified.to_string(), TIME);
    let text = fs::read(published.0.join(INDEX)).unwrap();
    let Content::Whole(content) = &dumps.index.choose(false).content else {
        panic!("the index is in memory");
    };
    assert_eq!(content, &text);
    for name in [
        INDEX,
        "index.json",
        &SHA256.repeat(32),
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
fn an_index_that_is_too_long_to_be_read_is_not_written() {
    let mut index = index(&[]);
    index.notice = "x".repeat(usize::try_from(INDEX_BYTES_MAX).unwrap());
    let refused = index.to_json().unwrap_err();
    assert!(refused.contains("remove old files of live/"), "{refused}");
}

#[test]
fn a_notice_is_the_datasets_own_if_its_file_is_in_the_index() {
    let published = Published::new("notice");
    let notice = |files: &[DumpFile]| published.open(files).unwrap().notice;
    assert_eq!(notice(&[file("islands.csv", 5)]), None);
    assert_eq!(notice(&[file("notice.txt", 8)]), Some("made up".to_owned()));
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
    // The same for the index that the manifest names.
    let text = fs::read(published.0.join(INDEX)).unwrap();
    for name in [
        "",
        ".",
        "..",
        "../dumps-1.json",
        "/dumps-1.json",
        "dumps-1.json/",
        "dumps",
    ] {
        let named = Payload {
            file: name.to_owned(),
            ..named(&text)
        };
        let refused = published.open_named(&named);
        assert!(matches!(refused, Err(SnapshotError::Damaged(_))), "{name}");
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
        assert!(error.starts_with("dumps-1.json: "), "{error}");
    }
    let mut text = fs::read(published.0.join(INDEX)).unwrap();
    let sound = named(&text);
    text[7] ^= 1;
    durable::replace(&published.0.join(INDEX), &text).unwrap();
    let error = published.open_named(&sound).unwrap_err().to_string();
    assert!(
        error.starts_with("dumps-1.json is damaged: checksum "),
        "{error}"
    );
    durable::replace(&published.0.join(INDEX), b"{}").unwrap();
    for named in [sound, named(b"{}")] {
        let error = published.open_named(&named).unwrap_err().to_string();
        assert!(error.starts_with("dumps-1.json: "), "{error}");
    }
    fs::remove_file(published.0.join(INDEX)).unwrap();
    let error = published.open_named(&named(b"{}")).unwrap_err().to_string();
    assert!(error.starts_with("dumps-1.json: "), "{error}");
}

#[test]
fn the_last_files_of_a_folder_are_listed() {
    let published = Published::new("listed");
    let names = ["a", "b", "d/1", "d/2", "d/3", "d/e/1", "da", "d0/1", "z"];
    let files = names.map(|name| file(name, 1));
    let dumps = published.open(&files).unwrap();
    for (folder, max, want) in [
        ("", 9, "a b da z"),
        ("", 2, "da z"),
        ("d/", 9, "d/1 d/2 d/3"),
        ("d/", 2, "d/3"),
        ("d/e/", 9, "d/e/1"),
        ("d/", 0, ""),
        ("x/", 9, ""),
        ("\u{10ffff}", 9, ""),
    ] {
        let found = dumps.list(folder, max);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.join(" "), want, "{folder}, at most {max}");
    }
}

#[test]
fn a_file_that_differs_from_the_index_is_not_opened() {
    let published = Published::new("files");
    let dumps = published.open(&[file("a.csv", 5)]).unwrap();
    let dump = dumps.find("a.csv").unwrap();
    assert!(dump.open().is_err(), "it is not there");
    for (text, opens) in [(&b"12345"[..], true), (b"1234", false), (b"123456", false)] {
        published.write(text);
        assert_eq!(dump.open().is_ok(), opens, "{text:?}");
    }
    published.write(b"12345");
    let (path, other) = (published.stored(), published.0.join("other"));
    fs::rename(&path, &other).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(dump.open().is_err(), "a link");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(dump.open().is_err(), "a directory");
}

#[test]
fn a_file_is_found_where_the_path_of_the_directory_leads_now() {
    let [old, new] = ["old", "new"].map(Published::new);
    let dumps = old.open(&[file("a.csv", 5)]).unwrap();
    let dump = dumps.find("a.csv").unwrap();
    old.write(b"12345");
    new.write(b"12345");
    // The directory that was opened has the file, and then does not have it.
    let aside = old.0.with_extension("aside");
    fs::rename(&old.0, &aside).unwrap();
    assert!(dump.open().is_ok());
    fs::remove_dir_all(&aside).unwrap();
    assert!(dump.open().is_err());
    fs::rename(&new.0, &old.0).unwrap();
    assert!(dump.open().is_ok());
}
