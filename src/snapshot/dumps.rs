//! The dumps: the dataset as files for everybody, and the index that names them.
//!
//! A directory of its own for each publish, never changed once it is there:
//!
//! ```text
//! PUBLISHED/dumps                       a link to the newest of them
//! PUBLISHED/dumps-20261121T120500Z-…/   index.json and the files that it names
//! ```

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::body::EntityTag;
use super::error::SnapshotError;
use super::manifest::{Dumps, Manifest};
use crate::calendar::UnixSeconds;
use crate::regular_file::{Directory, is_file_name, is_local_path};

/// A longer index is refused. One of ten thousand files has three megabytes.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The index of the dumps, `index.json`: who may do what with which files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpIndex {
    /// When the dumps were published.
    pub generated_at: String,
    /// The licence of the compilation, `CC-BY-4.0`.
    pub license: String,
    /// Where its text stands.
    pub license_url: String,
    /// The line that users of the data show.
    pub credit: String,
    /// What the data is, and whose it is not.
    pub notice: String,
    /// Every other file, by name ascending.
    pub files: Vec<DumpFile>,
}

/// One file of the dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpFile {
    /// Its name below the dumps, such as `daily/2026-11-20.csv.gz`.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, 64 hexadecimal digits.
    pub sha256: String,
    /// When its bytes were last other ones: a publish timestamp.
    pub modified: String,
}

impl DumpIndex {
    /// The index's own name.
    pub const FILE: &'static str = "index.json";
    /// The name, in a published directory, of the link to the newest dumps.
    pub const LINK: &'static str = "dumps";

    /// Reads the index that a manifest names, which must be the one that was written.
    pub fn read(directory: &Directory, named: &Dumps) -> io::Result<DumpIndex> {
        let text = directory.read(DumpIndex::FILE, INDEX_BYTES_MAX)?;
        if format!("{:08x}", crc32fast::hash(&text)) != named.checksum {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(serde_json::from_slice(&text)?)
    }

    /// The index as it stands in its file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("an index is text and numbers");
        text.push(b'\n');
        text
    }
}

/// The dumps that a manifest names, opened: what may be asked for, by name. Only what stands in the index
/// is ever looked for on disk, and that not before it is asked for.
#[derive(Debug)]
pub struct DumpDirectory {
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
    /// When its bytes were last other ones.
    pub modified: UnixSeconds,
    /// What its name says that it is.
    pub format: DumpFormat,
    /// The directory of its file, kept open: another one may have its name by the time of a request.
    directory: Arc<Directory>,
    name: String,
    path: PathBuf,
    held: Option<Bytes>,
}

/// What the bytes of a dump are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpFormat {
    /// A table, as in the dataset.
    Csv,
    /// The same as JSON, or the index.
    Json,
    /// One of the two, compressed.
    Gzip,
    /// Something else.
    Other,
}

impl DumpDirectory {
    /// Opens the dumps that the manifest of a published directory names.
    pub fn open(published: &Directory, named: &Dumps) -> Result<DumpDirectory, SnapshotError> {
        if !is_file_name(&named.directory) {
            let problem = format!("{:?} is not the name of a directory", named.directory);
            return Err(SnapshotError::malformed(Manifest::FILE, problem));
        }
        let part = format!("{}/{}", named.directory, DumpIndex::FILE);
        let malformed = |problem: &dyn fmt::Display| SnapshotError::malformed(&part, problem);
        let directory = published.subdirectory(&named.directory);
        let directory = Arc::new(directory.map_err(|error| malformed(&error))?);
        let text = directory
            .read(DumpIndex::FILE, INDEX_BYTES_MAX)
            .map_err(|error| malformed(&error))?;
        let written = u32::from_str_radix(&named.checksum, 16)
            .map_err(|_| malformed(&"the manifest has no checksum of it"))?;
        let found = crc32fast::hash(&text);
        if found != written {
            return Err(SnapshotError::Checksum {
                part,
                written,
                found,
            });
        }
        let index: DumpIndex = serde_json::from_slice(&text).map_err(|error| malformed(&error))?;
        let modified = UnixSeconds::parse(&index.generated_at)
            .ok_or_else(|| malformed(&"generatedAt is no timestamp"))?;
        let etag = EntityTag::new(modified, found, false);
        let itself = Dump {
            bytes: text.len() as u64,
            etag: String::from_utf8_lossy(etag.as_bytes()).into_owned(),
            modified,
            format: DumpFormat::Json,
            path: directory.path().join(DumpIndex::FILE),
            directory: Arc::clone(&directory),
            name: DumpIndex::FILE.to_owned(),
            held: Some(text.into()),
        };
        let mut dumps = BTreeMap::from([(DumpIndex::FILE.to_owned(), Arc::new(itself))]);
        for file in index.files {
            let dump = Dump::of(&file, &directory)
                .map_err(|problem| malformed(&format!("{:?}: {problem}", file.file)))?;
            if let Some(_twice) = dumps.insert(file.file, Arc::new(dump)) {
                return Err(malformed(&"it names a file twice"));
            }
        }
        Ok(DumpDirectory { directory, dumps })
    }

    /// Returns `true` if another directory than this one has its name now in the published directory.
    pub fn is_superseded(&self, published: &Directory, named: &Dumps) -> bool {
        let there = published.subdirectory(&named.directory);
        there.is_ok_and(|there| there.is_same(&self.directory).is_ok_and(|same| !same))
    }

    /// The dump of a name, such as `daily/2026-11-20.csv`; under `index.json` the index.
    pub fn find(&self, name: &str) -> Option<&Arc<Dump>> {
        self.dumps.get(name)
    }
}

impl Dump {
    fn of(file: &DumpFile, directory: &Arc<Directory>) -> Result<Dump, &'static str> {
        if !is_local_path(&file.file) {
            return Err("a name has to lead into the directory, by plain words between slashes");
        }
        let is_hex = file.sha256.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex || file.sha256.len() != 64 {
            return Err("sha256 is not 64 hexadecimal digits");
        }
        let path = directory.path().join(&file.file);
        Ok(Dump {
            bytes: file.bytes,
            // Half of the digest tells any two files apart, and halves what clients repeat.
            etag: format!("\"{}\"", &file.sha256[..32].to_ascii_lowercase()),
            modified: UnixSeconds::parse(&file.modified).ok_or("modified is no timestamp")?,
            format: match path.extension().and_then(OsStr::to_str) {
                Some("csv") => DumpFormat::Csv,
                Some("json") => DumpFormat::Json,
                Some("gz") => DumpFormat::Gzip,
                _ => DumpFormat::Other,
            },
            path,
            directory: Arc::clone(directory),
            name: file.file.clone(),
            held: None,
        })
    }

    /// One in memory, as the index is.
    #[cfg(test)]
    pub(crate) fn in_memory(name: &str, text: &'static [u8]) -> Dump {
        let sha256 = "0".repeat(64);
        let file = DumpFile {
            file: name.to_owned(),
            bytes: text.len() as u64,
            sha256,
            modified: "2026-11-21T12:05:00Z".to_owned(),
        };
        let directory = Arc::new(Directory::open(Path::new(".")).unwrap());
        let dump = Dump::of(&file, &directory).unwrap();
        Dump {
            held: Some(Bytes::from_static(text)),
            ..dump
        }
    }

    /// Its bytes, if they are in memory: those of the index are, which was checked.
    pub fn held(&self) -> Option<&Bytes> {
        self.held.as_ref()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens its file, which must still be the one that the index speaks of, as far as its length tells.
    /// May wait for a disk.
    pub fn open(&self) -> io::Result<File> {
        let file = self.directory.file(&self.name)?;
        let bytes = file.metadata()?.len();
        if bytes != self.bytes {
            let problem = format!("has {bytes} bytes; the index says {}", self.bytes);
            return Err(io::Error::other(problem));
        }
        Ok(file)
    }
}

#[cfg(test)]
#[path = "dumps_tests.rs"]
mod tests;
