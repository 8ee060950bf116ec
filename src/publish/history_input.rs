//! Input of the history payload.

use super::packed_day::PackedDay;
use crate::calendar::UnixSeconds;
use crate::dataset::{Catalogue, Metrics};

/// Dataset in the form that the history payload is rendered from.
#[derive(Debug)]
pub(crate) struct HistoryInput<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) published: UnixSeconds,
    /// Days that have a file, ascending, and their text.
    pub(crate) days: Vec<PackedDay>,
    pub(crate) day_texts: Vec<String>,
    /// Metrics of each island on the latest day; all null if it has no row.
    pub(crate) latest: Vec<Metrics>,
}

impl<'a> HistoryInput<'a> {
    pub(crate) fn new(
        catalogue: &'a Catalogue,
        days: Vec<PackedDay>,
        published: UnixSeconds,
    ) -> HistoryInput<'a> {
        let mut latest = vec![Metrics::NULL; catalogue.islands.len()];
        for row in days.last().into_iter().flat_map(PackedDay::rows) {
            latest[row.island as usize] = row.metrics;
        }
        HistoryInput {
            catalogue,
            published,
            day_texts: days.iter().map(|packed| packed.day.to_string()).collect(),
            days,
            latest,
        }
    }

    pub(crate) fn latest_day(&self) -> Option<&str> {
        self.day_texts.last().map(String::as_str)
    }

    /// Returns the peaks of a day, by island ascending.
    pub(crate) fn peaks(&self, day: usize) -> Vec<(u64, u32)> {
        let rows = self.days[day].rows();
        rows.filter_map(|row| Some((row.peak_ccu()?, row.island)))
            .collect()
    }
}
