//! The published directory as a publish finds it, with `sources.json`, the list of the dataset files that it was made
//! from.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::options::{PublishError, PublishOptions, in_file};
use crate::dataset::{Fault, FileStamp};
use crate::regular_file::Directory;
use crate::snapshot::{CONTENT_VERSION, Dump, Dumps, History, Manifest};

/// Longest list that is read. One of 100,000 files has about 20 MB.
const BYTES_MAX: u64 = 1 << 30;

pub(super) struct Previous {
    pub(super) directory: Directory,
    /// Empty if nothing was published, or if it is invalid.
    pub(super) manifest: Manifest,
    /// `None` if there are none or their index is missing or damaged.
    pub(super) dumps: Option<Dumps>,
    /// Empty if it is not the list of what the manifest names: a publish that ended before it wrote the manifest has
    /// published none of these files. If the manifest is damaged, it may be the one of the list.
    pub(super) sources: Sources,
}

impl Previous {
    /// Reads it. An invalid manifest counts as none, since publishing again repairs it. An unreadable one is an error,
    /// since it may be newer than this publish.
    pub(super) fn read(directory: &Path) -> Result<Previous, PublishError> {
        let path = directory.join(Manifest::FILE);
        let directory = Directory::open(directory).map_err(in_file(&path))?;
        let invalid = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof];
        let read = Manifest::read(&directory);
        let is_invalid = |error: &io::Error| invalid.contains(&error.kind());
        let is_damaged = read.as_ref().is_err_and(is_invalid);
        let manifest = match read {
            Err(_) if is_damaged => None,
            read => read.map_err(in_file(&path))?,
        };
        let manifest = manifest.unwrap_or_default();
        let mut sources = Sources::read(&directory);
        if !is_damaged && sources.published != manifest {
            sources = Sources::default();
        }
        let named = manifest.dumps.as_ref();
        let dumps = named.and_then(|named| Dumps::open(&directory, named).ok());
        Ok(Previous {
            directory,
            manifest,
            dumps,
            sources,
        })
    }

    /// Returns the reason why nothing can be kept, if there is one.
    pub(super) fn full_publish_reason(&self, options: &PublishOptions<'_>) -> Option<&'static str> {
        let Some(history) = &self.manifest.history else {
            return Some("nothing was published before");
        };
        if options.force {
            Some("--force was given")
        } else if options.full {
            Some("--full was given")
        } else if self.sources.program != Sources::program() {
            Some("the inputs of the previous publish are unknown")
        } else if history.open(&self.directory, History::open).is_err() {
            Some("the published history cannot be opened")
        } else if !self.has_all_dumps() {
            Some("a published dump is missing")
        } else {
            None
        }
    }

    pub(super) fn dump_files(&self) -> impl Iterator<Item = &Dump> {
        self.dumps.iter().flat_map(Dumps::files)
    }

    /// Returns whether the dumps and all their files exist. One listing takes a tenth of the time of a call for each
    /// file. Their lengths and bytes are compared when they are sent or verified.
    fn has_all_dumps(&self) -> bool {
        let folder = self.directory.path().join(Dumps::FOLDER);
        let listed = fs::read_dir(folder).into_iter().flatten().flatten();
        // Servers follow no links.
        let files = listed.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let listed: HashSet<OsString> = files.map(|entry| entry.file_name()).collect();
        let is_listed = |dump: &Dump| listed.contains(OsStr::new(&dump.file.sha256));
        self.dumps.is_some() && self.dump_files().all(is_listed)
    }

    /// Returns the names of all its files; `None` if some are not known.
    pub(super) fn names(&self) -> Option<HashSet<String>> {
        let is_known = self.manifest != Manifest::default();
        let is_known = is_known && self.dumps.is_some() == self.manifest.dumps.is_some();
        let named = self.manifest.files().map(|named| named.file.clone());
        let named = named.chain(self.dump_files().map(|dump| dump.file.stored_name()));
        is_known.then(|| named.chain([Sources::FILE.to_owned()]).collect())
    }
}

/// Members that are missing, as in a list of another version, have no value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Sources {
    pub(super) program: String,
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
}
