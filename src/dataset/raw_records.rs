//! A file between the disk and the CSV parser: finds the line that each record starts on, and the faults
//! of quotes that the parser accepts. The length of records is limited while they are read, so that an
//! unclosed quote costs neither memory nor time.

use std::io::{self, Read};

use super::files::OpenFile;

/// Maximum length of a record, with the blank lines before it: 500 columns with fields of the maximum
/// length that consist of quotes only.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 20;

/// Size of the parser's read buffer in bytes.
const BUFFER: usize = 1 << 16;

/// Reader of a file that keeps the bytes of the current record. It ends after a record that is too long.
pub(super) struct RawRecords<'a> {
    pub(super) file: OpenFile<'a>,
    /// Bytes that the parser received, from the current record on.
    bytes: Vec<u8>,
    /// Offset of `bytes` in the file.
    offset: u64,
    /// Length of the records in `bytes` that the parser has returned.
    used: usize,
    /// Line after the last one of those records.
    next_line: u64,
    is_cut: bool,
}

/// A record as it is in the file.
pub(super) struct RawRecord {
    /// Line on which it starts.
    pub(super) line: u64,
    pub(super) quotes: Quotes,
    /// Whether it is too long, and was not read to its end.
    pub(super) is_cut: bool,
}

impl<'a> RawRecords<'a> {
    /// Returns a parser of the file.
    pub(super) fn parser(file: OpenFile<'a>) -> csv::Reader<RawRecords<'a>> {
        let records = RawRecords {
            file,
            bytes: Vec::new(),
            offset: 0,
            used: 0,
            next_line: 1,
            is_cut: false,
        };
        csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(BUFFER)
            .from_reader(records)
    }

    /// Returns the next record, which ends at an offset of the file; or `None` at the end of the file, if
    /// the parser found no record.
    pub(super) fn next(&mut self, end: u64, is_found: bool) -> Option<RawRecord> {
        if !is_found && !self.is_cut {
            return None;
        }
        let start = self.used;
        self.used = usize::try_from(end - self.offset).expect("the record is in memory");
        if start == self.used {
            return None;
        }
        let mut raw = &self.bytes[start..self.used];
        if self.offset == 0 && start == 0 {
            raw = raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(raw);
        }
        // The parser skips blank lines, and the LF of a CR LF that ended the record before.
        let content = raw.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
        let line = self.next_line + newlines(&raw[..content.unwrap_or(raw.len())]);
        self.next_line += newlines(raw);
        Some(RawRecord {
            line,
            quotes: Quotes::of(raw),
            is_cut: self.is_cut,
        })
    }
}

impl Read for RawRecords<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The parser reads more once it has used all the bytes it received.
        self.bytes.drain(..self.used);
        self.offset += self.used as u64;
        self.used = 0;
        self.is_cut |= self.bytes.len() > RECORD_BYTES_MAX;
        if self.is_cut {
            return Ok(0);
        }
        let count = self.file.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Use of quotes in a record, by RFC 4180.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    Sound,
    /// Text follows a closing quote. The parser takes such text as part of the field. It is the sign of
    /// a stray quote before it, which made one field of everything up to the next quote, possibly with
    /// whole rows.
    Stray,
    /// A quoted field does not end.
    Unclosed,
}

impl Quotes {
    fn of(raw: &[u8]) -> Quotes {
        let is_boundary = |byte: &u8| matches!(byte, b',' | b'\n' | b'\r');
        let quote_from = |at: usize| memchr::memchr(b'"', &raw[at..]).map(|found| at + found);
        let (mut quotes, mut at) = (Quotes::Sound, 0);
        while let Some(open) = quote_from(at) {
            at = open + 1;
            // Within an unquoted field, a quote is an ordinary character.
            if open > 0 && !is_boundary(&raw[open - 1]) {
                continue;
            }
            loop {
                let Some(close) = quote_from(at) else {
                    return Quotes::Unclosed;
                };
                at = close + 1;
                // A pair of quotes encodes one.
                if raw.get(at) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
            if raw.get(at).is_some_and(|next| !is_boundary(next)) {
                quotes = Quotes::Stray;
            }
        }
        quotes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::FileStamp;

    /// Reads a file in chunks of this length. Returns the line of each record, and whether it has a stray
    /// quote, and the checksum of the file.
    fn read(content: impl Read, chunk: usize) -> (Vec<(u64, bool)>, u32) {
        struct Chunks<R>(R, usize);
        impl<R: Read> Read for Chunks<R> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let length = buffer.len().min(self.1);
                self.0.read(&mut buffer[..length])
            }
        }
        let content = Box::new(Chunks(content, chunk));
        let mut parser = RawRecords::parser(OpenFile::new(content, FileStamp::default()));
        let (mut record, mut read) = (csv::ByteRecord::new(), Vec::new());
        loop {
            let is_found = parser.read_byte_record(&mut record).unwrap();
            let end = parser.position().byte();
            let Some(raw) = parser.get_mut().next(end, is_found) else {
                return (read, parser.get_ref().file.checksum().checksum);
            };
            read.push((raw.line, raw.quotes == Quotes::Stray));
        }
    }

    #[test]
    fn lines_and_text_after_a_closing_quote_are_found_at_every_chunk_size() {
        for (text, want) in [
            ("a,b\n1,2\n", &[(1, false), (2, false)][..]),
            ("\"a\",\"b\"\r\n\"\",\"\"\"\"\n", &[(1, false), (2, false)]),
            ("\r\n\n\"a,\nb\"\"\",c\n\r\nd", &[(3, false), (6, false)]),
            // A quote within an unquoted field is an ordinary character.
            ("a\"b\"c,d\"\n5\" x,\n", &[(1, false), (2, false)]),
            ("\"a\"b,c\n", &[(1, true)]),
            (
                "1,\"stray,x\n2,\"Run, hide\",y\n3\n",
                &[(1, true), (3, false)],
            ),
            ("x\n\"a\" ,\"b\"\"\"c\n", &[(1, false), (2, true)]),
            ("\u{feff}\"a\"b", &[(1, true)]),
            ("\u{feff}\r\n\na,b\nc", &[(3, false), (4, false)]),
            ("a\n\u{feff}\"a\"b", &[(1, false), (2, false)]),
        ] {
            // The parser takes a first chunk of a byte order mark alone for the end of the file.
            let chunk_min = if text.starts_with('\u{feff}') { 4 } else { 1 };
            for chunk in chunk_min..=text.len() {
                let (read, checksum) = read(text.as_bytes(), chunk);
                assert_eq!(read, want, "{text:?} by {chunk}");
                assert_eq!(checksum, crc32fast::hash(text.as_bytes()));
            }
        }
    }

    #[test]
    fn only_a_record_over_the_limit_is_cut() {
        let short = "a\n".repeat(2 * RECORD_BYTES_MAX);
        let (records, _) = read(short.as_bytes(), BUFFER);
        assert_eq!(records.len(), 2 * RECORD_BYTES_MAX);
        let (records, _) = read(io::repeat(b'\n'), 4096);
        assert_eq!(records, [(RECORD_BYTES_MAX as u64 + 4097, false)]);
    }
}
