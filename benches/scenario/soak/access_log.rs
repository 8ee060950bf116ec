//! Rotation of the access log as a rotation tool does it: the file is renamed, and SIGUSR1 makes the
//! server open another. All lines are counted and searched for keys.

use memchr::{memchr_iter, memmem};
use rustix::process::Signal;

use super::{KEY_ID, Secrets, Stage};
use crate::common::prelude::*;
use crate::scenario::{Faults, POLL};

/// Time for the server to open another file.
const REOPENING: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct AccessLog {
    path: PathBuf,
    load_keys: Vec<String>,
    pub(crate) lines: u64,
    pub(crate) load_lines: u64,
    pub(crate) files: usize,
}

impl AccessLog {
    pub(crate) fn new(path: PathBuf, keys: &[String]) -> AccessLog {
        AccessLog {
            path,
            load_keys: keys.iter().map(|key| key[KEY_ID].to_owned()).collect(),
            ..AccessLog::default()
        }
    }

    /// Renames the file, has the server open another, and reads the renamed one.
    pub(crate) fn rotate(&mut self, stage: &Stage<'_>) -> Outcome<()> {
        let renamed = self.path.with_extension("1");
        fs::rename(&self.path, &renamed)?;
        stage.subject.server.signal(Signal::USR1)?;
        let reopened = || Ok(self.path.exists().then_some(()));
        wait_for(REOPENING, POLL, reopened)?.ok_or("the access log was not opened again")?;
        // The server has one log writer, so the renamed file is complete.
        self.read(&renamed, stage.secrets, stage.faults)
    }

    /// Reads and removes a file that the server has completed.
    pub(crate) fn read(&mut self, path: &Path, secrets: &Secrets, faults: &Faults) -> Outcome<()> {
        let text = fs::read(path)?;
        fs::remove_file(path)?;
        self.files += 1;
        secrets.check("a line of the access log", &text, faults);
        self.lines += memchr_iter(b'\n', &text).count() as u64;
        let is_whole = text.is_empty() || text.ends_with(b"\n");
        faults.require(is_whole, "the access log ends within a line");
        for at in memmem::find_iter(&text, b" key=") {
            let id = &text[at + 5..(at + 15).min(text.len())];
            let mut keys = self.load_keys.iter();
            self.load_lines += u64::from(keys.any(|key| key.as_bytes() == id));
        }
        Ok(())
    }
}
