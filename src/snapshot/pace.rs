//! Working through a large file without keeping others from the core.
//!
//! To open a file of hundreds of megabytes takes a good part of a second. A worker that shares the core
//! has requests to answer meanwhile, so after some tens of microseconds it is asked whether it wants to.

use std::thread::yield_now;

/// How much is read or checked at a stretch.
pub(crate) const PIECE_BYTES: usize = 128 * 1024;
/// Steps of a loop that take about as long.
const STEPS: usize = 4096;

/// To be called with the number of each step of a long loop.
pub(crate) fn give_way(step: usize) {
    if step.is_multiple_of(STEPS) {
        yield_now();
    }
}

/// Pieces of a section, with a pause after each.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(PIECE_BYTES).inspect(|_| yield_now())
}

/// The CRC-32 of a section.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for piece in pieces(bytes) {
        hasher.update(piece);
    }
    hasher.finalize()
}
