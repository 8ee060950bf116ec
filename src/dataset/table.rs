//! One CSV file read row by row: columns found by name, fields parsed, faults noted with their place.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Read;
use std::path::PathBuf;

use csv::StringRecord;

use super::fault::{Fault, FaultLog, LoadError, quoted};
use super::files::Files;
use super::marked::Marked;
use crate::model::{COUNT_MAX, CreatorSlug, IslandCode};

/// Bytes asked of a file at once.
const BUFFER: usize = 1 << 16;

/// What would be right where a code stands.
const WANT_CODE: &str = "an island code like 1234-5678-9012";

/// What would be right where a creator slug must stand.
pub(super) const WANT_SLUG: &str = "a slug of 1 to 64 bytes without / and control characters";

/// What would be right where a step's time stands.
pub(super) const WANT_TIME: &str = "Unix seconds in digits, a multiple of 600";

/// The columns that a file is read by. A column is named elsewhere by its position in `names`.
pub(super) struct Columns {
    /// Their names, those that must be there first.
    pub(super) names: &'static [&'static str],
    /// How many must be there.
    pub(super) required: usize,
}

/// An open file, standing on one row.
pub(super) struct Table<'a> {
    file: &'a str,
    path: PathBuf,
    reader: csv::Reader<Marked<'a>>,
    columns: &'static Columns,
    /// Where each column stands in a row; `None` for an optional one that is absent.
    places: Vec<Option<usize>>,
    width: usize,
    row: StringRecord,
    line: u64,
    faults: &'a mut FaultLog,
}

impl<'a> Table<'a> {
    /// Reads the header; `None` if it has faults that leave the rows without meaning.
    pub(super) fn new(
        files: &Files<'_>,
        file: &'a str,
        content: Box<dyn Read + 'a>,
        columns: &'static Columns,
        faults: &'a mut FaultLog,
    ) -> Result<Option<Table<'a>>, LoadError> {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(BUFFER)
            .from_reader(Marked::new(content));
        let mut table = Table {
            file,
            path: files.path(file),
            reader,
            columns,
            places: Vec::new(),
            width: 0,
            row: StringRecord::new(),
            line: 1,
            faults,
        };
        Ok(table.read_header()?.then_some(table))
    }

    /// The CRC-32 of the whole file, once its last row has been read.
    pub(super) fn checksum(&self) -> u32 {
        self.reader.get_ref().checksum()
    }

    fn read_header(&mut self) -> Result<bool, LoadError> {
        let want = self.columns.names[..self.columns.required].join(",");
        let Some(sound) = self.read_record()? else {
            self.faults
                .push_file(self.file, format!("there is no header row; want {want}"));
            return Ok(false);
        };
        let mut usable = sound;
        self.width = self.row.len();
        for (at, name) in self.columns.names.iter().enumerate() {
            let mut places = (0..self.width).filter(|place| self.row.get(*place) == Some(name));
            let (place, again) = (places.next(), places.next());
            self.places.push(place);
            if place.is_none() && at < self.columns.required && sound {
                usable = false;
                self.fault_at(None, format!("there is no column {name}; want {want}"));
            }
            if let Some(again) = again {
                usable = false;
                self.fault_at(
                    Some(again),
                    format!("there is a second column {name}; want one"),
                );
            }
        }
        Ok(usable)
    }

    /// Moves to the next row that is whole; false at the end of the file.
    pub(super) fn next_row(&mut self) -> Result<bool, LoadError> {
        while let Some(sound) = self.read_record()? {
            let found = self.row.len();
            if found == self.width && sound {
                return Ok(true);
            }
            if found != self.width && sound {
                let want = self.width;
                self.fault_at(
                    None,
                    format!("the number of fields is {found}; want {want}, as in the header"),
                );
            }
        }
        Ok(false)
    }

    /// Reads one record and notes a NUL or broken UTF-8 in it; says whether it has neither.
    /// `None` at the end of the file.
    fn read_record(&mut self) -> Result<Option<bool>, LoadError> {
        let mut bytes = std::mem::take(&mut self.row).into_byte_record();
        let more = self.reader.read_byte_record(&mut bytes);
        let more = more.map_err(|error| LoadError::Io {
            path: self.path.clone(),
            source: error.into(),
        })?;
        if !more {
            return Ok(None);
        }
        // csv's own position of a record is that of the blank lines, or the LF of a CR LF, before
        // it. Where it ended is sure: right behind the first byte of its terminator.
        let inner = memchr::memchr_iter(b'\n', bytes.as_slice()).count();
        let behind = self.reader.position().byte();
        let is_open = self.reader.get_ref().is_past_all(behind);
        let end = behind - u64::from(!is_open);
        let before = self.reader.get_mut().newlines_before(end);
        self.line = u64::try_from(before - inner).expect("a usize fits in 64 bits") + 1;

        if is_open {
            let problem = "the field begins with a quote that nothing closes; want one at its end";
            self.fault_at(Some(bytes.len() - 1), problem.to_owned());
            return Ok(Some(false));
        }
        let nul = bytes
            .iter()
            .position(|field| memchr::memchr(0, field).is_some());
        if let Some(place) = nul {
            self.fault_at(
                Some(place),
                "there is a NUL in the field; want text without one".to_owned(),
            );
        }
        let utf8 = match StringRecord::from_byte_record(bytes) {
            Ok(row) => {
                self.row = row;
                true
            }
            Err(error) => {
                let place = error.utf8_error().field();
                let bytes = error.into_byte_record();
                let found = quoted(&String::from_utf8_lossy(&bytes[place]));
                self.fault_at(
                    Some(place),
                    format!("the field is {found}, which is not UTF-8; want UTF-8"),
                );
                false
            }
        };
        Ok(Some(utf8 && nul.is_none()))
    }

    /// The field of the present row; empty where the column is absent.
    pub(super) fn field(&self, column: usize) -> &str {
        self.places[column]
            .and_then(|place| self.row.get(place))
            .unwrap_or_default()
    }

    /// The field, or `None` where it is empty.
    pub(super) fn text(&self, column: usize) -> Option<Box<str>> {
        Some(self.field(column))
            .filter(|text| !text.is_empty())
            .map(Into::into)
    }

    /// The line that the present row starts on.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Notes a fault of a field of the present row.
    pub(super) fn fault(&mut self, column: usize, problem: String) {
        self.fault_at(self.places[column], problem);
    }

    fn fault_at(&mut self, place: Option<usize>, problem: String) {
        let (file, line, column) = (
            self.file.to_owned(),
            Some(self.line),
            place.map(|place| place + 1),
        );
        self.faults.push(Fault {
            file,
            line,
            column,
            problem,
        });
    }

    /// The field through `parse`; if that refuses it, a fault that says what is wanted.
    pub(super) fn required<T>(
        &mut self,
        column: usize,
        want: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.field(column);
        let value = parse(text);
        if value.is_none() {
            let found = if text.is_empty() {
                "empty".to_owned()
            } else {
                quoted(text)
            };
            self.fault(
                column,
                format!("{} is {found}; want {want}", self.columns.names[column]),
            );
        }
        value
    }

    /// As [`Table::required`], but an empty field is `None` and no fault.
    pub(super) fn optional<T>(
        &mut self,
        column: usize,
        want: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        if self.field(column).is_empty() {
            None
        } else {
            self.required(column, want, parse)
        }
    }

    /// An island code.
    pub(super) fn code(&mut self, column: usize) -> Option<IslandCode> {
        self.required(column, WANT_CODE, |text| text.parse().ok())
    }

    /// A creator slug, or nothing.
    pub(super) fn slug(&mut self, column: usize) -> Option<CreatorSlug> {
        self.optional(column, &format!("{WANT_SLUG}, or nothing"), |text| {
            text.parse().ok()
        })
    }

    /// A count, or nothing.
    pub(super) fn count(&mut self, column: usize) -> Option<u64> {
        let parse = |text: &str| digits(text).filter(|count| *count <= COUNT_MAX);
        self.optional(
            column,
            "an integer from 0 to 9007199254740991, or nothing",
            parse,
        )
    }

    /// A decimal of at least 0, or nothing.
    pub(super) fn decimal(&mut self, column: usize) -> Option<f64> {
        self.optional(
            column,
            "a decimal of at least 0, like 12.5, or nothing",
            decimal,
        )
    }

    /// A decimal from 0 to 1, or nothing.
    pub(super) fn share(&mut self, column: usize) -> Option<f64> {
        let parse = |text: &str| decimal(text).filter(|share| *share <= 1.0);
        self.optional(
            column,
            "a decimal from 0 to 1, like 0.25, or nothing",
            parse,
        )
    }

    /// Notes a fault unless the key of the present row is new to the file.
    pub(super) fn once<K: Eq + Hash>(&mut self, column: usize, seen: &mut HashMap<K, u64>, key: K) {
        if let Some(first) = seen.insert(key, self.line) {
            self.fault_repeated(column, first);
        }
    }

    /// Notes that the key of the present row was on another line already.
    pub(super) fn fault_repeated(&mut self, column: usize, first: u64) {
        let (name, found) = (self.columns.names[column], quoted(self.field(column)));
        self.fault(
            column,
            format!("{name} is {found}, as on line {first}; want each {name} once"),
        );
    }
}

/// The number that ASCII digits spell, leading zeros allowed.
pub(super) fn digits(text: &str) -> Option<u64> {
    // The standard parser alone would take a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// The number that `digits` or `digits.digits` spells, if a float can hold it.
fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let sound = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if sound(whole) && sound(fraction) {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    } else {
        None
    }
}

/// The time of a 10-minute step.
pub(super) fn step_time(text: &str) -> Option<i64> {
    digits(text)
        .and_then(|time| i64::try_from(time).ok())
        .filter(|time| time % 600 == 0)
}
