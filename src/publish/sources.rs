//! `sources.json`: the dataset files that a publish was made from.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::dataset::{Fault, FileStamp};
use crate::durable;
use crate::regular_file::Directory;
use crate::snapshot::{CONTENT_VERSION, Manifest};

/// Longest list that is read. One of 100,000 files has about 20 MB.
const BYTES_MAX: u64 = 1 << 30;

/// Members that are missing, as in a list of another version, have no value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Sources {
    pub(super) program: String,
    /// The manifest of the publish.
    pub(super) published: Manifest,
    /// Metadata that identify the content of a file; `None` if it was written to shortly before it was read.
    pub(super) files: BTreeMap<String, Option<FileStamp>>,
    /// Total players of the live steps.
    pub(super) players: BTreeMap<String, u128>,
    pub(super) warnings: Vec<Fault>,
}

impl Sources {
    /// File name in the published directory.
    pub(super) const FILE: &'static str = "sources.json";

    /// Returns the version of the program and of the content of payload files. Other versions may render or validate
    /// differently.
    pub(super) fn program() -> String {
        format!("{}, content {CONTENT_VERSION}", env!("CARGO_PKG_VERSION"))
    }

    /// Reads the list of a published directory. An unreadable one counts as empty.
    pub(super) fn read(directory: &Directory) -> Sources {
        let text = directory.read(Sources::FILE, BYTES_MAX);
        serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default()
    }

    /// Writes the list to a directory, replacing an earlier one.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        durable::replace(&directory.join(Sources::FILE), &text)
    }
}
