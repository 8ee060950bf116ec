//! The service manager that the server is told to have: it listens, and expects signs of life.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::Outcome;

/// Within which time it wants to hear that all is well.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

pub(crate) struct Manager {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Heard>,
}

/// What it was told.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) signs: usize,
    /// The longest time without a sign of life, from readiness to stopping.
    pub(crate) longest: Duration,
    pub(crate) reloads: usize,
    /// Times that it was told of readiness, at the start and behind each reload.
    pub(crate) ready: usize,
}

impl Manager {
    pub(crate) fn listen(path: &Path) -> Outcome<Manager> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(LOOK))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut heard = Heard::default();
            let (mut since, mut text) = (None, [0; 4096]);
            while !over.load(Ordering::Relaxed) {
                let count = socket.recv(&mut text).unwrap_or(0);
                let now = Instant::now();
                let told = String::from_utf8_lossy(&text[..count]);
                for line in told.lines() {
                    match line {
                        "WATCHDOG=1" => heard.signs += 1,
                        "RELOADING=1" => heard.reloads += 1,
                        "READY=1" => heard.ready += 1,
                        _ => {}
                    }
                }
                if let Some(since) = since {
                    heard.longest = heard.longest.max(now.duration_since(since));
                }
                if told.contains("WATCHDOG=1") || (since.is_none() && told.contains("READY=1")) {
                    since = Some(now);
                }
                if told.contains("STOPPING=1") {
                    break;
                }
            }
            heard
        });
        Ok(Manager { is_over, thread })
    }

    pub(crate) fn end(self) -> Outcome<Heard> {
        self.is_over.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the manager panicked")?)
    }
}

impl Heard {
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.signs == 0 || self.longest > WATCHDOG / 2 {
            let millis = self.longest.as_millis();
            faults.push(format!("the watchdog heard nothing for {millis} ms"));
        }
        if self.ready != self.reloads + 1 {
            let (ready, reloads) = (self.ready, self.reloads);
            faults.push(format!("{reloads} reloads, and {ready} times ready"));
        }
        faults
    }
}
