//! Reading of large files in the background: with pauses.
//!
//! Opening a file of hundreds of megabytes takes a large part of a second of CPU time, on a core
//! that a worker needs for requests. Yielding the core is not enough: a fair scheduler returns it
//! for milliseconds. A low priority is too much: while other processes use the core, a thread of
//! niceness 19 did not load a publish within 20 seconds. A thread in the background therefore sleeps
//! 100 µs after each 100 µs of work, which bounds the latency that it adds to requests.

use std::cell::Cell;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes that a background thread processes between yield points: four pages, since getting new
/// memory costs more than filling it.
const BACKGROUND_CHUNK_BYTES: usize = 16 * 1024;
/// The same of other threads: what fits in the cache of one core.
const CHUNK_BYTES: usize = 256 * 1024;
/// Steps of a loop that take about as long as a chunk.
const STEPS: usize = 512;
/// How long a background thread works between pauses.
const WORK: Duration = Duration::from_micros(100);
/// The length of a pause; the system makes it half as long again.
const PAUSE: Duration = Duration::from_micros(100);

thread_local! {
    /// The end of the last pause; `None` if the thread is not in the background.
    static RESUMED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes this thread open payloads in the background from now on: half as fast, with pauses.
pub fn work_in_background() {
    RESUMED.set(Some(Instant::now()));
}

/// Pauses a background thread if it is time to. To be called with the number of each step of a long
/// loop.
pub(crate) fn yield_point(step: usize) {
    if step.is_multiple_of(STEPS)
        && let Some(resumed) = RESUMED.get()
        && resumed.elapsed() >= WORK
    {
        sleep(PAUSE);
        RESUMED.set(Some(Instant::now()));
    }
}

pub(crate) fn in_background() -> bool {
    RESUMED.get().is_some()
}

/// Returns the number of bytes to process between yield points.
pub(crate) fn chunk_bytes() -> usize {
    if in_background() {
        BACKGROUND_CHUNK_BYTES
    } else {
        CHUNK_BYTES
    }
}
