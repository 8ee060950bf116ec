//! A file's bytes on their way to the CSV reader: summed up, and their lines counted.

use std::io::{self, Read};

/// What is added at the end of a file.
const ADDED: &[u8] = b"\n\n";

/// A file, with two newlines added at its end. The first makes every row a terminated one, so that its
/// line can be counted back from its terminator. The second is a blank line then, and so is the first
/// where the file ends with one already; a row that takes in both has a quote that nothing closes.
pub(super) struct Marked<'a> {
    content: io::Chain<Box<dyn Read + 'a>, &'static [u8]>,
    crc: crc32fast::Hasher,
    read_bytes: u64,
    newlines: Vec<u64>,
    /// How many of them come before the byte asked for last.
    passed: usize,
    ended: bool,
}

impl<'a> Marked<'a> {
    pub(super) fn new(content: Box<dyn Read + 'a>) -> Marked<'a> {
        Marked {
            content: content.chain(ADDED),
            crc: crc32fast::Hasher::new(),
            read_bytes: 0,
            newlines: Vec::new(),
            passed: 0,
            ended: false,
        }
    }

    /// How many newlines come before a byte, which is never before the one asked for last.
    pub(super) fn newlines_before(&mut self, byte: u64) -> usize {
        let later = &self.newlines[self.passed..];
        self.passed += later.iter().take_while(|newline| **newline < byte).count();
        self.passed
    }

    /// Whether a row that ends at this byte has taken in all there is, to the last newline added.
    pub(super) fn is_past_all(&self, byte: u64) -> bool {
        self.ended && byte == self.read_bytes
    }

    /// The CRC-32 of the file, once all of it has been read.
    pub(super) fn checksum(&self) -> u32 {
        self.crc.clone().finalize()
    }
}

impl Read for Marked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.ended = count == 0;
        if self.content.get_ref().1.len() == ADDED.len() {
            self.crc.update(&buffer[..count]);
        }
        let at = |place: usize| u64::try_from(place).expect("a usize fits in 64 bits");
        let newlines = memchr::memchr_iter(b'\n', &buffer[..count]);
        self.newlines
            .extend(newlines.map(|place| self.read_bytes + at(place)));
        self.read_bytes += at(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newline_added_is_no_part_of_the_sum() {
        for content in [&b""[..], b"a\nb", b"a\n"] {
            let mut marked = Marked::new(Box::new(content));
            let mut all = Vec::new();
            marked.read_to_end(&mut all).unwrap();
            assert_eq!(all, [content, ADDED].concat());
            assert_eq!(marked.checksum(), crc32fast::hash(content));
            assert_eq!(
                marked.newlines_before(u64::MAX),
                all.split(|byte| *byte == b'\n').count() - 1
            );
        }
    }
}
