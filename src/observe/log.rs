//! [`Log`]: a log whose lines a separate thread writes, and two filters in front of it.
//!
//! Lines are queued, so a slow disk or a blocked standard error never blocks the server. Lines that do not fit in the
//! queue, or that its target does not take, are dropped and counted.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Maximum number of queued lines of the server log.
const QUEUE_MAX: usize = 1024;
/// Longer lines are cut: journald splits lines of more than 48 KiB.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// A batch of a [`LogBuffer`] of this size is queued immediately, a smaller one by [`LogBuffer::flush`].
const BATCH_BYTES: usize = 32 * 1024;
/// Timeout of [`Log::flush`].
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// Minimum time between two lines of a [`RateLimitedLog`].
const RATE_LIMIT: Duration = Duration::from_secs(10);

enum Entry {
    Lines(Lines),
    Reopen,
    /// Acknowledged when all lines before it are written.
    Flush(SyncSender<()>),
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// With a line break behind each line, but for a single one of [`Log::write`].
    pub(super) text: String,
    count: u64,
}

/// The destination of a log, owned by its thread.
pub(super) trait Target: Send + 'static {
    /// Returns `false` if the lines are dropped.
    fn write(&mut self, lines: &Lines) -> bool;

    /// Opens a file by its path again, after it was renamed.
    fn reopen(&mut self) {}
}

/// A handle to a log. Clones write to the same log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Starts the log of the server, which passes each line to `write`.
    pub(crate) fn start(write: fn(&str)) -> io::Result<Log> {
        Log::spawn("log", QUEUE_MAX, write)
    }

    pub(super) fn spawn(name: &str, queue_max: usize, mut target: impl Target) -> io::Result<Log> {
        let (queue, entries) = sync_channel(queue_max);
        let dropped = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&dropped);
        let run = move || {
            for entry in entries {
                match entry {
                    Entry::Lines(lines) if target.write(&lines) => {}
                    Entry::Lines(lines) => {
                        counter.fetch_add(lines.count, Ordering::Relaxed);
                    }
                    Entry::Reopen => target.reopen(),
                    Entry::Flush(done) => drop(done.send(())),
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Log { queue, dropped })
    }

    /// Queues a line. Never blocks: with a full queue the line is dropped.
    pub(crate) fn write(&self, line: &str) {
        let text = line[..line.floor_char_boundary(LINE_BYTES_MAX)].to_owned();
        self.queue(Lines { text, count: 1 });
    }

    fn queue(&self, lines: Lines) {
        let count = lines.count;
        if self.queue.try_send(Entry::Lines(lines)).is_err() {
            self.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Makes a log of a file open it by its path again. Never blocks: with a full queue the request is dropped.
    pub(crate) fn reopen(&self) {
        let _ = self.queue.try_send(Entry::Reopen);
    }

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

impl Target for fn(&str) {
    fn write(&mut self, line: &Lines) -> bool {
        self(&line.text);
        true
    }
}

/// The buffer in which a worker collects lines of the access log.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    log: Log,
    // Contended only at the end: otherwise the worker's thread alone locks it.
    lines: Mutex<Lines>,
}

impl LogBuffer {
    pub(crate) fn new(log: &Log) -> LogBuffer {
        let (log, lines) = (log.clone(), Mutex::default());
        LogBuffer { log, lines }
    }

    /// Adds a line, and queues the batch if it is large enough.
    pub(crate) fn line(&self, line: &str) {
        let mut lines = lock(&self.lines);
        lines.text.push_str(line);
        lines.text.push('\n');
        lines.count += 1;
        if lines.text.len() >= BATCH_BYTES {
            self.log.queue(std::mem::take(&mut lines));
        }
    }

    pub(crate) fn flush(&self) {
        let lines = std::mem::take(&mut *lock(&self.lines));
        if lines.count > 0 {
            self.log.queue(lines);
        }
    }
}

/// A log for errors that any client can repeat, such as a damaged file that is requested: counts the responses that
/// fail, and writes at most one line in ten seconds.
#[derive(Debug)]
pub(crate) struct RateLimitedLog {
    log: Log,
    last: Mutex<Option<Instant>>,
    count: AtomicU64,
}

impl RateLimitedLog {
    pub(crate) fn new(log: Log) -> RateLimitedLog {
        let (last, count) = (Mutex::new(None), AtomicU64::new(0));
        RateLimitedLog { log, last, count }
    }

    /// Returns the number of failed responses, whether or not they were logged.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a failed response. Writes a line, unless another one was written in the last ten seconds.
    pub(crate) fn write(&self, line: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut last = lock(&self.last);
        if last.is_none_or(|last| last.elapsed() >= RATE_LIMIT) {
            *last = Some(Instant::now());
            self.log.write(line);
        }
    }
}

/// A log for an error that lasts, which repeats no line.
#[derive(Debug)]
pub(crate) struct DedupLog {
    pub(crate) log: Log,
    written: BTreeSet<String>,
    written_max: usize,
}

impl DedupLog {
    /// Creates a log that remembers `written_max` different lines. With 1, a line is written again after a different
    /// one.
    pub(crate) fn new(log: Log, written_max: usize) -> DedupLog {
        let written = BTreeSet::new();
        DedupLog {
            log,
            written,
            written_max,
        }
    }

    /// Writes a line unless it was written before. Returns `true` if it was written.
    pub(crate) fn write(&mut self, line: String) -> bool {
        if self.written.contains(&line) {
            return false;
        }
        if self.written.len() == self.written_max {
            self.written.clear();
        }
        self.log.write(&line);
        self.written.insert(line)
    }

    /// Marks the error as resolved: the same lines are written again if it comes back. Returns `true` if there was one.
    pub(crate) fn reset(&mut self) -> bool {
        !std::mem::take(&mut self.written).is_empty()
    }
}

#[cfg(test)]
mod tests {
    // Statics need std's mutex, also when the tests run with loom's.
    use std::sync::Mutex as StdMutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    impl Target for Sender<String> {
        fn write(&mut self, lines: &Lines) -> bool {
            self.send(lines.text.clone()).is_ok()
        }
    }

    impl Log {
        /// Starts a log whose lines a test receives. It ends with the last handle.
        pub(crate) fn received() -> (Log, Receiver<String>) {
            let (sender, lines) = channel();
            (Log::spawn("log", QUEUE_MAX, sender).unwrap(), lines)
        }
    }

    #[test]
    fn a_blocked_writer_does_not_block_the_log() {
        let log = Log::start(|_| {
            loop {
                thread::park();
            }
        })
        .unwrap();
        let begun = Instant::now();
        for _ in 0..10 * QUEUE_MAX {
            log.write("a line");
        }
        log.flush();
        assert!(begun.elapsed() < 20 * FLUSH_MAX);
    }

    #[test]
    fn lines_are_written_in_order_before_a_flush_returns() {
        static WRITTEN: StdMutex<String> = StdMutex::new(String::new());
        let log = Log::start(|line| WRITTEN.lock().unwrap().push_str(line)).unwrap();
        for line in ["a", "b", "c"] {
            log.write(line);
        }
        log.flush();
        assert_eq!(*WRITTEN.lock().unwrap(), "abc");
    }

    #[test]
    fn a_lasting_error_has_each_line_once_until_it_is_resolved() {
        let (log, lines) = Log::received();
        let mut errors = DedupLog::new(log, usize::MAX);
        let mut write = |line: &str| errors.write(line.to_owned());
        let written = ["data", "keys", "data", "keys"].map(&mut write);
        assert_eq!(written, [true, true, false, false]);
        assert!(errors.reset() && !errors.reset() && errors.write("data".to_owned()));
        drop(errors);
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["data", "keys", "data"]);
    }

    #[test]
    fn a_rate_limited_log_writes_one_of_a_thousand_simultaneous_lines() {
        static WRITTEN: StdMutex<Vec<String>> = StdMutex::new(Vec::new());
        let log = Log::start(|line| WRITTEN.lock().unwrap().push(line.to_owned())).unwrap();
        let limited = RateLimitedLog::new(log.clone());
        for number in 0..1000 {
            limited.write(&number.to_string());
        }
        log.flush();
        assert_eq!(*WRITTEN.lock().unwrap(), ["0"]);
        assert_eq!(limited.count(), 1000);
        *lock(&limited.last) = Instant::now().checked_sub(RATE_LIMIT);
        limited.write("after the interval");
        log.flush();
        assert_eq!(*WRITTEN.lock().unwrap(), ["0", "after the interval"]);
    }
}
