//! What each island did on each held day, and what follows from that for lists and rankings.

use crate::calendar::UtcDay;
use crate::dataset::{Dataset, Metrics};
use crate::model::SortField;

/// One island's row of one day: the daily row, else the peak of a day held only in ccu/.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Position among the held days.
    pub(crate) day: u32,
    /// Position in the day's daily rows; where `from_ccu`, in its ccu rows.
    row: u32,
    /// Whether the day is held only in ccu/ for this island.
    pub(crate) from_ccu: bool,
}

/// The dataset turned from days to islands.
pub(crate) struct Timeline<'a> {
    pub(crate) dataset: &'a Dataset,
    /// Held days, ascending, and their text.
    pub(crate) days: Vec<UtcDay>,
    pub(crate) day_texts: Vec<String>,
    starts: Vec<usize>,
    entries: Vec<Entry>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(dataset: &'a Dataset) -> Timeline<'a> {
        let days: Vec<UtcDay> = dataset.days.keys().copied().collect();
        let mut starts = vec![0; dataset.islands.len() + 1];
        for (island, _) in rows(dataset) {
            starts[island as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut entries = vec![
            Entry {
                day: 0,
                row: 0,
                from_ccu: false
            };
            starts[dataset.islands.len()]
        ];
        for (island, entry) in rows(dataset) {
            let place = &mut next[island as usize];
            entries[*place] = entry;
            *place += 1;
        }
        let day_texts = days.iter().map(ToString::to_string).collect();
        Timeline {
            dataset,
            days,
            day_texts,
            starts,
            entries,
        }
    }

    /// An island's rows, oldest first.
    pub(crate) fn of(&self, island: usize) -> &[Entry] {
        &self.entries[self.starts[island]..self.starts[island + 1]]
    }

    pub(crate) fn metrics(&self, entry: Entry) -> Metrics {
        let day = &self.dataset.days[&self.days[entry.day as usize]];
        if entry.from_ccu {
            let peak = day.ccu[entry.row as usize].peak_ccu;
            Metrics::new([peak, None, None, None, None, None], [None; 3])
        } else {
            day.daily[entry.row as usize].metrics
        }
    }

    pub(crate) fn peak(&self, entry: Entry) -> Option<u64> {
        self.metrics(entry).count(SortField::PeakCcu)
    }

    /// An island's metrics on a day given by its place; all null where it has no row.
    pub(crate) fn metrics_on(&self, island: usize, day: usize) -> Metrics {
        let entries = self.of(island);
        let found = entries.binary_search_by_key(&day, |entry| entry.day as usize);
        found.map_or(Metrics::NULL, |at| self.metrics(entries[at]))
    }

    /// An island's metrics on the newest held day.
    pub(crate) fn latest(&self, island: usize) -> Metrics {
        match self.days.len() {
            0 => Metrics::NULL,
            days => self.metrics_on(island, days - 1),
        }
    }

    /// Islands with a peak on a day, highest first, ties by code.
    pub(crate) fn ranked(&self, day: usize) -> Vec<(u64, usize)> {
        let rows = &self.dataset.days[&self.days[day]];
        let daily = rows
            .daily
            .iter()
            .map(|row| (row.metrics.count(SortField::PeakCcu), row.island));
        let ccu = rows.ccu.iter().map(|row| (row.peak_ccu, row.island));
        let mut ranked: Vec<(u64, usize)> = daily
            .chain(ccu)
            .filter_map(|(peak, island)| Some((peak?, island as usize)))
            .collect();
        ranked.sort_unstable_by_key(|(peak, island)| (std::cmp::Reverse(*peak), *island));
        ranked
    }
}

/// Every island-day of the dataset, by day ascending.
fn rows(dataset: &Dataset) -> impl Iterator<Item = (u32, Entry)> + '_ {
    dataset.days.values().enumerate().flat_map(|(day, rows)| {
        let day = u32::try_from(day).expect("held days are fewer than 2^32");
        let number = |row: usize| u32::try_from(row).expect("a day has a row an island at most");
        let daily = rows.daily.iter().enumerate().map(move |(row, daily)| {
            (
                daily.island,
                Entry {
                    day,
                    row: number(row),
                    from_ccu: false,
                },
            )
        });
        let ccu = rows.ccu.iter().enumerate().map(move |(row, ccu)| {
            (
                ccu.island,
                Entry {
                    day,
                    row: number(row),
                    from_ccu: true,
                },
            )
        });
        daily.chain(ccu)
    })
}
