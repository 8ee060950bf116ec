//! The published directory: its layout, the files that a manifest names, and the removal of stale ones.
//!
//! ```text
//! manifest.json                   names the payload files and the index of the dumps; renamed last
//! history-TIME-CHECKSUM.snap      islands, creators, rankings, new islands
//! live-TIME-CHECKSUM.snap         current players and the intraday curve
//! dumps-TIME-CHECKSUM.json        names the files for download
//! dumps/SHA256                    these files
//! sources.json                    the input files, for change detection in the next publish
//! ```
//! Every file is written under another name, synced and renamed. The files of the previous manifest
//! stay until the next publish, for readers that opened it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

use super::options::{PublishError, in_file};
use super::previous::Sources;
use crate::calendar::UnixSeconds;
use crate::durable::{self, AtomicFile, TEMP_SUFFIX};
use crate::snapshot::{Dumps, Identity, Manifest, Payload};

/// Prefix and suffix of the name of a file that the manifest names.
type Kind = (&'static str, &'static str);

pub(super) const HISTORY: Kind = ("history", ".snap");
pub(super) const LIVE: Kind = ("live", ".snap");
/// The index of the dumps.
pub(super) const INDEX: Kind = ("dumps", ".json");

/// Creates the folder of the dumps. A link in its place is replaced, since servers follow none.
pub(super) fn create_dumps_folder(directory: &Path) -> Result<(), PublishError> {
    let folder = directory.join(Dumps::FOLDER);
    let found = folder.symlink_metadata();
    // What cannot be looked up may be the folder, with all files in it.
    if found.is_ok_and(|found| !found.is_dir()) {
        durable::remove(&folder).map_err(in_file(&folder))?;
    }
    durable::create_directory(&folder).map_err(in_file(&folder))
}

/// Writes a file that the manifest names. Returns its entry.
pub(super) fn write_file(
    (directory, published): (&Path, UnixSeconds),
    (prefix, suffix): Kind,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<Identity>,
) -> Result<Payload, PublishError> {
    let unfinished = directory.join(format!("{prefix}{TEMP_SUFFIX}"));
    let mut file = AtomicFile::create(directory, prefix).map_err(in_file(&unfinished))?;
    let written = write(&mut file.out).map_err(in_file(&unfinished))?;
    let checksum = format!("{:08x}", written.checksum);
    let name = format!("{prefix}-{}-{checksum}{suffix}", published.compact());
    let path = directory.join(&name);
    file.commit(&path).map_err(in_file(&path))?;
    Ok(Payload {
        file: name,
        bytes: written.bytes,
        checksum,
        generated_at: published.to_string(),
    })
}

/// Removes unfinished files, and those that a publish created and whose names are not in `kept`; with `None`, which
/// names are current is not known. Every other file stays.
pub(super) fn remove_stale_files(
    directory: &Path,
    kept: Option<&HashSet<String>>,
) -> Result<(), PublishError> {
    let mut first = Ok(());
    for name in created_files(directory)? {
        if is_unfinished(&name) || kept.is_some_and(|kept| !kept.contains(&name)) {
            let path = directory.join(&name);
            // An entry that cannot be removed does not keep the others.
            first = first.and(durable::remove(&path).map_err(in_file(&path)));
        }
    }
    first
}

/// Returns the names of all files that publishes have created, finished or not, but for the manifest.
pub(super) fn created_files(directory: &Path) -> Result<HashSet<String>, PublishError> {
    let mut names = HashSet::new();
    for prefix in [String::new(), format!("{}/", Dumps::FOLDER)] {
        let folder = directory.join(&prefix);
        for entry in fs::read_dir(&folder).map_err(in_file(&folder))? {
            let name = entry.map_err(in_file(&folder))?.file_name();
            let name = name.to_str().map(|name| format!("{prefix}{name}"));
            let is_created =
                |name: &String| name == Sources::FILE || is_unfinished(name) || is_published(name);
            names.extend(name.filter(is_created));
        }
    }
    Ok(names)
}

/// Returns whether a killed publish may leave a file of this name.
fn is_unfinished(name: &str) -> bool {
    let begun = [HISTORY.0, LIVE.0, INDEX.0, Manifest::FILE, Sources::FILE];
    let name = name.strip_suffix(TEMP_SUFFIX);
    name.is_some_and(|name| {
        begun.contains(&name) || Path::new(name).parent() == Some(Dumps::FOLDER.as_ref())
    })
}

/// Returns whether a name is one that a publish creates. In the patterns, `0` is a digit and `x` a hexadecimal one.
pub(super) fn is_published(name: &str) -> bool {
    const STAMP: &str = "00000000T000000Z-xxxxxxxx";
    let matches = |pattern: &str| {
        let matches = |(byte, pattern): (u8, u8)| match pattern {
            b'0' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_hexdigit(),
            exact => byte == exact,
        };
        name.len() == pattern.len() && name.bytes().zip(pattern.bytes()).all(matches)
    };
    let payload = |(prefix, suffix): Kind| matches(&format!("{prefix}-{STAMP}{suffix}"));
    [HISTORY, LIVE, INDEX].into_iter().any(payload)
        || matches(&format!("{}/{}", Dumps::FOLDER, "x".repeat(64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_publish_are_removed() {
        for ours in [
            "history-20261121T120500Z-0123abcd.snap",
            "live-20261121T120500Z-0123abcd.snap",
            "dumps-20261121T120500Z-0123abcd.json",
            &format!("dumps/{}", "0a".repeat(32)),
        ] {
            assert!(is_published(ours), "{ours}");
        }
        for ours in [
            "history.tmp",
            "live.tmp",
            "dumps.tmp",
            "dumps/daily-2026-11-20.csv.tmp",
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
            "dumps-20261121T120500Z-0123abcd",
            "dumps-20261121T120500Z-0123abcd-mine",
            "dumps-20261121T120500Z-0123abcg",
            "notes.tmp",
            "dumps",
            "dumps/mine",
            &format!("dumps/{}", "0a".repeat(33)),
            &"0a".repeat(32),
            ".tmp",
            ".snap",
        ] {
            assert!(!is_published(other) && !is_unfinished(other), "{other}");
        }
    }
}
