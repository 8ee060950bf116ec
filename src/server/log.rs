//! `Log`: lines for a person, written by a thread of their own. A log that nobody reads stalls nobody.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Lines that may wait to be written; further ones are lost.
const WAITING_MAX: usize = 1024;
/// How long the last lines may take at the end.
const PATIENCE: Duration = Duration::from_secs(1);

enum Entry {
    Line(String),
    /// To be acknowledged when all before it is written.
    Mark(SyncSender<()>),
}

/// Where lines are left to be written.
#[derive(Clone, Debug)]
pub(crate) struct Log(SyncSender<Entry>);

impl Log {
    /// A log whose lines are given to `write`.
    pub(crate) fn start(write: fn(&str)) -> io::Result<Log> {
        let (sender, entries) = sync_channel(WAITING_MAX);
        let run = move || write_all(&entries, write);
        thread::Builder::new().name("log".into()).spawn(run)?;
        Ok(Log(sender))
    }

    /// Leaves a line. Never waits.
    pub(crate) fn say(&self, line: &str) {
        // Full means that nobody reads, and then nobody misses it.
        let _ = self.0.try_send(Entry::Line(line.to_owned()));
    }

    /// Waits until what was left is written, but not for long.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.0.try_send(Entry::Mark(done)).is_ok() {
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

fn write_all(entries: &Receiver<Entry>, write: fn(&str)) {
    for entry in entries {
        match entry {
            Entry::Line(line) => write(&line),
            Entry::Mark(done) => drop(done.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
