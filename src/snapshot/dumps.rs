//! The dumps: the dataset as files for download, and the index that names them.
//!
//! Each publish has its own directory, which never changes:
//!
//! ```text
//! PUBLISHED/dumps                       a link to the newest of them
//! PUBLISHED/dumps-20261121T120500Z-…/   index.json and the files that it names
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::body::EntityTag;
use super::error::SnapshotError;
use super::manifest::{Dumps, Manifest};
use crate::calendar::UnixSeconds;
use crate::regular_file::{Directory, is_file_name, is_local_path};

/// Longer indexes are rejected. One of ten thousand files has three megabytes.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The index of the dumps, `index.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpIndex {
    /// When the dumps were published.
    pub generated_at: String,
    /// The licence of the compilation, `CC-BY-4.0`.
    pub license: String,
    /// The address of its text.
    pub license_url: String,
    /// The line that users of the data show.
    pub credit: String,
    /// Source and owner of the data.
    pub notice: String,
    /// Every other file, by name ascending.
    pub files: Vec<DumpFile>,
}

/// One file of the dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpFile {
    /// Its name in the dumps, such as `daily/2026-11-20.csv.gz`.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, 64 hexadecimal digits.
    pub sha256: String,
    /// The publish timestamp of its last change.
    pub modified: String,
}

impl DumpIndex {
    /// The index's own name.
    pub const FILE: &'static str = "index.json";
    /// The name, in a published directory, of the link to the newest dumps.
    pub const LINK: &'static str = "dumps";

    /// Opens the directory of dumps that the manifest of a published directory names, and reads its
    /// index; the last value is its text.
    pub fn open(
        published: &Directory,
        named: &Dumps,
    ) -> Result<(Directory, DumpIndex, Vec<u8>), SnapshotError> {
        if !is_file_name(&named.directory) {
            let problem = format!("{:?} is not a directory name", named.directory);
            return Err(SnapshotError::malformed(Manifest::FILE, problem));
        }
        let part = format!("{}/{}", named.directory, DumpIndex::FILE);
        let opened = published.subdirectory(&named.directory);
        let text = opened.and_then(|opened| {
            let text = opened.read(DumpIndex::FILE, INDEX_BYTES_MAX)?;
            Ok((opened, text))
        });
        let (directory, text) = text.map_err(|error| SnapshotError::malformed(&part, error))?;
        let written = u32::from_str_radix(&named.checksum, 16);
        let written = written.map_err(|_| {
            SnapshotError::malformed(&part, "its checksum in the manifest is invalid")
        })?;
        SnapshotError::expect_checksum(&part, written, crc32fast::hash(&text))?;
        let index = serde_json::from_slice(&text);
        let index = index.map_err(|error| SnapshotError::malformed(&part, error))?;
        Ok((directory, index, text))
    }

    /// Serializes the index as in its file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("an index is text and numbers");
        text.push(b'\n');
        text
    }
}

/// The dumps of a manifest, opened. Only names in the index are opened, when they are requested.
#[derive(Debug)]
pub struct DumpDirectory {
    /// The publish timestamp.
    pub published: UnixSeconds,
    /// The line that users of the data show.
    pub credit: String,
    directory: Arc<Directory>,
    dumps: BTreeMap<String, Arc<Dump>>,
}

/// One file of the dumps, or the index.
#[derive(Debug)]
pub struct Dump {
    /// Its length.
    pub bytes: u64,
    /// Its strong entity tag, quotes included.
    pub etag: String,
    /// The time of its last change.
    pub modified: UnixSeconds,
    /// Its media type, by its name.
    pub content_type: &'static str,
    /// Its content if it is in memory, as that of the index is.
    pub content: Option<Bytes>,
    /// The directory of its file, kept open: by the time of a request, its name may be that of
    /// another one.
    directory: Arc<Directory>,
    name: String,
}

impl DumpDirectory {
    /// Opens the dumps that the manifest of a published directory names.
    pub fn open(published: &Directory, named: &Dumps) -> Result<DumpDirectory, SnapshotError> {
        let (directory, index, text) = DumpIndex::open(published, named)?;
        let part = format!("{}/{}", named.directory, DumpIndex::FILE);
        let malformed = |problem: &str| SnapshotError::malformed(&part, problem);
        let directory = Arc::new(directory);
        let modified = UnixSeconds::parse(&index.generated_at)
            .ok_or_else(|| malformed("generatedAt is not a timestamp"))?;
        let etag = EntityTag::new(modified, crc32fast::hash(&text), false);
        let etag = String::from_utf8_lossy(etag.as_bytes()).into_owned();
        let name = DumpIndex::FILE.to_owned();
        let mut itself = Dump::new(&directory, &name, text.len() as u64, (etag, modified));
        itself.content = Some(text.into());
        let mut dumps = BTreeMap::from([(name, Arc::new(itself))]);
        for file in index.files {
            let dump = Dump::of_file(&file, &directory)
                .map_err(|problem| malformed(&format!("{:?}: {problem}", file.file)))?;
            if let Some(_twice) = dumps.insert(file.file, Arc::new(dump)) {
                return Err(malformed("it names a file twice"));
            }
        }
        Ok(DumpDirectory {
            published: modified,
            credit: index.credit,
            directory,
            dumps,
        })
    }

    /// Returns `true` if its name in the published directory now leads to another directory.
    pub fn is_superseded(&self, published: &Directory, named: &Dumps) -> bool {
        let found = published.subdirectory(&named.directory);
        found.is_ok_and(|found| found.is_same(&self.directory).is_ok_and(|same| !same))
    }

    /// Returns names and lengths of the files from a name up to another one, at most `max`.
    pub fn list(&self, from: &str, to: &str, max: usize) -> Vec<(String, u64)> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        let found = self.dumps.range::<str, _>(range).take(max);
        found
            .map(|(name, dump)| (name.clone(), dump.bytes))
            .collect()
    }

    /// Returns the dump of a name, such as `daily/2026-11-20.csv`; for `index.json` the index.
    pub fn find(&self, name: &str) -> Option<&Arc<Dump>> {
        self.dumps.get(name)
    }
}

impl Dump {
    fn new(
        directory: &Arc<Directory>,
        name: &str,
        bytes: u64,
        (etag, modified): (String, UnixSeconds),
    ) -> Dump {
        Dump {
            bytes,
            etag,
            modified,
            content_type: match name.rsplit_once('.') {
                Some((_, "csv")) => "text/csv; charset=utf-8",
                Some((_, "json")) => "application/json",
                Some((_, "gz")) => "application/gzip",
                _ => "application/octet-stream",
            },
            content: None,
            directory: Arc::clone(directory),
            name: name.to_owned(),
        }
    }

    fn of_file(file: &DumpFile, directory: &Arc<Directory>) -> Result<Dump, &'static str> {
        if !is_local_path(&file.file) {
            return Err("file must be a path within the directory, without control characters");
        }
        let is_hex = file.sha256.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex || file.sha256.len() != 64 {
            return Err("sha256 must be 64 hexadecimal digits");
        }
        // Half of the digest distinguishes any two files, in half the bytes that clients repeat.
        let etag = format!("\"{}\"", &file.sha256[..32].to_ascii_lowercase());
        let modified = UnixSeconds::parse(&file.modified).ok_or("modified is not a timestamp")?;
        let version = (etag, modified);
        Ok(Dump::new(directory, &file.file, file.bytes, version))
    }

    /// Creates a dump in memory, like the index.
    #[cfg(test)]
    pub(crate) fn in_memory(name: &str, text: &'static [u8]) -> Dump {
        let directory = Arc::new(Directory::open(std::path::Path::new(".")).unwrap());
        let version = (
            format!("\"{}\"", "0".repeat(32)),
            UnixSeconds(1_795_262_700),
        );
        let mut dump = Dump::new(&directory, name, text.len() as u64, version);
        dump.content = Some(Bytes::from_static(text));
        dump
    }

    /// Returns its path, for messages.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Opens its file, which must have the length in the index. May wait for a disk.
    pub fn open(&self) -> io::Result<File> {
        let file = self.directory.file(&self.name)?;
        let bytes = file.metadata()?.len();
        if bytes != self.bytes {
            let problem = format!(
                "must have {} bytes as in the index, has {bytes}",
                self.bytes
            );
            return Err(io::Error::other(problem));
        }
        Ok(file)
    }
}

#[cfg(test)]
#[path = "dumps_tests.rs"]
mod tests;
