//! The dumps: the dataset as files for download, and the index that names them.
//!
//! ```text
//! PUBLISHED/dumps-20261121T120500Z-….json   the index, which the manifest names: served as `index.json`
//! PUBLISHED/dumps/SHA256                    the files, which the index names: served by their public names
//! ```
//! None of them ever changes. A publish writes the files whose bytes are new, and an index.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Bound;
use std::sync::Arc;

use bitcoin_hashes::{HashEngine, sha256};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zlib_rs::crc32::crc32;

use super::body::Body;
use super::error::SnapshotError;
use super::manifest::{Manifest, Payload};
use crate::calendar::UnixSeconds;
use crate::dataset::DatasetReader;
use crate::regular_file::{Directory, is_local_path};

/// Longer indexes are neither written nor read. One of ten thousand files has three megabytes.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Files with longer names are rejected, since pages list names. The longest of a publish has 24 bytes.
const NAME_BYTES_MAX: usize = 100;

/// Longer credits and notices are rejected, since pages have them: no argument of a command is longer.
const LINE_BYTES_MAX: usize = 128 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpIndex {
    pub generated_at: String,
    /// The licence of the compilation, `CC-BY-4.0`.
    pub license: String,
    pub license_url: String,
    /// The line that users of the data show.
    pub credit: String,
    /// Origin of the data: the dataset's own notice, or a general one.
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
    /// The SHA-256 of its bytes, 64 hexadecimal digits; its name in a published directory.
    pub sha256: String,
    /// The publish timestamp of its last change.
    pub modified: String,
    /// The value of `Content-Type` with which it is served, whatever an index says.
    #[serde(skip_deserializing)]
    pub media_type: &'static str,
}

impl DumpIndex {
    /// The public name of the index.
    pub const FILE: &'static str = "index.json";

    /// Returns its text, or a problem if no reader would accept it.
    pub fn to_json(&self) -> Result<Vec<u8>, String> {
        let mut text = serde_json::to_vec_pretty(self).expect("an index is text and numbers");
        text.push(b'\n');
        let (bytes, files) = (text.len(), self.files.len());
        if bytes as u64 <= INDEX_BYTES_MAX {
            return Ok(text);
        }
        Err(format!(
            "the index of the dumps must have at most {INDEX_BYTES_MAX} bytes, got {bytes} for {files} files; \
             remove old files of live/ from the dataset"
        ))
    }
}

impl DumpFile {
    /// Returns its name in a published directory.
    pub fn stored_name(&self) -> String {
        format!("{}/{}", Dumps::FOLDER, self.sha256)
    }
}

/// The dumps of a manifest, opened. Only names in the index are opened, when they are requested.
#[derive(Debug)]
pub struct Dumps {
    pub published: UnixSeconds,
    /// The line that users of the data show.
    pub credit: String,
    /// The dataset's own notice.
    pub notice: Option<String>,
    /// The index itself. It has no date that could be a condition: two publishes may have one time.
    pub index: Body,
    by_name: BTreeMap<String, Arc<Dump>>,
}

/// One file of the dumps.
#[derive(Debug)]
pub struct Dump {
    /// Its entry in the index.
    pub file: DumpFile,
    /// Its strong entity tag, quotes included.
    pub etag: String,
    pub modified: UnixSeconds,
    pub content: DumpContent,
}

#[derive(Clone, Debug)]
pub enum DumpContent {
    Memory(Bytes),
    /// A file of this published directory, and the name of the index there that names it.
    File(Directory, Arc<str>),
}

impl Dumps {
    /// Name of the folder of a published directory with the files.
    pub const FOLDER: &'static str = "dumps";

    /// Opens the dumps that the manifest of a published directory names.
    pub fn open(published: &Directory, named: &Payload) -> Result<Dumps, SnapshotError> {
        let part = &named.file;
        let malformed = |problem: &dyn Display| SnapshotError::malformed(part, problem);
        let text = published.read(part, INDEX_BYTES_MAX);
        let text = text.map_err(|error| malformed(&error))?;
        let (found, wanted) = (text.len(), named.bytes);
        if found as u64 != wanted {
            return Err(malformed(&format!(
                "must have {wanted} bytes as in the manifest, has {found}"
            )));
        }
        let written = u32::from_str_radix(&named.checksum, 16);
        let written = written.map_err(|_| malformed(&"its checksum in the manifest is invalid"))?;
        SnapshotError::expect_checksum(part, written, crc32(0, &text))?;
        let index = serde_json::from_slice(&text).map_err(|error| malformed(&error))?;
        let index_file: Arc<str> = part.as_str().into();
        let file = DumpContent::File(published.clone(), index_file);
        let content_of = |_: &str| Some(file.clone());
        Dumps::new(index, text, content_of).map_err(|problem| malformed(&problem))
    }

    /// Creates dumps from an index, its text, and the content of each file by its name.
    pub(crate) fn new(
        index: DumpIndex,
        text: Vec<u8>,
        content_of: impl Fn(&str) -> Option<DumpContent>,
    ) -> Result<Dumps, String> {
        let published = UnixSeconds::parse(&index.generated_at);
        let published = published.ok_or("generatedAt is not a timestamp")?;
        for (name, line) in [("credit", &index.credit), ("notice", &index.notice)] {
            if line.len() > LINE_BYTES_MAX {
                return Err(format!("{name} must have at most {LINE_BYTES_MAX} bytes"));
            }
        }
        let mut dumps = BTreeMap::new();
        for file in index.files {
            let name = file.file.clone();
            let content = content_of(&name).ok_or("content is missing");
            let dump = content.and_then(|content| Dump::of_file(file, content));
            let dump = dump.map_err(|problem| format!("{name:?}: {problem}"))?;
            let is_index = name == DumpIndex::FILE;
            if is_index || dumps.insert(name, Arc::new(dump)).is_some() {
                return Err("it names a file twice".to_owned());
            }
        }
        Ok(Dumps {
            published,
            credit: index.credit,
            notice: (dumps.contains_key(DatasetReader::NOTICE)).then_some(index.notice),
            index: Body::new(text, published),
            by_name: dumps,
        })
    }

    /// Returns names and lengths of the last files of a folder, by name ascending. The folder ends with a slash; an
    /// empty one is the top level. Files and folders in it are at most `max`.
    pub fn list(&self, folder: &str, max: usize) -> Vec<(String, u64)> {
        let mut end = format!("{folder}\u{10ffff}");
        let mut found = Vec::new();
        // A step skips a whole folder: a walk over all its files would take milliseconds.
        for _ in 0..max {
            let range = (Bound::Included(folder), Bound::Excluded(end.as_str()));
            let Some((name, dump)) = self.by_name.range::<str, _>(range).next_back() else {
                break;
            };
            if let Some((inner, _)) = name[folder.len()..].split_once('/') {
                end = format!("{folder}{inner}/");
            } else {
                found.push((name.clone(), dump.file.bytes));
                end.clone_from(name);
            }
        }
        found.reverse();
        found
    }

    /// Returns the files that the index names.
    pub fn files(&self) -> impl Iterator<Item = &Dump> {
        self.by_name.values().map(Arc::as_ref)
    }

    /// Returns the file of a name, such as `daily/2026-11-20.csv`.
    pub fn find(&self, name: &str) -> Option<&Arc<Dump>> {
        self.by_name.get(name)
    }
}

/// Returns the value of `Content-Type` for a file.
pub(crate) fn media_type(file: &str) -> &'static str {
    match file.rsplit_once('.') {
        Some((_, "csv")) => "text/csv; charset=utf-8",
        Some((_, "txt")) => "text/plain; charset=utf-8",
        Some((_, "json")) => "application/json",
        Some((_, "gz")) => "application/gzip",
        _ => "application/octet-stream",
    }
}

impl Dump {
    fn of_file(mut file: DumpFile, content: DumpContent) -> Result<Dump, &'static str> {
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
        file.media_type = media_type(&file.file);
        Ok(Dump {
            file,
            etag,
            modified,
            content,
        })
    }

    /// Returns its public name and the path of its file, for messages.
    pub fn place(&self) -> String {
        let name = &self.file.file;
        match &self.content {
            DumpContent::Memory(_) => name.clone(),
            DumpContent::File(published, _) => {
                let path = published.path().join(self.file.stored_name());
                format!("{} ({name})", path.display())
            }
        }
    }

    /// Opens its file, of any length.
    pub(crate) fn open_unchecked(&self) -> io::Result<File> {
        let DumpContent::File(published, _) = &self.content else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let name = self.file.stored_name();
        // The path of the directory may be a link that leads elsewhere since: a file of this name is the same there.
        let moved = |_| Directory::open(published.path())?.file(&name);
        published.file(&name).or_else(moved)
    }

    /// Returns whether the published directory names other dumps by now, so that its file may be gone.
    pub fn is_superseded(&self) -> bool {
        let DumpContent::File(published, index) = &self.content else {
            return false;
        };
        let current = Directory::open(published.path()).and_then(|it| Manifest::read(&it));
        let current = current.ok().flatten().and_then(|manifest| manifest.dumps);
        current.is_some_and(|current| current.file != **index)
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

/// Writer that computes the SHA-256 of what it writes.
pub(crate) struct HashingWriter<W> {
    out: W,
    sha256: sha256::HashEngine,
    bytes: u64,
}

impl<W> HashingWriter<W> {
    pub(crate) fn new(out: W) -> HashingWriter<W> {
        HashingWriter {
            out,
            sha256: sha256::HashEngine::new(),
            bytes: 0,
        }
    }

    /// Returns the length, and the SHA-256 in hexadecimal.
    pub(crate) fn finish(self) -> (u64, String) {
        let mut text = String::with_capacity(64);
        for byte in self.sha256.finalize().to_byte_array() {
            write!(text, "{byte:02x}").expect("writing to memory does not fail");
        }
        (self.bytes, text)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        self.sha256.input(bytes);
        self.bytes += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[path = "dumps_tests.rs"]
mod tests;
