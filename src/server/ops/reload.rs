//! Taking in a new publish while serving. A bad one is refused and the old data stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::regular_file::Directory;
use crate::server::ops::dedup_log::{Once, Reloads};
use crate::server::ops::poller::Lookout;
use crate::snapshot::{Damage, DumpDirectory, History, Manifest, Snapshot, work_in_background};
use crate::sync::ArcSwap;

/// Watches a published directory.
pub(crate) struct Reloader {
    directory: PathBuf,
    memory_bytes: usize,
    base_url: String,
    served: Option<Manifest>,
    /// The history served, in case that the next publish is of a live payload only. Before it those
    /// that requests may still be answered from.
    histories: Vec<Answering>,
    /// The dumps served; `None` also where those of the manifest are not usable.
    dumps: Option<Arc<DumpDirectory>>,
    complaint: Once,
    reloads: Arc<Reloads>,
}

/// A history that responses are sent from.
struct Answering {
    /// `None` when no request finds it any more. Long bodies of it may still be sent.
    history: Option<Arc<History>>,
    damage: Arc<Damage>,
    /// The name of its file.
    file: String,
    /// Damaged bodies that were told of.
    told: u64,
}

impl Answering {
    /// Says how many bodies could not be sent since the last time: one line, however many.
    fn tell(&mut self, directory: &Path, say: &dyn Fn(&str)) {
        let count = self.damage.count();
        let new = count - self.told;
        if new > 0 {
            self.told = count;
            let plural = if new == 1 { "" } else { "s" };
            let (path, fault) = (directory.join(&self.file), self.damage.last());
            let path = path.display();
            say(&format!(
                "{new} answer{plural} could not be sent: {path}: {fault}"
            ));
        }
    }

    /// Whether it is damaged and another file stands in its place, perhaps the cure. A cure need not
    /// change the manifest: the same publish made again, or copied again, has the same one.
    fn may_be_cured(&self, published: &Directory) -> bool {
        let named = || published.file(&self.file);
        let Some(history) = self.history.as_ref().filter(|_| self.told > 0) else {
            return false;
        };
        named().is_ok_and(|named| history.is_superseded(&named))
    }

    /// Drops the history when no request finds it any more. Returns whether anything of it may still be
    /// found damaged.
    fn is_in_use(&mut self) -> bool {
        if self
            .history
            .as_ref()
            .is_some_and(|history| Arc::strong_count(history) == 1)
        {
            self.history = None;
        }
        self.history.is_some() || Arc::strong_count(&self.damage) > 1
    }
}

/// The published directory, opened, and its manifest; `None` where nothing has been published.
fn read_manifest(directory: &Path) -> io::Result<Option<(Directory, Manifest)>> {
    let opened = match Directory::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    Ok(Manifest::read(&opened)?.map(|manifest| (opened, manifest)))
}

impl Reloader {
    pub(crate) fn new(
        directory: &Path,
        memory_bytes: usize,
        base_url: &str,
        reloads: Arc<Reloads>,
    ) -> Reloader {
        Reloader {
            directory: directory.to_owned(),
            memory_bytes,
            base_url: base_url.to_owned(),
            served: None,
            histories: Vec::new(),
            dumps: None,
            complaint: Once::default(),
            reloads,
        }
    }

    /// What is published now, if it is not what was taken last. `say` is told of news and complaints.
    pub(crate) fn poll(&mut self, say: &dyn Fn(&str)) -> Option<Snapshot> {
        self.tell_damage(say);
        // Opened again each time: it may be a link that leads elsewhere now. All of a poll is of one.
        let (published, manifest) = match read_manifest(&self.directory) {
            Ok(Some(read)) => read,
            Ok(None) => {
                let place = self.directory.display();
                self.complaint.say(say, format!("nothing is published in {place}; `island-metrics publish --to {place}` does"));
                return None;
            }
            Err(error) => {
                let path = self.directory.join(Manifest::FILE);
                let text = format!("{}: {error}; what was loaded before stays", path.display());
                self.refuse(say, text);
                return None;
            }
        };
        let served = self.histories.last();
        let may_be_cured = served.is_some_and(|served| served.may_be_cured(&published));
        let is_new = self.served.as_ref() != Some(&manifest);
        if !is_new && !may_be_cured && !self.finds_dumps(&published, &manifest) {
            return None;
        }
        let held = served
            .filter(|_| !may_be_cured)
            .and_then(|served| served.history.as_ref());
        match Snapshot::open(&published, self.memory_bytes, &self.base_url, held) {
            Ok(snapshot) => {
                self.turn_to(snapshot.history(), &manifest);
                if let Some(published) = snapshot.published() {
                    say(&format!("serving the publish of {published}"));
                }
                if let Some(fault) = snapshot.dumps_fault() {
                    say(&format!("{fault}; everything but /dumps is served"));
                }
                self.dumps = snapshot.dumps().cloned();
                self.complaint = Once::default();
                self.reloads.taken.add(1);
                self.served = Some(manifest);
                Some(snapshot)
            }
            Err(error) => {
                self.refuse(say, format!("{error}; what was loaded before stays"));
                None
            }
        }
    }

    fn refuse(&mut self, say: &dyn Fn(&str), text: String) {
        let is_new = self.complaint.say(say, text);
        self.reloads.refused.add(u64::from(is_new));
    }

    /// Remembers the history that is served from now on.
    fn turn_to(&mut self, history: Option<&Arc<History>>, manifest: &Manifest) {
        let (Some(history), Some(payload)) = (history, &manifest.history) else {
            return;
        };
        let served = self.histories.last();
        let served = served.and_then(|served| served.history.as_ref());
        if !served.is_some_and(|served| Arc::ptr_eq(served, history)) {
            self.histories.push(Answering {
                history: Some(Arc::clone(history)),
                damage: Arc::clone(history.damage()),
                file: payload.file.clone(),
                told: 0,
            });
        }
    }

    /// Logs what could not be sent, and forgets histories of which nothing is sent any more.
    fn tell_damage(&mut self, say: &dyn Fn(&str)) {
        for answering in &mut self.histories {
            answering.tell(&self.directory, say);
        }
        self.histories.retain_mut(Answering::is_in_use);
    }

    /// Returns `true` if usable dumps are there that are not served: dumps were missing, as when a copy of
    /// the directory is not complete yet, or another directory has taken the place of those served.
    fn finds_dumps(&self, published: &Directory, manifest: &Manifest) -> bool {
        let Some(named) = &manifest.dumps else {
            return false;
        };
        let served = self.dumps.as_ref();
        served.is_none_or(|served| served.is_superseded(published, named))
            && DumpDirectory::open(published, named).is_ok()
    }

    /// Keeps a cell at what is published, for ever, off the workers' threads.
    pub(crate) fn watch(
        mut self,
        cell: &ArcSwap<Snapshot>,
        mut lookout: Lookout,
        say: &dyn Fn(&str),
    ) {
        work_in_background();
        // To free a snapshot takes tens of milliseconds: here, not on a worker that holds it last.
        let mut retired: Vec<Arc<Snapshot>> = Vec::new();
        loop {
            lookout.pause();
            retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
            if let Some(snapshot) = self.poll(say) {
                retired.push(cell.swap(snapshot));
            }
        }
    }
}
