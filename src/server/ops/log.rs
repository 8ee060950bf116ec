//! `Log`: lines for a person, written by a thread of their own. A log that nobody reads stalls nobody.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Ordering};

/// Lines that may wait to be written; further ones are lost.
const WAITING_MAX: usize = 1024;
/// A journal takes 10,000 lines of a service in 30 seconds, and throws the others away.
const INTERVAL: Duration = Duration::from_secs(30);
const LINES_MAX: u32 = 5_000;
/// A journal breaks lines of more than 48 KiB.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// How long the last lines may take at the end.
const PATIENCE: Duration = Duration::from_secs(1);

enum Entry {
    Line(String),
    /// To be acknowledged when all before it is written.
    Mark(SyncSender<()>),
}

/// Where lines are left to be written.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    sender: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// A log whose lines are given to `write`.
    pub(crate) fn start(write: fn(&str)) -> io::Result<Log> {
        let (sender, entries) = sync_channel(WAITING_MAX);
        let dropped: Arc<AtomicU64> = Arc::default();
        let left_out = Arc::clone(&dropped);
        let run = move || write_all(&entries, write, &left_out);
        thread::Builder::new().name("log".into()).spawn(run)?;
        Ok(Log { sender, dropped })
    }

    /// Leaves a line. Never waits.
    pub(crate) fn say(&self, line: &str) {
        // Full means that nobody reads, and then nobody misses it.
        if self.sender.try_send(Entry::Line(cut(line))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that nobody took.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was left is written, but not for long.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.sender.try_send(Entry::Mark(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

/// A line that a journal takes as one.
fn cut(line: &str) -> String {
    let end = line.floor_char_boundary(LINE_BYTES_MAX);
    line[..end].to_owned()
}

/// Writes lines, in each interval as many as a journal takes, and says how many were more.
fn write_all(entries: &Receiver<Entry>, write: fn(&str), dropped: &AtomicU64) {
    let (mut begun, mut written, mut more) = (Instant::now(), 0, 0);
    for entry in entries {
        if begun.elapsed() > INTERVAL {
            if more > 0 {
                write(&format!("{more} lines of the log were left out"));
            }
            (begun, written, more) = (Instant::now(), 0, 0);
        }
        match entry {
            Entry::Line(line) if written < LINES_MAX => {
                written += 1;
                write(&line);
            }
            Entry::Line(_) => {
                more += 1;
                dropped.fetch_add(1, Ordering::Relaxed);
            }
            Entry::Mark(done) => drop(done.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_takes_no_line_stalls_nobody() {
        let log = Log::start(|_| {
            loop {
                thread::park();
            }
        })
        .unwrap();
        let begun = Instant::now();
        for _ in 0..10 * WAITING_MAX {
            log.say("a line");
        }
        log.flush();
        assert!(begun.elapsed() < 5 * PATIENCE);
    }

    #[test]
    fn lines_are_written_in_order_before_a_flush_returns() {
        static WRITTEN: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());
        let log = Log::start(|line| WRITTEN.lock().unwrap().push_str(line)).unwrap();
        for line in ["a", "b", "c"] {
            log.say(line);
        }
        log.flush();
        assert_eq!(*WRITTEN.lock().unwrap(), "abc");
    }
}
