//! [`Poller`]: a thread that runs a task at a fixed interval, and immediately when triggered.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{AtomicU64, Ordering};

/// Time between two polls. Changes of files and of the clock have to take effect within a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// The state of the polling thread.
struct Poller {
    requests: Receiver<SyncSender<()>>,
    /// Senders of the triggers that the current poll completes.
    pending: Vec<SyncSender<()>>,
    completed: Completed,
}

/// A handle to a poller. The thread ends when all handles are dropped.
#[derive(Clone, Debug)]
pub(crate) struct PollTrigger {
    /// The name of the polled source in metrics and log lines.
    pub(crate) source: &'static str,
    requests: Sender<SyncSender<()>>,
    completed: Completed,
}

/// The time at which the last poll was completed.
#[derive(Clone, Debug)]
struct Completed {
    started: Instant,
    /// Milliseconds since `started`.
    at: Arc<AtomicU64>,
}

impl Completed {
    fn now_millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl PollTrigger {
    /// Starts a poller, which runs `poll` for the first time immediately.
    pub(crate) fn start(
        source: &'static str,
        poll: impl FnMut() + Send + 'static,
    ) -> io::Result<PollTrigger> {
        let (sender, requests) = channel();
        let completed = Completed {
            started: Instant::now(),
            at: Arc::default(),
        };
        let poller = Poller {
            requests,
            pending: Vec::new(),
            completed: completed.clone(),
        };
        thread::Builder::new()
            .name(format!("poll-{source}"))
            .spawn(move || poller.run(poll))?;
        Ok(PollTrigger {
            source,
            requests: sender,
            completed,
        })
    }

    /// Requests a poll that starts after this call. The receiver returns when it is completed, or
    /// fails when the thread has ended.
    pub(crate) fn poll_now(&self) -> Receiver<()> {
        let (done, completed) = sync_channel(1);
        let _ = self.requests.send(done);
        completed
    }

    /// Returns the time since the last completed poll.
    pub(crate) fn age(&self) -> Duration {
        let at = self.completed.at.load(Ordering::Relaxed);
        Duration::from_millis(self.completed.now_millis().saturating_sub(at))
    }
}

impl Poller {
    fn run(mut self, mut poll: impl FnMut()) {
        loop {
            poll();
            let now = self.completed.now_millis();
            self.completed.at.store(now, Ordering::Relaxed);
            for pending in self.pending.drain(..) {
                // The receiver may be gone.
                let _ = pending.send(());
            }
            match self.requests.recv_timeout(INTERVAL) {
                Ok(first) => {
                    self.pending.push(first);
                    self.pending.extend(self.requests.try_iter());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_trigger_is_completed_by_a_poll_that_started_after_it() {
        static POLLS: AtomicU32 = AtomicU32::new(0);
        let poll = || {
            POLLS.fetch_add(1, Ordering::SeqCst);
        };
        let trigger = PollTrigger::start("data", poll).unwrap();
        let begun = Instant::now();
        for _ in 0..10 {
            let before = POLLS.load(Ordering::SeqCst);
            trigger.poll_now().recv().unwrap();
            assert!(POLLS.load(Ordering::SeqCst) > before);
        }
        assert!(begun.elapsed() < 10 * INTERVAL, "it waited its interval");
    }

    #[test]
    fn the_age_grows_until_a_poll_is_completed() {
        let (unblock, blocked) = channel();
        let poll = move || {
            let _ = blocked.recv();
        };
        let trigger = PollTrigger::start("data", poll).unwrap();
        thread::sleep(2 * INTERVAL);
        assert!(trigger.age() >= 2 * INTERVAL);
        unblock.send(()).unwrap();
        while trigger.age() >= 2 * INTERVAL {
            thread::yield_now();
        }
    }
}
