//! Entry point of publishing: the steps from a dataset to a published directory.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::Path;

use super::changes::{Changes, KnownSources};
use super::directory::{HISTORY_PREFIX, LIVE_PREFIX, PAYLOAD_SUFFIX, remove_stale_files};
use super::dumps_writer::DumpsWriter;
use super::history_input::HistoryInput;
use super::options::{EventSink, PublishEvent, PublishOptions, Published};
use super::options::{PublishError, at};
use super::refusal::{inode, refuse_fewer_days, refuse_older, refuse_target};
use super::tables::Tables;
use super::{history_payload, live_payload};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Files};
use crate::durable::{self, AtomicFile, TEMP_SUFFIX};
use crate::regular_file::Directory;
use crate::snapshot::{DumpIndex, Identity, Manifest, Payload, SnapshotError};

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
    let opened =
        Directory::open(directory).and_then(|opened| Ok((previous_manifest(&opened)?, opened)));
    let (before, opened) = opened.map_err(at(&directory.join(Manifest::FILE)))?;
    let _dataset_lock = lock_dataset(files, directory)?;
    let dataset = DatasetReader::open(files, UnixSeconds::now().day())?;
    if let Some(warnings) = dataset.warnings(options.strict)? {
        notify(PublishEvent::Warnings(&warnings));
    }
    refuse_older(&before, options)?;
    refuse_fewer_days(&dataset, (&opened, &before), options)?;
    // Frees disk space first: the leftovers of a killed publish may fill most of the disk. Without
    // a manifest they cannot be distinguished from published files.
    let is_known = before != Manifest::default();
    let swept = remove_stale_files(directory, &[&before], is_known);
    report_failure(swept, notify);
    let published = publish_changes(&dataset, (&opened, &before), options, notify)?;
    report_failure(link_dumps(directory, &published.manifest), notify);
    let swept = remove_stale_files(directory, &[&before, &published.manifest], true);
    report_failure(swept, notify);
    Ok(published)
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

/// Renders what has changed since `before`, writes the files, and writes the manifest, which makes
/// them current.
fn publish_changes(
    dataset: &DatasetReader<'_>,
    (opened, before): (&Directory, &Manifest),
    options: &PublishOptions<'_>,
    notify: EventSink<'_>,
) -> Result<Published, PublishError> {
    let (directory, published) = (options.directory, options.published);
    let read_since = UnixSeconds::now();
    let changes = Changes::find(dataset, (opened, before), options)?;
    let mut dumps = DumpsWriter::begin(opened, changes.kept_dumps.as_ref(), published)?;
    let mut tables = Tables {
        dataset,
        changes: &changes,
        dumps: &mut dumps,
        notify,
    };
    let catalogue = tables.catalogue()?;
    let days = tables.days(&catalogue)?;
    let live_input = tables.live(&catalogue)?;
    dataset.finish_checks()?;
    let history = match &changes.kept_history {
        Some(history) => history.clone(),
        None => write_payload(options, HISTORY_PREFIX, |out| {
            let input = HistoryInput::new(&catalogue, days, published);
            history_payload::write(&input, out, &mut |done, all| {
                let what = "rendering bodies";
                notify(PublishEvent::Progress { what, done, all });
            })
        })?,
    };
    let live = write_payload(options, LIVE_PREFIX, |out| {
        live_payload::write(&catalogue.islands, &live_input, published, out)
    })?;
    let (kept, tables) = dumps.kept();
    let summary = format!("{}; dumps: {kept} of {tables} tables kept", changes.summary);
    let dumps = dumps.finish(directory, options.credit)?;
    let sources = directory.join(KnownSources::FILE);
    changes
        .into_sources(dataset, (&history, &dumps), read_since, &live_input.totals)
        .write(directory)
        .map_err(at(&sources))?;
    let manifest = Manifest {
        history: Some(history),
        live: Some(live),
        dumps: Some(dumps),
    };
    let path = directory.join(Manifest::FILE);
    let mut text = serde_json::to_vec_pretty(&manifest).expect("a manifest is text and numbers");
    text.push(b'\n');
    notify(PublishEvent::Committing);
    durable::replace(&path, &text).map_err(|error| {
        let error = SnapshotError::from(error).in_file(&path);
        // The file may have been renamed, and the directory not have been synced.
        match Manifest::read(opened) {
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

/// Reads the manifest that will be replaced. An invalid one counts as none, since publishing again
/// repairs it. An unreadable one is an error, since it may be newer than this publish.
fn previous_manifest(directory: &Directory) -> io::Result<Manifest> {
    match Manifest::read(directory) {
        Ok(manifest) => Ok(manifest.unwrap_or_default()),
        Err(error) => match error.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => Ok(Manifest::default()),
            _ => Err(error),
        },
    }
}

/// Writes a payload file. Returns its entry for the manifest.
fn write_payload(
    options: &PublishOptions<'_>,
    prefix: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<Identity>,
) -> Result<Payload, PublishError> {
    let (directory, published) = (options.directory, options.published);
    let unfinished = directory.join(format!("{prefix}{TEMP_SUFFIX}"));
    let mut payload = AtomicFile::create(directory, prefix).map_err(at(&unfinished))?;
    let written = write(&mut payload.out).map_err(at(&unfinished))?;
    let checksum = format!("{:08x}", written.checksum);
    let file = format!(
        "{prefix}-{}-{checksum}{PAYLOAD_SUFFIX}",
        published.compact()
    );
    let path = directory.join(&file);
    payload.commit(&path).map_err(at(&path))?;
    Ok(Payload {
        file,
        bytes: written.bytes,
        checksum,
        generated_at: published.to_string(),
    })
}

/// Points the dumps link to the latest dumps. It is for other programs; the server uses the
/// manifest.
fn link_dumps(directory: &Path, manifest: &Manifest) -> Result<(), PublishError> {
    let link = directory.join(DumpIndex::LINK);
    let dumps = manifest.dumps.as_ref().map_or("", |dumps| &dumps.directory);
    durable::replace_link(&link, dumps).map_err(at(&link))
}
