//! The server log: [`Log`], and two filters in front of it.
//!
//! Lines are written by a thread of their own, so a blocked standard error never blocks the server.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Maximum number of queued lines; further ones are dropped.
const QUEUE_MAX: usize = 1024;
/// journald accepts 10,000 lines of a service in 30 seconds and drops the rest.
const INTERVAL: Duration = Duration::from_secs(30);
const INTERVAL_LINES_MAX: u32 = 5_000;
/// Longer lines are cut: journald splits lines of more than 48 KiB.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Timeout of [`Log::flush`].
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// Minimum time between two lines of a [`RateLimitedLog`].
const RATE_LIMIT: Duration = Duration::from_secs(10);

enum Entry {
    Line(String),
    /// Acknowledged when all lines before it are written.
    Flush(SyncSender<()>),
}

/// A handle to the log of the server. Clones write to the same log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// Starts the thread that passes each line to `write`.
    pub(crate) fn start(write: fn(&str)) -> io::Result<Log> {
        let (queue, entries) = sync_channel(QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let run = move || write_all(&entries, write, &counter);
        thread::Builder::new().name("log".into()).spawn(run)?;
        Ok(Log { queue, dropped })
    }

    /// Queues a line. Never blocks: with a full queue the line is dropped.
    pub(crate) fn write(&self, line: &str) {
        let line = &line[..line.floor_char_boundary(LINE_BYTES_MAX)];
        if self.queue.try_send(Entry::Line(line.to_owned())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
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

/// Writes queued lines, at most [`INTERVAL_LINES_MAX`] in each interval.
fn write_all(entries: &Receiver<Entry>, write: fn(&str), dropped: &AtomicU64) {
    let (mut begun, mut written, mut suppressed) = (Instant::now(), 0, 0);
    for entry in entries {
        if begun.elapsed() > INTERVAL {
            if suppressed > 0 {
                write(&format!("{suppressed} log lines were suppressed"));
            }
            (begun, written, suppressed) = (Instant::now(), 0, 0);
        }
        match entry {
            Entry::Line(line) if written < INTERVAL_LINES_MAX => {
                written += 1;
                write(&line);
            }
            Entry::Line(_) => {
                suppressed += 1;
                dropped.fetch_add(1, Ordering::Relaxed);
            }
            Entry::Flush(done) => drop(done.send(())),
        }
    }
}

/// A log for files that are damaged or cannot be read when they are requested: counts the responses
/// that fail, and writes at most one line in ten seconds.
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

/// A log for an error that lasts: a line is written only if it differs from the one before.
#[derive(Debug)]
pub(crate) struct DedupLog {
    log: Log,
    last: String,
}

impl DedupLog {
    pub(crate) fn new(log: Log) -> DedupLog {
        let last = String::new();
        DedupLog { log, last }
    }

    /// Writes a line unless it repeats the last one. Returns `true` if it was written.
    pub(crate) fn write(&mut self, line: String) -> bool {
        let is_new = self.last != line;
        if is_new {
            self.log.write(&line);
            self.last = line;
        }
        is_new
    }

    /// Marks the error as resolved: the same line is written again if the error comes back.
    pub(crate) fn reset(&mut self) {
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    // Statics need std's mutex, also when the tests run with loom's.
    use std::sync::Mutex as StdMutex;

    use super::*;

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
        assert!(begun.elapsed() < 5 * FLUSH_MAX);
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
    }
}
