//! Working through a large file: with all cores where somebody waits for it, without keeping others
//! from theirs in the background.
//!
//! To open a file of hundreds of megabytes takes a good part of a second of a core's time. A worker that shares the core
//! has requests to answer meanwhile. To yield the core is not enough: a scheduler that shares it fairly
//! gives it back for milliseconds. Who rests as long as it works keeps nobody waiting for longer than
//! that.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// How much is read or checked at a stretch in the background: four pages, since memory that a
/// process has not had yet costs more to get than to fill.
const PIECE_BYTES: usize = 16 * 1024;
/// And in a hurry: what fits in a core's own cache.
const LARGE_PIECE_BYTES: usize = 256 * 1024;
/// Threads that one payload is read by at most: a few have all of the memory's bandwidth.
const HANDS_MAX: usize = 8;
/// Steps of a loop that take about as long.
const STEPS: usize = 512;
/// How long a thread in the background works before it rests.
const WORK: Duration = Duration::from_micros(100);
/// And how long it rests; the system makes it half as long again.
const REST: Duration = Duration::from_micros(100);

thread_local! {
    /// Since when this thread works; `None` where it is in a hurry.
    static WORKING: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From now on, this thread opens payloads in the background: half as fast, with rests.
pub fn work_in_background() {
    WORKING.set(Some(Instant::now()));
}

/// To be called with the number of each step of a long loop.
pub(crate) fn give_way(step: usize) {
    if !step.is_multiple_of(STEPS) {
        return;
    }
    if let Some(since) = WORKING.get()
        && since.elapsed() >= WORK
    {
        sleep(REST);
        WORKING.set(Some(Instant::now()));
    }
}

/// Whether this thread opens payloads in the background.
pub(crate) fn in_background() -> bool {
    WORKING.get().is_some()
}

/// How much to read or check at a stretch.
pub(crate) fn piece_bytes() -> usize {
    if in_background() {
        PIECE_BYTES
    } else {
        LARGE_PIECE_BYTES
    }
}

/// How many threads are to do what several can, this one among them.
pub(crate) fn hands() -> usize {
    if in_background() {
        1
    } else {
        thread::available_parallelism().map_or(1, |cores| cores.get().min(HANDS_MAX))
    }
}

/// Does two things: one after the other in the background, at once in a hurry.
pub fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    if hands() == 1 {
        return (one(), other());
    }
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        let one = one.join();
        (one.unwrap_or_else(|panic| resume_unwind(panic)), other)
    })
}

/// Pieces of a section, with a chance to rest after each.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(piece_bytes()).inspect(|_| give_way(0))
}

/// The CRC-32 of a section.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for piece in pieces(bytes) {
        hasher.update(piece);
    }
    hasher.finalize()
}
