//! Reader of a dataset: lists the files, and reads one at a time from any thread.
//!
//! Faults and warnings are collected while files are read; [`DatasetReader::finish_checks`] returns the faults at the
//! end.
//! The metadata of each file that was read are kept, for change detection in the next publish.

use std::collections::BTreeMap;
use std::io;

use super::csv_table::{CsvTable, step_time};
use super::fault::{Fault, Faults, LoadError, quoted};
use super::files::{FileStamp, Files, OpenFile};
use super::hints::{hint, unit_hint};
use super::rows::FileKind;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::regular_file::with_path;
use crate::sync::{Mutex, lock};

/// The first possible live step, 2017-01-01: the game was published in that year. Names of ten digits
/// from it on are in the order of their times.
const FIRST_STEP: i64 = 1_483_228_800;
const WANT_STEP: &str = "Unix seconds in ten digits, a multiple of 600 from 1483228800 (2017) on";

#[derive(Debug)]
pub struct DatasetReader<'a> {
    pub(super) files: &'a Files<'a>,
    /// Present day by the machine's clock.
    pub(super) today: UtcDay,
    /// Days that have a file, ascending.
    pub days: Vec<DayFiles>,
    /// Live steps, ascending.
    pub steps: Vec<UnixSeconds>,
    /// Whether warnings are faults.
    pub strict: bool,
    /// Whether a file that cannot be read is a fault, and the others are read too.
    pub reads_on: bool,
    pub(super) faults: Mutex<Faults>,
    pub(super) warnings: Mutex<Faults>,
    stamps: Mutex<BTreeMap<String, Option<FileStamp>>>,
}

/// Files of one day; at least one of them exists.
#[derive(Clone, Debug)]
pub struct DayFiles {
    pub day: UtcDay,
    /// Kind and name of each file that exists: `daily/DAY.csv`, then `ccu/DAY.csv`.
    pub files: Vec<(FileKind, String)>,
}

impl DayFiles {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(_, name)| name.as_str())
    }
}

impl<'a> DatasetReader<'a> {
    /// Lists the files without reading them. `today` is the present day by the machine's clock; a day or
    /// step later than the day after it is a fault.
    pub fn open(files: &'a Files<'a>, today: UtcDay) -> Result<DatasetReader<'a>, LoadError> {
        let mut source = DatasetReader::unlisted(files, today)?;
        source.list_days()?;
        source.list_steps()?;
        Ok(source)
    }

    /// Opens a dataset to read files by their names. It has no days and steps, and no faults of other files' names.
    pub fn unlisted(files: &'a Files<'a>, today: UtcDay) -> Result<DatasetReader<'a>, LoadError> {
        let source = DatasetReader {
            files,
            today,
            days: Vec::new(),
            steps: Vec::new(),
            strict: false,
            reads_on: false,
            faults: Mutex::default(),
            warnings: Mutex::default(),
            stamps: Mutex::default(),
        };
        files
            .names("")
            .map_err(|error| source.io_error("", error))?;
        Ok(source)
    }

    /// Iterates over the names of the tables, which may be absent, and of the days and steps, which exist.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let tables = [
            DatasetReader::ISLANDS,
            DatasetReader::CREATORS,
            DatasetReader::PLATFORM,
        ];
        let days = self.days.iter().flat_map(DayFiles::names);
        let steps = self.steps.iter().copied();
        let named = tables.into_iter().chain(days).map(str::to_owned);
        named.chain(steps.map(DatasetReader::step_name))
    }

    /// Returns the name of the file of a live step.
    pub fn step_name(time: UnixSeconds) -> String {
        format!("live/{}.csv", time.0)
    }

    /// Returns the metadata of a file, or `None` if it does not exist.
    pub fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LoadError> {
        let stamp = self.files.stamp(name);
        stamp.map_err(|error| self.io_error(name, error))
    }

    /// Reads a file with `read`. Returns `None` if it does not exist, and `unreadable` in place of an error that is a
    /// fault.
    pub(super) fn read<T>(
        &self,
        name: &str,
        unreadable: Option<T>,
        read: impl FnOnce(OpenFile<'_>) -> io::Result<T>,
    ) -> Result<Option<T>, LoadError> {
        let opened = self.files.open(name);
        match opened.and_then(|file| file.map(read).transpose()) {
            Err(error) if self.reads_on => {
                lock(&self.faults).push_unreadable(name, &error);
                Ok(unreadable)
            }
            read => read.map_err(|error| self.io_error(name, error)),
        }
    }

    /// Returns the metadata of all files read so far, by name, from before the first byte was read; `None` for a file
    /// that was written to so shortly before that they do not identify it.
    pub fn stamps(&self) -> BTreeMap<String, Option<FileStamp>> {
        lock(&self.stamps).clone()
    }

    /// Returns all faults recorded since the previous call as an error.
    pub fn finish_checks(&self) -> Result<(), LoadError> {
        let mut faults = std::mem::take(&mut *lock(&self.faults));
        if self.strict {
            faults.append(self.take_warnings());
        }
        match faults.total {
            0 => Ok(()),
            _ => Err(LoadError::Faults(faults)),
        }
    }

    /// Records a warning of an earlier publish about a file that is not read again.
    pub fn repeat_warning(&self, warning: Fault) {
        lock(&self.warnings).push(warning);
    }

    /// Returns all warnings recorded since the previous call.
    pub fn take_warnings(&self) -> Faults {
        std::mem::take(&mut *lock(&self.warnings))
    }

    /// Calls `row` for each row of a file. Returns false if the file does not exist.
    pub(super) fn for_each_row(
        &self,
        name: &str,
        kind: FileKind,
        row: impl FnMut(&CsvTable<'_>),
    ) -> Result<bool, LoadError> {
        let read = self.read(name, Some(()), |file| {
            let logs = [&self.faults, &self.warnings];
            if let Some(table) = CsvTable::new(name, file.content, kind, logs)? {
                table.for_each_row(row)?;
                lock(&self.stamps).insert(name.to_owned(), file.stamp);
            }
            Ok(())
        })?;
        Ok(read.is_some())
    }

    pub(super) fn io_error(&self, name: &str, error: io::Error) -> LoadError {
        LoadError::Io(with_path(&self.files.path(name))(error))
    }

    fn list_days(&mut self) -> Result<(), LoadError> {
        let mut days: BTreeMap<UtcDay, DayFiles> = BTreeMap::new();
        for (kind, folder) in [(FileKind::Daily, "daily"), (FileKind::Ccu, "ccu")] {
            let want = "a calendar day, YYYY-MM-DD";
            let parse = |stem: &str| UtcDay::parse(stem).map(UtcDay::start);
            let text = |time: UnixSeconds| time.day().to_string();
            for (time, name) in self.list(folder, ["the day", want], parse, text)? {
                let day = time.day();
                let files = Vec::new();
                let of_day = days.entry(day).or_insert(DayFiles { day, files });
                of_day.files.push((kind, name));
            }
        }
        self.days = days.into_values().collect();
        Ok(())
    }

    fn list_steps(&mut self) -> Result<(), LoadError> {
        let parse = |stem: &str| {
            let time = step_time(stem).filter(|time| stem.len() == 10 && *time >= FIRST_STEP);
            time.map(UnixSeconds)
        };
        let listed = self.list("live", ["the step", WANT_STEP], parse, time_text)?;
        self.steps = listed.into_iter().map(|(time, _)| time).collect();
        Ok(())
    }

    /// Lists the files of a folder whose names are valid, and records the others as faults. `parse`
    /// returns the start of the day or step in a name, `text` shows it in messages.
    fn list(
        &self,
        folder: &str,
        [subject, want]: [&str; 2],
        parse: impl Fn(&str) -> Option<UnixSeconds>,
        text: impl Fn(UnixSeconds) -> String,
    ) -> Result<Vec<(UnixSeconds, String)>, LoadError> {
        let stems = self.files.stems(folder);
        let stems = stems.map_err(|error| self.io_error(folder, error))?;
        let mut files = Vec::with_capacity(stems.len());
        for stem in stems {
            let name = format!("{folder}/{stem}.csv");
            let Some(time) = parse(&stem) else {
                let (found, hint) = (quoted(&stem), hint(&stem, false, &parse));
                let problem =
                    format!("the file name must be {want}, followed by .csv, got {found}{hint}");
                lock(&self.faults).push_file(&name, problem);
                continue;
            };
            match late_fault(self.today, subject, time, &text) {
                Some(problem) => lock(&self.faults).push_file(&name, problem),
                None => files.push((time, name)),
            }
        }
        Ok(files)
    }
}

/// Returns the fault of a time later than tomorrow, by the clock of the machine that reads it. `name`
/// is its name in the message.
///
/// A single file of a day far in the future would become the latest day, on which no island has
/// metrics. One day of tolerance lets machines with different clocks exchange data around midnight.
pub(super) fn late_fault(
    today: UtcDay,
    name: &str,
    time: UnixSeconds,
    found: impl FnOnce(UnixSeconds) -> String,
) -> Option<String> {
    // Times are compared, not days, since the day of a time in the far future overflows its type.
    if time < UtcDay(today.0.saturating_add(1)).end() {
        return None;
    }
    Some(format!(
        "{name} must be no later than tomorrow, got {}; by the clock of this machine, today is {today} (UTC){}",
        found(time),
        unit_hint(time.0)
    ))
}

pub(super) fn time_text(time: UnixSeconds) -> String {
    if time.has_text() {
        format!("{} ({time})", time.0)
    } else {
        time.0.to_string()
    }
}

#[cfg(test)]
#[path = "dataset_reader_tests.rs"]
mod tests;
