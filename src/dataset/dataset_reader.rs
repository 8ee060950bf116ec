//! Reader of a dataset: lists the files, and reads one at a time from any thread.
//!
//! Faults are collected while files are read; [`DatasetReader::finish_checks`] returns them at the end.
//! The checksum of each file is computed on the way, for change detection in the next publish.

use std::collections::BTreeMap;
use std::io;

use super::csv_table::{Columns, CsvTable, WANT_TIME, step_time};
use super::date_limit::DateLimit;
use super::fault::{FaultLog, LoadError, quoted};
use super::files::{FileStamp, Files};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::sync::{Mutex, lock};

/// The files of a dataset by name.
#[derive(Debug)]
pub struct DatasetReader<'a> {
    files: &'a Files<'a>,
    date_limit: DateLimit,
    days: Vec<DayFiles>,
    steps: Vec<StepFile>,
    faults: Mutex<FaultLog>,
    sums: Mutex<BTreeMap<String, FileChecksum>>,
}

/// Files of one day; at least one of them exists.
#[derive(Clone, Debug)]
pub struct DayFiles {
    /// Day in the file names.
    pub day: UtcDay,
    /// `daily/DAY.csv`, if it exists.
    pub daily: Option<String>,
    /// `ccu/DAY.csv`, if it exists.
    pub ccu: Option<String>,
}

impl DayFiles {
    /// Iterates over the names of the existing files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.daily.iter().chain(&self.ccu).map(String::as_str)
    }
}

/// `live/UNIXSECONDS.csv`.
#[derive(Clone, Debug)]
pub struct StepFile {
    /// Time in the file name.
    pub time: UnixSeconds,
    /// File name, relative to the dataset.
    pub name: String,
}

/// Identity and checksum of a file that was read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileChecksum {
    /// Metadata from before the first byte was read.
    pub stamp: FileStamp,
    /// CRC-32 of the bytes.
    pub checksum: u32,
}

impl<'a> DatasetReader<'a> {
    /// Lists the files without reading them. `today` is the present day by the machine's clock; a day or
    /// step later than the day after it is a fault.
    pub fn open(files: &'a Files<'a>, today: UtcDay) -> Result<DatasetReader<'a>, LoadError> {
        files.probe().map_err(io_error(files, ""))?;
        let date_limit = DateLimit { today };
        let mut faults = FaultLog::default();
        let days = list_days(files, date_limit, &mut faults)?;
        let steps = list_steps(files, date_limit, &mut faults)?;
        Ok(DatasetReader {
            files,
            date_limit,
            days,
            steps,
            faults: Mutex::new(faults),
            sums: Mutex::default(),
        })
    }

    /// Days that have a file, ascending.
    pub fn days(&self) -> &[DayFiles] {
        &self.days
    }

    /// Live steps, ascending.
    pub fn steps(&self) -> &[StepFile] {
        &self.steps
    }

    /// Returns the metadata of a file, or `None` if it does not exist.
    pub fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LoadError> {
        self.files.stamp(name).map_err(io_error(self.files, name))
    }

    /// Computes the checksum of a file without parsing it. Returns `None` if it does not exist.
    pub fn sum(&self, name: &str) -> Result<Option<FileChecksum>, LoadError> {
        let failed = || io_error(self.files, name);
        let Some((mut content, stamp)) = self.files.open(name).map_err(failed())? else {
            return Ok(None);
        };
        let mut crc = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => crc.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed()(error)),
            }
        }
        Ok(Some(FileChecksum {
            stamp,
            checksum: crc.finalize(),
        }))
    }

    /// Returns the sums of all files read so far, by name.
    pub fn sums(&self) -> BTreeMap<String, FileChecksum> {
        let sums = lock(&self.sums);
        sums.clone()
    }

    /// Returns all faults recorded since the previous call as an error.
    pub fn finish_checks(&self) -> Result<(), LoadError> {
        let mut faults = lock(&self.faults);
        let found = std::mem::take(&mut *faults);
        found
            .finish()
            .map_or(Ok(()), |faults| Err(LoadError::Faults(faults)))
    }

    /// Calls `row` for each row of a file. Returns false if the file does not exist.
    pub(super) fn for_each_row(
        &self,
        name: &str,
        columns: &'static Columns,
        mut row: impl FnMut(&mut CsvTable<'_>),
    ) -> Result<bool, LoadError> {
        let opened = self.files.open(name).map_err(io_error(self.files, name))?;
        let Some((content, stamp)) = opened else {
            return Ok(false);
        };
        let mut faults = FaultLog::default();
        if let Some(mut table) = CsvTable::new(self.files, name, content, columns, &mut faults)? {
            while table.next_row()? {
                row(&mut table);
            }
            let sum = FileChecksum {
                stamp,
                checksum: table.checksum(),
            };
            let mut sums = lock(&self.sums);
            sums.insert(name.to_owned(), sum);
        }
        self.absorb(faults);
        Ok(true)
    }

    /// Returns the error of a file that was listed and no longer exists.
    pub(super) fn gone(&self, name: &str) -> LoadError {
        io_error(self.files, name)(io::ErrorKind::NotFound.into())
    }

    /// Upper limit of days and steps.
    pub(super) fn date_limit(&self) -> DateLimit {
        self.date_limit
    }

    /// Records a fault of a whole file.
    pub(super) fn fault(&self, name: &str, problem: String) {
        let mut faults = FaultLog::default();
        faults.push_file(name, problem);
        self.absorb(faults);
    }

    /// Records a fault of a whole file that is probably caused by faults of another file.
    pub(super) fn fault_consequent(&self, name: &str, problem: String) {
        let mut faults = FaultLog::default();
        faults.push_consequent(name, problem);
        self.absorb(faults);
    }

    /// Returns whether a file has a fault.
    pub(super) fn is_faulty(&self, name: &str) -> bool {
        let faults = lock(&self.faults);
        faults.has(name)
    }

    fn absorb(&self, found: FaultLog) {
        let mut faults = lock(&self.faults);
        faults.absorb(found);
    }
}

fn list_days(
    files: &Files<'_>,
    date_limit: DateLimit,
    faults: &mut FaultLog,
) -> Result<Vec<DayFiles>, LoadError> {
    let mut days: Vec<DayFiles> = Vec::new();
    for folder in ["daily", "ccu"] {
        for stem in files.stems(folder).map_err(io_error(files, folder))? {
            let name = format!("{folder}/{stem}.csv");
            let Some(day) = UtcDay::parse(&stem) else {
                let problem = format!(
                    "the file name must be a calendar day, YYYY-MM-DD, and .csv, got {}",
                    quoted(&stem)
                );
                faults.push_file(&name, problem);
                continue;
            };
            if let Some(problem) = date_limit.day_fault(day) {
                faults.push_file(&name, problem);
                continue;
            }
            let at = days.binary_search_by_key(&day, |files| files.day);
            let at = at.unwrap_or_else(|at| {
                let (daily, ccu) = (None, None);
                days.insert(at, DayFiles { day, daily, ccu });
                at
            });
            let place = if folder == "daily" {
                &mut days[at].daily
            } else {
                &mut days[at].ccu
            };
            *place = Some(name);
        }
    }
    Ok(days)
}

fn list_steps(
    files: &Files<'_>,
    date_limit: DateLimit,
    faults: &mut FaultLog,
) -> Result<Vec<StepFile>, LoadError> {
    let mut steps = Vec::new();
    for stem in files.stems("live").map_err(io_error(files, "live"))? {
        let name = format!("live/{stem}.csv");
        let Some(time) = step_time(&stem).map(UnixSeconds) else {
            let problem = format!(
                "the file name must be {WANT_TIME}, and .csv, got {}",
                quoted(&stem)
            );
            faults.push_file(&name, problem);
            continue;
        };
        match date_limit.time_fault("the step", time) {
            Some(problem) => faults.push_file(&name, problem),
            None => steps.push(StepFile { time, name }),
        }
    }
    steps.sort_unstable_by_key(|step| step.time);
    // With leading zeros, two names can have the same time.
    for pair in steps.windows(2).filter(|pair| pair[0].time == pair[1].time) {
        let problem = "the step must have one file, got two".to_owned();
        faults.push_file(&format!("live/{}.csv", pair[0].time.0), problem);
    }
    Ok(steps)
}

fn io_error(files: &Files<'_>, name: &str) -> impl FnOnce(io::Error) -> LoadError + use<> {
    let path = files.path(name);
    |source| LoadError::Io { path, source }
}

#[cfg(test)]
#[path = "dataset_reader_tests.rs"]
mod tests;
