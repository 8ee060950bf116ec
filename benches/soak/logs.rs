//! The access log, rotated again and again as an operator's tool does: renamed, and the server told. Every
//! line is counted, no key may stand in any.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use memchr::{memchr_iter, memmem};

use crate::common::Outcome;
use crate::stage::Stage;

/// How long the server has to open its file anew.
const REOPENING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Logs {
    path: PathBuf,
    /// The numbers of the keys that the load has.
    load_keys: Vec<String>,
    pub(crate) lines: u64,
    /// Lines of requests with one of those keys.
    pub(crate) load_lines: u64,
    pub(crate) rotated: usize,
    pub(crate) shown: usize,
}

impl Logs {
    pub(crate) fn new(path: &Path, keys: &[String]) -> Logs {
        Logs {
            path: path.to_owned(),
            load_keys: keys.iter().map(|key| key[8..18].to_owned()).collect(),
            lines: 0,
            load_lines: 0,
            rotated: 0,
            shown: 0,
        }
    }

    /// Puts the file aside, has the server open another, and reads the one aside.
    pub(crate) fn rotate(&mut self, stage: &Stage) -> Outcome<()> {
        let aside = self.path.with_extension("aside");
        fs::rename(&self.path, &aside)?;
        let begun = Instant::now();
        stage.server.signal("USR1")?;
        while !self.path.exists() {
            if begun.elapsed() > REOPENING {
                return Err("the access log was not opened anew".into());
            }
            thread::sleep(LOOK);
        }
        self.rotated += 1;
        // The one thread that writes has gone on to the next.
        self.read(&aside, stage)
    }

    /// The last file, when the server has ended.
    pub(crate) fn last(&mut self, stage: &Stage) -> Outcome<()> {
        let path = self.path.clone();
        self.read(&path, stage)
    }

    fn read(&mut self, path: &Path, stage: &Stage) -> Outcome<()> {
        let text = fs::read(path)?;
        fs::remove_file(path)?;
        if stage.shows_key(&text) {
            self.shown += 1;
            stage.wrong("a line of the access log shows a key".to_owned());
        }
        self.lines += memchr_iter(b'\n', &text).count() as u64;
        if text.last().is_some_and(|last| *last != b'\n') {
            stage.wrong("the access log ends within a line".to_owned());
        }
        for at in memmem::find_iter(&text, b" key=") {
            let number = &text[at + 5..(at + 15).min(text.len())];
            let mut keys = self.load_keys.iter();
            self.load_lines += u64::from(keys.any(|key| key.as_bytes() == number));
        }
        Ok(())
    }
}
