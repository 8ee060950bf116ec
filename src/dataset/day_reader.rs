//! Reader of the files per day or step: daily/, ccu/, live/ and platform.csv.

use std::collections::HashMap;
use std::io;

use super::catalogue::Catalogue;
use super::csv_table::{CsvTable, WANT_TIME, step_time};
use super::dataset_reader::{DatasetReader, DayFiles, StepFile};
use super::date_limit::time_fault;
use super::fault::LoadError;
use super::rows::FileKind;
use super::rows::{CcuRow, DailyRow, Day, LiveStep, Metrics};
use crate::calendar::{UnixSeconds, UtcDay};
use crate::model::IslandCode;
use crate::sync::lock;

impl DatasetReader<'_> {
    /// Name of the file of platform totals, which is optional.
    pub const PLATFORM: &'static str = "platform.csv";

    /// Reads the files of a day. If both have a row of an island, the daily one is used.
    pub fn day(&self, catalogue: &Catalogue, files: &DayFiles) -> Result<Day, LoadError> {
        let mut day = Day::default();
        if let Some(name) = &files.daily {
            self.for_each_island(catalogue, name, FileKind::Daily, |table, island| {
                let metrics = metrics(table);
                day.daily
                    .extend(island.map(|island| DailyRow { island, metrics }));
            })?;
            day.daily.sort_unstable_by_key(|row| row.island);
        }
        if let Some(name) = &files.ccu {
            self.for_each_island(catalogue, name, FileKind::Ccu, |table, island| {
                let peak_ccu = table.count(1);
                day.ccu
                    .extend(island.map(|island| CcuRow { island, peak_ccu }));
            })?;
            let daily = |island| day.daily.binary_search_by_key(&island, |row| row.island);
            day.ccu.retain(|row| daily(row.island).is_err());
            day.ccu.sort_unstable_by_key(|row| row.island);
        }
        Ok(day)
    }

    /// Reads a live step.
    pub fn step(&self, catalogue: &Catalogue, file: &StepFile) -> Result<LiveStep, LoadError> {
        let mut players = Vec::new();
        self.for_each_island(catalogue, &file.name, FileKind::Live, |table, island| {
            players.extend(island.zip(table.count(1)));
        })?;
        players.sort_unstable();
        let time = file.time;
        Ok(LiveStep { time, players })
    }

    /// Reads the rows of a daily file. The codes need not be in islands.csv.
    pub fn daily_rows(&self, day: UtcDay) -> Result<Vec<(IslandCode, Metrics)>, LoadError> {
        let name = format!("daily/{day}.csv");
        let mut rows = Vec::new();
        self.for_each_row(&name, FileKind::Daily, |table| {
            let metrics = metrics(table);
            rows.extend(table.code(0).map(|code| (code, metrics)));
        })?;
        Ok(rows)
    }

    /// Reads the rows of a live step. The codes need not be in islands.csv; a missing file has no rows.
    pub fn live_rows(&self, step: UnixSeconds) -> Result<Vec<(IslandCode, u64)>, LoadError> {
        let name = format!("live/{}.csv", step.0);
        let mut rows = Vec::new();
        self.for_each_row(&name, FileKind::Live, |table| {
            rows.extend(table.code(0).zip(table.count(1)));
        })?;
        Ok(rows)
    }

    /// Calls `row` for each row of a file, with the island it refers to if its code is valid and known.
    fn for_each_island(
        &self,
        catalogue: &Catalogue,
        name: &str,
        kind: FileKind,
        mut row: impl FnMut(&CsvTable<'_>, Option<u32>),
    ) -> Result<(), LoadError> {
        let mut index = catalogue.resolver();
        let exists = self.for_each_row(name, kind, |table| row(table, index.resolve(table)))?;
        if !exists {
            // It existed when the directory was listed. Without it the day would have other contents.
            return Err(self.io_error(name, io::ErrorKind::NotFound.into()));
        }
        if let Some(problem) = index.unknown_codes_fault() {
            lock(&self.faults).push_consequent(name, problem);
        }
        Ok(())
    }

    /// Reads platform.csv, sorted by time and without nulls. Returns `None` if the file does not exist.
    pub fn platform(&self) -> Result<Option<Vec<(UnixSeconds, u64)>>, LoadError> {
        let mut points = Vec::new();
        let mut seen = HashMap::new();
        let exists = self.for_each_row(DatasetReader::PLATFORM, FileKind::Platform, |table| {
            let time = table.required(0, WANT_TIME, step_time).map(UnixSeconds);
            if let Some(time) = time {
                table.once(0, &mut seen, time);
                if let Some(problem) = time_fault(self.today, "time", time) {
                    table.fault(0, problem);
                }
            }
            points.extend(time.zip(table.count(1)));
        })?;
        points.sort_unstable();
        Ok(exists.then_some(points))
    }
}

/// Parses the nine metrics of a daily row.
fn metrics(table: &CsvTable<'_>) -> Metrics {
    let counts = [1, 2, 3, 4, 5, 6].map(|column| table.count(column));
    Metrics::new(counts, [table.decimal(7), table.share(8), table.share(9)])
}
