//! Entry point of publishing: the steps from a dataset to a published directory.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::Path;
use std::time::Duration;

use super::changes::{Changes, KnownSources};
use super::directory::{HISTORY_PREFIX, LIVE_PREFIX, PAYLOAD_SUFFIX, remove_stale_files};
use super::dumps_writer::DumpsWriter;
use super::history_input::HistoryInput;
use super::options::{EventSink, PublishEvent, PublishOptions, Published};
use super::options::{PublishError, at};
use super::tables::Tables;
use super::{history_payload, live_payload};
use crate::calendar::UnixSeconds;
use crate::dataset::{DatasetReader, Files};
use crate::durable::{self, AtomicFile, TEMP_SUFFIX};
use crate::regular_file::Directory;
use crate::snapshot::{DumpIndex, Identity, Manifest, Payload};

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
    durable::create_directory(directory).map_err(at(directory))?;
    let _lock = match durable::lock(directory, Some(Duration::ZERO)) {
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            notify(PublishEvent::WaitingForLock);
            durable::lock(directory, None)
        }
        lock => lock,
    }
    .map_err(at(&directory.join(durable::LOCK_FILE)))?;
    let opened =
        Directory::open(directory).and_then(|opened| Ok((previous_manifest(&opened)?, opened)));
    let (before, opened) = opened.map_err(at(&directory.join(Manifest::FILE)))?;
    refuse_older(&before, options)?;
    // Frees disk space first: the leftovers of a killed publish may fill most of the disk. Without
    // a manifest they cannot be distinguished from published files.
    let is_known = before != Manifest::default();
    let swept = remove_stale_files(directory, &[&before], is_known);
    report_failure(swept, notify);
    let published = publish_changes(files, (&opened, &before), options, notify)?;
    report_failure(link_dumps(directory, &published.manifest), notify);
    let swept = remove_stale_files(directory, &[&before, &published.manifest], true);
    report_failure(swept, notify);
    Ok(published)
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
    files: &Files<'_>,
    (opened, before): (&Directory, &Manifest),
    options: &PublishOptions<'_>,
    notify: EventSink<'_>,
) -> Result<Published, PublishError> {
    let (directory, published) = (options.directory, options.published);
    let read_since = UnixSeconds::now();
    let dataset = DatasetReader::open(files, read_since.day())?;
    let changes = Changes::find(&dataset, (opened, before), options)?;
    let mut dumps = DumpsWriter::begin(opened, changes.kept_dumps.as_ref(), published)?;
    let mut tables = Tables {
        dataset: &dataset,
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
        .into_sources(&dataset, (&history, &dumps), read_since, &live_input.totals)
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
    durable::replace(&path, &text).map_err(at(&path))?;
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

fn refuse_older(before: &Manifest, options: &PublishOptions<'_>) -> Result<(), PublishError> {
    let latest = before.payloads().map(|payload| &payload.generated_at);
    let latest = latest.max();
    let offered = options.published.to_string();
    match latest.filter(|latest| !options.force && **latest > offered) {
        Some(published) => Err(PublishError::Older {
            published: published.clone(),
            offered,
        }),
        None => Ok(()),
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
