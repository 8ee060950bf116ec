//! The dumps: the dataset as files for download, and the index that names them.
//!
//! Each publish has its own directory, which never changes:
//!
//! ```text
//! PUBLISHED/dumps                       a link to the newest of them
//! PUBLISHED/dumps-20261121T120500Z-…/   index.json and the files that it names
//! ```

use std::collections::BTreeMap;
use std::fmt::Display;
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

/// Files with longer names are rejected, since pages list names. The longest of a publish has 24 bytes.
const NAME_BYTES_MAX: usize = 100;

/// Longer credits are rejected, since the page has them: no argument of a command is longer.
const CREDIT_BYTES_MAX: usize = 128 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpIndex {
    /// When the dumps were published.
    pub generated_at: String,
    /// The licence of the compilation, `CC-BY-4.0`.
    pub license: String,
    pub license_url: String,
    /// The line that users of the data show.
    pub credit: String,
    /// Source and owner of the data.
    pub notice: String,
    /// Every other file, by name ascending.
    pub files: Vec<DumpFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpFile {
    /// Its name in the dumps, such as `daily/2026-11-20.csv.gz`.
    pub file: String,
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
    /// `None` if the dumps are in memory.
    directory: Option<Arc<Directory>>,
    dumps: BTreeMap<String, Arc<Dump>>,
}

/// One file of the dumps, or the index.
#[derive(Debug)]
pub struct Dump {
    /// Its entry in the index. The index itself has an entry without SHA-256.
    pub file: DumpFile,
    /// Its strong entity tag, quotes included.
    pub etag: String,
    /// The time of its last change.
    pub modified: UnixSeconds,
    /// Its media type, by its name.
    pub content_type: &'static str,
    pub content: DumpContent,
}

/// The place of a dump's content.
#[derive(Clone, Debug)]
pub enum DumpContent {
    Memory(Bytes),
    /// A file of this directory, which is kept open: by the time of a request, its name may be that
    /// of another one.
    File(Arc<Directory>),
}

impl DumpDirectory {
    /// Opens the dumps that the manifest of a published directory names.
    pub fn open(published: &Directory, named: &Dumps) -> Result<DumpDirectory, SnapshotError> {
        if !is_file_name(&named.directory) {
            let problem = format!("{:?} is not a directory name", named.directory);
            return Err(SnapshotError::malformed(Manifest::FILE, problem));
        }
        let part = format!("{}/{}", named.directory, DumpIndex::FILE);
        let malformed = |problem: &dyn Display| SnapshotError::malformed(&part, problem);
        let directory = published.subdirectory(&named.directory);
        let directory = Arc::new(directory.map_err(|error| malformed(&error))?);
        let text = directory.read(DumpIndex::FILE, INDEX_BYTES_MAX);
        let text = text.map_err(|error| malformed(&error))?;
        let written = u32::from_str_radix(&named.checksum, 16);
        let written = written.map_err(|_| malformed(&"its checksum in the manifest is invalid"))?;
        SnapshotError::expect_checksum(&part, written, crc32fast::hash(&text))?;
        let index = serde_json::from_slice(&text).map_err(|error| malformed(&error))?;
        let content_of = |_: &str| Some(DumpContent::File(Arc::clone(&directory)));
        let dumps = DumpDirectory::new(index, text, content_of);
        let mut dumps = dumps.map_err(|problem| malformed(&problem))?;
        dumps.directory = Some(directory);
        Ok(dumps)
    }

    /// Creates dumps from an index, its text, and the content of each file by its name.
    pub(crate) fn new(
        index: DumpIndex,
        text: Vec<u8>,
        content_of: impl Fn(&str) -> Option<DumpContent>,
    ) -> Result<DumpDirectory, String> {
        let modified = UnixSeconds::parse(&index.generated_at);
        let modified = modified.ok_or("generatedAt is not a timestamp")?;
        if index.credit.len() > CREDIT_BYTES_MAX {
            return Err(format!("credit must have at most {CREDIT_BYTES_MAX} bytes"));
        }
        let etag = EntityTag::new(modified, crc32fast::hash(&text), false);
        let etag = String::from_utf8_lossy(etag.as_bytes()).into_owned();
        let file = DumpFile {
            file: DumpIndex::FILE.to_owned(),
            bytes: text.len() as u64,
            sha256: String::new(),
            modified: index.generated_at,
        };
        let content = DumpContent::Memory(text.into());
        let itself = Dump::new(file, (etag, modified), content);
        let mut dumps = BTreeMap::from([(DumpIndex::FILE.to_owned(), Arc::new(itself))]);
        for file in index.files {
            let name = file.file.clone();
            let content = content_of(&name).ok_or("content is missing");
            let dump = content.and_then(|content| Dump::of_file(file, content));
            let dump = dump.map_err(|problem| format!("{name:?}: {problem}"))?;
            if let Some(_twice) = dumps.insert(name, Arc::new(dump)) {
                return Err("it names a file twice".to_owned());
            }
        }
        Ok(DumpDirectory {
            published: modified,
            credit: index.credit,
            directory: None,
            dumps,
        })
    }

    /// Returns `true` if its name in the published directory now leads to another directory.
    pub fn is_superseded(&self, published: &Directory, named: &Dumps) -> bool {
        let Some(directory) = &self.directory else {
            return false;
        };
        let found = published.subdirectory(&named.directory);
        found.is_ok_and(|found| found.is_same(directory).is_ok_and(|same| !same))
    }

    /// Returns names and lengths of the files from a name up to another one, at most `max`; none if the
    /// names are not in order.
    pub fn list(&self, from: &str, to: &str, max: usize) -> Vec<(String, u64)> {
        let found = self.between(from, to).take(max);
        found
            .map(|(name, dump)| (name.clone(), dump.file.bytes))
            .collect()
    }

    /// Returns names of the last files from a name up to another one, at most `max`, the last one first.
    pub fn last(&self, from: &str, to: &str, max: usize) -> Vec<String> {
        let found = self.between(from, to).rev().take(max);
        found.map(|(name, _)| name.clone()).collect()
    }

    fn between(
        &self,
        from: &str,
        to: &str,
    ) -> impl DoubleEndedIterator<Item = (&String, &Arc<Dump>)> {
        // A range whose bounds are not in order panics.
        let range = (Bound::Included(from), Bound::Excluded(to));
        let range = (from < to).then(|| self.dumps.range::<str, _>(range));
        range.into_iter().flatten()
    }

    /// Returns the files that the index names.
    pub fn files(&self) -> impl Iterator<Item = &Dump> {
        let dumps = self.dumps.values().map(Arc::as_ref);
        dumps.filter(|dump| dump.file.file != DumpIndex::FILE)
    }

    /// Returns the dump of a name, such as `daily/2026-11-20.csv`; for `index.json` the index.
    pub fn find(&self, name: &str) -> Option<&Arc<Dump>> {
        self.dumps.get(name)
    }
}

impl Dump {
    fn new(file: DumpFile, (etag, modified): (String, UnixSeconds), content: DumpContent) -> Dump {
        Dump {
            etag,
            modified,
            content_type: match file.file.rsplit_once('.') {
                Some((_, "csv")) => "text/csv; charset=utf-8",
                Some((_, "json")) => "application/json",
                Some((_, "gz")) => "application/gzip",
                _ => "application/octet-stream",
            },
            content,
            file,
        }
    }

    fn of_file(file: DumpFile, content: DumpContent) -> Result<Dump, &'static str> {
        if !is_local_path(&file.file) || file.file.len() > NAME_BYTES_MAX {
            return Err(
                "file must be a path within the directory of at most 100 bytes, without control characters",
            );
        }
        let is_hex = file.sha256.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex || file.sha256.len() != 64 {
            return Err("sha256 must be 64 hexadecimal digits");
        }
        // Half of the digest distinguishes any two files, in half the bytes that clients repeat.
        let etag = format!("\"{}\"", &file.sha256[..32].to_ascii_lowercase());
        let modified = UnixSeconds::parse(&file.modified).ok_or("modified is not a timestamp")?;
        Ok(Dump::new(file, (etag, modified), content))
    }

    /// Creates a dump in memory, like the index.
    #[cfg(test)]
    pub(crate) fn in_memory(name: &str, text: &'static [u8]) -> Dump {
        let file = DumpFile {
            file: name.to_owned(),
            bytes: text.len() as u64,
            sha256: "0".repeat(64),
            modified: "2026-11-21T12:05:00Z".to_owned(),
        };
        Dump::of_file(file, DumpContent::Memory(Bytes::from_static(text))).unwrap()
    }

    pub fn path(&self) -> PathBuf {
        match &self.content {
            DumpContent::Memory(_) => PathBuf::from(&self.file.file),
            DumpContent::File(directory) => directory.path().join(&self.file.file),
        }
    }

    /// Opens its file, of any length.
    pub(crate) fn open_unchecked(&self) -> io::Result<File> {
        match &self.content {
            DumpContent::Memory(_) => Err(io::ErrorKind::NotFound.into()),
            DumpContent::File(directory) => directory.file(&self.file.file),
        }
    }

    /// Opens its file, which must have the length in the index. May wait for a disk.
    pub fn open(&self) -> io::Result<File> {
        let file = self.open_unchecked()?;
        let (found, wanted) = (file.metadata()?.len(), self.file.bytes);
        if found == wanted {
            return Ok(file);
        }
        let problem = format!("must have {wanted} bytes as in the index, has {found}");
        Err(io::Error::other(problem))
    }
}

#[cfg(test)]
#[path = "dumps_tests.rs"]
mod tests;
