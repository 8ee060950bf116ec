//! Records of a CSV file: their fields, the line that each starts on, and the faults that the parser
//! accepts. The length of records is limited while they are read, so that an unclosed quote costs
//! neither memory nor time.

use std::io::{self, Read};

use csv_core::ReadRecordResult;

use super::fault::quoted;

/// Maximum length of a field. The longest title of the platform has 102 bytes.
const FIELD_BYTES_MAX: usize = 1024;

/// Maximum length of a record, with the blank lines before it: 500 columns with fields of the maximum
/// length that consist of quotes only.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Size of the read buffer in bytes.
const BUFFER: usize = 1 << 16;

/// Index of the field from 0, and the expected and the found value as a sentence without its subject; or `None`, and a
/// sentence about the whole record.
pub(super) type RecordFault = (Option<usize>, String);

/// An open file, positioned on a record. The file ends after a record that is too long.
pub(super) struct CsvRecords<'a> {
    file: Box<dyn Read + 'a>,
    parser: csv_core::Reader,
    /// Bytes of the file from the current record on.
    input: Vec<u8>,
    /// Length of the part of `input` that the parser has used.
    used: usize,
    /// Fields of the current record, one after the other; empty if it is malformed.
    text: String,
    ends: Vec<usize>,
    /// Number of fields; 0 before the first record.
    pub(super) width: usize,
    pub(super) line: u64,
    next_line: u64,
    /// The last byte that was read of the file; `None` if it is empty, or was not read to its end.
    pub(super) last_byte: Option<u8>,
    /// The last byte before the unread rest is a CR. The LF of a CR LF is left to the next record.
    is_after_cr: bool,
    /// Whether the current record is too long, and was not read to its end.
    is_cut: bool,
}

impl<'a> CsvRecords<'a> {
    pub(super) fn new(file: Box<dyn Read + 'a>) -> CsvRecords<'a> {
        CsvRecords {
            file,
            parser: csv_core::Reader::new(),
            input: Vec::new(),
            used: 0,
            text: String::new(),
            ends: vec![0; 16],
            width: 0,
            line: 1,
            next_line: 1,
            last_byte: None,
            is_after_cr: false,
            is_cut: false,
        }
    }

    /// Moves to the next record. Returns `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<(), RecordFault>>> {
        let mut start = self.used;
        let mut text = std::mem::take(&mut self.text).into_bytes();
        text.resize(text.capacity(), 0);
        let (mut length, mut width) = (0, 0);
        let is_found = loop {
            if self.used == self.input.len() {
                self.input.drain(..start);
                (self.used, start) = (self.used - start, 0);
                self.fill()?;
            }
            // Empty input tells the parser that the file has ended.
            let (input, ends) = (&self.input[self.used..], &mut self.ends[width..]);
            let (result, read, written, ended) =
                self.parser.read_record(input, &mut text[length..], ends);
            self.used += read;
            length += written;
            width += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => text.resize(2 * text.len() + 64, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => break true,
                ReadRecordResult::End => break false,
            }
        };
        if self.used == start || !is_found && !self.is_cut {
            return Ok(None);
        }
        text.truncate(length);
        let mut raw = &self.input[start..self.used];
        let is_first = self.width == 0;
        let other_format = is_first.then(|| other_format(raw)).flatten();
        if is_first {
            raw = raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(raw);
        }
        self.width = width;
        if self.is_after_cr {
            raw = raw.strip_prefix(b"\n").unwrap_or(raw);
        }
        // The parser skips blank lines.
        let content = raw.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
        self.line = self.next_line + line_ends(&raw[..content.unwrap_or(raw.len())]);
        self.next_line += line_ends(raw);
        self.is_after_cr = raw.last() == Some(&b'\r');
        let quotes = Quotes::of(raw);
        Ok(Some(match other_format {
            Some(found) => Err((None, format!("the row must be CSV in UTF-8, got {found}"))),
            None => self.check(text, quotes),
        }))
    }

    /// Reads more of the file, unless the current record is too long.
    fn fill(&mut self) -> io::Result<()> {
        self.is_cut |= self.input.len() > RECORD_BYTES_MAX;
        if self.is_cut {
            self.last_byte = None;
        } else {
            let filled = self.input.len();
            self.input.resize(filled + BUFFER, 0);
            let count = self.file.read(&mut self.input[filled..])?;
            self.input.truncate(filled + count);
            self.last_byte = self.input.last().copied().or(self.last_byte);
        }
        Ok(())
    }

    /// Accepts the fields of a record if they are not too long, and valid UTF-8 without NUL.
    fn check(&mut self, text: Vec<u8>, quotes: Quotes) -> Result<(), RecordFault> {
        let find = |is_faulty: fn(&[u8]) -> bool| {
            let mut fields = (0..self.width).map(|place| (place, &text[self.range(place)]));
            fields.find(|(_, field)| is_faulty(field))
        };
        let (more, rest) = if self.is_cut {
            ("more than ", "; the rest of the file was not read")
        } else {
            ("", "")
        };
        if text.len() > FIELD_BYTES_MAX
            && let Some((place, field)) = find(|field| field.len() > FIELD_BYTES_MAX)
        {
            let hint = if line_ends(field) > 0 {
                "; a stray quote joins the lines that follow into one field"
            } else {
                ""
            };
            let (length, begin) = (field.len(), lossy(&field[..FIELD_BYTES_MAX]));
            let problem = format!(
                "must be at most {FIELD_BYTES_MAX} bytes (the longest real title has 102), \
                 got {more}{length} bytes, {begin}{hint}{rest}"
            );
            return Err((Some(place), problem));
        }
        if self.is_cut {
            let problem = format!(
                "the row must be at most {RECORD_BYTES_MAX} bytes, including the blank lines before it, got more{rest}"
            );
            return Err((None, problem));
        }
        if quotes == Quotes::Unclosed {
            let problem = "must end with a quote because it begins with one, got none before the end of the file";
            return Err((Some(self.width - 1), problem.to_owned()));
        }
        if quotes == Quotes::Stray {
            let problem = "a quoted field must end at its closing quote, got text after it; a stray quote joins everything up to the next quote into one field";
            return Err((None, problem.to_owned()));
        }
        if memchr::memchr(0, &text).is_some()
            && let Some((place, field)) = find(|field| field.contains(&0))
        {
            let problem = format!("must not contain a NUL, got {}", lossy(field));
            return Err((Some(place), problem));
        }
        // The text as a whole may be valid although a character of it is in two fields.
        if !text.is_ascii()
            && let Some((place, field)) = find(|field| str::from_utf8(field).is_err())
        {
            return Err((
                Some(place),
                format!(
                    "must be UTF-8, got {}; save the file as UTF-8",
                    lossy(field)
                ),
            ));
        }
        self.text = String::from_utf8(text).expect("each field is UTF-8");
        Ok(())
    }

    pub(super) fn field(&self, place: usize) -> &str {
        &self.text[self.range(place)]
    }

    fn range(&self, place: usize) -> std::ops::Range<usize> {
        place.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[place]
    }
}

fn lossy(field: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(field))
}

/// Returns the format of a file that begins with these bytes, and a hint, if it is not UTF-8 text.
fn other_format(begin: &[u8]) -> Option<&'static str> {
    match begin {
        [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => Some("UTF-32; save the file as UTF-8"),
        // A byte order mark, or two characters up to U+00FF.
        [0xFF, 0xFE, ..]
        | [0xFE, 0xFF, ..]
        | [0, 1..=255, 0, 1..=255, ..]
        | [1..=255, 0, 1..=255, 0, ..] => Some("UTF-16; save the file as UTF-8"),
        [0x1F, 0x8B, ..] => Some("a gzip file; decompress it"),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => Some("a zstd file; decompress it"),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => {
            Some("a bzip2 file; decompress it")
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some("an xz file; decompress it"),
        [b'P', b'A', b'R', b'1', ..] => Some("a Parquet file; save the table as CSV in UTF-8"),
        [b'P', b'K', 3, 4, ..] => Some("a ZIP file, such as .xlsx; save the table as CSV in UTF-8"),
        _ => None,
    }
}

/// Returns the number of line ends, by the rule of the parser: LF, CR LF, or a CR alone.
fn line_ends(bytes: &[u8]) -> u64 {
    let is_alone = |cr: &usize| bytes.get(cr + 1) != Some(&b'\n');
    let alone = memchr::memchr_iter(b'\r', bytes).filter(is_alone).count();
    (memchr::memchr_iter(b'\n', bytes).count() + alone) as u64
}

/// Use of quotes in a record, by RFC 4180.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    Sound,
    /// Text follows a closing quote. The parser takes such text as part of the field. It is the sign of
    /// a stray quote before it, which made one field of everything up to the next quote, possibly with
    /// whole rows.
    Stray,
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

    /// Reads a file in chunks of this length. Returns the line of each record, and whether it has a stray
    /// quote.
    fn read(content: impl Read, chunk: usize) -> Vec<(u64, bool)> {
        struct Chunks<R>(R, usize);
        impl<R: Read> Read for Chunks<R> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let length = buffer.len().min(self.1);
                self.0.read(&mut buffer[..length])
            }
        }
        let mut records = CsvRecords::new(Box::new(Chunks(content, chunk)));
        let mut read = Vec::new();
        while let Some(record) = records.next().unwrap() {
            let problem = record.err().map_or(String::new(), |(_, problem)| problem);
            read.push((records.line, problem.starts_with("a quoted field")));
        }
        read
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
            // Line ends of classic Mac OS, and mixed ones.
            ("a,b\r1,2\r3,4", &[(1, false), (2, false), (3, false)]),
            ("\r\ra\r\r\rb\r", &[(3, false), (6, false)]),
            ("\"a\r\rb\"\r\"\"c\rd", &[(1, false), (4, true), (5, false)]),
            ("\"a\r\nb\r\"\n\rc\n", &[(1, false), (5, false)]),
            (
                "a\rb\r\n\nc\n\rd",
                &[(1, false), (2, false), (4, false), (6, false)],
            ),
        ] {
            // The parser takes a first chunk of a byte order mark alone for the end of the file.
            let chunk_min = if text.starts_with('\u{feff}') { 4 } else { 1 };
            for chunk in chunk_min..=text.len() {
                let read = read(text.as_bytes(), chunk);
                assert_eq!(read, want, "{text:?} by {chunk}");
            }
        }
    }

    #[test]
    fn only_a_record_over_the_limit_is_cut() {
        let short = "a\n".repeat(2 * RECORD_BYTES_MAX);
        let records = read(short.as_bytes(), BUFFER);
        assert_eq!(records.len(), 2 * RECORD_BYTES_MAX);
        let records = read(io::repeat(b'\n'), 4096);
        assert_eq!(records, [(RECORD_BYTES_MAX as u64 + 4097, false)]);
    }
}
