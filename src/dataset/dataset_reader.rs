//! The files of a dataset, listed, and read one at a time from any thread.
//!
//! Faults are gathered while files are read; [`DatasetReader::sound`] tells them all at the end. What was
//! read is summed up on the way, so that a later publish knows which files are others.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::csv_table::{Columns, CsvTable, WANT_TIME, step_time};
use super::date_limit::DateLimit;
use super::fault::{FaultLog, LoadError, quoted};
use super::files::{FileStamp, Files};
use crate::calendar::{UnixSeconds, UtcDay};

/// A dataset's files by name.
#[derive(Debug)]
pub struct DatasetReader<'a> {
    files: &'a Files<'a>,
    date_limit: DateLimit,
    days: Vec<DayFiles>,
    steps: Vec<StepFile>,
    faults: Mutex<FaultLog>,
    sums: Mutex<BTreeMap<String, FileChecksum>>,
}

/// The files of a held day; it has one of them at least.
#[derive(Clone, Debug)]
pub struct DayFiles {
    /// The day that they are named for.
    pub day: UtcDay,
    /// `daily/DAY.csv`, if it is there.
    pub daily: Option<String>,
    /// `ccu/DAY.csv`, if it is there.
    pub ccu: Option<String>,
}

impl DayFiles {
    /// The names of those that are there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.daily.iter().chain(&self.ccu).map(String::as_str)
    }
}

/// `live/UNIXSECONDS.csv`.
#[derive(Clone, Debug)]
pub struct StepFile {
    /// The step that it is named for.
    pub time: UnixSeconds,
    /// Its name.
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
    /// Lists the files; reads none of them. A day or step later than the day after `today`, which is the
    /// present day by the machine's clock, is a fault.
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

    /// The held days, ascending.
    pub fn days(&self) -> &[DayFiles] {
        &self.days
    }

    /// The live steps, ascending.
    pub fn steps(&self) -> &[StepFile] {
        &self.steps
    }

    /// What the system says of a file; `None` if there is no file of that name.
    pub fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LoadError> {
        self.files.stamp(name).map_err(io_error(self.files, name))
    }

    /// Sums a file up without looking at what it says; `None` if there is no file of that name.
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
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.clone()
    }

    /// Fails with every fault found since the last look, if there is any.
    pub fn finish_checks(&self) -> Result<(), LoadError> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let found = std::mem::take(&mut *faults);
        found
            .finish()
            .map_or(Ok(()), |faults| Err(LoadError::Faults(faults)))
    }

    /// Gives each row of a file to `row`; false if there is no such file.
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
            let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.insert(name.to_owned(), sum);
        }
        self.absorb(faults);
        Ok(true)
    }

    /// What to say of a file that was there and no longer is.
    pub(super) fn gone(&self, name: &str) -> LoadError {
        io_error(self.files, name)(io::ErrorKind::NotFound.into())
    }

    /// The limit that days and steps are held to.
    pub(super) fn date_limit(&self) -> DateLimit {
        self.date_limit
    }

    /// Notes a fault of a whole file.
    pub(super) fn fault(&self, name: &str, problem: String) {
        let mut faults = FaultLog::default();
        faults.push_file(name, problem);
        self.absorb(faults);
    }

    /// Notes a fault of a whole file that probably follows from faults of another file.
    pub(super) fn fault_consequent(&self, name: &str, problem: String) {
        let mut faults = FaultLog::default();
        faults.push_consequent(name, problem);
        self.absorb(faults);
    }

    /// Whether any fault of a file has been found.
    pub(super) fn is_faulty(&self, name: &str) -> bool {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.has(name)
    }

    fn absorb(&self, found: FaultLog) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
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
    // Leading zeros can spell one time in two names.
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
