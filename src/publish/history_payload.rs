//! The history payload: bodies of islands, creators, rankings and new islands, then the sections of the
//! lists.

use std::io::{self, Write};

use super::creator_sections::{self, CreatorEntry};
use super::history_input::HistoryInput;
use super::list_sections;
use super::packed_day::RANGE_ISLANDS;
use super::range_renderer::RangeRenderer;
use super::render;
use super::row_orders::{RowOrders, row_number};
use crate::calendar::UnixSeconds;
use crate::dataset::Metrics;
use crate::model::SortField;
use crate::snapshot::{BodyRef, Compressor, EncodedPair, Section, SnapshotWriter, Stamp, Written};
use crate::sync::{cores, in_order};

/// Renders the history payload to `out`. `progress` receives the number of rendered bodies and of all
/// bodies.
pub(crate) fn write<W: Write>(
    input: &HistoryInput<'_>,
    published: UnixSeconds,
    out: W,
    progress: &mut dyn FnMut(usize, usize),
) -> io::Result<(W, Written)> {
    let latest = input.latest();
    let mut writer = HistoryWriter {
        input,
        published,
        creators: creator_sections::collect(input.catalogue, &latest),
        orders: RowOrders::new(&latest),
        latest: &latest,
        rows: Vec::with_capacity(input.catalogue.islands.len()),
        seen: Vec::with_capacity(input.catalogue.islands.len()),
        histories: 0,
        out: SnapshotWriter::new(out)?,
        done: 0,
        progress,
    };
    let bodies = writer.write_bodies()?;
    let mut out = writer.out;
    list_sections::write_rows(input, &writer.rows, &writer.orders, &mut out)?;
    creator_sections::write(
        &writer.creators,
        &writer.orders,
        writer.rows.len(),
        &mut out,
    )?;
    list_sections::write_tags(input.catalogue, &writer.orders, &mut out)?;
    for (section, refs) in bodies {
        out.bodies(section, &refs)?;
    }
    let days = input.days.len() as u64;
    let islands = input.catalogue.islands.len() as u64;
    let creators = writer.creators.len() as u64;
    let stamp = Stamp {
        published,
        counts: [islands, creators, writer.histories, days, days],
    };
    out.section(Section::Stamp, &stamp.to_bytes())?;
    let frames = render::page_templates(published, &render::null_metrics_suffix(input.newest()));
    out.section(Section::Frames, &frames)?;
    let day_words = input.days.iter().flat_map(|day| day.0.to_le_bytes());
    out.section(Section::Days, &day_words.collect::<Vec<u8>>())?;
    out.finish()
}

/// Writer of a history payload.
struct HistoryWriter<'a, W> {
    input: &'a HistoryInput<'a>,
    published: UnixSeconds,
    creators: Vec<CreatorEntry<'a>>,
    orders: RowOrders,
    /// Metrics of each island on the latest day.
    latest: &'a [Metrics],
    /// List row of each island, filled while ranges are rendered.
    rows: Vec<Vec<u8>>,
    /// First and last day of each island.
    seen: Vec<Option<(u32, u32)>>,
    histories: u64,
    out: SnapshotWriter<W>,
    done: usize,
    progress: &'a mut dyn FnMut(usize, usize),
}

impl<W: Write> HistoryWriter<'_, W> {
    fn write_bodies(&mut self) -> io::Result<Vec<(Section, Vec<BodyRef>)>> {
        let [islands, ccu] = self.write_islands()?;
        let creators = self.write_creators()?;
        let [rankings, new] = self.write_days()?;
        let mut compressor = Compressor::default();
        let days = compressor.encode(&render::days(&self.input.day_texts, self.published));
        let fixed = vec![self.out.body(&days)?, self.out.body(&days)?];
        Ok(vec![
            (Section::IslandBodies, islands),
            (Section::CcuBodies, ccu),
            (Section::CreatorBodies, creators),
            (Section::RankingBodies, rankings),
            (Section::NewBodies, new),
            (Section::FixedBodies, fixed),
        ])
    }

    fn write_islands(&mut self) -> io::Result<[Vec<BodyRef>; 2]> {
        let (input, latest, published) = (self.input, self.latest, self.published);
        let ranges = input.catalogue.islands.len().div_ceil(RANGE_ISLANDS);
        let mut refs = [Vec::new(), Vec::new()];
        in_order(
            (cores(), ranges),
            || RangeRenderer::new(input, latest, published),
            RangeRenderer::render,
            |_, rendered| {
                for bodies in &rendered.bodies {
                    for (refs, body) in refs.iter_mut().zip(bodies) {
                        refs.push(self.out.body(body)?);
                    }
                }
                self.advance(rendered.bodies.len() * 2);
                self.rows.extend(rendered.rows);
                self.seen.extend(rendered.seen);
                self.histories += rendered.histories;
                Ok::<(), io::Error>(())
            },
        )?;
        Ok(refs)
    }

    fn write_creators(&mut self) -> io::Result<Vec<BodyRef>> {
        let creators = std::mem::take(&mut self.creators);
        let rows = std::mem::take(&mut self.rows);
        let (latest, published) = (self.latest, self.published);
        let render = |compressor: &mut Compressor, at: usize| {
            compressor.encode(&creator(&creators[at], &rows, latest, published))
        };
        let refs = self.write_all(creators.len(), render)?;
        self.creators = creators;
        self.rows = rows;
        Ok(refs)
    }

    fn write_days(&mut self) -> io::Result<[Vec<BodyRef>; 2]> {
        let (input, published) = (self.input, self.published);
        let rankings = self.write_all(input.days.len(), |compressor, day| {
            compressor.encode(&ranking(input, day, published))
        })?;
        let mut new = vec![Vec::new(); input.days.len()];
        for (island, seen) in self.seen.iter().enumerate() {
            if let Some((first, last)) = seen {
                new[*first as usize].push((row_number(island), *last));
            }
        }
        let new = self.write_all(input.days.len(), |compressor, day| {
            compressor.encode(&new_islands(input, day, &new[day], published))
        })?;
        Ok([rankings, new])
    }

    fn write_all(
        &mut self,
        count: usize,
        render: impl Fn(&mut Compressor, usize) -> EncodedPair + Sync,
    ) -> io::Result<Vec<BodyRef>> {
        let mut refs = Vec::with_capacity(count);
        in_order(
            (cores(), count),
            Compressor::default,
            render,
            |_, packed| {
                refs.push(self.out.body(&packed)?);
                self.advance(1);
                Ok::<(), io::Error>(())
            },
        )?;
        Ok(refs)
    }

    fn advance(&mut self, more: usize) {
        self.done += more;
        let input = self.input;
        let creators = self.creators.len();
        let all = input.catalogue.islands.len() * 2 + creators + input.days.len() * 2;
        (self.progress)(self.done, all);
    }
}

/// `/v1/creators/{slug}`
fn creator(
    creator: &CreatorEntry<'_>,
    rows: &[Vec<u8>],
    latest: &[Metrics],
    published: UnixSeconds,
) -> Vec<u8> {
    let mut islands = creator.islands.clone();
    let peak = |row: &u32| latest[*row as usize].count(SortField::PeakCcu);
    islands.sort_by_key(|row| std::cmp::Reverse(peak(row)));
    let rows = islands.iter().map(|row| rows[*row as usize].as_slice());
    let head = render::creator_row(&creator.aggregate);
    render::creator(&head, creator.profile, rows, published)
}

/// `/v1/rankings/{date}`
fn ranking(input: &HistoryInput<'_>, day: usize, published: UnixSeconds) -> Vec<u8> {
    let top = input.ranking(day);
    let places = top
        .iter()
        .zip(1..)
        .map(|(ranked, rank)| render::RankingEntry {
            rank,
            previous_rank: ranked.previous_rank,
            island: &input.catalogue.islands[ranked.island as usize],
            peak_ccu: ranked.peak,
        });
    let texts = &input.day_texts;
    let previous = day.checked_sub(1).map(|day| texts[day].as_str());
    render::ranking(&texts[day], previous, places, published)
}

/// `/v1/new/{date}`, from the islands first seen on that day, each with the last day it was seen.
fn new_islands(
    input: &HistoryInput<'_>,
    day: usize,
    islands: &[(u32, u32)],
    published: UnixSeconds,
) -> Vec<u8> {
    let date = input.day_texts[day].as_str();
    let metrics = |island: u32| {
        let row = input.rows[day].row(island as usize);
        row.map_or(Metrics::NULL, |row| row.metrics())
    };
    let mut islands: Vec<(u32, u32, Metrics)> = islands
        .iter()
        .map(|(island, last)| (*island, *last, metrics(*island)))
        .collect();
    islands.sort_by_key(|(_, _, metrics)| std::cmp::Reverse(metrics.count(SortField::PeakCcu)));
    let rows = islands.iter().map(|(island, last, metrics)| {
        let seen = render::SeenIsland {
            island: &input.catalogue.islands[*island as usize],
            first: Some(date),
            last: Some(input.day_texts[*last as usize].as_str()),
        };
        let mut row = Vec::new();
        render::summary(&mut row, &seen, Some(date), metrics);
        row
    });
    let rows: Vec<Vec<u8>> = rows.collect();
    render::new_islands(date, rows.iter().map(Vec::as_slice), published)
}
