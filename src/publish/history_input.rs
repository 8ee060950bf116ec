//! Input of the history payload, and the rankings derived from it.

use std::cmp::Reverse;

use super::packed_day::PackedDay;
use super::render::RankedIsland;
use crate::calendar::{UnixSeconds, UtcDay};
use crate::dataset::{Catalogue, Metrics};

/// Number of places in a ranking.
const RANKING_LENGTH: usize = 10;

/// Dataset in the form that the history payload is rendered from.
#[derive(Debug)]
pub(crate) struct HistoryInput<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) published: UnixSeconds,
    /// Days that have a file, ascending, and their text.
    pub(crate) days: Vec<UtcDay>,
    pub(crate) day_texts: Vec<String>,
    /// Rows of each day.
    pub(crate) rows: Vec<PackedDay>,
    /// Metrics of each island on the latest day; all null if it has no row.
    pub(crate) latest: Vec<Metrics>,
}

impl<'a> HistoryInput<'a> {
    pub(crate) fn new(
        catalogue: &'a Catalogue,
        days: Vec<(UtcDay, PackedDay)>,
        published: UnixSeconds,
    ) -> HistoryInput<'a> {
        let (days, rows): (Vec<UtcDay>, Vec<PackedDay>) = days.into_iter().unzip();
        let mut latest = vec![Metrics::NULL; catalogue.islands.len()];
        for (island, row) in rows.last().into_iter().flat_map(PackedDay::rows) {
            latest[island as usize] = row.metrics();
        }
        HistoryInput {
            catalogue,
            published,
            day_texts: days.iter().map(ToString::to_string).collect(),
            days,
            rows,
            latest,
        }
    }

    /// Returns the text of the latest day.
    pub(crate) fn latest_day(&self) -> Option<&str> {
        self.day_texts.last().map(String::as_str)
    }

    /// Returns the top places of a day, by peak descending, then by code.
    pub(crate) fn ranking(&self, day: usize) -> Vec<RankedIsland<'a>> {
        // Islands are numbered by code.
        let order = |(peak, island): &(u64, u32)| (Reverse(*peak), *island);
        let mut top = self.peaks(day);
        if top.len() > RANKING_LENGTH {
            top.select_nth_unstable_by_key(RANKING_LENGTH, order);
            top.truncate(RANKING_LENGTH);
        }
        top.sort_unstable_by_key(order);
        let previous = day.checked_sub(1).map_or(Vec::new(), |day| self.peaks(day));
        let previous_rank = |island: u32| {
            let place = previous.binary_search_by_key(&island, |(_, island)| *island);
            let place = order(&previous[place.ok()?]);
            let before = previous.iter().filter(|other| order(other) < place).count();
            Some(before + 1)
        };
        let ranked = top.into_iter().map(|(peak_ccu, island)| RankedIsland {
            island: &self.catalogue.islands[island as usize],
            peak_ccu,
            previous_rank: previous_rank(island),
        });
        ranked.collect()
    }

    /// Returns the peaks of a day, by island ascending.
    fn peaks(&self, day: usize) -> Vec<(u64, u32)> {
        let rows = self.rows[day].rows();
        rows.filter_map(|(island, row)| Some((row.peak()?, island)))
            .collect()
    }
}
