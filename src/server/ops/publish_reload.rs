//! [`PublishReloader`]: loads new publishes while serving. A publish that cannot be loaded is
//! refused, and the previous one is served on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::regular_file::Directory;
use crate::server::ops::reload::ReloadStatus;
use crate::site::SiteSettings;
use crate::snapshot::{CorruptionLog, DumpDirectory, Manifest, Snapshot, work_in_background};
use crate::sync::{ArcSwap, PollTrigger};

/// Watches a published directory.
pub(crate) struct PublishReloader {
    directory: PathBuf,
    memory_bytes: usize,
    service: SiteSettings,
    status: ReloadStatus,
    snapshot: Arc<ArcSwap<Snapshot>>,
    /// The manifest of the served snapshot.
    manifest: Option<Manifest>,
    /// The damage of the served history, after that of older ones that responses are still sent from.
    damages: Vec<HistoryDamage>,
    /// Replaced snapshots. Freeing one takes tens of milliseconds, so the last reference must be
    /// dropped here and not by a worker.
    retired: Vec<Arc<Snapshot>>,
}

/// The damage of a history that responses are sent from.
struct HistoryDamage {
    /// The history and each long body under way have another reference.
    log: Arc<CorruptionLog>,
    file: String,
    /// The number of damaged bodies already reported.
    reported: u64,
}

impl HistoryDamage {
    /// Logs the bodies that could not be sent since the last call, in one line.
    fn report(&mut self, directory: &Path, status: &ReloadStatus) {
        let count = self.log.count();
        let new = count - self.reported;
        if new > 0 {
            self.reported = count;
            let plural = if new == 1 { "" } else { "s" };
            let (path, fault) = (directory.join(&self.file), self.log.last());
            let path = path.display();
            status.log.write(&format!(
                "{new} response{plural} could not be sent: {path}: {fault}"
            ));
        }
    }
}

/// Opens the published directory and reads its manifest; `None` if nothing is published.
fn read_manifest(directory: &Path) -> io::Result<Option<(Directory, Manifest)>> {
    let published = match Directory::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    Ok(Manifest::read(&published)?.map(|manifest| (published, manifest)))
}

impl PublishReloader {
    /// Loads the current publish into `snapshot`, and starts the poller.
    pub(crate) fn start(
        (directory, service): (&Path, &SiteSettings),
        memory_bytes: usize,
        snapshot: &Arc<ArcSwap<Snapshot>>,
        status: ReloadStatus,
    ) -> io::Result<PollTrigger> {
        let mut reloader = PublishReloader {
            directory: directory.to_owned(),
            memory_bytes,
            service: service.clone(),
            status,
            snapshot: Arc::clone(snapshot),
            manifest: None,
            damages: Vec::new(),
            retired: Vec::new(),
        };
        reloader.poll();
        PollTrigger::start("data", move || {
            work_in_background();
            reloader.poll();
        })
    }

    /// Replaces the snapshot if something else is published now, and reports damage of the served
    /// one.
    fn poll(&mut self) {
        self.retired
            .retain(|snapshot| Arc::strong_count(snapshot) > 1);
        for damage in &mut self.damages {
            damage.report(&self.directory, &self.status);
        }
        self.damages
            .retain(|damage| Arc::strong_count(&damage.log) > 1);
        match self.load() {
            Ok(None) => {}
            Ok(Some(snapshot)) => self.retired.push(self.snapshot.swap(snapshot)),
            Err(error) => {
                let is_serving = self.snapshot.load_full().published.is_some();
                let served = if is_serving {
                    "still serving the previous publish"
                } else {
                    "no data is served"
                };
                self.status.refused(format!("{error}; {served}"));
            }
        }
    }

    /// Loads the current publish unless it is the one that is served.
    fn load(&mut self) -> Result<Option<Snapshot>, String> {
        // The directory is opened for each poll, since it can be a link with a new target.
        let read = read_manifest(&self.directory).map_err(|error| {
            let path = self.directory.join(Manifest::FILE);
            format!("{}: {error}", path.display())
        })?;
        let Some((published, manifest)) = read else {
            let directory = self.directory.display().to_string();
            let problem = if self.directory.exists() {
                format!("nothing has been published to {directory}")
            } else {
                format!("the directory {directory} does not exist")
            };
            self.status.errors.write(format!(
                "{problem}, so the API responds with 503; publish with: \
                 island-metrics publish --dataset DIR --to '{}'",
                directory.replace('\'', "'\\''")
            ));
            return Ok(None);
        };
        let served = self.snapshot.load_full();
        let is_new = self.manifest.as_ref() != Some(&manifest);
        let may_be_repaired = self.may_be_repaired(&served, &published);
        if !is_new && !may_be_repaired && !finds_dumps(&served, &published, &manifest) {
            return Ok(None);
        }
        let served = served.history.as_ref();
        let reusable = served.filter(|_| !may_be_repaired);
        let snapshot = Snapshot::open(&published, self.memory_bytes, &self.service, reusable)
            .map_err(|error| error.to_string())?;
        if let Some(published) = snapshot.published {
            let line = format!("serving the publish of {published}");
            self.status.log.write(&line);
        }
        if let Some(Err(fault)) = &snapshot.dumps {
            let line = format!("{fault}; everything except /dumps is served");
            self.status.log.write(&line);
        }
        self.status.loaded();
        if let (Some(history), Some(payload)) = (&snapshot.history, &manifest.history)
            && !served.is_some_and(|served| Arc::ptr_eq(served, history))
        {
            self.damages.push(HistoryDamage {
                log: Arc::clone(&history.corruption),
                file: payload.file.clone(),
                reported: 0,
            });
        }
        self.manifest = Some(manifest);
        Ok(Some(snapshot))
    }

    /// Returns `true` if the served history is damaged and its file has been replaced. A repair by
    /// copying or publishing the same data again leaves the manifest unchanged.
    fn may_be_repaired(&self, served: &Snapshot, published: &Directory) -> bool {
        let payload = self
            .manifest
            .as_ref()
            .and_then(|named| named.history.as_ref());
        let history = served.history.as_ref().zip(payload);
        history.is_some_and(|(history, payload)| {
            let file = published.file(&payload.file);
            history.corruption.count() > 0 && file.is_ok_and(|file| history.is_superseded(&file))
        })
    }
}

/// Returns `true` if usable dumps are available that are not served: either there were none, as in a
/// directory that was still being copied, or the served ones have been replaced.
fn finds_dumps(served: &Snapshot, published: &Directory, manifest: &Manifest) -> bool {
    let Some(named) = &manifest.dumps else {
        return false;
    };
    let dumps = served.dumps();
    dumps.is_none_or(|dumps| dumps.is_superseded(published, named))
        && DumpDirectory::open(published, named).is_ok()
}
