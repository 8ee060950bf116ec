//! [`PollTrigger`]: a thread that runs a task at a fixed interval, and immediately when triggered.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};

use super::{AtomicU64, Ordering};

/// Time between two polls. Changes of files and of the clock have to take effect within a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// Niceness of a thread that loads data while workers serve. Measured on one core: a worker that wakes
/// up runs sooner than with a loader that sleeps half of the time, at niceness 5, 10 and 19 alike. With
/// 10 and more, however, a loader gets too little time while other processes are busy.
const NICENESS: i32 = 5;

/// Lowers the priority of this thread: it uses the time that workers leave.
pub(crate) fn lower_priority() {
    // Without an id, Linux uses the calling thread alone. Where a filter of system calls forbids it,
    // the thread loads with the usual priority.
    let niceness = getpriority_process(None).unwrap_or(0).max(NICENESS);
    let _ = setpriority_process(None, niceness);
}

/// A handle to a polling thread. The thread ends when all handles are dropped.
#[derive(Clone, Debug)]
pub(crate) struct PollTrigger {
    /// The name of the polled source in metrics and log lines.
    pub(crate) source: &'static str,
    requests: Sender<SyncSender<()>>,
    started: Instant,
    /// Time at which the last poll was completed, in milliseconds since `started`.
    completed: Arc<AtomicU64>,
    thread: Arc<JoinHandle<()>>,
}

impl PollTrigger {
    /// Starts a polling thread, which runs `poll` for the first time immediately. `poll` receives `true`
    /// if it was requested.
    pub(crate) fn start(
        source: &'static str,
        mut poll: impl FnMut(bool) + Send + 'static,
    ) -> io::Result<PollTrigger> {
        let (sender, requests) = channel::<SyncSender<()>>();
        let (started, completed) = (Instant::now(), Arc::<AtomicU64>::default());
        let polls_completed = Arc::clone(&completed);
        let run = move || {
            // Senders of the triggers that the current poll completes.
            let mut pending: Vec<SyncSender<()>> = Vec::new();
            loop {
                poll(!pending.is_empty());
                polls_completed.store(millis_since(started), Ordering::Relaxed);
                for pending in pending.drain(..) {
                    // The receiver may be gone.
                    let _ = pending.send(());
                }
                match requests.recv_timeout(INTERVAL) {
                    Ok(first) => {
                        pending.push(first);
                        pending.extend(requests.try_iter());
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = thread::Builder::new().name(format!("poll-{source}"));
        Ok(PollTrigger {
            source,
            requests: sender,
            started,
            completed,
            thread: Arc::new(thread.spawn(run)?),
        })
    }

    /// Requests a poll that starts after this call. The receiver returns when it is completed, or
    /// fails when the thread has ended.
    pub(crate) fn poll_now(&self) -> Receiver<()> {
        let (done, completed) = sync_channel(1);
        let _ = self.requests.send(done);
        completed
    }

    /// Returns `true` if there are no more polls, because one of them has panicked.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the time since the last completed poll.
    pub(crate) fn age(&self) -> Duration {
        let completed = self.completed.load(Ordering::Relaxed);
        Duration::from_millis(millis_since(self.started).saturating_sub(completed))
    }
}

fn millis_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_trigger_is_completed_by_a_poll_that_started_after_it() {
        static POLLS: AtomicU32 = AtomicU32::new(0);
        static REQUESTED: AtomicU32 = AtomicU32::new(0);
        let poll = |is_requested| {
            POLLS.fetch_add(1, Ordering::SeqCst);
            REQUESTED.fetch_add(u32::from(is_requested), Ordering::SeqCst);
        };
        let trigger = PollTrigger::start("data", poll).unwrap();
        let begun = Instant::now();
        for _ in 0..10 {
            let before = POLLS.load(Ordering::SeqCst);
            trigger.poll_now().recv().unwrap();
            assert!(POLLS.load(Ordering::SeqCst) > before);
        }
        assert!(begun.elapsed() < 10 * INTERVAL, "it waited its interval");
        assert_eq!(REQUESTED.load(Ordering::SeqCst), 10);
    }

    #[test]
    fn a_thread_that_has_panicked_has_ended() {
        let (unblock, blocked) = channel::<()>();
        let poll = move |_| blocked.recv().expect("the poll fails now");
        let trigger = PollTrigger::start("data", poll).unwrap();
        unblock.send(()).unwrap();
        trigger.poll_now();
        assert!(!trigger.has_ended());
        drop(unblock);
        while !trigger.has_ended() {
            thread::yield_now();
        }
        assert!(trigger.poll_now().recv().is_err());
    }

    #[test]
    fn a_lowered_priority_is_that_of_one_thread() {
        let niceness = || getpriority_process(None).unwrap();
        let before = niceness();
        let lowered = thread::spawn(move || {
            lower_priority();
            niceness()
        });
        assert_eq!(lowered.join().unwrap(), NICENESS.max(before));
        assert_eq!(niceness(), before);
    }

    #[test]
    fn the_age_grows_until_a_poll_is_completed() {
        let (unblock, blocked) = channel();
        let poll = move |_| {
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
