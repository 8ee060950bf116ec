//! Reader of the files per day or step: daily/, ccu/, live/ and platform.csv.

use std::collections::HashMap;

use super::catalogue::Catalogue;
use super::csv_table::{Columns, CsvTable, WANT_TIME, step_time};
use super::dataset_reader::{DatasetReader, DayFiles, StepFile};
use super::fault::LoadError;
use super::island_resolver::IslandResolver;
use super::rows::{CcuRow, DailyRow, Day, LiveStep, Metrics};
use crate::calendar::UnixSeconds;

/// Columns of a daily file.
pub(super) const DAILY: Columns = Columns {
    names: &[
        "code",
        "peakCCU",
        "uniquePlayers",
        "minutesPlayed",
        "favorites",
        "plays",
        "recommendations",
        "averageMinutesPerPlayer",
        "retentionD1",
        "retentionD7",
    ],
    required: 10,
};
/// Columns of a ccu file.
pub(super) const CCU: Columns = Columns {
    names: &["code", "peakCCU"],
    required: 2,
};
/// Columns of a live file.
pub(super) const LIVE: Columns = Columns {
    names: &["code", "players"],
    required: 2,
};
/// Columns of platform.csv.
pub(super) const PLATFORM: Columns = Columns {
    names: &["time", "players"],
    required: 2,
};

/// Reader of files whose rows refer to islands. Each thread has its own.
#[derive(Debug)]
pub struct RowReader<'s> {
    source: &'s DatasetReader<'s>,
    index: IslandResolver<'s>,
}

impl<'s> RowReader<'s> {
    /// Creates the reader of one thread.
    pub fn new(source: &'s DatasetReader<'s>, catalogue: &'s Catalogue) -> RowReader<'s> {
        RowReader {
            source,
            index: IslandResolver::new(catalogue.codes()),
        }
    }

    /// Reads the files of a day. If both have a row of an island, the daily one is used.
    pub fn day(&mut self, files: &DayFiles) -> Result<Day, LoadError> {
        let daily = match &files.daily {
            Some(name) => self.daily(name)?,
            None => Vec::new(),
        };
        let mut ccu = match &files.ccu {
            Some(name) => self.ccu(name)?,
            None => Vec::new(),
        };
        let has_daily = |island: u32| {
            let found = daily.binary_search_by_key(&island, |row| row.island);
            found.is_ok()
        };
        ccu.retain(|row| !has_daily(row.island));
        Ok(Day { daily, ccu })
    }

    fn daily(&mut self, name: &str) -> Result<Vec<DailyRow>, LoadError> {
        let mut rows = Vec::new();
        self.for_each_row(name, &DAILY, |table, island| {
            let counts = [1, 2, 3, 4, 5, 6].map(|column| table.count(column));
            let metrics = Metrics::new(counts, [table.decimal(7), table.share(8), table.share(9)]);
            rows.extend(island.map(|island| DailyRow { island, metrics }));
        })?;
        rows.sort_unstable_by_key(|row| row.island);
        Ok(rows)
    }

    fn ccu(&mut self, name: &str) -> Result<Vec<CcuRow>, LoadError> {
        let mut rows = Vec::new();
        self.for_each_row(name, &CCU, |table, island| {
            let peak_ccu = table.count(1);
            rows.extend(island.map(|island| CcuRow { island, peak_ccu }));
        })?;
        rows.sort_unstable_by_key(|row| row.island);
        Ok(rows)
    }

    /// Reads a live step.
    pub fn step(&mut self, file: &StepFile) -> Result<LiveStep, LoadError> {
        let mut players = Vec::new();
        self.for_each_row(&file.name, &LIVE, |table, island| {
            players.extend(island.zip(table.count(1)));
        })?;
        players.sort_unstable();
        let time = file.time;
        Ok(LiveStep { time, players })
    }

    /// Calls `row` for each row of a file, with the island it refers to if its code is valid and known.
    fn for_each_row(
        &mut self,
        name: &str,
        columns: &'static Columns,
        mut row: impl FnMut(&mut CsvTable<'_>, Option<u32>),
    ) -> Result<(), LoadError> {
        let index = &mut self.index;
        index.start_file();
        let exists = self.source.for_each_row(name, columns, |table| {
            let island = index.resolve(table);
            row(table, island);
        })?;
        if exists {
            if let Some(problem) = index.unknown_codes_fault() {
                self.source.fault_consequent(name, problem);
            }
            return Ok(());
        }
        // The file existed when the directory was listed. Without it the day would have other contents.
        Err(self.source.gone(name))
    }
}

impl DatasetReader<'_> {
    /// Name of the file of platform totals, which is optional.
    pub const PLATFORM: &'static str = "platform.csv";

    /// Reads platform.csv, sorted by time and without nulls. Returns `None` if the file does not exist.
    pub fn platform(&self) -> Result<Option<Vec<(UnixSeconds, u64)>>, LoadError> {
        let mut points = Vec::new();
        let mut seen = HashMap::new();
        let exists = self.for_each_row(DatasetReader::PLATFORM, &PLATFORM, |table| {
            let time = table.required(0, WANT_TIME, step_time).map(UnixSeconds);
            if let Some(time) = time {
                table.once(0, &mut seen, time);
                if let Some(problem) = self.date_limit().time_fault("time", time) {
                    table.fault(0, problem);
                }
            }
            points.extend(time.zip(table.count(1)));
        })?;
        points.sort_unstable();
        Ok(exists.then_some(points))
    }
}
