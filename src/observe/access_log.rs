//! `AccessLog`: a line for each request, in a file, written by a thread of its own.
//!
//! Workers leave lines in batches and never wait. What the file cannot take in time is dropped and
//! counted: a slow disk costs lines, not answers.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Batches that may wait to be written.
const WAITING_MAX: usize = 64;
/// Bytes of a batch that is left without waiting for more lines.
const BATCH_BYTES: usize = 32 * 1024;
/// How long opening the file may take: a pipe that nobody reads would never open.
const OPENING: Duration = Duration::from_secs(2);

enum Entry {
    Lines {
        text: Vec<u8>,
        count: u64,
    },
    Reopen,
    /// To be acknowledged when all before it is written.
    Mark(SyncSender<()>),
}

/// Why there is no access log.
#[derive(Debug)]
pub struct AccessLogError {
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for AccessLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "cannot write the access log {path}: {}", self.source)
    }
}

impl std::error::Error for AccessLogError {}

/// The file, to hand [`AccessPen`]s out and to have it opened anew.
#[derive(Clone, Debug)]
pub struct AccessLog {
    sender: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl AccessLog {
    /// Opens the file, which is appended to. `say` is told once when it cannot be written, and when it
    /// can be again.
    pub fn open(
        path: &Path,
        say: impl Fn(&str) + Send + 'static,
    ) -> Result<AccessLog, AccessLogError> {
        let failed = |source| AccessLogError {
            path: path.to_owned(),
            source,
        };
        let (sender, entries) = sync_channel(WAITING_MAX);
        let (tell, told) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut writer = Writer {
            path: path.to_owned(),
            file: None,
            dropped: Arc::clone(&dropped),
            failing: false,
            is_due: false,
            is_torn: false,
        };
        let run = move || {
            let opened = writer.open();
            let sound = opened.is_ok();
            if tell.send(opened).is_ok() && sound {
                writer.run(&entries, &say);
            }
        };
        let thread = thread::Builder::new().name("access-log".into()).spawn(run);
        thread.map_err(failed)?;
        let opened = told.recv_timeout(OPENING);
        opened
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(failed)?;
        Ok(AccessLog { sender, dropped })
    }

    /// A pen for one worker.
    pub fn pen(&self) -> AccessPen {
        AccessPen {
            log: self.clone(),
            batch: Mutex::default(),
        }
    }

    /// Opens the file by its name again, as after it was renamed. Never waits.
    pub fn reopen(&self) {
        // With a full queue it is tried again by whoever asks again.
        let _ = self.sender.try_send(Entry::Reopen);
    }

    /// Lines that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was left is written, but not for long.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.sender.try_send(Entry::Mark(done)).is_ok() {
            let _ = written.recv_timeout(Duration::from_secs(1));
        }
    }
}

/// What a worker writes lines with.
#[derive(Debug)]
pub struct AccessPen {
    log: AccessLog,
    // Taken only by this worker's one thread, so never waited for.
    batch: Mutex<Batch>,
}

#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    count: u64,
}

impl AccessPen {
    /// Has `write` write a line, and leaves what has gathered if it is enough.
    pub fn line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut batch = lock(&self.batch);
        write(&mut batch.text);
        batch.text.push(b'\n');
        batch.count += 1;
        if batch.text.len() >= BATCH_BYTES {
            self.leave(&mut batch);
        }
    }

    /// Leaves what has gathered. To be called now and then.
    pub fn flush(&self) {
        let mut batch = lock(&self.batch);
        if batch.count > 0 {
            self.leave(&mut batch);
        }
    }

    fn leave(&self, batch: &mut Batch) {
        let Batch { text, count } = std::mem::take(batch);
        let lines = Entry::Lines { text, count };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.log.sender.try_send(lines)
        {
            self.log.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// The thread that writes.
struct Writer {
    path: PathBuf,
    file: Option<File>,
    dropped: Arc<AtomicU64>,
    failing: bool,
    /// Whether the file is to be opened by its name again, which has failed so far.
    is_due: bool,
    /// Whether it may end with a part of a line.
    is_torn: bool,
}

impl Writer {
    fn open(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        self.file = Some(options.append(true).create(true).open(&self.path)?);
        Ok(())
    }

    fn run(mut self, entries: &Receiver<Entry>, say: &dyn Fn(&str)) {
        for entry in entries {
            match entry {
                Entry::Lines { text, count } => {
                    let outcome = self.write(&text);
                    if self.is_torn {
                        self.dropped.fetch_add(count, Ordering::Relaxed);
                    }
                    self.tell(outcome, say);
                }
                Entry::Reopen => {
                    self.is_due = true;
                    let outcome = self.reopen();
                    self.tell(outcome, say);
                }
                Entry::Mark(done) => drop(done.send(())),
            }
        }
    }

    /// Opens the file by its name again, if that is due.
    fn reopen(&mut self) -> io::Result<()> {
        if self.is_due {
            self.open()?;
            (self.is_due, self.is_torn) = (false, false);
        }
        Ok(())
    }

    /// Writes lines; where the new file cannot be opened, to the old one.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let reopened = self.reopen();
        let Some(file) = &mut self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if self.is_torn {
            file.write_all(b"\n")?;
            self.is_torn = false;
        }
        let written = file.write_all(text);
        self.is_torn = written.is_err();
        written.and(reopened)
    }

    fn tell(&mut self, outcome: io::Result<()>, say: &dyn Fn(&str)) {
        let path = self.path.display();
        match outcome {
            Ok(()) if self.failing => {
                say(&format!("the access log {path} can be written again"));
                self.failing = false;
            }
            Err(error) if !self.failing => {
                say(&format!("the access log {path}: {error}; lines are lost"));
                self.failing = true;
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    // A static takes std's, whatever the models run with.
    use std::sync::Mutex as StdMutex;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("im-access-{}-{name}", std::process::id()))
    }

    #[test]
    fn lines_are_written_in_order_and_behind_a_rename_to_the_new_file() {
        let (path, old) = (scratch("a"), scratch("old"));
        let log = AccessLog::open(&path, |_| {}).unwrap();
        let pen = log.pen();
        for line in ["one", "two"] {
            pen.line(|text| text.extend_from_slice(line.as_bytes()));
        }
        pen.flush();
        log.flush();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        pen.line(|text| text.extend_from_slice(b"three"));
        pen.flush();
        log.flush();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(log.dropped(), 0);
        for path in [path, old] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_disk_that_takes_nothing_stalls_nobody_and_every_line_is_counted() {
        static SAID: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
        if !Path::new("/dev/full").exists() {
            return;
        }
        let say = |line: &str| SAID.lock().unwrap().push(line.to_owned());
        let log = AccessLog::open("/dev/full".as_ref(), say).unwrap();
        let pen = log.pen();
        for _ in 0..10_000 {
            pen.line(|text| text.extend_from_slice(&[b'x'; 1000]));
        }
        pen.flush();
        while log.dropped() < 10_000 {
            thread::yield_now();
        }
        assert_eq!(log.dropped(), 10_000);
        assert_eq!(SAID.lock().unwrap().len(), 1);
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let path = scratch("none").join("access.log");
        let error = AccessLog::open(&path, |_| {}).unwrap_err();
        assert!(error.to_string().contains(&*path.display().to_string()));
    }
}
