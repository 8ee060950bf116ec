//! Change detection: `sources.json`, the list of the dataset files that a publish was made from.
//!
//! The rule is that of git's index. Size, mtime, ctime and inode identify a file if its ctime was at
//! least [`RACY_SECONDS`] before the publish that read it; a younger file may have been written to
//! again within one tick of the file system's clock. Otherwise size and checksum decide.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, FileChecksum, FileStamp, LoadError};
use crate::durable;
use crate::regular_file::Directory;

/// Version of the program and of the format. A list with another one is ignored, since other versions
/// may render or validate differently.
const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "/3");
/// Longest `sources.json` that is read. A list of 100,000 files has about 20 MB.
const BYTES_MAX: u64 = 1 << 30;
/// Twice the coarsest timestamp granularity of a file system (2 s on FAT).
const RACY_SECONDS: i64 = 4;

/// The dataset files that the published data was made from.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sources {
    program: String,
    /// Checksum of the history payload that was rendered from the files.
    pub(crate) history: String,
    /// Name of the dump directory that was written from the files.
    pub(crate) dumps: String,
    /// Unix seconds at which the publish began to read.
    read_since: i64,
    files: BTreeMap<String, SourceFile>,
}

/// A dataset file as it was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceFile {
    bytes: u64,
    modified: i64,
    changed: i64,
    inode: u64,
    pub(crate) checksum: u32,
    /// Total players, of a live step.
    pub(crate) players: Option<u128>,
}

impl SourceFile {
    pub(crate) fn new(sum: FileChecksum, players: Option<u128>) -> SourceFile {
        SourceFile {
            bytes: sum.stamp.bytes,
            modified: sum.stamp.modified,
            changed: sum.stamp.changed,
            inode: sum.stamp.inode,
            checksum: sum.checksum,
            players,
        }
    }

    fn stamp(&self) -> FileStamp {
        FileStamp {
            bytes: self.bytes,
            modified: self.modified,
            changed: self.changed,
            inode: self.inode,
        }
    }
}

impl Sources {
    /// File name in the published directory.
    pub(crate) const FILE: &'static str = "sources.json";

    pub(crate) fn new(
        history: &str,
        dumps: &str,
        read_since: UnixSeconds,
        files: BTreeMap<String, SourceFile>,
    ) -> Sources {
        Sources {
            program: PROGRAM.to_owned(),
            history: history.to_owned(),
            dumps: dumps.to_owned(),
            read_since: read_since.0,
            files,
        }
    }

    /// Reads the list of a published directory. An unreadable one counts as empty, so that everything
    /// is published again.
    pub(crate) fn read(directory: &Directory) -> Sources {
        let text = directory.read(Sources::FILE, BYTES_MAX).unwrap_or_default();
        let sources: Sources = serde_json::from_slice(&text).unwrap_or_default();
        if sources.program == PROGRAM {
            sources
        } else {
            Sources::default()
        }
    }

    /// Writes the list to a directory, replacing an earlier one.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        durable::replace(&directory.join(Sources::FILE), &text)
    }

    /// Iterates over the names of the files, ascending.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns whether the list has a file of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Returns a file of the dataset if it is the same as in the list.
    pub(crate) fn unchanged(
        &self,
        name: &str,
        dataset: &DatasetReader<'_>,
    ) -> Result<Option<SourceFile>, LoadError> {
        let Some(known) = self.files.get(name) else {
            return Ok(None);
        };
        let stamp = dataset.stamp(name)?;
        let Some(stamp) = stamp.filter(|stamp| stamp.bytes == known.bytes) else {
            return Ok(None);
        };
        let racy_from = self.read_since.saturating_sub(RACY_SECONDS);
        if stamp == known.stamp() && stamp.changed < racy_from.saturating_mul(1_000_000_000) {
            return Ok(Some(known.clone()));
        }
        let sum = dataset.sum(name)?;
        let same =
            sum.filter(|sum| (sum.stamp.bytes, sum.checksum) == (known.bytes, known.checksum));
        Ok(same.map(|sum| SourceFile::new(sum, known.players)))
    }
}
