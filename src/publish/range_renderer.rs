//! Renderer of a range of islands: converts rows by day to rows by island, and renders list rows and
//! bodies.

use super::history_input::HistoryInput;
use super::packed_day::{DayRow, RANGE_ISLANDS};
use super::render;
use crate::calendar::UnixSeconds;
use crate::dataset::Metrics;
use crate::snapshot::{Compressor, EncodedPair};

/// Renderer of one thread.
pub(crate) struct RangeRenderer<'a> {
    input: &'a HistoryInput<'a>,
    latest: &'a [Metrics],
    published: UnixSeconds,
    compressor: Compressor,
    /// Buffer of the body in progress, reused.
    body: Vec<u8>,
    /// Rows by day of each island of the range, oldest first; reused.
    timelines: Vec<Vec<(u32, DayRow)>>,
}

/// Output of a range.
pub(crate) struct RenderedRange {
    /// List row of each island.
    pub(crate) rows: Vec<Vec<u8>>,
    /// Detail body and ccu body of each island.
    pub(crate) bodies: Vec<[EncodedPair; 2]>,
    /// First and last day on which each island was seen.
    pub(crate) seen: Vec<Option<(u32, u32)>>,
    /// Number of islands with a peak on any day.
    pub(crate) histories: u64,
}

impl<'a> RangeRenderer<'a> {
    pub(crate) fn new(
        input: &'a HistoryInput<'a>,
        latest: &'a [Metrics],
        published: UnixSeconds,
    ) -> RangeRenderer<'a> {
        RangeRenderer {
            input,
            latest,
            published,
            compressor: Compressor::default(),
            body: Vec::new(),
            timelines: vec![Vec::new(); RANGE_ISLANDS],
        }
    }

    /// Renders one range of islands.
    pub(crate) fn render(&mut self, range: usize) -> RenderedRange {
        let first = range * RANGE_ISLANDS;
        let count = (self.input.catalogue.islands.len() - first).min(RANGE_ISLANDS);
        self.timelines.iter_mut().for_each(Vec::clear);
        for (day, rows) in (0..).zip(&self.input.rows) {
            for (island, row) in rows.range(range) {
                self.timelines[island as usize - first].push((day, row));
            }
        }
        let mut rendered = RenderedRange {
            rows: Vec::with_capacity(count),
            bodies: Vec::with_capacity(count),
            seen: Vec::with_capacity(count),
            histories: 0,
        };
        for at in 0..count {
            self.island(first + at, at, &mut rendered);
        }
        rendered
    }

    fn island(&mut self, island: usize, at: usize, rendered: &mut RenderedRange) {
        let (input, timeline) = (self.input, &self.timelines[at]);
        let text = |day: u32| input.day_texts[day as usize].as_str();
        let ends = timeline.first().zip(timeline.last());
        let seen = ends.map(|((first, _), (last, _))| (*first, *last));
        let shown = render::SeenIsland {
            island: &input.catalogue.islands[island],
            first: seen.map(|(first, _)| text(first)),
            last: seen.map(|(_, last)| text(last)),
        };
        let mut summary = Vec::new();
        render::summary(&mut summary, &shown, input.newest(), &self.latest[island]);
        let series = timeline.iter().filter_map(|(day, row)| match row {
            DayRow::Daily(metrics) => Some((text(*day), metrics)),
            DayRow::Ccu(_) => None,
        });
        self.body.clear();
        render::island(&mut self.body, &summary, series, self.published);
        let detail = self.compressor.encode(&self.body);
        let peaks = timeline
            .iter()
            .filter_map(|(day, row)| Some((text(*day), row.peak()?)));
        let code = shown.island.code;
        self.body.clear();
        render::ccu(&mut self.body, code, peaks, self.published);
        let ccu = self.compressor.encode(&self.body);
        rendered.histories += u64::from(timeline.iter().any(|(_, row)| row.peak().is_some()));
        rendered.rows.push(summary);
        rendered.seen.push(seen);
        rendered.bodies.push([detail, ccu]);
    }
}
