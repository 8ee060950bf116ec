//! Progress line of long work, drawn on a terminal.

use std::io::{self, IsTerminal, Write};
// Statics need std's atomics, also when the tests run with loom's.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time before the first line, so that short work shows none.
const DELAY: Duration = Duration::from_secs(1);
/// Minimum time between two redraws.
const INTERVAL: Duration = Duration::from_millis(100);

/// Whether the line is on the terminal.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// A line that is redrawn in place, and cleared on drop. Not drawn if stderr is not a terminal.
pub(crate) struct Progress {
    next_draw: Instant,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            next_draw: Instant::now() + DELAY,
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// Shows `done` of `all` parts of a step of the work.
    pub(crate) fn show(&mut self, step: &str, done: usize, all: usize) {
        let now = Instant::now();
        if self.is_terminal && now > self.next_draw {
            let percent = done * 100 / all.max(1);
            draw(&format!("\r{step} {done} of {all} ({percent} %)\x1b[K"));
            self.next_draw = now + INTERVAL;
            IS_DRAWN.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        clear();
    }
}

/// Clears the line, for other text in its place.
pub(super) fn clear() {
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        draw("\r\x1b[K");
    }
}

/// Writes to the terminal. Errors are ignored: a closed terminal must not stop the work.
fn draw(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
