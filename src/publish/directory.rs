//! The published directory: writing it so that a reader never sees half of it, and opening it.
//!
//! Payload files are written beside, synced and renamed; the manifest, renamed last, names them.
//! What the manifest before named stays until the next publish, for readers between the two.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{history, live, render};
use crate::calendar::UnixSeconds;
use crate::dataset::Dataset;
use crate::durable::{self, Replacement, UNFINISHED};
use crate::snapshot::{
    DumpDirectory, History, Live, Manifest, Payload, Snapshot, SnapshotError, Storage, Written,
};

/// Ends the names of payload files.
const PAYLOAD: &str = ".snap";

/// Why a directory could not be published to or opened.
#[derive(Debug)]
pub enum PublishError {
    /// The system refused.
    Io {
        /// What was being read or written.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// A published file is unusable.
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SnapshotError,
    },
    /// What is published already is newer.
    Older {
        /// The timestamp there.
        published: String,
        /// The timestamp of this publish.
        offered: String,
    },
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            PublishError::Snapshot { path, source } => write!(f, "{}: {source}", path.display()),
            PublishError::Older { published, offered } => write!(
                f,
                "what is published is of {published}, newer than {offered}; give a later --generated-at, or --force"
            ),
        }
    }
}

impl std::error::Error for PublishError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PublishError::Io { source, .. } => Some(source),
            PublishError::Snapshot { source, .. } => Some(source),
            PublishError::Older { .. } => None,
        }
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PublishError + '_ {
    move |source| PublishError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Publishes a dataset to a directory, which is made if need be. Two at once wait for each other.
pub fn publish(
    dataset: &Dataset,
    directory: &Path,
    published: UnixSeconds,
    force: bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Manifest, PublishError> {
    fs::create_dir_all(directory).map_err(at(directory))?;
    let _lock = durable::lock(directory).map_err(at(directory))?;
    let manifest_path = directory.join(Manifest::FILE);
    // A manifest that cannot be read is replaced: publishing again is its cure.
    let before = Manifest::read(directory)
        .unwrap_or_default()
        .unwrap_or_default();
    let newest = [&before.history, &before.live]
        .into_iter()
        .flatten()
        .map(|payload| &payload.generated_at)
        .max();
    if let Some(newest) = newest.filter(|newest| !force && **newest > published.to_string()) {
        return Err(PublishError::Older {
            published: newest.clone(),
            offered: published.to_string(),
        });
    }
    let history = payload(directory, "history", published, |out| {
        history::write(dataset, published, out, progress)
    })?;
    let live = payload(directory, "live", published, |out| {
        live::write(dataset, published, out)
    })?;
    let manifest = Manifest {
        history: Some(history),
        live: Some(live),
        dumps: None,
    };
    let mut text =
        serde_json::to_vec_pretty(&manifest).expect("a manifest is plain text and numbers");
    text.push(b'\n');
    durable::replace(&manifest_path, &text).map_err(at(&manifest_path))?;
    sweep(directory, &[&before, &manifest]).map_err(at(directory))?;
    Ok(manifest)
}

fn payload(
    directory: &Path,
    kind: &str,
    published: UnixSeconds,
    write: impl FnOnce(Replacement) -> io::Result<(Replacement, Written)>,
) -> Result<Payload, PublishError> {
    let begun = Replacement::begin(directory, kind).map_err(at(directory))?;
    let (written_file, written) = write(begun).map_err(at(directory))?;
    let compact: String = published
        .to_string()
        .chars()
        .filter(|letter| !matches!(letter, '-' | ':'))
        .collect();
    let file = format!("{kind}-{compact}-{:08x}{PAYLOAD}", written.checksum);
    let path = directory.join(&file);
    written_file.finish(&path).map_err(at(&path))?;
    Ok(Payload {
        file,
        bytes: written.bytes,
        checksum: format!("{:08x}", written.checksum),
        generated_at: published.to_string(),
    })
}

/// Removes payload files that neither manifest names, and what a crash left unfinished.
fn sweep(directory: &Path, keep: &[&Manifest]) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let payloads = keep
            .iter()
            .flat_map(|manifest| [&manifest.history, &manifest.live]);
        let named = payloads.flatten().any(|payload| payload.file == name);
        let ours = name.ends_with(PAYLOAD) || name.ends_with(UNFINISHED);
        if ours && !named {
            fs::remove_file(directory.join(name))?;
        }
    }
    Ok(())
}

/// Opens what a directory publishes; a snapshot of nothing where it publishes nothing. A history that
/// is `held` already is not opened again: with it, its caches outlive the publish of a live payload.
/// Damaged dumps are the snapshot's to tell: what else is published is served without them.
pub fn open_published(
    directory: &Path,
    memory_bytes: usize,
    base_url: &str,
    held: Option<&Arc<History>>,
) -> Result<Snapshot, PublishError> {
    let manifest = Manifest::read(directory)
        .map_err(at(&directory.join(Manifest::FILE)))?
        .unwrap_or_default();
    let history = match &manifest.history {
        Some(payload) => match held.filter(|held| payload.is(held)) {
            Some(held) => Some(Arc::clone(held)),
            None => Some(Arc::new(open_payload(directory, payload, |storage| {
                History::open(storage, memory_bytes)
            })?)),
        },
        None => None,
    };
    let live = match &manifest.live {
        Some(payload) => Some(open_payload(directory, payload, Live::open)?),
        None => None,
    };
    let snapshot = together(history, live, base_url);
    let named = [&manifest.history, &manifest.live]
        .map(|payload| payload.as_ref().map(|payload| &payload.checksum));
    let found = snapshot
        .checksums()
        .map(|checksum| checksum.map(|checksum| format!("{checksum:08x}")));
    if named != [found[0].as_ref(), found[1].as_ref()] {
        let problem = "the payload files are not the ones it names; publish again";
        let source = io::Error::new(io::ErrorKind::InvalidData, problem);
        return Err(PublishError::Io {
            path: directory.join(Manifest::FILE),
            source,
        });
    }
    Ok(match &manifest.dumps {
        Some(named) => snapshot.with_dumps(DumpDirectory::open(directory, named)),
        None => snapshot,
    })
}

/// Opens a published directory and reads every body in it.
pub fn check_published(directory: &Path) -> Result<Snapshot, PublishError> {
    let manifest_path = directory.join(Manifest::FILE);
    let manifest = Manifest::read(directory).map_err(at(&manifest_path))?;
    let absent = || io::Error::new(io::ErrorKind::NotFound, "nothing is published here");
    let manifest = manifest.ok_or_else(|| at(&manifest_path)(absent()))?;
    let snapshot = open_published(directory, 0, "", None)?;
    if let Some(named) = &manifest.dumps {
        let path = directory.to_owned();
        DumpDirectory::open(directory, named)
            .map_err(|source| PublishError::Snapshot { path, source })?;
    }
    snapshot.verify_bodies().map_err(|source| {
        let file = manifest
            .history
            .map_or_else(String::new, |payload| payload.file);
        PublishError::Snapshot {
            path: directory.join(file),
            source,
        }
    })?;
    Ok(snapshot)
}

fn open_payload<T>(
    directory: &Path,
    payload: &Payload,
    open: impl FnOnce(Storage) -> Result<T, SnapshotError>,
) -> Result<T, PublishError> {
    let path = directory.join(&payload.file);
    let file = File::open(&path).map_err(at(&path))?;
    open(Storage::File(file)).map_err(|source| PublishError::Snapshot { path, source })
}

/// Puts payloads together with the bodies that speak of both.
pub(crate) fn together(
    history: Option<Arc<History>>,
    live: Option<Live>,
    base_url: &str,
) -> Snapshot {
    Snapshot::new(
        history,
        live,
        base_url,
        |stamp| render::index(stamp, base_url),
        render::health,
    )
}

/// What is served before anything is published: every payload is missing.
pub fn nothing_published(base_url: &str) -> Snapshot {
    together(None, None, base_url)
}
