//! Invariants of a published directory, also after a failed or killed publish.
//!
//! Reads the manifest and the index of the dumps like any other program; shares no code with the
//! crate. Dumps are read in the directory that the manifest names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::dataset_versions::{Change, Edition};
use crate::support::{TempDir, run, write_file};

/// The parts that a manifest may name.
const PARTS: [&str; 3] = ["history", "live", "dumps"];

/// A published directory.
pub(crate) struct Published(PathBuf);

impl Published {
    pub(crate) fn at(directory: &Path) -> Published {
        Published(directory.to_owned())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The manifest; `None` if nothing is published.
    pub(crate) fn manifest(&self) -> Option<Value> {
        let text = fs::read(self.0.join("manifest.json")).ok()?;
        Some(serde_json::from_slice(&text).expect("a manifest is never half written"))
    }

    /// The names of the files and directories that the manifest names.
    pub(crate) fn named(&self) -> BTreeSet<String> {
        self.manifest().iter().flat_map(names).collect()
    }

    /// The dumps that the manifest names: the digest of each file.
    pub(crate) fn dumps(&self) -> BTreeMap<String, Value> {
        let manifest = self.manifest().unwrap();
        let Some(directory) = manifest["dumps"]["directory"].as_str() else {
            return BTreeMap::new();
        };
        let index = described_in_full(&self.0.join(directory));
        let index: Value = serde_json::from_slice(&index).unwrap();
        let files = index["files"].as_array().unwrap().iter();
        files
            .map(|file| {
                let name = file["file"].as_str().unwrap();
                (name.to_owned(), file["sha256"].clone())
            })
            .collect()
    }

    /// The names of all entries.
    pub(crate) fn entries(&self) -> BTreeSet<String> {
        let Ok(entries) = fs::read_dir(&self.0) else {
            return BTreeSet::new();
        };
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// Removes payloads and dumps that the manifest does not name, as a failing publish does first.
    pub(crate) fn forget_the_one_before(&self) {
        let named = self.named();
        let is_of_a_publish = |name: &String| {
            ["history-", "live-", "dumps-"]
                .iter()
                .any(|b| name.starts_with(b))
        };
        for name in self
            .entries()
            .difference(&named)
            .filter(|n| is_of_a_publish(n))
        {
            let path = self.0.join(name);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
    }

    /// Asserts that everything named by the manifest is present and complete, also by `check`.
    #[track_caller]
    pub(crate) fn is_sound(&self) {
        let words = ["check", "--published", self.0.to_str().unwrap()];
        let output = run(&words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {stderr}");
        let manifest = self.manifest().unwrap();
        for part in ["history", "live"] {
            let payload = &manifest[part];
            if payload.is_null() {
                continue;
            }
            let file = self.0.join(payload["file"].as_str().unwrap());
            let found = fs::metadata(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert_eq!(found.len(), payload["bytes"], "{}", file.display());
        }
        let newest = PARTS
            .iter()
            .filter(|part| **part != "dumps")
            .filter_map(|part| manifest[part]["generatedAt"].as_str())
            .max();
        assert!(
            stderr.contains(newest.unwrap()),
            "{newest:?} not in {stderr}"
        );
        let dumps = &manifest["dumps"];
        if dumps.is_null() {
            return;
        }
        let directory = self.0.join(dumps["directory"].as_str().unwrap());
        let index = described_in_full(&directory);
        assert_eq!(
            dumps["checksum"],
            format!("{:08x}", crc32fast::hash(&index)),
            "{}",
            directory.display()
        );
        self.link_leads_to_whole_dumps();
    }

    /// Asserts that the link leads to complete dumps. It may be one publish ahead of the manifest, or
    /// behind, and so absent after the first.
    #[track_caller]
    fn link_leads_to_whole_dumps(&self) {
        let link = self.0.join("dumps");
        let Ok(leads_to) = fs::read_link(&link) else {
            assert!(
                link.symlink_metadata().is_err(),
                "{}: no link",
                link.display()
            );
            return;
        };
        let name = leads_to.to_str().unwrap();
        assert!(
            name.starts_with("dumps-") && !name.contains('/'),
            "{} leads to {name}",
            link.display()
        );
        let directory = self.0.join(leads_to);
        assert!(directory.is_dir(), "{} leads to nothing", link.display());
        described_in_full(&directory);
    }

    /// Asserts that it has the previous edition or the one being published; returns whether it is
    /// the latter. `ended_well` is whether the publish succeeded.
    #[track_caller]
    pub(crate) fn shows_one_of(
        &self,
        before: Option<&Value>,
        edition: &Edition,
        ended_well: bool,
    ) -> bool {
        let now = self.manifest();
        if now.as_ref() == before {
            assert!(!ended_well, "{edition:?} ended well and is not shown");
            return false;
        }
        let now = now.expect("a manifest never goes away");
        for part in PARTS {
            let was_there = before.is_some_and(|before| before[part] == now[part]);
            let is_new = now[part].is_null() || now[part]["generatedAt"] == *edition.generated_at;
            assert!(
                was_there || is_new,
                "{part} is neither of {before:?} nor of {edition:?}: {now}"
            );
        }
        let changed = if edition.change == Change::Live {
            "live"
        } else {
            "history"
        };
        assert_eq!(
            now[changed]["generatedAt"], edition.generated_at,
            "{edition:?}: {now}"
        );
        true
    }

    /// Asserts, after a successful publish, that there are only the files of it and of the one before,
    /// the lock, and `*.json` files kept by publishing.
    #[track_caller]
    pub(crate) fn is_swept(&self, before: Option<&Value>) {
        let manifest = self.manifest().unwrap();
        let mut want = BTreeSet::from([".lock".to_owned(), "manifest.json".to_owned()]);
        want.extend(before.into_iter().chain([&manifest]).flat_map(names));
        if let Some(directory) = manifest["dumps"]["directory"].as_str() {
            want.insert("dumps".to_owned());
            let link = fs::read_link(self.0.join("dumps")).unwrap();
            assert_eq!(link.to_str(), Some(directory), "the newest dumps");
        }
        let remembered = |name: &str| {
            is_remembered(name) && self.0.join(name).symlink_metadata().unwrap().is_file()
        };
        let found = self.entries();
        let missing: Vec<_> = want.difference(&found).collect();
        let left: Vec<_> = found
            .difference(&want)
            .filter(|name| !remembered(name))
            .collect();
        assert!(
            missing.is_empty() && left.is_empty(),
            "missing {missing:?}, left behind {left:?}; before {before:?}, now {manifest}"
        );
    }
}

/// Whether a file's name is one that publishing may keep beside the manifest.
pub(crate) fn is_remembered(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "json")
}

/// The names of the files and directories that a manifest names.
fn names(manifest: &Value) -> impl Iterator<Item = String> {
    PARTS.iter().filter_map(|part| {
        let part = &manifest[part];
        let name = part["file"].as_str().or_else(|| part["directory"].as_str());
        name.map(str::to_owned)
    })
}

/// Asserts that a directory of dumps has exactly the files named by its index; returns the index.
#[track_caller]
fn described_in_full(directory: &Path) -> Vec<u8> {
    let at = directory.display();
    let text = fs::read(directory.join("index.json")).unwrap_or_else(|e| panic!("{at}: {e}"));
    let index: Value = serde_json::from_slice(&text).unwrap();
    let mut named = BTreeSet::from(["index.json".to_owned()]);
    for file in index["files"].as_array().unwrap() {
        let name = file["file"].as_str().unwrap();
        let bytes = fs::read(directory.join(name)).unwrap_or_else(|e| panic!("{at}: {name}: {e}"));
        assert_eq!(file["bytes"], bytes.len(), "{at}: {name}");
        let mut digest = String::new();
        for byte in hmac_sha256::Hash::hash(&bytes) {
            write!(digest, "{byte:02x}").unwrap();
        }
        assert_eq!(file["sha256"], digest, "{at}: {name}");
        assert!(named.insert(name.to_owned()), "{at}: {name} twice");
    }
    let mut found = BTreeSet::new();
    files_below(directory, "", &mut found);
    assert_eq!(found, named, "{at}");
    text
}

fn files_below(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

/// All files below a directory, by name.
pub(crate) fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap().to_owned();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            let below = files(&entry.path()).into_iter();
            found.extend(below.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            found.insert(name, target.into_os_string().into_encoded_bytes());
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// The payload file of the history in a directory that was published to once.
pub(crate) fn history_file(published: &Path) -> PathBuf {
    let entries = fs::read_dir(published).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found = paths.filter(|path| path.to_str().unwrap().contains("/history-"));
    let history = found.next().unwrap();
    assert_eq!(found.next(), None, "one history in a fresh directory");
    history
}

#[test]
fn dumps_that_differ_from_their_index_are_detected() {
    let dir = TempDir::new();
    let directory = dir.join("dumps-1");
    let file = "daily/2026-11-20.json";
    let other = "0".repeat(64);
    let index = |bytes: usize, sha: &str| {
        format!(r#"{{"files":[{{"file":"{file}","bytes":{bytes},"sha256":"{sha}"}}]}}"#)
    };
    // The digest of "abc" in FIPS 180-4.
    let sound = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    write_file(&directory.join(file), "abc");
    let is_seen = |index: &str| {
        write_file(&directory.join("index.json"), index);
        std::panic::catch_unwind(|| described_in_full(&directory)).is_err()
    };
    assert!(!is_seen(&index(3, sound)));
    assert!(is_seen(&index(4, sound)) && is_seen(&index(3, &other)));
    assert!(is_seen(r#"{"files":[]}"#), "a file that it does not name");
    fs::remove_file(directory.join(file)).unwrap();
    assert!(is_seen(&index(3, sound)), "a file that is not there");
}
