//! `publish`: from a dataset to a published directory, making only what has changed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::changes::Changes;
use super::directory::sweep;
use super::dumps::DumpsWriter;
use super::error::{PublishError, at};
use super::order::{Event, Options, Published, Tell};
use super::sources::Sources;
use super::work::Work;
use crate::calendar::UnixSeconds;
use crate::dataset::{FileSum, Files, Source};
use crate::durable;
use crate::snapshot::{DumpIndex, Manifest};

/// Publishes a dataset to a directory. Two at once wait for each other.
pub fn publish(
    files: &Files<'_>,
    options: &Options<'_>,
    tell: Tell<'_>,
) -> Result<Published, PublishError> {
    let directory = options.directory;
    // A dataset that is not there is a slip, and leaves no directory made for nothing.
    Source::open(files)?;
    durable::create_directory(directory).map_err(at(directory))?;
    let _lock = durable::lock_telling(directory, || tell(Event::Waiting)).map_err(at(directory))?;
    let before = before(directory).map_err(at(&directory.join(Manifest::FILE)))?;
    refuse_older(&before, options)?;
    // Room first: what a killed publish has left may be most of the disk.
    if let Err(error) = sweep(directory, &[&before]) {
        tell(Event::LeftBehind(&error));
    }
    let read_since = UnixSeconds::now();
    let source = Source::open(files)?;
    let changes = Changes::find(&source, &before, options)?;
    let dumps = DumpsWriter::begin(directory, changes.kept_dumps.as_ref(), options.published)?;
    let mut work = Work::new(&source, &changes, &dumps, options, tell);
    let (history, live, islands) = work.publish()?;
    let totals = work.totals;
    let dumps = dumps.finish(directory, options.credit)?;
    let path = directory.join(Sources::FILE);
    let sums = sums(&source, &changes, &totals);
    Sources::new(&history.checksum, &dumps.directory, sums, read_since)
        .write(directory)
        .map_err(at(&path))?;
    let manifest = Manifest {
        history: Some(history),
        live: Some(live),
        dumps: Some(dumps),
    };
    commit(directory, &manifest)?;
    if let Err(error) = sweep(directory, &[&before, &manifest]) {
        tell(Event::LeftBehind(&error));
    }
    let days = source.days().len();
    Ok(Published {
        manifest,
        islands,
        days,
    })
}

/// The manifest that is to be replaced. One that says nothing sensible counts as none: publishing
/// again is its cure. One that cannot be read now may be newer than what is offered.
fn before(directory: &Path) -> io::Result<Manifest> {
    match Manifest::read(directory) {
        Ok(manifest) => Ok(manifest.unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Manifest::default()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Manifest::default()),
        Err(error) => Err(error),
    }
}

fn refuse_older(before: &Manifest, options: &Options<'_>) -> Result<(), PublishError> {
    let payloads = [&before.history, &before.live].into_iter().flatten();
    let newest = payloads.map(|payload| &payload.generated_at).max();
    let offered = options.published.to_string();
    match newest.filter(|newest| !options.force && **newest > offered) {
        Some(newest) => Err(PublishError::Older {
            published: newest.clone(),
            offered,
        }),
        None => Ok(()),
    }
}

/// Puts the manifest in place, and with it all that it names.
fn commit(directory: &Path, manifest: &Manifest) -> Result<(), PublishError> {
    let path = directory.join(Manifest::FILE);
    let mut text = serde_json::to_vec_pretty(manifest).expect("a manifest is text and numbers");
    text.push(b'\n');
    durable::replace(&path, &text).map_err(at(&path))?;
    // The link is for people: a server goes by the manifest.
    let link = directory.join(DumpIndex::LINK);
    let dumps = manifest.dumps.as_ref().map_or("", |dumps| &dumps.directory);
    durable::replace_link(&link, dumps).map_err(at(&link))
}

/// What the next publish has to know of each file: all that were read, and those that are the same.
fn sums(
    source: &Source<'_>,
    changes: &Changes,
    totals: &BTreeMap<String, u128>,
) -> Vec<(FileSum, Option<u128>)> {
    let same = changes.all_unchanged().map(|same| same.sum.clone());
    let read = source.sums().into_iter();
    // A file may be written to while this goes on. A history that is kept is made of what was compared,
    // and one that was rendered of what was read.
    let sums: Vec<FileSum> = if changes.kept_history.is_some() {
        read.chain(same).collect()
    } else {
        same.chain(read).collect()
    };
    let sums: BTreeMap<String, FileSum> = sums
        .into_iter()
        .map(|sum| (sum.name.clone(), sum))
        .collect();
    let sums = sums.into_values();
    sums.map(|sum| {
        let total = totals.get(&sum.name).copied();
        (sum, total)
    })
    .collect()
}
