//! What a publish was made from: `sources.json` beside the manifest, by which the next one finds what
//! has changed without reading it all.
//!
//! A file that the system gives the same stamp is the same file, unless it was written to within the
//! grain of the system's clock after it had been read: a stamp that was younger than that is not
//! relied on. Where stamps differ the bytes decide, by length and checksum.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::calendar::UnixSeconds;
use crate::dataset::{FileStamp, FileSum, LoadError, Source};
use crate::durable;
use crate::regular_file::Directory;

/// What must not differ for a part to be kept: other programs may render otherwise, or take other files
/// for sound.
const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "/2");
/// A longer file says nothing. One of a hundred thousand sources has some twenty megabytes.
const BYTES_MAX: u64 = 1 << 30;
/// A file must have been left alone for so long before its stamp says that it is the same, in
/// nanoseconds: twice the coarsest clock of a file system.
const SETTLED: i64 = 4_000_000_000;

/// The sources of what is published.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sources {
    program: String,
    /// Checksum of the history payload that was made of them.
    pub(crate) history: String,
    /// The directory of the dumps that were made of them.
    pub(crate) dumps: String,
    files: Vec<SourceFile>,
}

/// A file of the dataset, as it was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceFile {
    file: String,
    bytes: u64,
    checksum: u32,
    modified: i64,
    changed: i64,
    inode: u64,
    /// Whether the stamp can be relied on.
    settled: bool,
    /// Of a live step, all its players.
    players: Option<u128>,
}

/// The sources of a publish before, by name.
#[derive(Debug, Default)]
pub(crate) struct Known(HashMap<String, SourceFile>);

/// A file that is the same as in the publish before.
#[derive(Clone, Debug)]
pub(crate) struct Unchanged {
    pub(crate) sum: FileSum,
    /// Of a live step, all its players.
    pub(crate) players: Option<u128>,
}

impl Sources {
    /// The name of their file.
    pub(crate) const FILE: &'static str = "sources.json";

    pub(crate) fn new(
        history: &str,
        dumps: &str,
        sums: Vec<(FileSum, Option<u128>)>,
        read_since: UnixSeconds,
    ) -> Sources {
        let limit = read_since
            .0
            .saturating_mul(1_000_000_000)
            .saturating_sub(SETTLED);
        let files = sums.into_iter().map(|(sum, players)| SourceFile {
            file: sum.name,
            bytes: sum.stamp.bytes,
            checksum: sum.checksum,
            modified: sum.stamp.modified,
            changed: sum.stamp.changed,
            inode: sum.stamp.inode,
            settled: sum.stamp.changed < limit,
            players,
        });
        Sources {
            program: PROGRAM.to_owned(),
            history: history.to_owned(),
            dumps: dumps.to_owned(),
            files: files.collect(),
        }
    }

    /// Reads what a directory has. What cannot be read says nothing: all is made anew.
    pub(crate) fn read(directory: &Directory) -> Sources {
        let text = directory.read(Sources::FILE, BYTES_MAX).unwrap_or_default();
        let sources: Sources = serde_json::from_slice(&text).unwrap_or_default();
        if sources.program == PROGRAM {
            sources
        } else {
            Sources::default()
        }
    }

    /// Puts them into a directory.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        durable::replace(&directory.join(Sources::FILE), &text)
    }

    pub(crate) fn known(self) -> Known {
        let files = self.files.into_iter();
        Known(files.map(|known| (known.file.clone(), known)).collect())
    }
}

impl Known {
    /// The names of all files known.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether there was a file of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A file of the dataset, if it is the same as before.
    pub(crate) fn unchanged(
        &self,
        name: &str,
        source: &Source<'_>,
    ) -> Result<Option<Unchanged>, LoadError> {
        let Some(known) = self.0.get(name) else {
            return Ok(None);
        };
        let Some(stamp) = source
            .stamp(name)?
            .filter(|stamp| stamp.bytes == known.bytes)
        else {
            return Ok(None);
        };
        let before = FileStamp {
            bytes: known.bytes,
            modified: known.modified,
            changed: known.changed,
            inode: known.inode,
        };
        let sum = if known.settled && stamp == before {
            Some(FileSum {
                name: name.to_owned(),
                stamp,
                checksum: known.checksum,
            })
        } else {
            let same =
                |sum: &FileSum| sum.checksum == known.checksum && sum.stamp.bytes == known.bytes;
            source.sum(name)?.filter(same)
        };
        let players = known.players;
        Ok(sum.map(|sum| Unchanged { sum, players }))
    }
}
