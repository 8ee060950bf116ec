//! Check of a published directory: it has the files named by the manifest, may have those of the
//! manifest before, and has no others.

use std::fs;
use std::path::Path;

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::{DumpDirectory, DumpIndex, Manifest};

use crate::common::Outcome;

/// Files that no manifest names.
const ALWAYS: [&str; 4] = [Manifest::FILE, "sources.json", ".lock", DumpIndex::LINK];

/// Unexpected and missing entries.
pub(crate) fn strays(directory: &Path, before: &Manifest, now: &Manifest) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let mut present = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let named = before.names(&name) || now.names(&name);
        if !named && !ALWAYS.contains(&name.as_str()) {
            found.push(format!("{name} is left over"));
        }
        present.push(name);
    }
    let payloads = [&now.history, &now.live].into_iter().flatten();
    let dumps = now.dumps.as_ref().map(|dumps| dumps.directory.as_str());
    let named = payloads.map(|payload| payload.file.as_str()).chain(dumps);
    for name in ALWAYS.into_iter().chain(named) {
        if !present.iter().any(|present| present == name) {
            found.push(format!("{name} is missing"));
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
            for entry in fs::read_dir(root.join(folder))? {
                let entry = entry?;
                if !entry.file_type()?.is_dir() {
                    present.push(format!("{folder}{}", entry.file_name().display()));
                }
            }
        }
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
