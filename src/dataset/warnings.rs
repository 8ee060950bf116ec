//! Warnings of a dataset as a whole: entries that look like data and are not read, and missing days or peaks. Those of
//! the lines of a file are found while it is read, in `csv_table.rs`.

use std::io;

use super::csv_table::letters;
use super::dataset_reader::{DatasetReader, DayFiles};
use super::fault::LoadError;
use super::files::Files;
use super::rows::WHOLE_FILES;
use crate::durable::TEMP_SUFFIX;
use crate::sync::lock;

/// The folders of a dataset, and what is read in each.
const FOLDERS: [(&str, &str); 4] = [
    (
        "",
        "a dataset has the files islands.csv, creators.csv, platform.csv and notice.txt and the folders daily, ccu and live",
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
    /// Finds what is not read, and whether there is no day.
    pub fn find_unread_entries(&self) -> Result<(), LoadError> {
        let mut warnings = lock(&self.warnings);
        if self.days.is_empty() {
            let problem = "there is no day, here or in ccu/; a day is a file named YYYY-MM-DD.csv";
            warnings.push_file("daily/", problem.to_owned());
        }
        for (folder, want) in FOLDERS {
            let names =
                entries(self.files, folder).map_err(|error| self.io_error(folder, error))?;
            for name in &names {
                if is_read(folder, name) || self.is_repeated(folder, name, &names) {
                    continue;
                }
                let place = format!("{folder}/{name}");
                let place = place.trim_start_matches('/');
                let is_table = || {
                    let is_folder = self.files.path(place).is_dir();
                    is_folder && TABLES.contains(&letters(name).as_str())
                };
                let data = data_at(self.files, place, LEVELS);
                let data = data.or_else(|| is_table().then(|| format!("{place}/")));
                if let Some(data) = data {
                    warnings.push_file(&data, format!("is not read; {want}"));
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
            || has_days && WHOLE_FILES.iter().any(|(file, ..)| *file == name)
    }

    /// Records that the newest day has no peak, unless faults of its files are the reason.
    pub(super) fn warn_of_missing_peaks(&self, newest: &DayFiles) {
        let faults = lock(&self.faults);
        if !newest.names().any(|name| faults.has(name)) {
            let problem = "at least one row of the newest day should have a peakCCU, got none; \
                the peaks of all islands are null until there is a newer day";
            let first = newest.names().next().unwrap_or_default();
            lock(&self.warnings).push_file(first, problem.to_owned());
        }
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

/// Returns the names in a folder without backups and unfinished files.
fn entries(files: &Files<'_>, folder: &str) -> io::Result<Vec<String>> {
    let mut names = files.names(folder)?;
    names.retain(|name| {
        let lower = name.to_lowercase();
        let mut ends = BACKUP_ENDS.iter().chain([&TEMP_SUFFIX]);
        !lower.starts_with('~') && !ends.any(|end| lower.ends_with(end))
    });
    Ok(names)
}

/// Returns the path of an entry, or of the first one within it, that looks like data. A folder that cannot be read has
/// none.
fn data_at(files: &Files<'_>, place: &str, levels: u32) -> Option<String> {
    if !files.path(place).is_dir() {
        return is_data(place.rsplit('/').next()?).then(|| place.to_owned());
    }
    let names = entries(files, place).ok().filter(|_| levels > 0)?;
    let mut places = names.iter().map(|name| format!("{place}/{name}"));
    places.find_map(|below| data_at(files, &below, levels - 1))
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

#[cfg(test)]
#[path = "warnings_tests.rs"]
mod tests;
