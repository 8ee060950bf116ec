//! A file's bytes on their way to the CSV reader: summed up, and their lines counted.

use std::io::{self, Read};

/// A file, with a newline added at its end: every row is then a terminated one, so that its line can
/// be counted back from its terminator. Where the file ends with one already, it is a blank line.
pub(super) struct Marked {
    content: io::Chain<Box<dyn Read>, &'static [u8]>,
    crc: crc32fast::Hasher,
    read_bytes: u64,
    newlines: Vec<u64>,
    /// How many of them come before the byte asked for last.
    passed: usize,
}

impl Marked {
    pub(super) fn new(content: Box<dyn Read>) -> Marked {
        Marked {
            content: content.chain(b"\n"),
            crc: crc32fast::Hasher::new(),
            read_bytes: 0,
            newlines: Vec::new(),
            passed: 0,
        }
    }

    /// How many newlines come before a byte, which is never before the one asked for last.
    pub(super) fn newlines_before(&mut self, byte: u64) -> usize {
        let later = &self.newlines[self.passed..];
        self.passed += later.iter().take_while(|newline| **newline < byte).count();
        self.passed
    }

    /// The CRC-32 of the file, once all of it has been read.
    pub(super) fn checksum(&self) -> u32 {
        self.crc.clone().finalize()
    }
}

impl Read for Marked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_added = |content: &io::Chain<Box<dyn Read>, &[u8]>| content.get_ref().1.is_empty();
        let count = self.content.read(buffer)?;
        if !is_added(&self.content) {
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
            assert_eq!(all, [content, b"\n"].concat());
            assert_eq!(marked.checksum(), crc32fast::hash(content));
            assert_eq!(
                marked.newlines_before(u64::MAX),
                all.split(|byte| *byte == b'\n').count() - 1
            );
        }
    }
}
