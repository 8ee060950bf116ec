//! Check of a published directory: it has the files named by the manifest, may have those of the
//! manifest before, and has no others.

use std::fs;
use std::io;
use std::path::Path;

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::{DumpDirectory, DumpIndex, Manifest};

use crate::common::Outcome;

/// Files that no manifest names.
const ALWAYS: [&str; 4] = [Manifest::FILE, "sources.json", ".lock", DumpIndex::LINK];

/// The sorted names of a directory's entries.
pub(crate) fn names(directory: &Path) -> Outcome<Vec<String>> {
    let entries = fs::read_dir(directory)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Unexpected and missing entries.
pub(crate) fn strays(directory: &Path, before: &Manifest, now: &Manifest) -> Outcome<Vec<String>> {
    let present = names(directory)?;
    let dumps = now.dumps.as_ref().map(|dumps| dumps.directory.as_str());
    let payloads = now.payloads().map(|payload| payload.file.as_str());
    let expected = ALWAYS.into_iter().chain(payloads).chain(dumps);
    let missing = expected.filter(|name| !present.iter().any(|present| present == name));
    let mut found: Vec<String> = missing.map(|name| format!("{name} is missing")).collect();
    for name in &present {
        if !before.names(name) && !now.names(name) && !ALWAYS.contains(&name.as_str()) {
            found.push(format!("{name} is left over"));
        }
    }
    let link = fs::read_link(directory.join(DumpIndex::LINK))?;
    if link.to_str() != dumps {
        found.push(format!("the link points to {}", link.display()));
    }
    Ok(found)
}

/// The same for the files of both dumps, which takes longer.
pub(crate) fn stray_dumps(
    directory: &Path,
    before: &Manifest,
    now: &Manifest,
) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for dumps in [&before.dumps, &now.dumps].into_iter().flatten() {
        let root = directory.join(&dumps.directory);
        let opened = DumpDirectory::open(&Directory::open(directory)?, dumps)?;
        let mut named: Vec<String> = opened.files().map(|dump| dump.file.file.clone()).collect();
        named.push(DumpIndex::FILE.to_owned());
        let mut present = Vec::new();
        for folder in ["", "daily/", "ccu/", "live/"] {
            let inside = names(&root.join(folder))?.into_iter();
            present.extend(inside.map(|name| format!("{folder}{name}")));
        }
        present.retain(|name| !root.join(name).is_dir());
        named.sort();
        present.sort();
        if named != present {
            let (named, present) = (named.len(), present.len());
            let dumps = &dumps.directory;
            found.push(format!(
                "{dumps} names {named} files and has {present}, not the same"
            ));
        }
    }
    Ok(found)
}
