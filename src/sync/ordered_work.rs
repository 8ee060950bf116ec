//! Parallel work on a fixed number of items, with results delivered in order.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::{Condvar, Mutex, lock};

/// Items per thread that may be started ahead of the next result to be delivered: enough that one
/// slow item does not stall the other threads, few enough to bound the results kept in memory.
const AHEAD_MAX: usize = 4;

/// Returns the number of threads to use: one per core.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs `work` on the items `0..count` with `threads` threads. Each thread creates a state with
/// `state` and reuses it for all its items. `deliver` is called on the calling thread, with the
/// results in order; its first error stops the work.
pub fn in_order<S, T: Send, E>(
    (threads, count): (usize, usize),
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
    mut deliver: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    let queue = OrderedWorkQueue::new(count, threads.max(1) * AHEAD_MAX);
    thread::scope(|scope| {
        let (results, done) = mpsc::channel();
        for _ in 0..threads.max(1).min(count) {
            let results = results.clone();
            let (queue, state, work) = (&queue, &state, &work);
            scope.spawn(move || queue.run_worker(&results, state, work));
        }
        drop(results);
        // Stops waiting threads on every return path.
        let _close = CloseOnDrop(&queue);
        let mut early = BTreeMap::new();
        let mut next = 0;
        // If a thread panics, the results end early and the scope propagates the panic.
        for (at, result) in done {
            early.insert(at, result);
            while let Some(result) = early.remove(&next) {
                deliver(next, result)?;
                next += 1;
                queue.delivered(next);
            }
        }
        Ok(())
    })
}

/// Hands out item numbers in order, and limits how far threads run ahead of the delivered results.
struct OrderedWorkQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    count: usize,
    window: usize,
}

struct QueueState {
    taken: usize,
    delivered: usize,
    closed: bool,
}

impl OrderedWorkQueue {
    fn new(count: usize, window: usize) -> OrderedWorkQueue {
        OrderedWorkQueue {
            state: Mutex::new(QueueState {
                taken: 0,
                delivered: 0,
                closed: false,
            }),
            changed: Condvar::new(),
            count,
            window,
        }
    }

    fn run_worker<S, T>(
        &self,
        results: &Sender<(usize, T)>,
        state: impl Fn() -> S,
        work: impl Fn(&mut S, usize) -> T,
    ) {
        let close = CloseOnDrop(self);
        let mut state = state();
        while let Some(at) = self.take() {
            if results.send((at, work(&mut state, at))).is_err() {
                break;
            }
        }
        // Closes the queue only on a panic; the other threads continue after a normal return.
        std::mem::forget(close);
    }

    /// Returns the next item; waits while it is too far ahead. `None` if there are no more.
    fn take(&self) -> Option<usize> {
        let mut state = lock(&self.state);
        while !state.closed
            && state.taken < self.count
            && state.taken >= state.delivered + self.window
        {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed || state.taken == self.count {
            return None;
        }
        state.taken += 1;
        Some(state.taken - 1)
    }

    fn delivered(&self, count: usize) {
        lock(&self.state).delivered = count;
        self.changed.notify_all();
    }
}

/// Closes the queue when dropped.
struct CloseOnDrop<'a>(&'a OrderedWorkQueue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whichever_thread_finishes_first() {
        for threads in [1, 2, 7] {
            let mut seen = Vec::new();
            let work = |done: &mut usize, at: usize| {
                *done += 1;
                thread::sleep(std::time::Duration::from_micros((at % 7) as u64 * 50));
                at * 2
            };
            let end: Result<(), ()> = in_order(
                (threads, 100),
                || 0,
                work,
                |at, twice| {
                    seen.push((at, twice));
                    Ok(())
                },
            );
            assert_eq!(end, Ok(()));
            let want: Vec<(usize, usize)> = (0..100).map(|at| (at, at * 2)).collect();
            assert_eq!(seen, want);
        }
    }

    #[test]
    fn no_work_finishes_immediately() {
        let end: Result<(), ()> = in_order((3, 0), || (), |(), _| (), |_, ()| Err(()));
        assert_eq!(end, Ok(()));
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let end = in_order(
            (2, 1_000_000),
            || (),
            |(), at| at,
            |at, _| {
                if at == 5 { Err(at) } else { Ok(()) }
            },
        );
        assert_eq!(end, Err(5));
    }

    #[test]
    fn a_panic_is_propagated_and_blocks_no_thread() {
        let panicked = std::panic::catch_unwind(|| {
            let work = |(): &mut (), at: usize| assert_ne!(at, 20, "on purpose");
            in_order((3, 1000), || (), work, |_, ()| Ok::<(), ()>(()))
        });
        assert!(panicked.is_err());
    }
}
