//! Bodies as they are stored in a payload file: read, verified, and inflated to their identity
//! form.

use std::ops::Range;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

use super::error::SnapshotError;
use super::format::BodyRef;
use super::storage::Storage;
use super::throttle::yield_point;

/// A gzip header (RFC 1952) for deflate, without the optional parts.
const HEADER_START: [u8; 4] = [0x1f, 0x8b, 8, 0];
const HEADER_BYTES: usize = 10;
/// Checksum and length of the identity form, which a [`BodyRef`] contains too.
const TRAILER_BYTES: usize = 8;
/// Bytes that are inflated between yield points: about 50 µs of work.
const STEP_BYTES: usize = 64 * 1024;

/// Reads the stored form of a body, gzip or plain, and verifies its checksum.
pub(crate) fn read_stored(storage: &Storage, body: BodyRef) -> Result<Bytes, SnapshotError> {
    let gzip = body.has_gzip();
    let stored = storage.read(body.offset, body.bytes(gzip) as usize);
    let stored = stored.map_err(|source| body.unreadable(&source))?;
    SnapshotError::expect_checksum(body.place(), body.crc(gzip), crc32fast::hash(&stored))?;
    Ok(stored)
}

/// Converts the stored form of a body to the identity form, and verifies its checksum.
pub(crate) fn to_plain(body: BodyRef, stored: Bytes) -> Result<Bytes, SnapshotError> {
    if !body.has_gzip() {
        return Ok(stored);
    }
    let plain = inflate(&stored, body.plain_bytes as usize).ok_or_else(|| {
        SnapshotError::malformed(body.place(), "its gzip form does not inflate to its length")
    })?;
    SnapshotError::expect_checksum(body.place(), body.plain_crc, crc32fast::hash(&plain))?;
    Ok(plain.into())
}

/// Returns `true` if a gzip form has the header that payload files have.
pub(crate) fn has_stored_header(gzip: &[u8]) -> bool {
    gzip.starts_with(&HEADER_START) && gzip.len() >= HEADER_BYTES + TRAILER_BYTES
}

/// Returns the range of the deflate stream in a gzip form of that length.
pub(crate) fn deflated_range(gzip_bytes: u64) -> Range<u64> {
    HEADER_BYTES as u64..gzip_bytes.saturating_sub(TRAILER_BYTES as u64)
}

/// Inflates a gzip form to exactly `plain_bytes`; `None` if it does not contain as much.
///
/// A third cheaper than `GzDecoder`: it writes to its destination without a buffer between, and the
/// caller verifies the checksum.
fn inflate(gzip: &[u8], plain_bytes: usize) -> Option<Vec<u8>> {
    if !has_stored_header(gzip) {
        return None;
    }
    let deflated = &gzip[HEADER_BYTES..gzip.len() - TRAILER_BYTES];
    let mut plain = vec![0; plain_bytes];
    let mut inflater = Decompress::new(false);
    let (mut read, mut written) = (0, 0);
    loop {
        yield_point(0);
        let end = plain_bytes.min(written + STEP_BYTES);
        let step = &mut plain[written..end];
        let step = inflater.decompress(&deflated[read..], step, FlushDecompress::None);
        let status = step.ok()?;
        let before = (read, written);
        read = usize::try_from(inflater.total_in()).ok()?;
        written = usize::try_from(inflater.total_out()).ok()?;
        if status == Status::StreamEnd {
            return (written == plain_bytes).then_some(plain);
        }
        if (read, written) == before {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::EncodedPair;
    use crate::snapshot::format::EXPANSION_MAX;

    #[test]
    fn a_form_inflates_to_its_body_and_to_no_other_length() {
        arbtest::arbtest(|u| {
            let unit: Vec<u8> = u.arbitrary()?;
            let plain = unit.repeat(u.int_in_range(0..=20_000)?);
            let gzip = EncodedPair::new(plain.clone()).gzip;
            if gzip.is_empty() {
                return Ok(());
            }
            assert!(plain.len() as u64 <= gzip.len() as u64 * EXPANSION_MAX);
            assert_eq!(inflate(&gzip, plain.len() - 1), None);
            assert_eq!(inflate(&gzip, plain.len() + 1), None);
            assert_eq!(inflate(&gzip, plain.len()), Some(plain));
            Ok(())
        });
    }

    #[test]
    fn a_form_of_many_steps_is_whole() {
        let mut text = String::new();
        for number in 0..3 * STEP_BYTES / 4 {
            text.push_str(&(number * 7919 % 10_007).to_string());
        }
        for length in [STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, text.len()] {
            let plain = &text.as_bytes()[..length];
            let gzip = EncodedPair::new(plain.to_vec()).gzip;
            assert!(inflate(&gzip, length).as_deref() == Some(plain), "{length}");
            assert!(inflate(&gzip, length - 1).is_none(), "{length}");
            assert!(inflate(&gzip, length + 1).is_none(), "{length}");
        }
    }

    #[test]
    fn a_form_that_is_not_gzip_or_is_cut_short_is_rejected() {
        let plain = b"0123456789".repeat(100);
        let gzip = EncodedPair::new(plain.clone()).gzip;
        for length in 0..gzip.len() {
            // A cut trailer takes its eight bytes from the end of the deflated part.
            assert_eq!(inflate(&gzip[..length], plain.len()), None, "{length}");
        }
        for at in 0..4 {
            let mut other = gzip.clone();
            other[at] ^= 4;
            assert_eq!(inflate(&other, plain.len()), None, "byte {at}");
        }
    }
}
