//! Working through a large file without keeping others from the core.
//!
//! To open a file of hundreds of megabytes takes a good part of a second. A worker that shares the core
//! has requests to answer meanwhile. To yield the core is not enough: a scheduler that shares it fairly
//! gives it back for milliseconds. Who rests as long as it works keeps nobody waiting for longer than
//! that.

use std::cell::Cell;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How much is read or checked at a stretch: four pages, since memory that a process has not had yet
/// costs more to get than to fill.
pub(crate) const PIECE_BYTES: usize = 16 * 1024;
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

/// Pieces of a section, with a chance to rest after each.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(PIECE_BYTES).inspect(|_| give_way(0))
}

/// The CRC-32 of a section.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for piece in pieces(bytes) {
        hasher.update(piece);
    }
    hasher.finalize()
}
