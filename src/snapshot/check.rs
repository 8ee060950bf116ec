//! Verification of a published directory: every body and every dump.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::dumps::{Dump, Dumps, HashingWriter};
use super::error::SnapshotError;
use super::manifest::Manifest;
use super::read::Snapshot;
use crate::regular_file::Directory;
use crate::site::SiteSettings;
use crate::sync::{cores, in_order};

/// Opens a published directory and verifies every body and every dump.
pub fn check_published(directory: &Path) -> Result<Snapshot, SnapshotError> {
    let in_file = |path: PathBuf| move |error: SnapshotError| error.in_file(&path);
    let opened = Directory::open(directory).map_err(SnapshotError::Io);
    let opened = opened.map_err(in_file(directory.to_owned()))?;
    let absent = || io::Error::new(ErrorKind::NotFound, "nothing is published here");
    let manifest = Manifest::read(&opened).and_then(|found| found.ok_or_else(absent));
    let manifest =
        manifest.map_err(|error| in_file(directory.join(Manifest::FILE))(error.into()))?;
    let mut snapshot = Snapshot::open((&opened, &manifest), &SiteSettings::new(""), None)?;
    if let Some(dumps) = snapshot.dumps.take() {
        let dumps = dumps.map_err(in_file(directory.to_owned()))?;
        check_dumps(&dumps)?;
        snapshot.dumps = Some(Ok(dumps));
    }
    if let (Some(history), Some(named)) = (&snapshot.history, &manifest.history) {
        let path = directory.join(&named.file);
        history.verify_bodies().map_err(in_file(path))?;
    }
    Ok(snapshot)
}

/// Verifies the SHA-256 of every file of the dumps against their index.
fn check_dumps(dumps: &Dumps) -> Result<(), SnapshotError> {
    let dumps: Vec<&Dump> = dumps.files().collect();
    let check = |(): &mut (), at: usize| -> Result<(), SnapshotError> {
        let wanted = &dumps[at].file.sha256;
        let mut hashing = HashingWriter::new(io::sink());
        io::copy(&mut dumps[at].open_unchecked()?, &mut hashing)?;
        let (_, _, found) = hashing.finish();
        if found == *wanted {
            return Ok(());
        }
        let problem = format!("its SHA-256 must be {wanted}, as in the index, got {found}");
        Err(SnapshotError::malformed("the file", problem))
    };
    in_order(
        (cores(), dumps.len()),
        || (),
        check,
        |number, checked| checked.map_err(|error| error.in_file(Path::new(&dumps[number].place()))),
    )
}
