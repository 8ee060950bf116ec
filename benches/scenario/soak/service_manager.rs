//! A stand-in for systemd: receives the notifications of the server, and its watchdog's.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::Outcome;
use crate::scenario::Faults;

/// Timeout of the watchdog; the server has to notify twice as often.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);

pub(crate) struct ServiceManager {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Notifications>,
}

/// Notifications of the server.
#[derive(Default)]
pub(crate) struct Notifications {
    heartbeats: usize,
    /// The longest time without a heartbeat, from readiness to stopping.
    longest: Duration,
    reloads: usize,
    /// Notifications of readiness, at the start and after each reload.
    ready: usize,
}

impl ServiceManager {
    /// Listens on a socket at `path`.
    pub(crate) fn start(path: &Path) -> Outcome<ServiceManager> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(POLL))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut all = Notifications::default();
            let (mut last, mut buffer) = (None, [0; 4096]);
            while !over.load(Ordering::Relaxed) {
                let count = socket.recv(&mut buffer).unwrap_or(0);
                let now = Instant::now();
                let text = String::from_utf8_lossy(&buffer[..count]);
                let has = |line: &str| text.lines().any(|other| other == line);
                let (is_heartbeat, is_ready) = (has("WATCHDOG=1"), has("READY=1"));
                all.heartbeats += usize::from(is_heartbeat);
                all.reloads += usize::from(has("RELOADING=1"));
                all.ready += usize::from(is_ready);
                if let Some(last) = last {
                    all.longest = all.longest.max(now.duration_since(last));
                }
                if is_heartbeat || (last.is_none() && is_ready) {
                    last = Some(now);
                }
                if has("STOPPING=1") {
                    break;
                }
            }
            all
        });
        Ok(ServiceManager { is_over, thread })
    }

    pub(crate) fn end(self) -> Outcome<Notifications> {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        Ok(ended.map_err(|_| "the service manager panicked")?)
    }
}

impl Notifications {
    pub(crate) fn report(&self, faults: &Faults) {
        let (goal, longest) = (WATCHDOG / 2, self.longest.as_secs_f64());
        println!(
            "  watchdog: {} heartbeats, at most {longest:.1} s apart; goal {:.0}",
            self.heartbeats,
            goal.as_secs_f64()
        );
        if self.heartbeats == 0 || self.longest > goal {
            faults.add(&format!("no heartbeat for {longest:.1} s"));
        }
        if self.ready != self.reloads + 1 {
            let (ready, reloads) = (self.ready, self.reloads);
            faults.add(&format!("{reloads} reloads, and {ready} times ready"));
        }
    }
}
