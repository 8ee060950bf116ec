//! Warnings of a dataset: entries and columns that look like data and are not read, and data that is
//! probably incomplete.
//!
//! They do not depend on which files a publish reads again, so a refresh repeats those of the first
//! publish.

use std::fs;
use std::io;
use std::path::Path;

use super::csv_records::CsvRecords;
use super::dataset_reader::{DatasetReader, DayFiles};
use super::fault::{Fault, FaultLog, Faults, LoadError, quoted};
use super::files::Files;
use super::rows::{FileKind, WHOLE_FILES};
use crate::durable::TEMP_SUFFIX;
use crate::sync::lock;

/// The folders of a dataset, and what is read in each.
const FOLDERS: [(&str, &str); 4] = [
    (
        "",
        "a dataset has the files islands.csv, creators.csv and platform.csv and the folders daily, ccu and live",
    ),
    ("daily", "daily has files named YYYY-MM-DD.csv only"),
    ("ccu", "ccu has files named YYYY-MM-DD.csv only"),
    ("live", "live has files named UNIXSECONDS.csv only"),
];
/// Entries of the dataset that are read.
const READ: [&str; 6] = [
    DatasetReader::ISLANDS,
    DatasetReader::CREATORS,
    DatasetReader::PLATFORM,
    "daily",
    "ccu",
    "live",
];
/// Names of data without their ends, as [`letters`].
const TABLES: [&str; 10] = [
    "islands", "island", "creators", "creator", "platform", "daily", "days", "day", "ccu", "live",
];
/// Ends of data under any name.
const TABLE_ENDS: [&str; 6] = ["csv", "tsv", "xlsx", "parquet", "jsonl", "ndjson"];
/// Ends of data that is named like a table, a day or a step.
const OTHER_ENDS: [&str; 6] = ["json", "gz", "zst", "xz", "bz2", "zip"];
/// Ends of the other forms of a table in a directory of dumps, which is a dataset too.
const DUMP_ENDS: [&str; 3] = [".csv.gz", ".json.gz", ".json"];
/// Ends of files that editors, downloads and people leave beside a file.
const BACKUP_ENDS: [&str; 10] = [
    "~", ".bak", ".backup", ".old", ".orig", ".rej", ".swp", ".part", ".sha256", ".md5",
];
/// Number of levels of a folder that are searched for data.
const LEVELS: u32 = 2;

impl DatasetReader<'_> {
    /// Finds the warnings. If `strict`, records them as faults; otherwise returns them, if there are any.
    pub fn warnings(&self, strict: bool) -> Result<Option<Faults>, LoadError> {
        let mut log = FaultLog::default();
        self.find_unread_entries(&mut log)?;
        self.find_unread_columns(&mut log)?;
        self.find_unfinished_lines(&mut log)?;
        self.find_missing_peaks(&mut log)?;
        if strict {
            lock(&self.faults).append(log);
            return Ok(None);
        }
        Ok(log.finish())
    }

    fn find_unread_entries(&self, log: &mut FaultLog) -> Result<(), LoadError> {
        let Files::Directory(root) = self.files else {
            return Ok(());
        };
        for (folder, want) in FOLDERS {
            let path = root.join(folder);
            let names = entries(&path).map_err(|error| self.io_error(folder, error))?;
            for name in &names {
                if is_read(folder, name) || self.is_repeated(folder, name, &names) {
                    continue;
                }
                let place = Path::new(folder).join(name);
                let place = place.to_string_lossy();
                if !path.join(name).is_dir() {
                    if is_data(name) {
                        log.push_file(&place, format!("is not read; {want}"));
                    }
                } else if let Some(found) = data_within(&path.join(name), LEVELS) {
                    let problem = format!("is not read, nor is {found} in it; {want}");
                    log.push_file(&format!("{place}/"), problem);
                } else if TABLES.contains(&letters(name).as_str()) {
                    log.push_file(&format!("{place}/"), format!("is not read; {want}"));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a file of dumps contains nothing but what is read from other files.
    fn is_repeated(&self, folder: &str, name: &str, names: &[String]) -> bool {
        let stem = DUMP_ENDS.iter().find_map(|end| name.strip_suffix(end));
        let table = stem.map(|stem| format!("{stem}.csv"));
        let has_days = folder.is_empty() && !self.days.is_empty();
        table.is_some_and(|table| is_read(folder, &table) && names.contains(&table))
            || has_days && WHOLE_FILES.iter().any(|file| file.name == name)
    }

    /// Columns of creators.csv are optional, so one with a similar name is not noticed otherwise.
    fn find_unread_columns(&self, log: &mut FaultLog) -> Result<(), LoadError> {
        let name = DatasetReader::CREATORS;
        let mut read = || {
            let Some(mut records) = self.files.open(name)?.map(CsvRecords::new) else {
                return Ok(());
            };
            let Some(Ok(())) = records.next()? else {
                return Ok(());
            };
            for place in 0..records.width {
                let found = records.field(place);
                let mut columns = FileKind::Creators.columns().0.iter();
                let is_similar = |column: &&&str| letters(column) == letters(found);
                if let Some(column) = columns.find(is_similar).filter(|column| **column != found) {
                    log.push(Fault {
                        file: name.to_owned(),
                        line: Some(records.line),
                        column: Some(place + 1),
                        problem: format!(
                            "the column is not read; its name must be {column}, got {}",
                            quoted(found)
                        ),
                    });
                }
            }
            Ok(())
        };
        read().map_err(|error| self.io_error(name, error))
    }

    /// A file that was cut off mostly ends within a line, and what is left of its last number is a
    /// number too.
    fn find_unfinished_lines(&self, log: &mut FaultLog) -> Result<(), LoadError> {
        let tables = [
            DatasetReader::ISLANDS,
            DatasetReader::CREATORS,
            DatasetReader::PLATFORM,
        ];
        let days = self.days.iter().flat_map(DayFiles::names);
        let steps = self.steps.iter().map(|step| step.name.as_str());
        for name in tables.into_iter().chain(days).chain(steps) {
            let last = self.files.last_byte(name);
            let last = last.map_err(|error| self.io_error(name, error))?;
            if last.is_some_and(|last| !matches!(last, b'\n' | b'\r')) {
                let problem = "the last line must end with a newline, got none; \
                    the end of the file may be missing";
                log.push_file(name, problem.to_owned());
            }
        }
        Ok(())
    }

    fn find_missing_peaks(&self, log: &mut FaultLog) -> Result<(), LoadError> {
        let Some(newest) = self.days.last() else {
            let problem = "there is no day, here or in ccu/; a day is a file named YYYY-MM-DD.csv";
            log.push_file("daily/", problem.to_owned());
            return Ok(());
        };
        for name in newest.names() {
            let has_peak = self.has_peak(name);
            if has_peak.map_err(|error| self.io_error(name, error))? {
                return Ok(());
            }
        }
        let first = newest.names().next().unwrap_or_default();
        let problem = "at least one row of the newest day should have a peakCCU, got none; \
            the peaks of all islands are null until there is a newer day";
        log.push_file(first, problem.to_owned());
        Ok(())
    }

    /// Returns whether a file of a day has a peak, or has a fault before its first one.
    fn has_peak(&self, name: &str) -> io::Result<bool> {
        let Some(mut records) = self.files.open(name)?.map(CsvRecords::new) else {
            return Ok(false);
        };
        let Some(Ok(())) = records.next()? else {
            return Ok(true);
        };
        let column = (0..records.width).find(|place| records.field(*place) == "peakCCU");
        let Some(column) = column else {
            return Ok(true);
        };
        while let Some(record) = records.next()? {
            if record.is_err() || column >= records.width || !records.field(column).is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns whether an entry is a part of the dataset. In the folders, a name that is no day or step is a
/// fault.
fn is_read(folder: &str, name: &str) -> bool {
    if folder.is_empty() {
        READ.contains(&name)
    } else {
        name.strip_suffix(".csv").is_some()
    }
}

/// Returns the names in a folder, sorted, without hidden files, backups and unfinished files.
fn entries(folder: &Path) -> io::Result<Vec<String>> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let names = listed.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<String>>>()?;
    names.retain(|name| {
        let lower = name.to_lowercase();
        let mut ends = BACKUP_ENDS.iter().chain([&TEMP_SUFFIX]);
        !lower.starts_with(['.', '~']) && !ends.any(|end| lower.ends_with(end))
    });
    names.sort_unstable();
    Ok(names)
}

/// Returns the first file within a folder that looks like data. A folder that cannot be read has none.
fn data_within(folder: &Path, levels: u32) -> Option<String> {
    let names = entries(folder).unwrap_or_default();
    names.into_iter().find_map(|name| {
        let path = folder.join(&name);
        if !path.is_dir() {
            return is_data(&name).then_some(name);
        }
        let below = (levels > 1).then(|| data_within(&path, levels - 1))??;
        Some(format!("{name}/{below}"))
    })
}

/// Returns whether the name of a file looks like that of data.
fn is_data(name: &str) -> bool {
    let name = name.trim().to_lowercase();
    let mut parts = name.split('.');
    let stem = parts.next().unwrap_or_default();
    let ends: Vec<&str> = parts.collect();
    // A day or a step, perhaps with another text behind it.
    let is_time = |c: char| c.is_ascii_digit() || matches!(c, '-' | '_');
    let is_time = stem.chars().take_while(|c| is_time(*c)).count() >= "20261120".len();
    let is_named = is_time || TABLES.contains(&letters(stem).as_str());
    let has = |known: &[&str]| ends.iter().any(|end| known.contains(end));
    has(&TABLE_ENDS) || is_named && (ends.is_empty() || has(&OTHER_ENDS))
}

/// Returns the letters and digits of a name, in lower case.
fn letters(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
#[path = "warnings_tests.rs"]
mod tests;
