//! Taking in a new publish while serving. A bad one is refused and the old data stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lookout::Lookout;
use super::once::{Once, Reloads};
use crate::publish::open_published;
use crate::snapshot::{DumpDirectory, History, Manifest, Snapshot, work_in_background};
use crate::sync::Latest;

/// Watches a published directory.
pub(crate) struct Reloader {
    directory: PathBuf,
    memory_bytes: usize,
    base_url: String,
    served: Option<Manifest>,
    /// The history served, in case that the next publish is of a live payload only. Before it those
    /// that requests may still be answered from.
    histories: Vec<Answering>,
    /// Whether what is served lacks the dumps of its manifest.
    lacks_dumps: bool,
    complaint: Once,
    reloads: Arc<Reloads>,
}

/// A history that requests are answered from.
struct Answering {
    history: Arc<History>,
    path: PathBuf,
    /// Damaged bodies that were told of.
    told: u64,
}

impl Answering {
    /// Says how many bodies could not be sent since the last time: one line, however many.
    fn tell(&mut self, say: &dyn Fn(&str)) {
        let count = self.history.damage().count();
        let new = count - self.told;
        if new > 0 {
            self.told = count;
            let plural = if new == 1 { "" } else { "s" };
            let (file, fault) = (self.path.display(), self.history.damage().last());
            say(&format!(
                "{new} answer{plural} could not be sent: {file}: {fault}"
            ));
        }
    }

    /// Whether it is damaged and another file stands in its place, perhaps the cure. A cure need not
    /// change the manifest: the same publish made again, or copied again, has the same one.
    fn may_be_cured(&self) -> bool {
        self.told > 0 && self.history.is_superseded(&self.path)
    }
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
            lacks_dumps: false,
            complaint: Once::default(),
            reloads,
        }
    }

    /// What is published now, if it is not what was taken last. `say` is told of news and complaints.
    pub(crate) fn poll(&mut self, say: &dyn Fn(&str)) -> Option<Snapshot> {
        self.tell_damage(say);
        let manifest = match Manifest::read(&self.directory) {
            Ok(Some(manifest)) => manifest,
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
        let may_be_cured = served.is_some_and(Answering::may_be_cured);
        if self.served.as_ref() == Some(&manifest) && !may_be_cured && !self.finds_dumps(&manifest)
        {
            return None;
        }
        let held = served
            .filter(|_| !may_be_cured)
            .map(|served| &served.history);
        match open_published(&self.directory, self.memory_bytes, &self.base_url, held) {
            Ok(snapshot) => {
                self.turn_to(snapshot.history(), &manifest);
                if let Some(published) = snapshot.published() {
                    say(&format!("serving the publish of {published}"));
                }
                let fault = snapshot.dumps_fault();
                if let Some(fault) = fault {
                    say(&format!("{fault}; everything but /dumps is served"));
                }
                self.lacks_dumps = fault.is_some();
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
        let served = self.histories.last().map(|served| &served.history);
        if !served.is_some_and(|served| Arc::ptr_eq(served, history)) {
            self.histories.push(Answering {
                history: Arc::clone(history),
                path: self.directory.join(&payload.file),
                told: 0,
            });
        }
    }

    /// Says what could not be sent, and forgets histories that nobody is answered from any more.
    fn tell_damage(&mut self, say: &dyn Fn(&str)) {
        for answering in &mut self.histories {
            answering.tell(say);
        }
        self.histories
            .retain(|answering| Arc::strong_count(&answering.history) > 1);
    }

    /// Whether dumps that were missing are there now, as when a copy of the directory is complete.
    fn finds_dumps(&self, manifest: &Manifest) -> bool {
        let named = manifest.dumps.as_ref().filter(|_| self.lacks_dumps);
        named.is_some_and(|named| DumpDirectory::open(&self.directory, named).is_ok())
    }

    /// Keeps a cell at what is published, for ever, off the workers' threads.
    pub(crate) fn watch(
        mut self,
        cell: &Latest<Snapshot>,
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
                retired.push(cell.replace(snapshot));
            }
        }
    }
}
