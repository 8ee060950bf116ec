//! Reader between a file and the CSV parser: computes the checksum, counts lines, and stops after a
//! record that is too long.

use std::io::{self, Read};

use super::quote_tracker::QuoteTracker;

/// Bytes added at the end of a file.
const ADDED: &[u8] = b"\n\n";

/// Maximum length of a record, with the blank lines before it: 500 columns with fields of the maximum
/// length that consist of quotes only.
pub(super) const RECORD_BYTES_MAX: u64 = 1 << 20;

/// Reader of a file with two newlines added at its end. The first terminates the last row, so that the
/// line of a row can be counted back from its terminator. The second is then a blank line, and so is the
/// first if the file ends with a newline. A row that contains both has an unclosed quote.
pub(super) struct LineTrackingReader<'a> {
    content: io::Chain<Box<dyn Read + 'a>, &'static [u8]>,
    crc: crc32fast::Hasher,
    read_bytes: u64,
    /// Offsets of the newlines in the bytes read last, and in a record that began before them.
    newlines: Vec<u64>,
    /// Number of them before the offset of the last query.
    passed: usize,
    /// Number of newlines before the first one stored.
    forgotten: u64,
    /// Offset of the last query: the end of the previous record.
    record_end: u64,
    quotes: QuoteTracker,
    /// Offsets of text after a closing quote, from the current record on.
    strays: Vec<u64>,
    ended: bool,
    is_cut: bool,
}

impl<'a> LineTrackingReader<'a> {
    pub(super) fn new(content: Box<dyn Read + 'a>) -> LineTrackingReader<'a> {
        LineTrackingReader {
            content: content.chain(ADDED),
            crc: crc32fast::Hasher::new(),
            read_bytes: 0,
            newlines: Vec::new(),
            passed: 0,
            forgotten: 0,
            record_end: 0,
            quotes: QuoteTracker::new(),
            strays: Vec::new(),
            ended: false,
            is_cut: false,
        }
    }

    /// Returns the number of newlines before the end of a record. Offsets of successive calls must not
    /// decrease.
    pub(super) fn newlines_before(&mut self, byte: u64) -> u64 {
        let later = &self.newlines[self.passed..];
        self.passed += later.iter().take_while(|newline| **newline < byte).count();
        self.record_end = byte;
        self.forgotten + self.passed as u64
    }

    /// Returns whether text follows a closing quote between the end of the previous query and this
    /// offset.
    pub(super) fn has_stray_quote_before(&mut self, byte: u64) -> bool {
        let before = self.strays.partition_point(|stray| *stray < byte);
        self.strays.drain(..before).next().is_some()
    }

    /// Returns whether reading stopped within a record longer than [`RECORD_BYTES_MAX`].
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns whether a row that ends at this offset contains everything up to the last added newline.
    pub(super) fn is_past_all(&self, byte: u64) -> bool {
        self.ended && byte == self.read_bytes
    }

    /// Returns the CRC-32 of the file, once it has been read to its end.
    pub(super) fn checksum(&self) -> u32 {
        self.crc.clone().finalize()
    }
}

impl Read for LineTrackingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The CSV parser reads more once it has used all the bytes it got.
        if self.is_cut || self.read_bytes - self.record_end > RECORD_BYTES_MAX {
            self.ended = true;
            self.is_cut = true;
            return Ok(0);
        }
        self.newlines.drain(..self.passed);
        self.forgotten += self.passed as u64;
        self.passed = 0;
        let count = self.content.read(buffer)?;
        self.ended = count == 0;
        if self.content.get_ref().1.len() == ADDED.len() {
            self.crc.update(&buffer[..count]);
        }
        let (piece, base) = (&buffer[..count], self.read_bytes);
        if self.quotes.begin(piece) {
            self.strays.push(base);
        }
        for place in memchr::memchr2_iter(b'\n', b'"', piece) {
            if piece[place] == b'\n' {
                self.newlines.push(base + place as u64);
            } else if self.quotes.meet(piece, place) {
                self.strays.push(base + place as u64 + 1);
            }
        }
        self.quotes.end(piece);
        self.read_bytes += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_added_newlines_are_not_part_of_the_checksum() {
        for content in [&b""[..], b"a\nb", b"a\n"] {
            let mut tracked = LineTrackingReader::new(Box::new(content));
            let mut all = Vec::new();
            tracked.read_to_end(&mut all).unwrap();
            assert_eq!(all, [content, ADDED].concat());
            assert_eq!(tracked.checksum(), crc32fast::hash(content));
            let newlines = memchr::memchr_iter(b'\n', &all).count();
            assert_eq!(tracked.newlines_before(u64::MAX), newlines as u64);
        }
    }

    #[test]
    fn only_a_record_over_the_limit_is_cut() {
        let mut tracked = LineTrackingReader::new(Box::new(io::repeat(b'\n')));
        let mut buffer = [0; 4096];
        for _ in 0..3 * RECORD_BYTES_MAX / 4096 {
            assert_eq!(tracked.read(&mut buffer).unwrap(), 4096);
            let read = tracked.read_bytes;
            assert_eq!(tracked.newlines_before(read), read);
            assert!(tracked.newlines.len() <= 4096);
        }
        let mut rest = 0;
        while tracked.read(&mut buffer).unwrap() > 0 {
            rest += 4096;
        }
        assert_eq!(rest, RECORD_BYTES_MAX + 4096);
        assert!(tracked.is_cut());
    }
}
