//! Entry point of publishing: the steps from a dataset to a published directory.

use std::io::Write as _;

use zlib_rs::crc32::crc32;

use super::directory::{
    HISTORY, INDEX, LIVE, create_dumps_folder, created_files, remove_stale_files, write_file,
};
use super::dumps_writer::DumpsWriter;
use super::history_input::HistoryInput;
use super::options::{EventSink, PublishEvent, PublishOptions, Published};
use super::options::{PublishError, in_file};
use super::plan::Plan;
use super::previous::{Previous, Sources};
use super::refusal::{inode, refuse_loss, refuse_target, resolved};
use super::{history_payload, live_payload, tables};
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
    // A missing dataset is a mistake of the operator. It is detected first, so that no directory is
    // created.
    DatasetReader::open(files, UnixSeconds::now().day())?;
    // Once: a link that is changed during the publish must not mix two directories.
    let directory = &*resolved(options.directory)?;
    let options = &PublishOptions {
        directory,
        ..*options
    };
    let mut files = files.clone();
    if let Files::Directory(dataset) = &mut files {
        *dataset = resolved(dataset)?;
    }
    let files = &files;
    refuse_target(files, options)?;
    durable::create_directory(directory).map_err(in_file(directory))?;
    let lock = durable::lock(directory, None);
    let _lock = lock.map_err(in_file(&directory.join(durable::LOCK_FILE)))?;
    let previous = Previous::read(directory)?;
    let _dataset_lock = match files {
        // A collector replaces several files together. With `--force` the dataset may be the published directory,
        // which is locked already.
        Files::Directory(dataset) if inode(dataset)? != inode(directory)? => {
            durable::lock_shared(dataset)
        }
        _ => None,
    };
    let mut dataset = DatasetReader::open(files, UnixSeconds::now().day())?;
    dataset.strict = options.strict;
    let time = options.published.unwrap_or_else(UnixSeconds::now);
    let refused = refuse_loss(&dataset, &previous, options, time);
    refused.inspect_err(|_| notify(PublishEvent::Warnings(&dataset.take_warnings())))?;
    // The folder comes first: dumps behind a link cannot be kept.
    create_dumps_folder(directory)?;
    let plan = Plan::new(&dataset, &previous, options)?;
    // Frees disk space first: the leftovers of a killed publish may fill most of the disk. Without
    // a manifest they cannot be distinguished from published files.
    let kept = previous.names();
    // A failure does not fail the publish.
    let removed = remove_stale_files(directory, kept.as_ref());
    removed.unwrap_or_else(|error| notify(PublishEvent::CleanupFailed(&error)));
    let existing = created_files(directory);
    let published = publish_changes(&dataset, &previous, plan, (options, time), notify);
    let kept = match &published {
        // What was there stays: also files of a publish that was killed, with which the directory counts as a published
        // one.
        Err(error) if error.is_unpublished() => existing.ok(),
        Ok(_) if kept.is_none() => Previous::read(directory).ok().and_then(|now| now.names()),
        // Readers may have opened the previous manifest, or a crash may bring it back.
        _ => return published,
    };
    let removed = remove_stale_files(directory, kept.as_ref());
    removed.unwrap_or_else(|error| notify(PublishEvent::CleanupFailed(&error)));
    published
}

/// Renders what has changed since the previous publish, writes the files, and writes the manifest, which makes
/// them current.
fn publish_changes(
    dataset: &DatasetReader<'_>,
    previous: &Previous,
    plan: Plan,
    (options, published): (&PublishOptions<'_>, UnixSeconds),
    notify: EventSink<'_>,
) -> Result<Published, PublishError> {
    let directory = options.directory;
    let target = (directory, published);
    let folder = Some(directory.join(Dumps::FOLDER));
    let dumps = DumpsWriter::new(folder, (&plan, previous.dumps.as_ref()), published);
    let notice = dataset.notice()?;
    let tables = tables::read(dataset, &dumps, notify);
    let warnings = dataset.take_warnings();
    notify(PublishEvent::Warnings(&warnings));
    let tables = tables?;
    plan.expect_unreplaced(dataset)?;
    let (index, _) = dumps.finish((options.credit, notice.as_deref()))?;
    let index = index.to_json().map_err(PublishError::Refused)?;
    let history = match &plan.kept_history {
        Some(history) => history.clone(),
        None => write_file(target, HISTORY, |out| {
            let input = HistoryInput::new(&tables.catalogue, tables.days, published);
            history_payload::write(&input, out, &mut |done, all| {
                let what = "rendering bodies";
                notify(PublishEvent::Progress { what, done, all });
            })
        })?,
    };
    let islands = &tables.catalogue.islands;
    let live = write_file(target, LIVE, |out| {
        live_payload::write(islands, &tables.live, published, out)
    })?;
    let dumps = write_file(target, INDEX, |out| {
        out.write_all(&index)?;
        let (bytes, checksum) = (index.len() as u64, crc32(0, &index));
        Ok(Identity {
            bytes,
            checksum,
            published,
        })
    })?;
    let manifest = Manifest {
        history: Some(history),
        live: Some(live),
        dumps: Some(dumps),
    };
    let summary = plan.summary.clone();
    let sources = plan.into_sources(dataset, manifest.clone(), (&tables.live, &warnings));
    let path = directory.join(Sources::FILE);
    let text = serde_json::to_vec(&sources).expect("a list is text and numbers");
    durable::replace(&path, &text).map_err(in_file(&path))?;
    let path = directory.join(Manifest::FILE);
    let mut text = serde_json::to_vec_pretty(&manifest).expect("a manifest is text and numbers");
    text.push(b'\n');
    durable::replace(&path, &text).map_err(|error| {
        let error = SnapshotError::from(error).in_file(&path);
        // The file may have been renamed, and the directory not have been synced.
        match Manifest::read(&previous.directory) {
            Ok(current) if current.as_ref() != Some(&manifest) => PublishError::Published(error),
            _ => PublishError::Uncertain(error),
        }
    })?;
    Ok(Published {
        time: published,
        manifest,
        islands: islands.len(),
        days: dataset.days.len(),
        summary,
    })
}
