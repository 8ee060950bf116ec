//! The history payload: bodies of islands, creators, rankings and new islands, then the sections of
//! the lists.

use std::cmp::Reverse;
use std::io::{self, Write};

use zerocopy::little_endian::{I32, U64};

use super::creators::Creator;
use super::history_input::HistoryInput;
use super::list_sections;
use super::packed_day::RANGE_ISLANDS;
use super::render;
use crate::dataset::{DayRow, Metrics};
use crate::model::SortField;
use crate::request::Endpoint;
use crate::snapshot::{BodyCounts, LAYOUT, Per};
use crate::snapshot::{Compressor, Identity, PackedBody, Section, SnapshotWriter};
use crate::sync::{cores, in_order};

const RANKING_LENGTH: usize = 10;

/// Renders the history payload to `out`. `progress` receives the number of rendered bodies and of
/// all bodies.
pub(crate) fn write<W: Write>(
    input: &HistoryInput<'_>,
    out: W,
    progress: &mut dyn FnMut(usize, usize),
) -> io::Result<Identity> {
    let (islands, days) = (input.catalogue.islands.len(), input.days.len());
    let creators = Creator::collect(input);
    let counts = BodyCounts {
        islands,
        creators: creators.len(),
        days,
    };
    let mut out = SnapshotWriter::new(out)?;
    let mut rows = Vec::with_capacity(islands);
    let mut new = vec![Vec::new(); days];
    let mut ccu_histories = 0;
    in_order(
        (cores(), islands.div_ceil(RANGE_ISLANDS)),
        || (Compressor::default(), vec![Vec::new(); RANGE_ISLANDS]),
        |state, range| render_range(input, state, range),
        |_, rendered| {
            for island in rendered {
                out.body(&island.detail)?;
                out.body(&island.ccu)?;
                if let Some((first, last, metrics)) = island.seen {
                    new[first].push((rows.len(), last, metrics));
                }
                ccu_histories += u64::from(island.has_peak);
                rows.push(island.list_row);
            }
            progress(out.body_count(), counts.total());
            Ok::<_, io::Error>(())
        },
    )?;
    for (endpoints, per) in LAYOUT.iter().filter(|(_, per)| *per != Per::Island) {
        let render = |at: usize| {
            // That of the creator or of the day.
            let number = at / endpoints.len();
            match endpoints[at % endpoints.len()] {
                Endpoint::Creator => creators[number].body(input, &rows),
                Endpoint::Ranking => ranking(input, number),
                Endpoint::New => new_islands(input, number, &new[number]),
                Endpoint::RankingDays | Endpoint::NewDays => {
                    render::days(&input.day_texts, input.published)
                }
                other => unreachable!("the body of {} has no renderer", other.label()),
            }
        };
        in_order(
            (cores(), counts.of(*per) * endpoints.len()),
            Compressor::default,
            |compressor, at| compressor.pack(&render(at)),
            |_, packed| {
                out.body(&packed)?;
                progress(out.body_count(), counts.total());
                Ok::<_, io::Error>(())
            },
        )?;
    }
    list_sections::write(input, &rows, &creators, &mut out)?;
    out.array::<U64>(Section::CcuHistories, [ccu_histories])?;
    out.array::<I32>(Section::Days, input.days.iter().map(|packed| packed.day.0))?;
    out.finish(input.published)
}

/// `/v1/rankings/{date}`, with the top places of a day, by peak descending, then by code.
fn ranking(input: &HistoryInput<'_>, day: usize) -> Vec<u8> {
    // Islands are numbered by code.
    let order = |(peak, island): &(u64, u32)| (Reverse(*peak), *island);
    let mut top = input.peaks(day);
    if top.len() > RANKING_LENGTH {
        top.select_nth_unstable_by_key(RANKING_LENGTH, order);
        top.truncate(RANKING_LENGTH);
    }
    top.sort_unstable_by_key(order);
    let day_before = day.checked_sub(1);
    let peaks_before = day_before.map_or(Vec::new(), |day| input.peaks(day));
    let places = top.iter().map(|(peak_ccu, island)| {
        let place = peaks_before.iter().find(|(_, other)| other == island);
        let rank_before = place.map(|place| {
            let before = peaks_before
                .iter()
                .filter(|other| order(other) < order(place));
            before.count() + 1
        });
        let island = &input.catalogue.islands[*island as usize];
        (island, *peak_ccu, rank_before)
    });
    let date_before = day_before.map(|day| input.day_texts[day].as_str());
    render::ranking(&input.day_texts[day], date_before, places, input.published)
}

/// `/v1/new/{date}`, from the islands first seen on that day, each with the last day it was seen and its metrics of that
/// day.
fn new_islands(
    input: &HistoryInput<'_>,
    day: usize,
    islands: &[(usize, usize, Metrics)],
) -> Vec<u8> {
    let date = input.day_texts[day].as_str();
    let mut islands: Vec<&(usize, usize, Metrics)> = islands.iter().collect();
    islands.sort_by_key(|(_, _, metrics)| Reverse(metrics.count(SortField::PeakCcu)));
    let rows = islands.iter().map(|(island, last, metrics)| {
        let seen = Some((date, input.day_texts[*last].as_str()));
        let island = &input.catalogue.islands[*island];
        render::summary(island, seen, Some(date), metrics)
    });
    render::new_islands(date, rows, input.published)
}

struct RenderedIsland {
    list_row: Vec<u8>,
    detail: PackedBody,
    ccu: PackedBody,
    /// First and last day on which the island was seen, and its metrics on the first.
    seen: Option<(usize, usize, Metrics)>,
    /// Whether the island has a peak on any day.
    has_peak: bool,
}

/// Renders one range of islands: converts rows by day to rows by island, oldest first. The state is reused.
fn render_range(
    input: &HistoryInput<'_>,
    (compressor, timelines): &mut (Compressor, Vec<Vec<(usize, DayRow)>>),
    range: usize,
) -> Vec<RenderedIsland> {
    let first = range * RANGE_ISLANDS;
    timelines.iter_mut().for_each(Vec::clear);
    for (day, rows) in input.days.iter().enumerate() {
        for row in rows.range(range) {
            timelines[row.island as usize - first].push((day, row));
        }
    }
    let text = |day: usize| input.day_texts[day].as_str();
    let render = |(number, timeline): (usize, &mut Vec<(usize, DayRow)>)| {
        let island = &input.catalogue.islands[number];
        let ends = timeline.first().zip(timeline.last());
        let seen = ends.map(|((first, row), (last, _))| (*first, *last, row.metrics));
        let seen_texts = seen.map(|(first, last, _)| (text(first), text(last)));
        let metrics = &input.latest[number];
        let list_row = render::summary(island, seen_texts, input.latest_day(), metrics);
        let series = timeline.iter().filter(|(_, row)| row.is_daily);
        let series = series.map(|(day, row)| (text(*day), &row.metrics));
        let peaks = timeline.iter();
        let peaks = peaks.filter_map(|(day, row)| Some((text(*day), row.peak_ccu()?)));
        let has_peak = peaks.clone().next().is_some();
        RenderedIsland {
            detail: compressor.pack(&render::island(&list_row, series, input.published)),
            ccu: compressor.pack(&render::ccu(island.code, peaks, input.published)),
            list_row,
            seen,
            has_peak,
        }
    };
    let islands = first..input.catalogue.islands.len();
    islands.zip(timelines).map(render).collect()
}
