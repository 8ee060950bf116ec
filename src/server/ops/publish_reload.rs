//! Loads new publishes while serving. A publish that cannot be loaded is
//! refused, and the previous one stays in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::observe::Log;
use crate::regular_file::Directory;
use crate::server::ops::reload::{ReloadStatus, StateMetrics};
use crate::server::settings::{Settings, StartError};
use crate::snapshot::{Manifest, Snapshot, SnapshotError};
use crate::sync::{PollTrigger, Replicated, lower_priority};

struct PublishReloader {
    directory: PathBuf,
    status: ReloadStatus,
    snapshot: Arc<Replicated<Snapshot>>,
    /// The last manifest whose files were loaded, or refused as damaged. They are not read again unless a poll
    /// is requested.
    seen: Option<Manifest>,
}

/// Opens the published directory and reads its manifest; `None` if nothing is published.
fn read_manifest(directory: &Path) -> io::Result<Option<(Directory, Manifest)>> {
    let published = match Directory::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    Ok(Manifest::read(&published)?.map(|manifest| (published, manifest)))
}

/// Opens what is published and starts the poller of the published directory. The sample has no poller.
pub(crate) fn start(
    settings: &Settings,
    base_url: &str,
    metrics: &StateMetrics,
    pollers: &mut Vec<PollTrigger>,
    log: &Log,
) -> Result<Arc<Replicated<Snapshot>>, StartError> {
    let service = settings.service(base_url);
    let Some(directory) = &settings.published else {
        let sample = (settings.open_sample)(&service);
        let sample = sample.map_err(|error| {
            StartError::Internal(format!("cannot serve the sample dataset: {error}"))
        })?;
        return Ok(Arc::new(Replicated::new(sample)));
    };
    log.write(&format!("watching {}", directory.display()));
    let empty = Snapshot::new(None, None, None, &service, None);
    let snapshot = Arc::new(Replicated::new(empty));
    let mut reloader = PublishReloader {
        directory: directory.clone(),
        status: ReloadStatus::new(log, &metrics.data_reloads),
        snapshot: Arc::clone(&snapshot),
        seen: None,
    };
    reloader.poll(false);
    pollers.push(PollTrigger::start("data", move |is_requested| {
        lower_priority();
        reloader.poll(is_requested);
    })?);
    Ok(snapshot)
}

impl PublishReloader {
    /// Replaces the snapshot if something else is published now. A requested poll reads everything
    /// again, also what was refused: a damaged file may have been repaired.
    fn poll(&mut self, is_requested: bool) {
        match self.load(is_requested) {
            Ok(None) => {}
            // Frees the previous one here, which takes tens of milliseconds.
            Ok(Some(snapshot)) => self.snapshot.replace(snapshot),
            Err(error) => {
                let is_serving = self.snapshot.current().published.is_some();
                let served = if is_serving {
                    "still serving the previous publish"
                } else {
                    "no data is served"
                };
                self.status.refused(format!("{error}; {served}"));
            }
        }
    }

    /// Loads the current publish unless it is the last one that was loaded or refused, and in any case if
    /// `is_requested`.
    fn load(&mut self, is_requested: bool) -> Result<Option<Snapshot>, String> {
        // The directory is opened for each poll, since it can be a link with a new target.
        let read = read_manifest(&self.directory).map_err(|error| {
            let path = self.directory.join(Manifest::FILE);
            format!("{}: {error}", path.display())
        })?;
        let Some((published, manifest)) = read else {
            self.report_absence();
            // A repair may bring back the same manifest, with other files.
            self.seen = None;
            return Ok(None);
        };
        let served = self.snapshot.current();
        if self.seen.as_ref() == Some(&manifest) && !is_requested {
            self.status.errors.reset();
            return Ok(None);
        }
        let reusable = Some(&*served).filter(|_| !is_requested);
        let named = (&published, &manifest);
        let opened = Snapshot::open(named, &served.service, reusable);
        // An error of the system may be gone at the next poll.
        let is_final = !matches!(opened, Err(SnapshotError::Io(_)));
        self.seen = is_final.then_some(manifest);
        let snapshot = opened.map_err(|error| error.to_string())?;
        if let Some(published) = snapshot.published {
            let line = format!("serving the publish of {published}");
            self.status.errors.log.write(&line);
        }
        if let Some(Err(fault)) = &snapshot.dumps {
            let line = format!("{fault}; everything except /dumps is served");
            self.status.errors.log.write(&line);
        }
        self.status.loaded();
        Ok(Some(snapshot))
    }

    fn report_absence(&mut self) {
        let directory = self.directory.display().to_string();
        let problem = if self.directory.exists() {
            format!("nothing has been published to {directory}")
        } else {
            format!("the directory {directory} does not exist")
        };
        let served = if self.snapshot.current().published.is_some() {
            "; still serving the previous publish"
        } else {
            ", so the API responds with 503"
        };
        self.status.errors.write(format!(
            "{problem}{served}; publish with: \
             island-metrics publish --dataset DIR --to '{}'",
            directory.replace('\'', "'\\''")
        ));
    }
}
