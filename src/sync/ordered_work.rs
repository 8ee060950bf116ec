//! Parallel work on a fixed number of items, with results delivered in order.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread;

use super::{Mutex, lock};

/// Items per thread that may be started ahead of the next result to be delivered: enough that one
/// slow item does not stall the other threads, few enough to bound the results kept in memory.
const AHEAD_MAX: usize = 4;

/// Returns the number of threads to use: one per core.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs `work` on the items `0..count` with `threads` threads. Each thread creates a state with
/// `state` and reuses it for all its items. `deliver` is called on the calling thread, with the
/// results in order; its first error stops the work. A panic of `work` is passed on.
pub fn in_order<S, T: Send, E>(
    (threads, count): (usize, usize),
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
    mut deliver: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.max(1);
    let (start, started) = mpsc::channel();
    let started = Mutex::new(started);
    thread::scope(|scope| {
        // Both channels are closed on every return path, which ends the threads.
        let start = start;
        let (results, done) = mpsc::channel();
        for _ in 0..threads.min(count) {
            let results = results.clone();
            let (started, state, work) = (&started, &state, &work);
            // The lock is held while a thread waits for an item: the others wait for the next one.
            let take = || lock(started).recv();
            scope.spawn(move || {
                let mut state = state();
                while let Ok(at) = take() {
                    let result = catch_unwind(AssertUnwindSafe(|| work(&mut state, at)));
                    if results.send((at, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        let ahead = threads * AHEAD_MAX;
        let begin = |at: usize| start.send(at).expect("the receiver is dropped later");
        (0..count.min(ahead)).for_each(begin);
        let mut early = BTreeMap::new();
        for next in 0..count {
            let result = loop {
                if let Some(result) = early.remove(&next) {
                    break result;
                }
                let Ok((at, result)) = done.recv() else {
                    // Every thread has panicked in `state`, which the scope passes on.
                    return Ok(());
                };
                early.insert(at, result.unwrap_or_else(|panic| resume_unwind(panic)));
            };
            deliver(next, result)?;
            if next + ahead < count {
                begin(next + ahead);
            }
        }
        Ok(())
    })
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
        let panicked = catch_unwind(|| {
            let work = |(): &mut (), at: usize| assert_ne!(at, 20, "on purpose");
            in_order((3, 1000), || (), work, |_, ()| Ok::<(), ()>(()))
        });
        assert!(panicked.is_err());
    }
}
