//! Invariants of a published directory, also after a failed or killed publish.
//!
//! Reads the manifest and the index of the dumps like any other program; shares no code with the
//! crate.

use std::os::unix::fs::FileExt as _;

use crate::dump_files::{entry, sha256};
use crate::prelude::*;
use zlib_rs::crc32::crc32;

/// The parts that a manifest may name.
const PARTS: [&str; 3] = ["history", "live", "dumps"];

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

    /// The names of the files that the manifest and its index of the dumps name.
    pub(crate) fn named(&self) -> BTreeSet<String> {
        let manifest = self.manifest();
        manifest.map_or_else(BTreeSet::new, |manifest| self.names(&manifest))
    }

    /// The names of the files that a manifest of this directory, the current or an earlier one, and its index name.
    pub(crate) fn names(&self, manifest: &Value) -> BTreeSet<String> {
        let parts = PARTS.iter();
        let parts = parts.filter_map(|part| manifest[part]["file"].as_str());
        let dumps = self.index(manifest).into_iter();
        let dumps = dumps.map(|file| format!("dumps/{}", file["sha256"].as_str().unwrap()));
        parts.map(str::to_owned).chain(dumps).collect()
    }

    /// The files in the index of the dumps of a manifest.
    fn index(&self, manifest: &Value) -> Vec<Value> {
        let Some(name) = manifest["dumps"]["file"].as_str() else {
            return Vec::new();
        };
        let text = fs::read(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut index: Value = serde_json::from_slice(&text).unwrap();
        index["files"].take().as_array().unwrap().clone()
    }

    /// The dumps that the manifest names: the digest of each file.
    pub(crate) fn dumps(&self) -> BTreeMap<String, Value> {
        let files = self.index(&self.manifest().unwrap()).into_iter();
        files
            .map(|file| {
                let name = file["file"].as_str().unwrap().to_owned();
                (name, file["sha256"].clone())
            })
            .collect()
    }

    #[track_caller]
    pub(crate) fn dump(&self, name: &str) -> PathBuf {
        let dumps = self.dumps();
        self.0.join("dumps").join(dumps[name].as_str().unwrap())
    }

    /// Writes the dumps to a directory under their public names: a dataset.
    pub(crate) fn copy_dumps(&self, to: &Path) {
        for name in self.dumps().keys() {
            write_bytes(&to.join(name), &fs::read(self.dump(name)).unwrap());
        }
    }

    /// The names of all entries, those of the dumps included.
    pub(crate) fn entries(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for folder in ["", "dumps/"] {
            let entries = fs::read_dir(self.0.join(folder)).into_iter().flatten();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            found.extend(names.map(|name| format!("{folder}{name}")));
        }
        found
    }

    /// The names of the entries that neither the manifest nor another index of dumps names.
    pub(crate) fn unnamed(&self) -> BTreeSet<String> {
        let mut found = self.entries();
        let named = self.named();
        found.retain(|name| !named.contains(name));
        let indexes = found
            .iter()
            .filter(|name| name.starts_with("dumps-") && !name.contains('/'));
        let named = indexes.flat_map(|index| {
            let dumps = self.names(&json!({"dumps": {"file": index}}));
            dumps.into_iter().filter(|name| name.starts_with("dumps/"))
        });
        let named: BTreeSet<String> = named.collect();
        found.difference(&named).cloned().collect()
    }

    /// Removes payloads and dumps that the manifest does not name, as a failing publish does first.
    pub(crate) fn remove_unnamed_files(&self) {
        let named = self.named();
        let is_of_a_publish = |name: &String| {
            ["history-", "live-", "dumps-", "dumps/"]
                .iter()
                .any(|b| name.starts_with(b))
        };
        for name in self
            .entries()
            .difference(&named)
            .filter(|n| is_of_a_publish(n))
        {
            fs::remove_file(self.0.join(name)).unwrap();
        }
    }

    /// The exit code of `check`, and what it prints.
    pub(crate) fn check(&self) -> (Option<i32>, String) {
        let output = run(&["check", "--published", self.0.to_str().unwrap()]);
        code_and_stderr(output)
    }

    /// Asserts that everything named by the manifest is present and complete, also by `check`.
    #[track_caller]
    pub(crate) fn is_sound(&self) {
        let (code, stderr) = self.check();
        assert_eq!(code, Some(0), "{stderr}");
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
        has(&stderr, newest.unwrap());
        self.has_all_dumps();
    }

    /// Asserts that the index is the one in the manifest, and that every file is the one in the index.
    #[track_caller]
    fn has_all_dumps(&self) {
        let manifest = self.manifest().unwrap();
        let dumps = &manifest["dumps"];
        let Some(name) = dumps["file"].as_str() else {
            return;
        };
        let index = fs::read(self.0.join(name)).unwrap();
        let checksum = format!("{:08x}", crc32(0, &index));
        assert_eq!(dumps["checksum"], checksum, "{name}");
        assert_eq!(dumps["bytes"], index.len(), "{name}");
        let mut names = BTreeSet::new();
        for file in self.index(&manifest) {
            let (name, digest) = (file["file"].as_str().unwrap(), &file["sha256"]);
            let path = self.0.join("dumps").join(digest.as_str().unwrap());
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(file["bytes"], bytes.len(), "{name}");
            assert_eq!(*digest, sha256(&bytes), "{name}");
            assert!(names.insert(name.to_owned()), "{name} twice");
        }
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
    /// the lock, and the list of sources.
    #[track_caller]
    pub(crate) fn is_swept(&self, before: Option<&Value>) {
        let manifest = self.manifest().unwrap();
        let mut want = BTreeSet::from([".lock".to_owned(), "manifest.json".to_owned()]);
        want.insert("dumps".to_owned());
        for manifest in before.into_iter().chain([&manifest]) {
            want.extend(self.names(manifest));
        }
        let found = self.entries();
        let missing: Vec<_> = want.difference(&found).collect();
        let left: Vec<_> = found
            .difference(&want)
            .filter(|name| !is_remembered(name))
            .collect();
        assert!(
            missing.is_empty() && left.is_empty(),
            "missing {missing:?}, left behind {left:?}; before {before:?}, now {manifest}"
        );
    }
}

/// Whether a file's name is one that publishing may keep beside the manifest.
pub(crate) fn is_remembered(name: &str) -> bool {
    name == "sources.json"
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

/// Flips bits of a byte in place. A second time restores it.
pub(crate) fn flip(path: &Path, at: u64, bits: u8) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bits], at).unwrap();
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
    let directory = dir.join("published");
    // The digest of "abc" in FIPS 180-4.
    let sound = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let file = directory.join("dumps").join(sound);
    write_file(&file, "abc");
    let is_seen = |bytes: usize, sha256: &str| {
        let index =
            json!({"files": [{"file": "daily/2026-11-20.json", "bytes": bytes, "sha256": sha256}]});
        let index = index.to_string();
        write_file(&directory.join("dumps-1.json"), &index);
        let manifest = json!({"dumps": entry("dumps-1.json", index.as_bytes())});
        write_file(&directory.join("manifest.json"), &manifest.to_string());
        let published = Published::at(&directory);
        std::panic::catch_unwind(|| published.has_all_dumps()).is_err()
    };
    assert!(!is_seen(3, sound));
    assert!(is_seen(4, sound) && is_seen(3, &"0".repeat(64)));
    write_file(&file, "abd");
    assert!(is_seen(3, sound));
    fs::remove_file(file).unwrap();
    assert!(is_seen(3, sound), "a file that is not there");
}
