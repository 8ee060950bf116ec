//! CSV file read row by row: columns found by name, fields parsed, faults recorded with their place.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Read;
use std::path::PathBuf;

use csv::StringRecord;

use super::fault::{Fault, FaultLog, LoadError, quoted, quoted_up_to};
use super::files::Files;
use super::record_reader::{MalformedRecord, RecordReader};
use crate::model::{COUNT_MAX, CreatorSlug, IslandCode};

/// Characters of a header that a message quotes.
const HEADER_QUOTED_MAX: usize = 120;

/// Expected form of an island code.
const WANT_CODE: &str = "an island code like 1234-5678-9012";

/// Expected form of a creator slug.
pub(super) const WANT_SLUG: &str = "a slug of 1 to 64 bytes without / and control characters";

/// Expected form of a step's time.
pub(super) const WANT_TIME: &str = "Unix seconds in digits, a multiple of 600";

/// Columns of a kind of file. Code refers to a column by its position in `names`.
pub(super) struct Columns {
    /// Column names, the required ones first.
    pub(super) names: &'static [&'static str],
    /// Number of required columns.
    pub(super) required: usize,
}

/// An open file, positioned on a row.
pub(super) struct CsvTable<'a> {
    file: &'a str,
    path: PathBuf,
    records: RecordReader<'a>,
    columns: &'static Columns,
    /// Position of each column in a row; `None` for an optional column that is absent.
    places: Vec<Option<usize>>,
    width: usize,
    faults: &'a mut FaultLog,
}

impl<'a> CsvTable<'a> {
    /// Opens a file and reads its header. Returns `None` if faults of the header make the rows
    /// meaningless.
    pub(super) fn new(
        files: &Files<'_>,
        file: &'a str,
        content: Box<dyn Read + 'a>,
        columns: &'static Columns,
        faults: &'a mut FaultLog,
    ) -> Result<Option<CsvTable<'a>>, LoadError> {
        let mut table = CsvTable {
            file,
            path: files.path(file),
            records: RecordReader::new(content),
            columns,
            places: Vec::new(),
            width: 0,
            faults,
        };
        Ok(table.read_header()?.then_some(table))
    }

    /// Returns the CRC-32 of the whole file, once the last row has been read.
    pub(super) fn checksum(&self) -> u32 {
        self.records.checksum()
    }

    fn read_header(&mut self) -> Result<bool, LoadError> {
        let required = &self.columns.names[..self.columns.required];
        let Some(sound) = self.read_record()? else {
            let want = required.join(",");
            self.faults.push_file(
                self.file,
                format!("the header row must be {want}, got no row"),
            );
            return Ok(false);
        };
        if !sound {
            return Ok(false);
        }
        let header = self.records.row().clone();
        self.width = header.len();
        let mut usable = true;
        for name in self.columns.names {
            let mut places = (0..self.width).filter(|place| header.get(*place) == Some(name));
            let (place, again) = (places.next(), places.next());
            self.places.push(place);
            if let Some(again) = again {
                usable = false;
                self.fault_at(
                    Some(again),
                    format!("the column {name} must occur once, got a second one"),
                );
            }
        }
        let places = required.iter().zip(&self.places);
        let absent: Vec<&str> = places
            .filter(|(_, place)| place.is_none())
            .map(|(name, _)| *name)
            .collect();
        if !absent.is_empty() {
            self.fault_at(None, missing_columns_fault(&absent, &header));
            return Ok(false);
        }
        // With a stray quote in the header, a column name contains the lines that follow.
        for (place, name) in header.iter().enumerate() {
            if let Some(problem) = control_character(name) {
                usable = false;
                self.fault_at(Some(place), format!("a column name {problem}"));
            }
        }
        Ok(usable)
    }

    /// Moves to the next row with the right number of fields. Returns false at the end of the file.
    pub(super) fn next_row(&mut self) -> Result<bool, LoadError> {
        while let Some(sound) = self.read_record()? {
            let found = self.records.row().len();
            if found == self.width && sound {
                return Ok(true);
            }
            if found != self.width && sound {
                let want = self.width;
                self.fault_at(
                    None,
                    format!("the number of fields must be {want}, as in the header, got {found}"),
                );
            }
        }
        Ok(false)
    }

    /// Reads one record. Returns false if it is malformed, which is recorded as a fault, and `None` at
    /// the end of the file.
    fn read_record(&mut self) -> Result<Option<bool>, LoadError> {
        let read = self.records.read().map_err(|source| LoadError::Io {
            path: self.path.clone(),
            source,
        })?;
        let Some(Err(MalformedRecord { place, problem })) = read else {
            if self.records.has_stray_quote() && read.is_some() {
                let problem = "a quoted field must end behind its closing quote, got text there; \
                               a stray quote makes one field of all up to the next quote";
                self.fault_at(None, problem.to_owned());
            }
            return Ok(read.map(|_| true));
        };
        let column = self.places.iter().position(|other| *other == place);
        let subject = match (place, column) {
            (None, _) => "the row",
            (Some(_), None) => "the field",
            (Some(_), Some(column)) => self.columns.names[column],
        };
        self.fault_at(place, format!("{subject} {problem}"));
        Ok(Some(false))
    }

    /// Returns a field of the current row, empty if the column is absent.
    pub(super) fn field(&self, column: usize) -> &str {
        self.places[column]
            .and_then(|place| self.records.row().get(place))
            .unwrap_or_default()
    }

    /// Returns a field, or `None` if it is empty.
    pub(super) fn text(&self, column: usize) -> Option<Box<str>> {
        Some(self.field(column))
            .filter(|text| !text.is_empty())
            .map(Into::into)
    }

    /// Returns the line on which the current row starts.
    pub(super) fn line(&self) -> u64 {
        self.records.line()
    }

    /// Records a fault of a field of the current row.
    pub(super) fn fault(&mut self, column: usize, problem: String) {
        self.fault_at(self.places[column], problem);
    }

    fn fault_at(&mut self, place: Option<usize>, problem: String) {
        let (file, line, column) = (
            self.file.to_owned(),
            Some(self.line()),
            place.map(|place| place + 1),
        );
        self.faults.push(Fault {
            file,
            line,
            column,
            problem,
        });
    }

    /// Parses a field. If `parse` returns `None`, records a fault that names the expected form `want`.
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
                "an empty field".to_owned()
            } else {
                quoted(text)
            };
            self.fault(
                column,
                format!("{} must be {want}, got {found}", self.columns.names[column]),
            );
        }
        value
    }

    /// Same as [`CsvTable::required`], except that an empty field is valid and `None`.
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

    /// Returns whether a field has no control character; records a fault if it has one.
    pub(super) fn is_plain(&mut self, column: usize) -> bool {
        let Some(problem) = control_character(self.field(column)) else {
            return true;
        };
        self.fault(column, format!("{} {problem}", self.columns.names[column]));
        false
    }

    /// Parses an island code.
    pub(super) fn code(&mut self, column: usize) -> Option<IslandCode> {
        self.required(column, WANT_CODE, |text| text.parse().ok())
    }

    /// Parses a creator slug, or an empty field.
    pub(super) fn slug(&mut self, column: usize) -> Option<CreatorSlug> {
        self.optional(column, &format!("{WANT_SLUG}, or empty"), |text| {
            text.parse().ok()
        })
    }

    /// Parses a count, or an empty field.
    pub(super) fn count(&mut self, column: usize) -> Option<u64> {
        let parse = |text: &str| digits(text).filter(|count| *count <= COUNT_MAX);
        self.optional(
            column,
            "an integer from 0 to 9007199254740991 or empty",
            parse,
        )
    }

    /// Parses a decimal of at least 0, or an empty field.
    pub(super) fn decimal(&mut self, column: usize) -> Option<f64> {
        self.optional(
            column,
            "a decimal of at least 0, like 12.5, or empty",
            decimal,
        )
    }

    /// Parses a decimal from 0 to 1, or an empty field.
    pub(super) fn share(&mut self, column: usize) -> Option<f64> {
        let parse = |text: &str| decimal(text).filter(|share| *share <= 1.0);
        self.optional(column, "a decimal from 0 to 1, like 0.25, or empty", parse)
    }

    /// Records a fault if an earlier row of the file had the same key.
    pub(super) fn once<K: Eq + Hash>(&mut self, column: usize, seen: &mut HashMap<K, u64>, key: K) {
        if let Some(first) = seen.insert(key, self.line()) {
            self.duplicate_fault(column, first);
        }
    }

    /// Records that the key of the current row was also on line `first`.
    pub(super) fn duplicate_fault(&mut self, column: usize, first: u64) {
        let (name, found) = (self.columns.names[column], quoted(self.field(column)));
        self.fault(
            column,
            format!("{name} must be unique, got {found}, which is also on line {first}"),
        );
    }
}

/// Returns the fault of a header that lacks columns.
fn missing_columns_fault(absent: &[&str], header: &StringRecord) -> String {
    let found: Vec<&str> = header.iter().collect();
    let found = found.join(",");
    let hint = [(';', "semicolons"), ('\t', "tabs")]
        .into_iter()
        .find(|(delimiter, _)| found.contains(*delimiter))
        .map_or_else(String::new, |(_, name)| {
            format!("; fields must be separated by commas, not {name}")
        });
    let plural = if absent.len() == 1 { "" } else { "s" };
    format!(
        "column{plural} not found: {}; the header is {}{hint}",
        absent.join(", "),
        quoted_up_to(HEADER_QUOTED_MAX, &found)
    )
}

/// Returns the fault of a text with a control character, without its subject.
fn control_character(text: &str) -> Option<String> {
    let (at, found) = text.char_indices().find(|(_, c)| c.is_control())?;
    let hint = if matches!(found, '\n' | '\r') {
        ", a line break; a stray quote makes one field of the lines that follow"
    } else {
        ""
    };
    let (before, code) = (quoted(&text[..at]), u32::from(found));
    Some(format!(
        "must not contain control characters, got {before} and U+{code:04X}{hint}"
    ))
}

/// Parses ASCII digits, with leading zeros allowed.
pub(super) fn digits(text: &str) -> Option<u64> {
    // `u64::from_str` alone would accept a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Parses `digits` or `digits.digits` if the value fits a float.
fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let sound = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if sound(whole) && sound(fraction) {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    } else {
        None
    }
}

/// Parses the time of a 10-minute step.
pub(super) fn step_time(text: &str) -> Option<i64> {
    digits(text)
        .and_then(|time| i64::try_from(time).ok())
        .filter(|time| time % 600 == 0)
}
