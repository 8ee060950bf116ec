//! Renderer of islands: converts rows by day to rows by island, and renders list rows and bodies.

use super::history_input::HistoryInput;
use super::packed_day::{DayRow, RANGE_ISLANDS};
use super::render;
use crate::snapshot::{Compressor, EncodedPair};

/// Renderer of one thread. Its buffers are reused.
pub(crate) struct IslandRenderer<'a> {
    input: &'a HistoryInput<'a>,
    compressor: Compressor,
    /// Body in progress.
    body: Vec<u8>,
    /// Rows by day of each island of the range, oldest first.
    timelines: Vec<Vec<(u32, DayRow)>>,
}

/// Output for one island.
pub(crate) struct RenderedIsland {
    pub(crate) list_row: Vec<u8>,
    pub(crate) detail: EncodedPair,
    pub(crate) ccu: EncodedPair,
    /// First and last day on which the island was seen.
    pub(crate) seen: Option<(u32, u32)>,
    /// Whether the island has a peak on any day.
    pub(crate) has_peak: bool,
}

impl<'a> IslandRenderer<'a> {
    pub(crate) fn new(input: &'a HistoryInput<'a>) -> IslandRenderer<'a> {
        IslandRenderer {
            input,
            compressor: Compressor::default(),
            body: Vec::new(),
            timelines: vec![Vec::new(); RANGE_ISLANDS],
        }
    }

    /// Renders one range of islands.
    pub(crate) fn render(&mut self, range: usize) -> Vec<RenderedIsland> {
        let first = range * RANGE_ISLANDS;
        let end = self
            .input
            .catalogue
            .islands
            .len()
            .min(first + RANGE_ISLANDS);
        self.timelines.iter_mut().for_each(Vec::clear);
        for (day, rows) in (0..).zip(&self.input.rows) {
            for (island, row) in rows.range(range) {
                self.timelines[island as usize - first].push((day, row));
            }
        }
        let islands = first..end;
        islands.map(|island| self.island(island)).collect()
    }

    fn island(&mut self, number: usize) -> RenderedIsland {
        let (input, timeline) = (self.input, &self.timelines[number % RANGE_ISLANDS]);
        let island = &input.catalogue.islands[number];
        let text = |day: u32| input.day_texts[day as usize].as_str();
        let ends = timeline.first().zip(timeline.last());
        let seen = ends.map(|((first, _), (last, _))| (*first, *last));
        let seen_texts = seen.map(|(first, last)| (text(first), text(last)));
        let metrics = &input.latest[number];
        let list_row = render::summary(island, seen_texts, input.latest_day(), metrics);
        let series = timeline.iter().filter_map(|(day, row)| match row {
            DayRow::Daily(metrics) => Some((text(*day), metrics)),
            DayRow::Ccu(_) => None,
        });
        self.body.clear();
        render::island(&mut self.body, &list_row, series, input.published);
        let detail = self.compressor.encode(&self.body);
        let peaks = timeline
            .iter()
            .filter_map(|(day, row)| Some((text(*day), row.peak()?)));
        let has_peak = peaks.clone().next().is_some();
        self.body.clear();
        render::ccu(&mut self.body, island.code, peaks, input.published);
        RenderedIsland {
            list_row,
            detail,
            ccu: self.compressor.encode(&self.body),
            seen,
            has_peak,
        }
    }
}
