//! The files that go by day or by step: daily/, ccu/, live/ and platform.csv.

use std::collections::HashMap;

use super::catalogue::Catalogue;
use super::csv_table::{Columns, CsvTable, WANT_TIME, step_time};
use super::dataset_reader::{DatasetReader, DayFiles, StepFile};
use super::fault::LoadError;
use super::island_resolver::IslandResolver;
use super::rows::{CcuRow, DailyRow, Day, LiveStep, Metrics};
use crate::calendar::UnixSeconds;

/// The columns of a daily file.
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
/// The columns of a ccu file.
pub(super) const CCU: Columns = Columns {
    names: &["code", "peakCCU"],
    required: 2,
};
/// The columns of a live file.
pub(super) const LIVE: Columns = Columns {
    names: &["code", "players"],
    required: 2,
};
/// The columns of platform.csv.
pub(super) const PLATFORM: Columns = Columns {
    names: &["time", "players"],
    required: 2,
};

/// Reads files whose rows name islands, one after the other.
#[derive(Debug)]
pub struct RowReader<'s> {
    source: &'s DatasetReader<'s>,
    index: IslandResolver<'s>,
}

impl<'s> RowReader<'s> {
    /// One thread's means to read the files of a dataset.
    pub fn new(source: &'s DatasetReader<'s>, catalogue: &'s Catalogue) -> RowReader<'s> {
        RowReader {
            source,
            index: IslandResolver::new(catalogue.codes()),
        }
    }

    /// Reads a held day's files. Where both have a row of an island, the daily one wins.
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
            let found = daily.binary_search_by_key(&island, |held| held.island);
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

    /// Gives each row of a file to `row`, with the island that it names if that is sound.
    fn for_each_row(
        &mut self,
        name: &str,
        columns: &'static Columns,
        mut row: impl FnMut(&mut CsvTable<'_>, Option<u32>),
    ) -> Result<(), LoadError> {
        let index = &mut self.index;
        index.start_file();
        let held = self.source.for_each_row(name, columns, |table| {
            let island = index.resolve(table);
            row(table, island);
        })?;
        if held {
            if let Some(problem) = index.unknown_codes_fault() {
                self.source.fault_consequent(name, problem);
            }
            return Ok(());
        }
        // It was there when the files were listed. Without it the day would be another one.
        Err(self.source.gone(name))
    }
}

impl DatasetReader<'_> {
    /// The name of the file of the platform's totals, which is optional.
    pub const PLATFORM: &'static str = "platform.csv";

    /// Reads platform.csv, by time ascending and without nulls; `None` where there is no such file.
    pub fn platform(&self) -> Result<Option<Vec<(UnixSeconds, u64)>>, LoadError> {
        let mut points = Vec::new();
        let mut seen = HashMap::new();
        let held = self.for_each_row(DatasetReader::PLATFORM, &PLATFORM, |table| {
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
        Ok(held.then_some(points))
    }
}
