//! Taking in a new publish while serving. A bad one is refused and the old data stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::once::Once;
use crate::publish::open_published;
use crate::snapshot::{DumpDirectory, History, Manifest, Snapshot, work_in_background};
use crate::sync::Latest;

/// How often the manifest is looked at; a publish has to show within a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// Watches a published directory.
pub(crate) struct Reloader {
    directory: PathBuf,
    memory_bytes: usize,
    base_url: String,
    served: Option<Manifest>,
    /// The history served, in case that the next publish is of a live payload only.
    history: Option<Arc<History>>,
    /// Whether what is served lacks the dumps of its manifest.
    lacks_dumps: bool,
    complaint: Once,
}

impl Reloader {
    pub(crate) fn new(directory: &Path, memory_bytes: usize, base_url: &str) -> Reloader {
        Reloader {
            directory: directory.to_owned(),
            memory_bytes,
            base_url: base_url.to_owned(),
            served: None,
            history: None,
            lacks_dumps: false,
            complaint: Once::default(),
        }
    }

    /// What is published now, if it is not what was taken last. `say` is told of news and complaints.
    pub(crate) fn poll(&mut self, say: &dyn Fn(&str)) -> Option<Snapshot> {
        let manifest = match Manifest::read(&self.directory) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => {
                let place = self.directory.display();
                self.complaint.say(say, format!("nothing is published in {place}; `island-metrics publish --to {place}` does"));
                return None;
            }
            Err(error) => {
                let path = self.directory.join(Manifest::FILE);
                self.complaint.say(
                    say,
                    format!("{}: {error}; what was loaded before stays", path.display()),
                );
                return None;
            }
        };
        if self.served.as_ref() == Some(&manifest) && !self.finds_dumps(&manifest) {
            return None;
        }
        let held = self.history.as_ref();
        match open_published(&self.directory, self.memory_bytes, &self.base_url, held) {
            Ok(snapshot) => {
                self.history = snapshot.history().cloned();
                if let Some(published) = snapshot.published() {
                    say(&format!("serving the publish of {published}"));
                }
                let fault = snapshot.dumps_fault();
                if let Some(fault) = fault {
                    say(&format!("{fault}; everything but /dumps is served"));
                }
                self.lacks_dumps = fault.is_some();
                self.complaint = Once::default();
                self.served = Some(manifest);
                Some(snapshot)
            }
            Err(error) => {
                self.complaint
                    .say(say, format!("{error}; what was loaded before stays"));
                None
            }
        }
    }

    /// Whether dumps that were missing are there now, as when a copy of the directory is complete.
    fn finds_dumps(&self, manifest: &Manifest) -> bool {
        let named = manifest.dumps.as_ref().filter(|_| self.lacks_dumps);
        named.is_some_and(|named| DumpDirectory::open(&self.directory, named).is_ok())
    }

    /// Keeps a cell at what is published, for ever, off the workers' threads.
    pub(crate) fn watch(mut self, cell: &Latest<Snapshot>, say: &dyn Fn(&str)) {
        work_in_background();
        // To free a snapshot takes tens of milliseconds: here, not on a worker that holds it last.
        let mut retired: Vec<Arc<Snapshot>> = Vec::new();
        loop {
            std::thread::sleep(INTERVAL);
            retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
            if let Some(snapshot) = self.poll(say) {
                retired.push(cell.replace(snapshot));
            }
        }
    }
}
