//! One CSV file read row by row: columns found by name, fields parsed, faults collected with their place.

use super::fault::{Fault, Faults, LoadError};
use super::files::Files;
use crate::model::COUNT_MAX;

/// Characters of a bad field that a message shows.
const SHOWN_MAX: usize = 40;

/// Whether a column must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

/// An open CSV file.
pub(crate) struct Table<'a> {
    name: &'a str,
    files: &'a Files,
    reader: csv::Reader<Box<dyn std::io::Read + 'a>>,
    /// For each wanted column, where it stands.
    places: Vec<Option<usize>>,
    columns: &'static [(&'static str, Need)],
    fields: usize,
    record: csv::ByteRecord,
    line: u64,
    /// Whether the present row has had a fault.
    faulty: bool,
}

impl<'a> Table<'a> {
    /// Opens a file and finds its columns. `None` where there is no such file, or none that can be
    /// read on: its faults are told then.
    pub(crate) fn open(
        files: &'a Files,
        name: &'a str,
        columns: &'static [(&'static str, Need)],
        faults: &mut Faults,
    ) -> Result<Option<Table<'a>>, LoadError> {
        let Some(input) = files.open(name)? else {
            return Ok(None);
        };
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(input);
        let mut table = Table {
            name,
            files,
            reader,
            places: Vec::new(),
            columns,
            fields: 0,
            record: csv::ByteRecord::new(),
            line: 1,
            faulty: false,
        };
        if !table.read()? {
            table.fault(
                faults,
                None,
                "the file is empty; want a header row".to_owned(),
            );
            return Ok(None);
        }
        Ok(table.find_columns(faults).then_some(table))
    }

    fn find_columns(&mut self, faults: &mut Faults) -> bool {
        let header = self.record.clone();
        self.fields = header.len();
        for (column, need) in self.columns {
            let mut found = (0..header.len()).filter(|at| &header[*at] == column.as_bytes());
            let place = found.next();
            if let Some(again) = found.next() {
                self.fault(
                    faults,
                    Some(again),
                    format!("column {column} is named twice; want it once"),
                );
            }
            if place.is_none() && *need == Need::Required {
                self.fault(
                    faults,
                    None,
                    format!("there is no column {column}; want it in the header row"),
                );
            }
            self.places.push(place);
        }
        !self.faulty
    }

    /// Goes to the next sound row; `false` at the end. Rows that are no rows are faults and passed over.
    pub(crate) fn next(&mut self, faults: &mut Faults) -> Result<bool, LoadError> {
        while self.read()? {
            self.faulty = false;
            let found = self.record.len();
            if found != self.fields {
                self.fault(
                    faults,
                    None,
                    format!(
                        "the row has {found} fields; want {} as in the header",
                        self.fields
                    ),
                );
                continue;
            }
            let record = std::mem::take(&mut self.record);
            for (at, field) in record.iter().enumerate() {
                if std::str::from_utf8(field).is_err() {
                    self.fault(faults, Some(at), "the field is not UTF-8".to_owned());
                } else if memchr::memchr(0, field).is_some() {
                    self.fault(
                        faults,
                        Some(at),
                        "the field holds a NUL; want text without one".to_owned(),
                    );
                }
            }
            self.record = record;
            if !self.faulty {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&mut self) -> Result<bool, LoadError> {
        let read = self
            .reader
            .read_byte_record(&mut self.record)
            .map_err(|error| {
                let source = std::io::Error::from(error);
                LoadError::Io {
                    path: self.files.path(self.name),
                    source,
                }
            })?;
        self.line = self.record.position().map_or(1, csv::Position::line);
        Ok(read)
    }

    /// Whether the present row has had no fault.
    pub(crate) fn is_sound(&self) -> bool {
        !self.faulty
    }

    /// The line on which the present row begins.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// A field of the present row, empty where its column is missing.
    pub(crate) fn text(&self, column: usize) -> &str {
        let field = self.places[column]
            .and_then(|at| self.record.get(at))
            .unwrap_or_default();
        std::str::from_utf8(field).expect("next gives only rows that are UTF-8")
    }

    /// Parses a field; where that fails, it is a fault that says what is wanted.
    pub(crate) fn parsed<T>(
        &mut self,
        column: usize,
        faults: &mut Faults,
        want: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = parse(self.text(column));
        if value.is_none() {
            self.wrong(column, faults, want);
        }
        value
    }

    /// As [`Table::parsed`], but an empty field is null and no fault.
    pub(crate) fn nullable<T>(
        &mut self,
        column: usize,
        faults: &mut Faults,
        want: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        if self.text(column).is_empty() {
            return None;
        }
        self.parsed(column, faults, want, parse)
    }

    /// A count, null where empty.
    pub(crate) fn count(&mut self, column: usize, faults: &mut Faults) -> Option<u64> {
        self.nullable(
            column,
            faults,
            "an integer from 0 to 9007199254740991, or nothing",
            count,
        )
    }

    /// A decimal, null where empty.
    pub(crate) fn decimal(
        &mut self,
        column: usize,
        faults: &mut Faults,
        max: Option<f64>,
    ) -> Option<f64> {
        let want = if max.is_some() {
            "a decimal from 0 to 1, or nothing"
        } else {
            "a decimal of at least 0, or nothing"
        };
        self.nullable(column, faults, want, |text| {
            decimal(text).filter(|value| max.is_none_or(|max| *value <= max))
        })
    }

    /// A fault of a field: what it is, and what is wanted.
    pub(crate) fn wrong(&mut self, column: usize, faults: &mut Faults, want: &str) {
        let name = self.columns[column].0;
        let problem = format!("{name} is {}; want {want}", shown(self.text(column)));
        self.fault(faults, self.places[column], problem);
    }

    fn fault(&mut self, faults: &mut Faults, place: Option<usize>, problem: String) {
        self.faulty = true;
        let column = place.map(|at| at + 1);
        faults.add(Fault {
            file: self.name.to_owned(),
            line: Some(self.line),
            column,
            problem,
        });
    }
}

/// A value in a message: quoted, escaped, cut.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

/// ASCII digits, at most 2^53 - 1; leading zeros are allowed.
pub(crate) fn count(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())?
        .filter(|count| *count <= COUNT_MAX)
}

/// Digits, perhaps a point and more digits.
fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}
