//! Entry point of publishing: the steps from a dataset to a published directory.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use super::directory::{HISTORY, INDEX, LIVE, create_dumps_folder, remove_stale_files, write_file};
use super::dumps_writer::DumpsWriter;
use super::history_input::HistoryInput;
use super::options::{EventSink, PublishEvent, PublishOptions, Published};
use super::options::{PublishError, at};
use super::plan::Plan;
use super::previous::Previous;
use super::refusal::{inode, refuse_loss, refuse_target};
use super::sources::Sources;
use super::tables::Tables;
use super::{history_payload, live_payload};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Files};
use crate::durable;
use crate::snapshot::{Dumps, Identity, Manifest, SnapshotError};

/// Publishes a dataset to a directory. Concurrent publishes to the same directory wait for each
/// other.
pub fn publish(
    files: &Files<'_>,
    options: &PublishOptions<'_>,
    notify: EventSink<'_>,
) -> Result<Published, PublishError> {
    let directory = options.directory;
    // A missing dataset is a mistake of the operator. It is detected first, so that no directory is
    // created.
    DatasetReader::open(files, UnixSeconds::now().day())?;
    refuse_target(files, options)?;
    durable::create_directory(directory).map_err(at(directory))?;
    let lock = durable::lock(directory, None);
    let _lock = lock.map_err(at(&directory.join(durable::LOCK_FILE)))?;
    let previous = Previous::read(directory)?;
    let _dataset_lock = lock_dataset(files, directory)?;
    let mut dataset = DatasetReader::open(files, UnixSeconds::now().day())?;
    dataset.strict = options.strict;
    let refused = refuse_loss(&dataset, &previous, options);
    refused.inspect_err(|_| notify(PublishEvent::Warnings(&dataset.take_warnings())))?;
    let plan = Plan::new(&dataset, &previous, options)?;
    create_dumps_folder(directory)?;
    // Frees disk space first: the leftovers of a killed publish may fill most of the disk. Without
    // a manifest they cannot be distinguished from published files.
    let mut kept = previous.names();
    report_failure(remove_stale_files(directory, kept.as_ref()), notify);
    let published = publish_changes(&dataset, &previous, plan, options, notify);
    match &published {
        Ok(_) if kept.is_some() => return published,
        Ok(_) => kept = Previous::read(directory)?.names(),
        Err(error) if error.is_unpublished() => {}
        Err(_) => return published,
    }
    report_failure(remove_stale_files(directory, kept.as_ref()), notify);
    published
}

/// Locks the dataset against a collector, which replaces several files together. With `--force` the
/// dataset may be the published directory, which is locked already.
fn lock_dataset(files: &Files<'_>, published: &Path) -> Result<Option<File>, PublishError> {
    let Files::Directory(dataset) = files else {
        return Ok(None);
    };
    let is_locked = inode(dataset)? == inode(published)?;
    Ok((!is_locked)
        .then(|| durable::lock_shared(dataset))
        .flatten())
}

/// Reports a failure that does not fail the publish.
fn report_failure(result: Result<(), PublishError>, notify: EventSink<'_>) {
    if let Err(error) = result {
        notify(PublishEvent::CleanupFailed(&error));
    }
}

/// Renders what has changed since the previous publish, writes the files, and writes the manifest, which makes
/// them current.
fn publish_changes(
    dataset: &DatasetReader<'_>,
    previous: &Previous,
    plan: Plan,
    options: &PublishOptions<'_>,
    notify: EventSink<'_>,
) -> Result<Published, PublishError> {
    let (directory, published) = (options.directory, options.published);
    let folder = Some(directory.join(Dumps::FOLDER));
    let dumps = DumpsWriter::new(folder, (&plan, previous.dumps.as_ref()), published);
    let tables = Tables {
        dataset,
        plan: &plan,
        dumps: &dumps,
        notify,
    };
    let read = tables.read();
    let warnings = dataset.take_warnings();
    notify(PublishEvent::Warnings(&warnings));
    let (catalogue, days, live_input) = read?;
    let index = dumps.finish(options.credit)?;
    let history = match &plan.kept_history {
        Some(history) => history.clone(),
        None => write_file(options, HISTORY, |out| {
            let input = HistoryInput::new(&catalogue, days, published);
            history_payload::write(&input, out, &mut |done, all| {
                let what = "rendering bodies";
                notify(PublishEvent::Progress { what, done, all });
            })
        })?,
    };
    let live = write_file(options, LIVE, |out| {
        live_payload::write(&catalogue.islands, &live_input, published, out)
    })?;
    let dumps = write_file(options, INDEX, |out| {
        out.write_all(&index)?;
        Ok(Identity {
            bytes: index.len() as u64,
            checksum: crc32fast::hash(&index),
            published,
        })
    })?;
    let manifest = Manifest {
        history: Some(history),
        live: Some(live),
        dumps: Some(dumps),
    };
    let summary = plan.summary.clone();
    let sources = plan.into_sources(dataset, manifest.clone(), (&live_input, &warnings));
    let written = sources.write(directory);
    written.map_err(at(&directory.join(Sources::FILE)))?;
    let path = directory.join(Manifest::FILE);
    let mut text = serde_json::to_vec_pretty(&manifest).expect("a manifest is text and numbers");
    text.push(b'\n');
    notify(PublishEvent::Committing);
    durable::replace(&path, &text).map_err(|error| {
        let error = SnapshotError::from(error).in_file(&path);
        // The file may have been renamed, and the directory not have been synced.
        match Manifest::read(&previous.directory) {
            Ok(current) if current.as_ref() != Some(&manifest) => PublishError::Published(error),
            _ => PublishError::Uncertain(error),
        }
    })?;
    notify(PublishEvent::Finished(&summary));
    Ok(Published {
        manifest,
        islands: catalogue.islands.len(),
        days: dataset.days.len(),
    })
}
