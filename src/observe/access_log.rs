//! [`AccessLog`]: one line per request, written to a file by a thread of its own.
//!
//! Workers queue batches of lines and never block. Lines that the file cannot take in time are
//! dropped and counted: a slow disk costs log lines, not responses.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use super::Log;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Maximum number of queued batches.
const QUEUE_MAX: usize = 64;
/// A batch of this size is queued immediately, a smaller one by [`AccessLogBuffer::flush`].
const BATCH_BYTES: usize = 32 * 1024;
/// Timeout for opening the file: opening a pipe without a reader blocks.
const OPEN_MAX: Duration = Duration::from_secs(2);
/// Timeout of [`AccessLog::flush`].
const FLUSH_MAX: Duration = Duration::from_secs(1);

enum Entry {
    Lines(Batch),
    Reopen,
    /// Acknowledged when all entries before it are written.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    lines: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl AccessLog {
    /// Opens the file for appending, and starts the thread. Write errors are reported to `log`,
    /// once until the file can be written again.
    pub(crate) fn open(path: &Path, log: &Log) -> io::Result<AccessLog> {
        let (queue, entries) = sync_channel(QUEUE_MAX);
        let (result, opened) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let (path, counter, log) = (path.to_owned(), Arc::clone(&dropped), log.clone());
        let run = move || match open_file(&path) {
            Err(error) => drop(result.send(Err(error))),
            Ok(file) => {
                let writer = Writer {
                    path,
                    file,
                    log,
                    dropped: counter,
                    is_failing: false,
                    must_reopen: false,
                    is_torn: false,
                };
                if result.send(Ok(())).is_ok() {
                    writer.run(&entries);
                }
            }
        };
        thread::Builder::new()
            .name("access-log".into())
            .spawn(run)?;
        let opened = opened.recv_timeout(OPEN_MAX);
        opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(AccessLog { queue, dropped })
    }

    /// Returns a buffer for one worker.
    pub(crate) fn buffer(&self) -> AccessLogBuffer {
        AccessLogBuffer {
            log: self.clone(),
            batch: Mutex::default(),
        }
    }

    /// Opens the file by its path again, after it was renamed. Never blocks: with a full queue the
    /// request is dropped.
    pub(crate) fn reopen(&self) {
        let _ = self.queue.try_send(Entry::Reopen);
    }

    /// Returns the number of dropped lines.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Blocks until all queued lines are written, at most for a second.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Entry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_MAX);
        }
    }
}

/// The buffer in which a worker collects lines.
#[derive(Debug)]
pub(crate) struct AccessLogBuffer {
    log: AccessLog,
    // Contended only at the end: otherwise the worker's thread alone locks it.
    batch: Mutex<Batch>,
}

impl AccessLogBuffer {
    /// Adds a line, and queues the batch if it is large enough.
    pub(crate) fn line(&self, line: &str) {
        let mut batch = lock(&self.batch);
        batch.text.extend_from_slice(line.as_bytes());
        batch.text.push(b'\n');
        batch.lines += 1;
        if batch.text.len() >= BATCH_BYTES {
            self.queue(&mut batch);
        }
    }

    /// Queues the collected lines.
    pub(crate) fn flush(&self) {
        let mut batch = lock(&self.batch);
        if batch.lines > 0 {
            self.queue(&mut batch);
        }
    }

    fn queue(&self, batch: &mut Batch) {
        let batch = std::mem::take(batch);
        let lines = batch.lines;
        if self.log.queue.try_send(Entry::Lines(batch)).is_err() {
            self.log.dropped.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

struct Writer {
    path: PathBuf,
    file: File,
    log: Log,
    dropped: Arc<AtomicU64>,
    is_failing: bool,
    /// Set until the file has been opened by its path again.
    must_reopen: bool,
    /// Set while the file may end with an incomplete line.
    is_torn: bool,
}

impl Writer {
    fn run(mut self, entries: &Receiver<Entry>) {
        for entry in entries {
            let result = match entry {
                Entry::Lines(batch) => self.write(&batch),
                Entry::Reopen => {
                    self.must_reopen = true;
                    self.reopen()
                }
                Entry::Flush(done) => {
                    let _ = done.send(());
                    continue;
                }
            };
            self.report(result);
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if self.must_reopen {
            self.file = open_file(&self.path)?;
            (self.must_reopen, self.is_torn) = (false, false);
        }
        Ok(())
    }

    /// Writes lines, to the old file if the new one cannot be opened.
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let reopened = self.reopen();
        let end: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let written = self.file.write_all(end);
        let written = written.and_then(|()| self.file.write_all(&batch.text));
        self.is_torn = written.is_err();
        if self.is_torn {
            self.dropped.fetch_add(batch.lines, Ordering::Relaxed);
        }
        written.and(reopened)
    }

    /// Logs the first error, and that it is over.
    fn report(&mut self, result: io::Result<()>) {
        let path = self.path.display();
        let was_failing = std::mem::replace(&mut self.is_failing, result.is_err());
        match result {
            Err(error) if !was_failing => self.log.write(&format!(
                "cannot write the access log {path}: {error}; lines are dropped"
            )),
            Ok(()) if was_failing => {
                let line = format!("the access log {path} is writable again");
                self.log.write(&line);
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    // Statics need std's mutex, also when the tests run with loom's.
    use std::sync::Mutex as StdMutex;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("im-access-{}-{name}", std::process::id()))
    }

    fn open(path: &Path, write: fn(&str)) -> io::Result<AccessLog> {
        AccessLog::open(path, &Log::start(write)?)
    }

    #[test]
    fn lines_are_written_in_order_and_after_a_rename_to_the_new_file() {
        let (path, old) = (scratch("a"), scratch("old"));
        let log = open(&path, |_| {}).unwrap();
        let buffer = log.buffer();
        for line in ["one", "two"] {
            buffer.line(line);
        }
        buffer.flush();
        log.flush();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        buffer.line("three");
        buffer.flush();
        log.flush();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(log.dropped(), 0);
        for path in [path, old] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_full_disk_does_not_block_and_every_dropped_line_is_counted() {
        static LINES: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
        if !Path::new("/dev/full").exists() {
            return;
        }
        let write = |line: &str| LINES.lock().unwrap().push(line.to_owned());
        let server_log = Log::start(write).unwrap();
        let log = AccessLog::open("/dev/full".as_ref(), &server_log).unwrap();
        let buffer = log.buffer();
        for _ in 0..10_000 {
            buffer.line(&"x".repeat(1000));
        }
        buffer.flush();
        while log.dropped() < 10_000 {
            thread::yield_now();
        }
        assert_eq!(log.dropped(), 10_000);
        log.flush();
        server_log.flush();
        assert_eq!(LINES.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error() {
        let path = scratch("none").join("access.log");
        let error = open(&path, |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
