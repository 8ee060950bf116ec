//! The published directory: its layout, the removal of stale files, and verification.
//!
//! ```text
//! manifest.json                   names the payload files and the dumps; renamed last
//! history-TIME-CHECKSUM.snap      islands, creators, rankings, new islands
//! live-TIME-CHECKSUM.snap         current players and the intraday curve
//! dumps -> dumps-TIME-CHECKSUM/   the dataset as files for download
//! sources.json                    the input files, for change detection in the next publish
//! ```
//! Every file is written under another name, synced and renamed. The files of the previous manifest
//! stay until the next publish, for readers that opened it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::changes::KnownSources;
use super::dumps_writer::{DUMPS_PREFIX, HashingWriter, REPEAT_SUFFIX};
use super::options::{PublishError, at};
use crate::durable::{self, TEMP_SUFFIX};
use crate::regular_file::Directory;
use crate::site::SiteSettings;
use crate::snapshot::{Dump, DumpDirectory, DumpIndex, Manifest, Snapshot, SnapshotError};
use crate::sync::{cores, in_order};

pub(super) const PAYLOAD_SUFFIX: &str = ".snap";
/// Prefix of history payload names.
pub(super) const HISTORY_PREFIX: &str = "history";
/// Prefix of live payload names.
pub(super) const LIVE_PREFIX: &str = "live";

/// Removes unfinished files. If `known` is true, the manifests are complete, and payload files and
/// dumps that none of them names are removed too. The target of the dumps link stays, and so does
/// every file whose name is not one of a publish.
pub(super) fn remove_stale_files(
    directory: &Path,
    keep: &[&Manifest],
    known: bool,
) -> Result<(), PublishError> {
    let mut first = Ok(());
    // A killed publish may have left the link to dumps that no manifest names.
    let link = directory.join(DumpIndex::LINK);
    let linked = match fs::read_link(&link) {
        Ok(linked) => linked,
        // There is no file of that name, or it is not a link.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            PathBuf::new()
        }
        Err(error) => return Err(at(&link)(error)),
    };
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let name = entry.map_err(at(directory))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_kept = linked == Path::new(name) || keep.iter().any(|manifest| manifest.names(name));
        if is_unfinished(name) || known && is_published(name) && !is_kept {
            let path = directory.join(name);
            // An entry that cannot be removed does not keep the others.
            first = first.and(durable::remove(&path).map_err(at(&path)));
        }
    }
    first
}

/// Returns whether a killed publish may leave a file of this name.
fn is_unfinished(name: &str) -> bool {
    let begun = [
        HISTORY_PREFIX,
        LIVE_PREFIX,
        DumpIndex::LINK,
        Manifest::FILE,
        KnownSources::FILE,
    ];
    let name = name.strip_suffix(TEMP_SUFFIX);
    name.is_some_and(|name| begun.contains(&name))
}

/// Returns whether a name is one that a publish creates: `history-20261121T120500Z-0123abcd.snap`,
/// or that of dumps.
pub(super) fn is_published(name: &str) -> bool {
    const PATTERN: &[u8] = b"00000000T000000Z-xxxxxxxx";
    let payload = name.strip_suffix(PAYLOAD_SUFFIX);
    let stamp = match payload.and_then(|name| name.split_once('-')) {
        Some((HISTORY_PREFIX | LIVE_PREFIX, stamp)) => Some(stamp),
        _ => name
            .strip_prefix(DUMPS_PREFIX)
            .map(|name| name.trim_end_matches(REPEAT_SUFFIX)),
    };
    let matches = |(byte, pattern): (u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        exact => byte == *exact,
    };
    stamp.is_some_and(|stamp| {
        stamp.len() == PATTERN.len() && stamp.bytes().zip(PATTERN).all(matches)
    })
}

/// Opens a published directory and verifies every body and every dump.
pub fn check_published(directory: &Path) -> Result<Snapshot, PublishError> {
    let directory = &Directory::open(directory).map_err(at(directory))?;
    let path = |name: &str| directory.path().join(name);
    let manifest_path = path(Manifest::FILE);
    let manifest = Manifest::read(directory).map_err(at(&manifest_path))?;
    let absent = || io::Error::new(ErrorKind::NotFound, "nothing is published here");
    let manifest = manifest.ok_or_else(|| at(&manifest_path)(absent()))?;
    let mut snapshot = Snapshot::open(directory, 0, &SiteSettings::new(""), None)?;
    if let Some(dumps) = snapshot.dumps.take() {
        let dumps = dumps.map_err(at(directory.path()))?;
        check_dumps(&dumps)?;
        snapshot.dumps = Some(Ok(dumps));
    }
    let history = manifest
        .history
        .map_or_else(String::new, |payload| payload.file);
    snapshot.verify_bodies().map_err(at(&path(&history)))?;
    Ok(snapshot)
}

/// Verifies the SHA-256 of every file of a dump directory against its index.
fn check_dumps(dumps: &DumpDirectory) -> Result<(), PublishError> {
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
        |number, checked| checked.map_err(at(&dumps[number].path())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_publish_are_removed() {
        for ours in [
            "history-20261121T120500Z-0123abcd.snap",
            "live-20261121T120500Z-0123abcd.snap",
            "dumps-20261121T120500Z-0123abcd",
            "dumps-20261121T120500Z-0123abcd-again-again",
        ] {
            assert!(is_published(ours), "{ours}");
        }
        for ours in [
            "history.tmp",
            "live.tmp",
            "dumps.tmp",
            "manifest.json.tmp",
            "sources.json.tmp",
        ] {
            assert!(is_unfinished(ours), "{ours}");
        }
        for other in [
            "core20.snap",
            "history-of-mine.snap",
            "history-20261121T120500Z-0123abcd",
            "dumps-of-mine",
            "dumps-20261121T120500Z-0123abcd-mine",
            "dumps-20261121T120500Z-0123abcg",
            "notes.tmp",
            "dumps",
            ".tmp",
            ".snap",
        ] {
            assert!(!is_published(other) && !is_unfinished(other), "{other}");
        }
    }
}
