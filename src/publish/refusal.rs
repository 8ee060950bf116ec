//! Reasons to refuse a publish before any published file is changed. `--force` overrides all of them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Component, Path, PathBuf};

use super::directory::is_published;
use super::options::{PublishError, PublishOptions, in_file};
use super::previous::{Previous, Sources};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{DatasetReader, Files};
use crate::regular_file::Directory;
use crate::snapshot::{Dumps, Manifest};

/// Number of missing days that a message names; more are only counted.
const DAYS_NAMED: usize = 5;

/// Refuses a directory if it, or its folder `dumps`, is the dataset or lies in it, or if it holds a file of another program
/// under a name that a publish replaces.
pub(super) fn refuse_target(
    files: &Files<'_>,
    options: &PublishOptions<'_>,
) -> Result<(), PublishError> {
    if options.force {
        return Ok(());
    }
    let directory = options.directory;
    let refused = |path: &Path, problem| {
        let path = path.display();
        let text = format!("{path}: {problem}; --force publishes there");
        Err(PublishError::Refused(text))
    };
    let folder = directory.join(Dumps::FOLDER);
    if is_within(files, directory)? {
        return refused(directory, "the target must be outside the dataset");
    }
    // A link is replaced, and what it leads to is left alone.
    if !folder.is_symlink() && is_within(files, &folder)? {
        let problem = "the folder of the dumps must be outside the dataset";
        return refused(&folder, problem);
    }
    let problem =
        "the target must be a new, empty or published directory, got a file that no publish wrote";
    let foreign = foreign_file(directory).map_err(in_file(directory))?;
    foreign.map_or(Ok(()), |path| refused(&path, problem))
}

/// Returns whether a directory, which need not exist, is the dataset or lies in it.
fn is_within(files: &Files<'_>, directory: &Path) -> Result<bool, PublishError> {
    let Files::Directory(dataset) = files else {
        return Ok(false);
    };
    // Its folders may be links to other places.
    let folders = ["", "daily", "ccu", "live"].map(|folder| inode(&dataset.join(folder)).ok());
    let target = resolved(directory)?;
    let mut above = target.ancestors();
    Ok(above.any(|above| inode(above).is_ok_and(|inode| folders.contains(&Some(inode)))))
}

/// Returns the absolute path without links and `..`. Components that do not exist are resolved like the
/// directories that will be created.
pub(super) fn resolved(path: &Path) -> Result<PathBuf, PublishError> {
    let step = |mut resolved: PathBuf, component| {
        if component == Component::ParentDir {
            resolved.pop();
        } else {
            resolved.push(component);
        }
        fs::canonicalize(&resolved).unwrap_or(resolved)
    };
    let absolute = path::absolute(path).map_err(in_file(path))?;
    Ok(absolute.components().fold(PathBuf::new(), step))
}

/// Returns the device and inode of a file or directory, which has several paths where it is mounted
/// twice.
pub(super) fn inode(path: &Path) -> Result<(u64, u64), PublishError> {
    let found = fs::metadata(path).map_err(in_file(path))?;
    Ok((found.dev(), found.ino()))
}

/// Finds a file that a publish would replace and no publish wrote. A publish writes its payload before
/// all others, so a directory with a valid manifest or with a payload is a published one, perhaps
/// damaged or incomplete.
fn foreign_file(directory: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut foreign = None;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if is_published(&name) {
            return Ok(None);
        }
        // A directory is never replaced.
        let is_replaced = [Manifest::FILE, Sources::FILE, Dumps::FOLDER].contains(&&*name);
        if is_replaced && !entry.file_type()?.is_dir() {
            foreign = Some(entry.path());
        }
    }
    let manifest = Directory::open(directory).and_then(|opened| Manifest::read(&opened));
    Ok(foreign.filter(|_| !matches!(manifest, Ok(Some(_)))))
}

/// Refuses a timestamp older than that of the published data, and a dataset without a day that is published, in
/// `daily/` or `ccu/`. The days are those of the published dumps, and of the list of files that they were made from:
/// either may be damaged.
pub(super) fn refuse_loss(
    dataset: &DatasetReader<'_>,
    previous: &Previous,
    options: &PublishOptions<'_>,
    time: UnixSeconds,
) -> Result<(), PublishError> {
    if options.force {
        return Ok(());
    }
    let files = previous.manifest.files();
    let latest = files.map(|named| &named.generated_at).max();
    let offered = time.to_string();
    if let Some(published) = latest.filter(|latest| **latest > offered) {
        let given = options.published.map(|_| "--generated-at");
        let subject = given.unwrap_or("the clock of this machine");
        return Err(PublishError::Refused(format!(
            "{subject} must be at least {published}, the time of the published data, got {offered}; \
             --force replaces newer data"
        )));
    }
    let dumps = previous.dump_files().map(|dump| &dump.file.file);
    let names = previous.sources.files.keys().chain(dumps);
    let day = |name: &String| UtcDay::parse(name.split_once('/')?.1.strip_suffix(".csv")?);
    let mut lost: BTreeSet<UtcDay> = names.filter_map(day).collect();
    for held in &dataset.days {
        lost.remove(&held.day);
    }
    if lost.is_empty() {
        return Ok(());
    }
    // A file of a day under another name may be the reason.
    dataset.find_unread_entries()?;
    dataset.finish_checks()?;
    let few = lost.iter().take(DAYS_NAMED).map(UtcDay::to_string);
    let listed = few.collect::<Vec<String>>().join(", ");
    let more = match lost.len().saturating_sub(DAYS_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(PublishError::Refused(format!(
        "the dataset must have all days of the published data, got no file for {listed}{more}; \
         --force publishes without them"
    )))
}
