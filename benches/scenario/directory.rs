//! Check of a published directory: it has the files named by the manifest, may have those of the
//! manifest before, and has no others.

use std::collections::HashSet;

use island_metrics::regular_file::Directory;
use island_metrics::snapshot::{Dumps, Manifest};

use crate::common::prelude::*;

/// Files that no manifest names.
const ALWAYS: [&str; 4] = [Manifest::FILE, "sources.json", ".lock", Dumps::FOLDER];

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
    let files = |manifest: &Manifest| manifest.files().map(|named| named.file.clone()).collect();
    let (before, now): (Vec<String>, Vec<String>) = (files(before), files(now));
    let always = ALWAYS.map(str::to_owned);
    Ok(unexpected(&names(directory)?, &always, &before, &now))
}

/// The same for the files of the dumps, which takes longer.
pub(crate) fn stray_dumps(
    directory: &Path,
    before: &Manifest,
    now: &Manifest,
) -> Outcome<Vec<String>> {
    let published = Directory::open(directory)?;
    let files = |manifest: &Manifest| -> Outcome<Vec<String>> {
        let Some(named) = &manifest.dumps else {
            return Ok(Vec::new());
        };
        let dumps = Dumps::open(&published, named)?;
        Ok(dumps.files().map(|dump| dump.file.sha256.clone()).collect())
    };
    let present = names(&directory.join(Dumps::FOLDER))?;
    Ok(unexpected(&present, &[], &files(before)?, &files(now)?))
}

fn unexpected(
    present: &[String],
    always: &[String],
    before: &[String],
    now: &[String],
) -> Vec<String> {
    let present: HashSet<&String> = present.iter().collect();
    let wanted: HashSet<&String> = always.iter().chain(now).collect();
    let allowed: HashSet<&String> = wanted.iter().copied().chain(before).collect();
    let missing = wanted
        .difference(&present)
        .map(|name| format!("{name} is missing"));
    let left = present
        .difference(&allowed)
        .map(|name| format!("{name} is left over"));
    missing.chain(left).collect()
}
