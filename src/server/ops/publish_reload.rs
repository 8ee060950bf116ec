//! [`PublishReloader`]: loads new publishes while serving. A publish that cannot be loaded is
//! refused, and the previous one is served on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::regular_file::Directory;
use crate::server::ops::reload::ReloadStatus;
use crate::site::Service;
use crate::snapshot::{
    CorruptionLog, DumpDirectory, History, Manifest, Snapshot, work_in_background,
};
use crate::sync::{ArcSwap, PollTrigger};

/// Watches a published directory.
pub(crate) struct PublishReloader {
    directory: PathBuf,
    memory_bytes: usize,
    service: Service,
    status: ReloadStatus,
    snapshot: Arc<ArcSwap<Snapshot>>,
    /// The manifest of the served snapshot.
    manifest: Option<Manifest>,
    /// The served history, which is reused if only the live payload changes, after older ones that
    /// responses are still sent from.
    histories: Vec<HistoryInUse>,
    /// The served dumps; `None` also if those of the manifest are not usable.
    dumps: Option<Arc<DumpDirectory>>,
    /// Replaced snapshots. Freeing one takes tens of milliseconds, so the last reference must be
    /// dropped here and not by a worker.
    retired: Vec<Arc<Snapshot>>,
}

/// A history that responses are sent from.
struct HistoryInUse {
    /// `None` when only long bodies under way refer to it.
    history: Option<Arc<History>>,
    damage: Arc<CorruptionLog>,
    file: String,
    /// The number of damaged bodies already reported.
    reported: u64,
}

impl HistoryInUse {
    /// Logs the bodies that could not be sent since the last call, in one line.
    fn report_damage(&mut self, directory: &Path, status: &ReloadStatus) {
        let count = self.damage.count();
        let new = count - self.reported;
        if new > 0 {
            self.reported = count;
            let plural = if new == 1 { "" } else { "s" };
            let (path, fault) = (directory.join(&self.file), self.damage.last());
            let path = path.display();
            status.log.write(&format!(
                "{new} response{plural} could not be sent: {path}: {fault}"
            ));
        }
    }

    /// Returns `true` if the history is damaged and its file has been replaced. A repair by copying
    /// or publishing the same data again leaves the manifest unchanged.
    fn may_be_repaired(&self, published: &Directory) -> bool {
        self.reported > 0
            && self.history.as_ref().is_some_and(|history| {
                let file = published.file(&self.file);
                file.is_ok_and(|file| history.is_superseded(&file))
            })
    }

    /// Drops the history if no snapshot refers to it. Returns `true` while damage may still be
    /// found.
    fn is_in_use(&mut self) -> bool {
        self.history
            .take_if(|history| Arc::strong_count(history) == 1);
        self.history.is_some() || Arc::strong_count(&self.damage) > 1
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
        (directory, service): (&Path, &Service),
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
            histories: Vec::new(),
            dumps: None,
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
        for history in &mut self.histories {
            history.report_damage(&self.directory, &self.status);
        }
        self.histories.retain_mut(HistoryInUse::is_in_use);
        match self.load() {
            Ok(None) => {}
            Ok(Some(snapshot)) => self.retired.push(self.snapshot.swap(snapshot)),
            Err(error) => {
                let line = format!("{error}; still serving the previous publish");
                self.status.refused(line);
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
        let served = self.histories.last();
        let may_be_repaired = served.is_some_and(|served| served.may_be_repaired(&published));
        let is_new = self.manifest.as_ref() != Some(&manifest);
        if !is_new && !may_be_repaired && !self.finds_dumps(&published, &manifest) {
            return Ok(None);
        }
        let served = served.and_then(|served| served.history.as_ref());
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
            self.histories.push(HistoryInUse {
                history: Some(Arc::clone(history)),
                damage: Arc::clone(&history.corruption),
                file: payload.file.clone(),
                reported: 0,
            });
        }
        self.dumps = snapshot.dumps().cloned();
        self.manifest = Some(manifest);
        Ok(Some(snapshot))
    }

    /// Returns `true` if usable dumps are available that are not served: either there were none, as
    /// in a directory that was still being copied, or the served ones have been replaced.
    fn finds_dumps(&self, published: &Directory, manifest: &Manifest) -> bool {
        let Some(named) = &manifest.dumps else {
            return false;
        };
        let served = self.dumps.as_ref();
        served.is_none_or(|served| served.is_superseded(published, named))
            && DumpDirectory::open(published, named).is_ok()
    }
}
