//! A line on the terminal that shows how far long work has come.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_secs(1);
/// The least time between two lines.
const INTERVAL: Duration = Duration::from_millis(100);

/// One line, rewritten in place; nothing where stderr is no terminal.
pub(crate) struct Progress {
    begun: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            begun: Instant::now(),
            drawn: None,
            terminal: io::stderr().is_terminal(),
        }
    }

    /// Shows how many pieces of a part of the work are done.
    pub(crate) fn show(&mut self, what: &str, done: usize, all: usize) {
        let now = Instant::now();
        let due = self.drawn.is_none_or(|drawn| now - drawn > INTERVAL) && now - self.begun > QUIET;
        if self.terminal && due {
            let percent = done * 100 / all.max(1);
            draw(&format!("\r{what} {done} of {all} ({percent} %)\x1b[K"));
            self.drawn = Some(now);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            draw("\r\x1b[K");
        }
    }
}

fn draw(text: &str) {
    let mut terminal = io::stderr();
    // A terminal that has gone away is no reason to stop the work.
    let _ = terminal.write_all(text.as_bytes());
    let _ = terminal.flush();
}
