//! Input of the history payload, and the rankings derived from it.

use super::packed_day::PackedDay;
use crate::calendar::UtcDay;
use crate::dataset::{Catalogue, Metrics};

/// Number of places in a ranking.
const RANKING_LENGTH: usize = 10;

/// Dataset in the form that the history payload is rendered from.
#[derive(Debug)]
pub(crate) struct HistoryInput<'a> {
    pub(crate) catalogue: &'a Catalogue,
    /// Days that have a file, ascending, and their text.
    pub(crate) days: Vec<UtcDay>,
    pub(crate) day_texts: Vec<String>,
    /// Rows of each day.
    pub(crate) rows: Vec<PackedDay>,
}

/// Place in the ranking of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankedIsland {
    pub(crate) peak: u64,
    pub(crate) island: u32,
    /// Place on the previous day, if it has a peak on that day.
    pub(crate) previous_rank: Option<u32>,
}

impl<'a> HistoryInput<'a> {
    pub(crate) fn new(
        catalogue: &'a Catalogue,
        days: Vec<(UtcDay, PackedDay)>,
    ) -> HistoryInput<'a> {
        let (days, rows): (Vec<UtcDay>, Vec<PackedDay>) = days.into_iter().unzip();
        HistoryInput {
            catalogue,
            day_texts: days.iter().map(ToString::to_string).collect(),
            days,
            rows,
        }
    }

    /// Returns the text of the latest day.
    pub(crate) fn newest(&self) -> Option<&str> {
        self.day_texts.last().map(String::as_str)
    }

    /// Returns the metrics of each island on the latest day; all null if it has no row.
    pub(crate) fn latest(&self) -> Vec<Metrics> {
        let mut latest = vec![Metrics::NULL; self.catalogue.islands.len()];
        for (island, row) in self
            .rows
            .iter()
            .next_back()
            .into_iter()
            .flat_map(PackedDay::rows)
        {
            latest[island as usize] = row.metrics();
        }
        latest
    }

    /// Returns the top places of a day, by peak descending, then by code.
    pub(crate) fn ranking(&self, day: usize) -> Vec<RankedIsland> {
        let mut top: Vec<(u64, u32)> = Vec::with_capacity(RANKING_LENGTH + 1);
        for (peak, island) in self.peaks(day) {
            // Islands are in order of their codes, so a tie goes after the existing ones.
            let at = top.partition_point(|(other, _)| *other >= peak);
            if at < RANKING_LENGTH {
                top.insert(at, (peak, island));
                top.truncate(RANKING_LENGTH);
            }
        }
        let before = day
            .checked_sub(1)
            .map_or(Vec::new(), |day| self.places(day, &top));
        let mut before = before.into_iter();
        let ranked = top.into_iter().map(|(peak, island)| RankedIsland {
            peak,
            island,
            previous_rank: before.next().flatten(),
        });
        ranked.collect()
    }

    /// Returns the places of some islands in the full order of a day.
    fn places(&self, day: usize, islands: &[(u64, u32)]) -> Vec<Option<u32>> {
        let row = |island: u32| self.rows[day].row(island as usize)?.peak();
        let peaks: Vec<Option<u64>> = islands.iter().map(|(_, island)| row(*island)).collect();
        let mut places: Vec<Option<u32>> = peaks.iter().map(|peak| peak.map(|_| 1)).collect();
        for (peak, island) in self.peaks(day) {
            let asked = islands.iter().zip(&peaks).zip(&mut places);
            for (((_, other), other_peak), place) in asked {
                let (Some(other_peak), Some(place)) = (other_peak, place) else {
                    continue;
                };
                if peak > *other_peak || peak == *other_peak && island < *other {
                    *place += 1;
                }
            }
        }
        places
    }

    /// Iterates over the peaks of a day, by island ascending.
    fn peaks(&self, day: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let rows = self.rows[day].rows();
        rows.filter_map(|(island, row)| Some((row.peak()?, island)))
    }
}
