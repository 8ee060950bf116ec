//! A CSV file read row by row: columns found by name, fields parsed, faults recorded with their place.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Read};

use super::csv_records::CsvRecords;
use super::fault::{Fault, Faults, quoted, quoted_up_to};
use super::hints::hint;
use super::rows::FileKind;
use crate::model::{COUNT_MAX, CreatorSlug, IslandCode, digits};
use crate::sync::{Mutex, lock};

/// Characters of a header that a message quotes.
const HEADER_QUOTED_MAX: usize = 120;

pub(super) const WANT_SLUG: &str =
    "a slug of 1 to 64 bytes other than . and .. without / and control characters";

pub(super) const WANT_TIME: &str = "Unix seconds in digits, a multiple of 600";

pub(super) struct CsvTable<'a> {
    name: &'a str,
    records: CsvRecords<'a>,
    columns: &'static [&'static str],
    /// Position of each column in a row; `None` for an optional column that is absent.
    places: Vec<Option<usize>>,
    faults: &'a Mutex<Faults>,
    warnings: &'a Mutex<Faults>,
}

impl<'a> CsvTable<'a> {
    /// Reads the header of a file. Returns `None` if its faults make the rows meaningless.
    pub(super) fn new(
        name: &'a str,
        file: Box<dyn Read + 'a>,
        kind: FileKind,
        [faults, warnings]: [&'a Mutex<Faults>; 2],
    ) -> io::Result<Option<CsvTable<'a>>> {
        let (columns, required) = kind.columns();
        let mut table = CsvTable {
            name,
            records: CsvRecords::new(file),
            columns,
            places: Vec::new(),
            faults,
            warnings,
        };
        let is_usable = table.read_header(required)?;
        if is_usable && kind == FileKind::Creators {
            table.find_unread_columns();
        }
        Ok(is_usable.then_some(table))
    }

    fn read_header(&mut self, required: usize) -> io::Result<bool> {
        let required = &self.columns[..required];
        let Some(mut is_usable) = self.read_record()? else {
            let problem = format!("the header row must be {}, got no row", required.join(","));
            lock(self.faults).push_file(self.name, problem);
            return Ok(false);
        };
        if !is_usable {
            return Ok(false);
        }
        let header: Vec<String> = (0..self.records.width)
            .map(|place| self.records.field(place).to_owned())
            .collect();
        for name in self.columns {
            let mut places = (0..header.len()).filter(|place| header[*place] == *name);
            self.places.push(places.next());
            if let Some(again) = places.next() {
                is_usable = false;
                let problem = format!("the column {name} must occur once, got a second one");
                self.fault_at(Some(again), problem);
            }
        }
        let absent = required.iter().zip(&self.places);
        let absent = absent.filter(|(_, place)| place.is_none());
        let absent: Vec<&str> = absent.map(|(name, _)| *name).collect();
        if !absent.is_empty() {
            self.fault_at(None, missing_columns_fault(&absent, &header.join(",")));
            return Ok(false);
        }
        // With a stray quote in the header, a column name contains the lines that follow.
        for (place, name) in header.iter().enumerate() {
            if let Some(problem) = control_character(name) {
                is_usable = false;
                self.fault_at(Some(place), format!("a column name {problem}"));
            }
        }
        Ok(is_usable)
    }

    /// Columns of creators.csv are optional, so one with a similar name is not noticed otherwise.
    fn find_unread_columns(&self) {
        for place in 0..self.records.width {
            let found = self.records.field(place);
            let is_similar =
                |column: &&&str| **column != found && letters(column) == letters(found);
            if let Some(column) = self.columns.iter().find(is_similar) {
                let found = quoted(found);
                let problem =
                    format!("the column is not read; its name must be {column}, got {found}");
                self.push(self.warnings, Some(place), problem);
            }
        }
    }

    /// Calls `row` for each row with the right number of fields.
    pub(super) fn for_each_row(mut self, mut row: impl FnMut(&CsvTable<'_>)) -> io::Result<()> {
        let want = self.records.width;
        while let Some(is_sound) = self.read_record()? {
            let found = self.records.width;
            if is_sound && found == want {
                row(&self);
            } else if is_sound {
                let problem =
                    format!("the number of fields must be {want}, as in the header, got {found}");
                self.fault_at(None, problem);
            }
        }
        // A file that was cut off mostly ends within a line, and what is left of its last number is a number too.
        let last = self.records.last_byte;
        if last.is_some_and(|last| !matches!(last, b'\n' | b'\r')) {
            let problem = "the last line must end with a newline, got none; the end of the file may be missing";
            lock(self.warnings).push_file(self.name, problem.to_owned());
        }
        Ok(())
    }

    /// Reads one record. Returns false if it is malformed, which is recorded as a fault, and `None` at
    /// the end of the file.
    fn read_record(&mut self) -> io::Result<Option<bool>> {
        let Some(checked) = self.records.next()? else {
            return Ok(None);
        };
        let Err((place, problem)) = checked else {
            return Ok(Some(true));
        };
        let column = self.places.iter().position(|other| *other == place);
        let problem = match (place, column) {
            (None, _) => problem,
            (Some(_), None) => format!("the field {problem}"),
            (Some(_), Some(column)) => format!("{} {problem}", self.columns[column]),
        };
        self.fault_at(place, problem);
        Ok(Some(false))
    }

    /// Returns a field of the current row, empty if the column is absent.
    pub(super) fn field(&self, column: usize) -> &str {
        self.places[column].map_or("", |place| self.records.field(place))
    }

    /// Returns the line on which the current row starts.
    pub(super) fn line(&self) -> u64 {
        self.records.line
    }

    /// Records a fault of a field of the current row.
    pub(super) fn fault(&self, column: usize, problem: String) {
        self.fault_at(self.places[column], problem);
    }

    fn fault_at(&self, place: Option<usize>, problem: String) {
        self.push(self.faults, place, problem);
    }

    fn push(&self, log: &Mutex<Faults>, place: Option<usize>, problem: String) {
        lock(log).push(Fault {
            file: self.name.to_owned(),
            line: Some(self.records.line),
            column: place.map(|place| place + 1),
            problem,
        });
    }

    /// Parses a field. If `parse` returns `None`, records a fault that names the expected form `want`. An empty field is
    /// valid and `None`, except in the first column, which has the key of the row.
    pub(super) fn parsed<T>(
        &self,
        column: usize,
        want: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let (name, text, is_optional) = (self.columns[column], self.field(column), column > 0);
        if is_optional && text.is_empty() {
            return None;
        }
        let value = parse(text);
        if value.is_none() {
            let found = match text {
                "" => "an empty field".to_owned(),
                _ => quoted(text) + &hint(text, is_optional, parse),
            };
            self.fault(column, format!("{name} must be {want}, got {found}"));
        }
        value
    }

    /// Returns a field as text, or `None` if it has a control character, which is recorded as a fault.
    pub(super) fn text(&self, column: usize) -> Option<&str> {
        let text = self.field(column);
        let Some(problem) = control_character(text) else {
            return Some(text);
        };
        self.fault(column, format!("{} {problem}", self.columns[column]));
        None
    }

    pub(super) fn code(&self) -> Option<IslandCode> {
        let want = "an island code like 1234-5678-9012";
        self.parsed(0, want, |text| text.parse().ok())
    }

    pub(super) fn slug(&self, column: usize) -> Option<CreatorSlug> {
        let want = format!("{WANT_SLUG}, or empty");
        self.parsed(column, &want, |text| text.parse().ok())
    }

    pub(super) fn count(&self, column: usize) -> Option<u64> {
        let want = "an integer from 0 to 9007199254740991 or empty";
        self.parsed(column, want, |text| {
            digits(text).filter(|count| *count <= COUNT_MAX)
        })
    }

    /// Parses a decimal of at least 0, or an empty field.
    pub(super) fn decimal(&self, column: usize) -> Option<f64> {
        let want = "a decimal of at least 0, like 12.5, or empty";
        self.parsed(column, want, decimal)
    }

    /// Parses a decimal from 0 to 1, or an empty field.
    pub(super) fn share(&self, column: usize) -> Option<f64> {
        let want = "a decimal from 0 to 1, like 0.25, or empty";
        self.parsed(column, want, |text| {
            decimal(text).filter(|share| *share <= 1.0)
        })
    }

    /// Records a fault if an earlier row of the file had the same key.
    pub(super) fn once<K: Eq + Hash>(&self, seen: &mut HashMap<K, u64>, key: K) {
        if let Some(first) = seen.insert(key, self.records.line) {
            self.duplicate_fault(first);
        }
    }

    /// Records that the key of the current row was also on line `first`.
    pub(super) fn duplicate_fault(&self, first: u64) {
        let (name, found) = (self.columns[0], quoted(self.field(0)));
        let problem = format!("{name} must be unique, got {found}, which is also on line {first}");
        self.fault(0, problem);
    }
}

fn missing_columns_fault(absent: &[&str], header: &str) -> String {
    let plural = if absent.len() == 1 { "" } else { "s" };
    let hint = if header.contains(';') {
        "; fields must be separated by commas, not semicolons"
    } else if header.contains('\t') {
        "; fields must be separated by commas, not tabs"
    } else {
        ""
    };
    let (absent, header) = (absent.join(", "), quoted_up_to(HEADER_QUOTED_MAX, header));
    format!("column{plural} not found: {absent}; the header is {header}{hint}")
}

/// Returns the fault of a text with a control character, without its subject.
fn control_character(text: &str) -> Option<String> {
    let (at, found) = text.char_indices().find(|(_, c)| c.is_control())?;
    let hint = if matches!(found, '\n' | '\r') {
        ", a line break; a stray quote joins the lines that follow into one field"
    } else {
        ""
    };
    let (before, code) = (quoted(&text[..at]), u32::from(found));
    Some(format!(
        "must not contain control characters, got {before} and U+{code:04X}{hint}"
    ))
}

/// Parses `digits` or `digits.digits` if the value fits a float.
fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain(whole) && is_plain(fraction) {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    } else {
        None
    }
}

/// Returns the letters and digits of a name, in lower case.
pub(super) fn letters(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Parses the time of a 10-minute step.
pub(super) fn step_time(text: &str) -> Option<i64> {
    digits(text).filter(|time| time % 600 == 0)
}
