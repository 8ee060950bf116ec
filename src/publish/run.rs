//! Entry point of publishing: writes a dataset to a published directory, rendering only the changed
//! parts.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::changes::Changes;
use super::directory::remove_stale_files;
use super::dumps_writer::DumpsWriter;
use super::error::{PublishError, at};
use super::job::PublishJob;
use super::options::{EventSink, PublishEvent, PublishOptions, Published};
use super::sources::{SourceFile, Sources};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Files};
use crate::durable;
use crate::regular_file::Directory;
use crate::snapshot::{DumpIndex, Manifest};

/// Publishes a dataset to a directory. Concurrent publishes to the same directory wait for each other.
pub fn publish(
    files: &Files<'_>,
    options: &PublishOptions<'_>,
    notify: EventSink<'_>,
) -> Result<Published, PublishError> {
    let directory = options.directory;
    // A missing dataset is a mistake of the operator. It is detected first, so that no directory is
    // created.
    DatasetReader::open(files, UnixSeconds::now().day())?;
    durable::create_directory(directory).map_err(at(directory))?;
    let lock = directory.join(durable::LOCK_FILE);
    let _lock = durable::lock_or_notify(directory, || notify(PublishEvent::WaitingForLock))
        .map_err(at(&lock))?;
    let before = before(directory).map_err(at(&directory.join(Manifest::FILE)))?;
    refuse_older(&before, options)?;
    // Frees disk space first: the leftovers of a killed publish may fill most of the disk. Without a
    // manifest they cannot be distinguished from published files.
    if let Err(error) = remove_stale_files(directory, &[&before], before != Manifest::default()) {
        notify(PublishEvent::CleanupFailed(&error));
    }
    let read_since = UnixSeconds::now();
    let source = DatasetReader::open(files, read_since.day())?;
    let changes = Changes::find(&source, &before, options)?;
    let dumps = DumpsWriter::begin(directory, changes.kept_dumps.as_ref(), options.published)?;
    let mut job = PublishJob::new(&source, &changes, &dumps, options, notify);
    let made = job.run()?;
    let totals = job.totals;
    let dumps = dumps.finish(directory, options.credit)?;
    let path = directory.join(Sources::FILE);
    let read = source_files(&source, changes, &totals);
    Sources::new(&made.history.checksum, &dumps.directory, read_since, read)
        .write(directory)
        .map_err(at(&path))?;
    let manifest = Manifest {
        history: Some(made.history),
        live: Some(made.live),
        dumps: Some(dumps),
    };
    commit(directory, &manifest)?;
    notify(PublishEvent::Finished(&made.summary));
    if let Err(error) = link_dumps(directory, &manifest) {
        notify(PublishEvent::CleanupFailed(&error));
    }
    if let Err(error) = remove_stale_files(directory, &[&before, &manifest], true) {
        notify(PublishEvent::CleanupFailed(&error));
    }
    let days = source.days().len();
    Ok(Published {
        manifest,
        islands: made.islands,
        days,
    })
}

/// Reads the manifest that will be replaced. An invalid one counts as none, since publishing again
/// repairs it. An unreadable one is an error, since it may be newer than this publish.
fn before(directory: &Path) -> io::Result<Manifest> {
    match Directory::open(directory).and_then(|opened| Manifest::read(&opened)) {
        Ok(manifest) => Ok(manifest.unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Manifest::default()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Manifest::default()),
        Err(error) => Err(error),
    }
}

fn refuse_older(before: &Manifest, options: &PublishOptions<'_>) -> Result<(), PublishError> {
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

/// Writes the manifest, which makes the files it names current.
fn commit(directory: &Path, manifest: &Manifest) -> Result<(), PublishError> {
    let path = directory.join(Manifest::FILE);
    let mut text = serde_json::to_vec_pretty(manifest).expect("a manifest is text and numbers");
    text.push(b'\n');
    durable::replace(&path, &text).map_err(at(&path))
}

/// Points the dumps link to the latest dumps. It is for other programs; the server uses the manifest.
fn link_dumps(directory: &Path, manifest: &Manifest) -> Result<(), PublishError> {
    let link = directory.join(DumpIndex::LINK);
    let dumps = manifest.dumps.as_ref().map_or("", |dumps| &dumps.directory);
    durable::replace_link(&link, dumps).map_err(at(&link))
}

/// Returns the files for `sources.json`: all that were read, and those that are the same as before.
fn source_files(
    source: &DatasetReader<'_>,
    changes: Changes,
    totals: &BTreeMap<String, u128>,
) -> BTreeMap<String, SourceFile> {
    let mut files = changes.unchanged;
    for (name, sum) in source.sums() {
        let compared = files.get(&name).map(|file| file.checksum);
        if compared.is_some_and(|compared| compared != sum.checksum) {
            // It was written to between comparing and reading, so some of what is published has its
            // old content. Left out of the list, it counts as new in the next publish.
            files.remove(&name);
        } else {
            files.insert(name, SourceFile::new(sum, None));
        }
    }
    for (name, file) in &mut files {
        file.players = totals.get(name).copied();
    }
    files
}
