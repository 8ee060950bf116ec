//! `Lookout`: a thread that looks at something again and again, and at once when it is asked to.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, Ordering};

/// How often files and clocks are looked at; a change has to show within a second.
const INTERVAL: Duration = Duration::from_millis(250);

/// The thread's side.
#[derive(Debug)]
pub(crate) struct Lookout {
    asked: Receiver<SyncSender<()>>,
    /// Who waits for the look under way.
    waiting: Vec<SyncSender<()>>,
    completed: Completed,
}

/// The side of whoever wants a look.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    /// The label of what is looked at, in metrics and messages.
    pub(crate) what: &'static str,
    ask: Sender<SyncSender<()>>,
    completed: Completed,
}

/// The time at which a look was completed last.
#[derive(Clone, Debug)]
struct Completed {
    begun: Instant,
    /// Milliseconds from `begun`.
    at: Arc<AtomicU64>,
}

impl Completed {
    fn now_millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Both sides.
pub(crate) fn lookout(what: &'static str) -> (Lookout, Prompt) {
    let (ask, asked) = channel();
    let completed = Completed {
        begun: Instant::now(),
        at: Arc::default(),
    };
    let lookout = Lookout {
        asked,
        waiting: Vec::new(),
        completed: completed.clone(),
    };
    let prompt = Prompt {
        what,
        ask,
        completed,
    };
    (lookout, prompt)
}

impl Lookout {
    /// Tells those who wait that the look is done, and waits until the next one is due.
    pub(crate) fn pause(&mut self) {
        let now = self.completed.now_millis();
        self.completed.at.store(now, Ordering::Relaxed);
        for waiting in self.waiting.drain(..) {
            // Who asked may have gone.
            let _ = waiting.send(());
        }
        match self.asked.recv_timeout(INTERVAL) {
            Ok(first) => {
                self.waiting.push(first);
                self.waiting.extend(self.asked.try_iter());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(INTERVAL),
        }
    }
}

impl Prompt {
    /// Asks for a look. What is given back is told when it is done, or ends with the thread.
    pub(crate) fn ask(&self) -> Receiver<()> {
        let (tell, told) = sync_channel(1);
        // A thread that has ended looks no more, and what is given back says so.
        let _ = self.ask.send(tell);
        told
    }

    /// The time since a look was completed.
    pub(crate) fn age(&self) -> Duration {
        let at = self.completed.at.load(Ordering::Relaxed);
        Duration::from_millis(self.completed.now_millis().saturating_sub(at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn who_asks_is_told_after_a_look_that_began_after_the_question() {
        static LOOKS: AtomicU32 = AtomicU32::new(0);
        let (mut lookout, prompt) = lookout("data");
        let thread = thread::spawn(move || {
            for _ in 0..20 {
                LOOKS.fetch_add(1, Ordering::SeqCst);
                lookout.pause();
            }
        });
        let begun = Instant::now();
        for _ in 0..10 {
            let before = LOOKS.load(Ordering::SeqCst);
            let told = prompt.ask();
            if told.recv().is_ok() {
                assert!(LOOKS.load(Ordering::SeqCst) > before);
            }
        }
        assert!(begun.elapsed() < 10 * INTERVAL, "it waited its time");
        drop(prompt);
        thread.join().unwrap();
    }

    #[test]
    fn a_look_that_does_not_end_ages() {
        let (mut lookout, prompt) = lookout("data");
        lookout.pause();
        assert!(prompt.age() >= INTERVAL);
        thread::sleep(INTERVAL);
        assert!(prompt.age() >= 2 * INTERVAL);
        lookout.pause();
        assert!(prompt.age() < 2 * INTERVAL);
    }
}
