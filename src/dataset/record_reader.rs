//! Reader of CSV records with the line each one starts on. The length of fields and records is limited
//! while they are read, so that an unclosed quote costs neither memory nor time.

use std::io::{self, Read};

use csv::{ByteRecord, StringRecord};

use super::fault::quoted;
use super::line_tracking::{LineTrackingReader, RECORD_BYTES_MAX};

/// Size of the read buffer in bytes.
const BUFFER: usize = 1 << 16;

/// Maximum length of a field. The longest title of the platform has 102 bytes.
const FIELD_BYTES_MAX: usize = 1024;

/// Error of a record that cannot be used.
#[derive(Debug)]
pub(super) struct MalformedRecord {
    /// Index of the field, from 0; `None` for the whole record.
    pub(super) place: Option<usize>,
    /// The expected and the found value, as a sentence without its subject.
    pub(super) problem: String,
}

/// Reader of records, positioned on one of them.
pub(super) struct RecordReader<'a> {
    reader: csv::Reader<LineTrackingReader<'a>>,
    row: StringRecord,
    line: u64,
    has_stray_quote: bool,
    /// Whether the end was reached because a record was too long.
    is_cut: bool,
}

impl<'a> RecordReader<'a> {
    pub(super) fn new(content: Box<dyn Read + 'a>) -> RecordReader<'a> {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(BUFFER)
            .from_reader(LineTrackingReader::new(content));
        RecordReader {
            reader,
            row: StringRecord::new(),
            line: 1,
            has_stray_quote: false,
            is_cut: false,
        }
    }

    /// Fields of the current record; empty if it is malformed.
    pub(super) fn row(&self) -> &StringRecord {
        &self.row
    }

    /// Line on which the current record starts.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns whether text follows a closing quote in the current record.
    pub(super) fn has_stray_quote(&self) -> bool {
        self.has_stray_quote
    }

    /// CRC-32 of the whole file, once the last record has been read.
    pub(super) fn checksum(&self) -> u32 {
        self.reader.get_ref().checksum()
    }

    /// Reads one record. Returns `None` at the end of the file.
    pub(super) fn read(&mut self) -> io::Result<Option<Result<(), MalformedRecord>>> {
        let mut bytes = std::mem::take(&mut self.row).into_byte_record();
        let more = self.reader.read_byte_record(&mut bytes)?;
        let is_cut = self.reader.get_ref().is_cut() && !self.is_cut;
        if !more && !is_cut {
            return Ok(None);
        }
        // The position that csv reports for a record is that of the blank lines before it, or of the LF
        // of a preceding CR LF. The end is reliable: it is after the first byte of the terminator.
        let inner = memchr::memchr_iter(b'\n', bytes.as_slice()).count();
        let behind = self.reader.position().byte();
        let is_open = self.reader.get_ref().is_past_all(behind);
        let end = behind - u64::from(!is_open);
        let content = self.reader.get_mut();
        let before = content.newlines_before(end);
        self.has_stray_quote = content.has_stray_quote_before(end);
        self.line = before - inner as u64 + 1;

        if is_cut {
            self.is_cut = true;
            return Ok(Some(Err(cut(&bytes))));
        }
        if bytes.as_slice().len() > FIELD_BYTES_MAX
            && let Some(place) = too_long(&bytes)
        {
            let got = format!("{} bytes", bytes[place].len());
            return Ok(Some(Err(overlong(place, &bytes[place], &got))));
        }
        if is_open {
            return Ok(Some(Err(MalformedRecord {
                place: Some(bytes.len() - 1),
                problem: "must end with a quote as it begins with one, got none up to the end of the file"
                    .to_owned(),
            })));
        }
        Ok(Some(self.keep(bytes)))
    }

    /// Makes a record the current one if it is valid UTF-8 without NUL.
    fn keep(&mut self, bytes: ByteRecord) -> Result<(), MalformedRecord> {
        let nul = memchr::memchr(0, bytes.as_slice())
            .and_then(|_| bytes.iter().position(|field| field.contains(&0)));
        if let Some(place) = nul {
            return Err(MalformedRecord {
                place: Some(place),
                problem: format!("must not contain a NUL, got {}", lossy(&bytes[place])),
            });
        }
        self.row = StringRecord::from_byte_record(bytes).map_err(|error| {
            let place = error.utf8_error().field();
            let bytes = error.into_byte_record();
            let found = lossy(&bytes[place]);
            MalformedRecord {
                place: Some(place),
                problem: format!("must be UTF-8, got {found}"),
            }
        })?;
        Ok(())
    }
}

/// Returns the first field that is too long.
fn too_long(record: &ByteRecord) -> Option<usize> {
    record
        .iter()
        .position(|field| field.len() > FIELD_BYTES_MAX)
}

/// Returns the error of a record that was not read to its end.
fn cut(record: &ByteRecord) -> MalformedRecord {
    let Some(place) = too_long(record) else {
        return MalformedRecord {
            place: None,
            problem: format!(
                "must be at most {RECORD_BYTES_MAX} bytes with the blank lines before it, got more; \
                 the rest of the file was not read"
            ),
        };
    };
    let got = format!("more than {} bytes", record[place].len());
    let mut fault = overlong(place, &record[place], &got);
    fault
        .problem
        .push_str("; the rest of the file was not read");
    fault
}

fn overlong(place: usize, field: &[u8], got: &str) -> MalformedRecord {
    let hint = if field.contains(&b'\n') {
        "; a stray quote makes one field of the lines that follow"
    } else {
        ""
    };
    let begin = lossy(&field[..FIELD_BYTES_MAX]);
    MalformedRecord {
        place: Some(place),
        problem: format!(
            "must be at most {FIELD_BYTES_MAX} bytes (the longest real title has 102), \
             got {got}, {begin}{hint}"
        ),
    }
}

fn lossy(field: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(field))
}
