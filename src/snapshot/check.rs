//! Verification of a published directory: every body and every dump.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::dumps::{Dump, Dumps, HashingWriter};
use super::error::SnapshotError;
use super::history::History;
use super::manifest::Manifest;
use super::read::Live;
use crate::regular_file::Directory;
use crate::sync::{cores, in_order};

/// Number of checks after which faults are reported although publishes still end meanwhile.
const CHECKS_MAX: usize = 5;

/// Verifies every body and every dump of a published directory. Returns its manifest; or the first fault of each payload,
/// that of the index of the dumps, and one for each dump. `progress` receives the work, and how much of it is done.
pub fn check_published(
    directory: &Path,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Manifest, Vec<SnapshotError>> {
    let opened = Directory::open(directory).map_err(SnapshotError::Io);
    let opened = opened.map_err(|fault| vec![fault.in_file(directory)])?;
    let mut manifest = read_manifest(&opened)?;
    let mut checks = 1;
    loop {
        let faults = check_files(&opened, &manifest, progress);
        if faults.is_empty() {
            return Ok(manifest);
        }
        // Publishes that have ended meanwhile remove files which only earlier manifests name.
        let current = read_manifest(&opened)?;
        if current == manifest || checks == CHECKS_MAX {
            return Err(faults);
        }
        (manifest, checks) = (current, checks + 1);
    }
}

fn read_manifest(directory: &Directory) -> Result<Manifest, Vec<SnapshotError>> {
    let manifest = Manifest::read(directory).map_err(|error| damage(error.into()));
    let absent = || io::Error::new(ErrorKind::NotFound, "nothing is published here").into();
    let manifest = manifest.and_then(|found| found.ok_or_else(absent));
    let path = directory.path().join(Manifest::FILE);
    manifest.map_err(|fault| vec![fault.in_file(&path)])
}

/// Returns the faults of the files of a manifest.
fn check_files(
    directory: &Directory,
    manifest: &Manifest,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Vec<SnapshotError> {
    let mut faults = Vec::new();
    let mut record = |fault| faults.push(damage(fault));
    if let Some(named) = &manifest.history {
        let mut progress = |done, all| progress("checking responses", done, all);
        let verified = named.open(directory, |file| {
            History::open(file)?.verify_bodies(&mut progress)
        });
        verified.unwrap_or_else(&mut record);
    }
    if let Some(named) = &manifest.live {
        let verified = named.open(directory, |file| Live::open(file).map(drop));
        verified.unwrap_or_else(&mut record);
    }
    let dumps = manifest.dumps.as_ref();
    match dumps.map(|named| Dumps::open(directory, named)) {
        Some(Ok(dumps)) => check_dumps(&dumps, record, progress),
        Some(Err(fault)) => record(fault.in_file(directory.path())),
        None => {}
    }
    faults
}

/// Verifies the SHA-256 of every file of the dumps against their index.
fn check_dumps(
    dumps: &Dumps,
    mut record: impl FnMut(SnapshotError),
    progress: &mut dyn FnMut(&str, usize, usize),
) {
    let dumps: Vec<&Dump> = dumps.files().collect();
    let check = |(): &mut (), at: usize| -> Result<(), SnapshotError> {
        let wanted = &dumps[at].file.sha256;
        let mut hashing = HashingWriter::new(io::sink());
        io::copy(&mut dumps[at].open_unchecked()?, &mut hashing)?;
        let (_, found) = hashing.finish();
        if found == *wanted {
            return Ok(());
        }
        let problem = format!("its SHA-256 must be {wanted}, as in the index, got {found}");
        Err(SnapshotError::malformed("the file", problem))
    };
    let workers = (cores(), dumps.len());
    let Ok(()) = in_order(
        workers,
        || (),
        check,
        |number, checked| {
            progress("checking dumps", number + 1, dumps.len());
            let place = dumps[number].place();
            checked.unwrap_or_else(|fault| record(fault.in_file(Path::new(&place))));
            Ok::<(), Infallible>(())
        },
    );
}

/// Returns the error of a file that must exist and be valid as damage, unless the system failed to read it.
fn damage(fault: SnapshotError) -> SnapshotError {
    use ErrorKind::{FileTooLarge, InvalidData, NotADirectory, NotFound, Other, UnexpectedEof};
    match fault {
        SnapshotError::Io(error) => match error.kind() {
            FileTooLarge | InvalidData | NotADirectory | NotFound | Other | UnexpectedEof => {
                SnapshotError::Damaged(error.to_string())
            }
            _ => SnapshotError::Io(error),
        },
        SnapshotError::Damaged(_) => fault,
    }
}
