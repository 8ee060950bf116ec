//! A stand-in for systemd: receives the notifications of the server, and its watchdog's.

use std::os::unix::net::UnixDatagram;
use std::thread::JoinHandle;

use crate::common::prelude::*;
use crate::scenario::Faults;

/// Timeout of the watchdog; the server has to notify twice as often.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Notifications {
    heartbeats: usize,
    /// The longest time without a heartbeat, from readiness to stopping.
    longest: Duration,
    /// Notifications of readiness.
    ready: usize,
}

/// Listens on a socket at `path` until the server stops, or its watchdog would end it.
pub(crate) fn listen(path: &Path) -> Outcome<JoinHandle<Notifications>> {
    let socket = UnixDatagram::bind(path)?;
    socket.set_read_timeout(Some(WATCHDOG))?;
    Ok(thread::spawn(move || {
        let mut all = Notifications::default();
        let (mut last, mut buffer) = (None, [0; 4096]);
        loop {
            let received = socket.recv(&mut buffer);
            let now = Instant::now();
            let bytes = received.as_ref().map_or(0, |count| *count);
            let text = String::from_utf8_lossy(&buffer[..bytes]);
            let has = |line: &str| text.lines().any(|other| other == line);
            let (is_heartbeat, is_ready) = (has("WATCHDOG=1"), has("READY=1"));
            all.heartbeats += usize::from(is_heartbeat);
            all.ready += usize::from(is_ready);
            if let Some(last) = last {
                all.longest = all.longest.max(now.duration_since(last));
            }
            if is_heartbeat || (last.is_none() && is_ready) {
                last = Some(now);
            }
            if has("STOPPING=1") || received.is_err() {
                return all;
            }
        }
    }))
}

impl Notifications {
    pub(crate) fn report(&self, faults: &Faults) {
        let (goal, longest) = (WATCHDOG / 2, self.longest.as_secs_f64());
        println!(
            "  watchdog: {} heartbeats, at most {longest:.1} s apart; goal {:.0}",
            self.heartbeats,
            goal.as_secs_f64()
        );
        let is_watched = self.heartbeats > 0 && self.longest <= goal;
        faults.require(is_watched, format_args!("no heartbeat for {longest:.1} s"));
        let ready = self.ready;
        faults.require(ready == 1, format_args!("{ready} times ready"));
    }
}
