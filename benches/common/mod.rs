//! Harness shared by all benches: server processes, datasets, HTTP, load, statistics.
#![allow(dead_code, reason = "each bench uses a part of it")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "computes with measurements and prints them; a bench that uses a part has not all of these"
)]

pub(crate) mod bare;
pub(crate) mod histogram;
pub(crate) mod http;
pub(crate) mod loops;
pub(crate) mod nginx;
pub(crate) mod pool;
pub(crate) mod prelude;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod requests;
pub(crate) mod response;
pub(crate) mod stats;
pub(crate) mod world;

use std::env;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The program under test, built by cargo with the bench.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_island-metrics");
/// A response that takes longer is a failure, not a measurement.
pub(crate) const STALL: Duration = Duration::from_secs(20);
/// Core of the servers, and core of the load.
pub(crate) const SERVER_CORE: u32 = 0;
pub(crate) const LOAD_CORE: u32 = 1;

/// Repeats a check at an interval until it returns a value, or for `longest`.
pub(crate) fn wait_for<T>(
    longest: Duration,
    interval: Duration,
    mut check: impl FnMut() -> Outcome<Option<T>>,
) -> Outcome<Option<T>> {
    let begun = Instant::now();
    loop {
        let found = check()?;
        if found.is_some() || begun.elapsed() > longest {
            return Ok(found);
        }
        thread::sleep(interval);
    }
}

/// Runs `work` beside `watch`, which has to return soon after its flag is set.
pub(crate) fn beside<T: Send, U: Send>(
    watch: impl FnOnce(&AtomicBool) -> T + Send,
    work: impl FnOnce() -> Outcome<U> + Send,
) -> Outcome<(T, U)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&is_over));
        // On a thread of its own, so that `watch` returns when it panics.
        let done = scope.spawn(work).join();
        is_over.store(true, Ordering::Relaxed);
        let seen = watching.join().map_err(|_| "a thread panicked")?;
        Ok((seen, done.map_err(|_| "a thread panicked")??))
    })
}

/// Runs `work` on so many threads at the same time, each with its number.
pub(crate) fn in_parallel<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Outcome<T> + Sync,
) -> Outcome<Vec<T>> {
    thread::scope(|scope| {
        let work = &work;
        let start = |number| scope.spawn(move || work(number));
        let started: Vec<_> = (0..threads).map(start).collect();
        let mut done = Vec::new();
        for one in started {
            done.push(one.join().map_err(|_| "a thread panicked")??);
        }
        Ok(done)
    })
}

/// Returns the first value, and the second in a run that [`is_quick`].
pub(crate) fn full_or_quick<T>(full: T, quick: T) -> T {
    if is_quick() { quick } else { full }
}

/// Whether this run only checks that the bench works: `cargo bench` passes `--bench`, and
/// `cargo test --benches` does not.
pub(crate) fn is_quick() -> bool {
    let has = |flag: &str| env::args_os().any(|argument| argument == flag);
    env::var_os("IM_BENCH_QUICK").is_some() || has("--test") || !has("--bench")
}
