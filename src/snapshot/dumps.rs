//! The dumps: the dataset as files for everybody, and the index that names them.
//!
//! A directory of its own for each publish, never changed once it is there:
//!
//! ```text
//! PUBLISHED/dumps                       a link to the newest of them
//! PUBLISHED/dumps-20261121T120500Z-…/   index.json and the files that it names
//! ```

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

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

    /// Reads the index of a directory of dumps.
    pub fn read(directory: &Path) -> io::Result<DumpIndex> {
        Ok(serde_json::from_slice(&std::fs::read(
            directory.join(DumpIndex::FILE),
        )?)?)
    }

    /// The index as it stands in its file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("an index is text and numbers");
        text.push(b'\n');
        text
    }
}
