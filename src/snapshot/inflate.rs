//! From the gzip form of a body, which is all that a payload file holds of it, to its identity form.

use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};

use super::pace::give_way;

/// What one byte of deflate can become at most: two bits may stand for a match of 258 bytes.
pub(crate) const GROWTH_MAX: u64 = 258 * 4;
/// A gzip header (RFC 1952) that says deflate, and that none of the optional parts follow it.
const HEADER_START: [u8; 4] = [0x1f, 0x8b, 8, 0];
const HEADER_BYTES: usize = 10;
/// What is written at a stretch: half of a hundred microseconds' work.
const STEP_BYTES: usize = 64 * 1024;
/// Checksum and length of the identity form, which the payload's own records hold too.
const TRAILER_BYTES: usize = 8;

/// The deflated part of a gzip form; `None` if the header is not the one that payload files have.
pub(crate) fn deflated(gzip: &[u8]) -> Option<&[u8]> {
    let end = gzip.len().checked_sub(TRAILER_BYTES)?;
    gzip.starts_with(&HEADER_START)
        .then(|| gzip.get(HEADER_BYTES..end))?
}

/// Where the deflated part of a gzip form of that many bytes begins and ends.
pub(crate) fn deflated_range(gzip_bytes: u64) -> Range<u64> {
    HEADER_BYTES as u64..gzip_bytes.saturating_sub(TRAILER_BYTES as u64)
}

/// A deflated stream, inflated step by step into buffers of any length.
#[derive(Debug)]
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Inflater {
        Inflater(Decompress::new(false))
    }

    /// Inflates some of `input` into `output`. Returns the bytes consumed and written, both 0 if the stream
    /// is damaged or at its end.
    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> (usize, usize) {
        let before = (self.0.total_in(), self.0.total_out());
        let step = self.0.decompress(input, output, FlushDecompress::None);
        if step.is_err() {
            return (0, 0);
        }
        let since =
            |total: u64, before: u64| usize::try_from(total - before).expect("within a buffer");
        (
            since(self.0.total_in(), before.0),
            since(self.0.total_out(), before.1),
        )
    }
}

/// The identity form, `plain_bytes` long; `None` where that is not what is there.
///
/// A third cheaper than `GzDecoder`: a whole form goes straight to its place, and its checksum is
/// the caller's.
pub(crate) fn inflate(gzip: &[u8], plain_bytes: usize) -> Option<Vec<u8>> {
    let deflated = deflated(gzip)?;
    let mut plain = vec![0; plain_bytes];
    let mut inflater = Decompress::new(false);
    let (mut read, mut written) = (0, 0);
    loop {
        give_way(0);
        let end = plain_bytes.min(written + STEP_BYTES);
        let room = &mut plain[written..end];
        let step = inflater.decompress(&deflated[read..], room, FlushDecompress::None);
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
    use crate::snapshot::Packed;

    #[test]
    fn a_form_inflates_to_what_it_was_made_of_and_to_no_other_length() {
        arbtest::arbtest(|u| {
            let unit: Vec<u8> = u.arbitrary()?;
            let plain = unit.repeat(u.int_in_range(0..=20_000)?);
            let gzip = Packed::new(plain.clone()).gzip;
            if gzip.is_empty() {
                return Ok(());
            }
            assert!(plain.len() as u64 <= gzip.len() as u64 * GROWTH_MAX);
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
            let gzip = Packed::new(plain.to_vec()).gzip;
            assert!(inflate(&gzip, length).as_deref() == Some(plain), "{length}");
            assert!(inflate(&gzip, length - 1).is_none(), "{length}");
            assert!(inflate(&gzip, length + 1).is_none(), "{length}");
        }
    }

    #[test]
    fn what_is_no_gzip_or_is_cut_short_is_nothing() {
        let plain = b"0123456789".repeat(100);
        let gzip = Packed::new(plain.clone()).gzip;
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
