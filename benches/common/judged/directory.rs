//! What a published directory may hold: what its manifest and the one before it name, and no more.

use std::fs;
use std::path::Path;

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::{DumpIndex, Manifest};

use crate::common::Outcome;

/// Held beside what manifests name.
const ALWAYS: [&str; 4] = [Manifest::FILE, "sources.json", ".lock", DumpIndex::LINK];

/// What is there and should not be, or should be there and is not.
pub(crate) fn strays(directory: &Path, before: &Manifest, now: &Manifest) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let mut held = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let named = before.names(&name) || now.names(&name);
        if !named && !ALWAYS.contains(&name.as_str()) {
            found.push(format!("{name} is there"));
        }
        held.push(name);
    }
    let payloads = [&now.history, &now.live].into_iter().flatten();
    let dumps = now.dumps.as_ref().map(|dumps| dumps.directory.as_str());
    let named = payloads.map(|payload| payload.file.as_str()).chain(dumps);
    for name in ALWAYS.into_iter().chain(named) {
        if !held.iter().any(|held| held == name) {
            found.push(format!("{name} is not there"));
        }
    }
    let link = fs::read_link(directory.join(DumpIndex::LINK))?;
    if link.to_str() != dumps {
        found.push(format!("the link leads to {}", link.display()));
    }
    Ok(found)
}

/// The same of the files of both dumps, which is more to read.
pub(crate) fn stray_dumps(
    directory: &Path,
    before: &Manifest,
    now: &Manifest,
) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for dumps in [&before.dumps, &now.dumps].into_iter().flatten() {
        let root = directory.join(&dumps.directory);
        let index = DumpIndex::read(&Directory::open(&root)?, dumps)?;
        let mut named: Vec<String> = index.files.into_iter().map(|file| file.file).collect();
        named.push(DumpIndex::FILE.to_owned());
        let mut held = Vec::new();
        for folder in ["", "daily/", "ccu/", "live/"] {
            for entry in fs::read_dir(root.join(folder))? {
                let entry = entry?;
                if !entry.file_type()?.is_dir() {
                    held.push(format!("{folder}{}", entry.file_name().display()));
                }
            }
        }
        named.sort();
        held.sort();
        if named != held {
            let (named, held) = (named.len(), held.len());
            let dumps = &dumps.directory;
            found.push(format!(
                "{dumps} names {named} files and has {held}, or others"
            ));
        }
    }
    Ok(found)
}
