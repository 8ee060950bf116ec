//! The history payload: bodies of islands, creators, rankings and new days, then the lists' sections.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::creators::{self, Creator};
use super::groups::{Orders, row_number, write_texts};
use super::parallel::in_parallel;
use super::render;
use super::text_index::{IndexSections, write_index};
use super::timeline::Timeline;
use crate::calendar::UnixSeconds;
use crate::dataset::{Dataset, Metrics};
use crate::model::{CreatedIn, SortField};
use crate::snapshot::{BodyRef, Section, SnapshotWriter, Stamp, Written};

/// Places in a ranking.
const RANKING_LENGTH: usize = 10;
/// Islands rendered between two writes: enough to keep the cores busy, little enough to hold.
const BATCH: usize = 2048;
/// `RowTools` holds this where an island has none.
const NO_TOOL: u8 = u8::MAX;

/// Renders the history of a dataset to `out`. `progress` is told islands done and islands in all.
pub(crate) fn write<W: Write>(
    dataset: &Dataset,
    published: UnixSeconds,
    out: W,
    progress: &mut dyn FnMut(usize, usize),
) -> io::Result<(W, Written)> {
    let work = Work::new(dataset, published);
    let mut out = SnapshotWriter::new(out)?;
    let bodies = work.write_bodies(&mut out, progress)?;
    work.write_rows(&mut out)?;
    creators::write(&work.creators, &work.orders, work.rows.len(), &mut out)?;
    work.write_tags(&mut out)?;
    for (section, refs) in bodies {
        out.bodies(section, &refs)?;
    }
    out.section(Section::Stamp, &work.stamp().to_bytes())?;
    let frames = render::frames(published, &work.unplayed_end());
    out.section(Section::Frames, &frames)?;
    let days: Vec<u8> = work
        .timeline
        .days
        .iter()
        .flat_map(|day| day.0.to_le_bytes())
        .collect();
    out.section(Section::Days, &days)?;
    out.finish()
}

/// All that the payload is rendered from.
struct Work<'a> {
    dataset: &'a Dataset,
    timeline: Timeline<'a>,
    published: UnixSeconds,
    /// Each island's metrics of the newest day.
    latest: Vec<Metrics>,
    /// Each island's row in lists.
    rows: Vec<Vec<u8>>,
    orders: Orders,
    creators: Vec<Creator<'a>>,
    histories: u64,
}

impl<'a> Work<'a> {
    fn new(dataset: &'a Dataset, published: UnixSeconds) -> Work<'a> {
        let timeline = Timeline::new(dataset);
        let islands = 0..dataset.islands.len();
        let latest: Vec<Metrics> = islands
            .clone()
            .map(|island| timeline.latest(island))
            .collect();
        let newest = timeline.day_texts.last().map(String::as_str);
        let row = |island: usize| {
            let mut out = Vec::new();
            render::summary(&mut out, &seen(&timeline, island), newest, &latest[island]);
            out
        };
        let rows = islands.clone().map(row).collect();
        let has_history = |island: &usize| {
            timeline
                .of(*island)
                .iter()
                .any(|entry| timeline.peak(*entry).is_some())
        };
        let histories = islands.filter(has_history).count() as u64;
        let creators = creators::all(dataset, &latest);
        let orders = Orders::new(&latest);
        Work {
            dataset,
            timeline,
            published,
            latest,
            rows,
            orders,
            creators,
            histories,
        }
    }

    fn stamp(&self) -> Stamp {
        let days = self.timeline.days.len() as u64;
        let islands = self.dataset.islands.len() as u64;
        let creators = self.creators.len() as u64;
        Stamp {
            published: self.published,
            counts: [islands, creators, self.histories, days, days],
        }
    }

    fn write_bodies<W: Write>(
        &self,
        out: &mut SnapshotWriter<W>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> io::Result<Vec<(Section, Vec<BodyRef>)>> {
        let islands = self.dataset.islands.len();
        let all = islands * 2 + self.creators.len() + self.timeline.days.len() * 2;
        let mut done = 0;
        let mut write_all = |count: usize,
                             render: &(dyn Fn(usize) -> Vec<u8> + Sync)|
         -> io::Result<Vec<BodyRef>> {
            let mut refs = Vec::with_capacity(count);
            for start in (0..count).step_by(BATCH) {
                let end = (start + BATCH).min(count);
                for packed in in_parallel(start..end, render) {
                    refs.push(out.body(&packed)?);
                }
                done += end - start;
                progress(done, all);
            }
            Ok(refs)
        };
        let previous = self.previous_ranks();
        let new = self.new_by_day();
        let days = self.timeline.days.len();
        let fixed = |_: usize| render::days(&self.timeline.day_texts, self.published);
        Ok(vec![
            (
                Section::IslandBodies,
                write_all(islands, &|island| self.island(island))?,
            ),
            (
                Section::CcuBodies,
                write_all(islands, &|island| self.ccu(island))?,
            ),
            (
                Section::CreatorBodies,
                write_all(self.creators.len(), &|creator| self.creator(creator))?,
            ),
            (
                Section::RankingBodies,
                write_all(days, &|day| self.ranking(day, &previous[day]))?,
            ),
            (
                Section::NewBodies,
                write_all(days, &|day| self.new_islands(day, &new[day]))?,
            ),
            (Section::FixedBodies, write_all(2, &fixed)?),
        ])
    }

    fn island(&self, island: usize) -> Vec<u8> {
        let timeline = &self.timeline;
        let daily = timeline.of(island).iter().filter(|entry| !entry.from_ccu);
        let series = daily.map(|entry| {
            (
                timeline.day_texts[entry.day as usize].as_str(),
                timeline.metrics(*entry),
            )
        });
        render::island(&self.rows[island], series, self.published)
    }

    fn ccu(&self, island: usize) -> Vec<u8> {
        let timeline = &self.timeline;
        let peaks = timeline.of(island).iter().filter_map(|entry| {
            Some((
                timeline.day_texts[entry.day as usize].as_str(),
                timeline.peak(*entry)?,
            ))
        });
        render::ccu(
            &self.dataset.islands[island].code.to_string(),
            peaks,
            self.published,
        )
    }

    fn creator(&self, at: usize) -> Vec<u8> {
        let creator = &self.creators[at];
        let mut islands = creator.islands.clone();
        let peak = |row: &u32| self.latest[*row as usize].count(SortField::PeakCcu);
        islands.sort_by_key(|row| std::cmp::Reverse(peak(row)));
        let rows = islands
            .iter()
            .map(|row| self.rows[*row as usize].as_slice());
        let head = render::creator_row(&creator.aggregate);
        render::creator(&head, creator.profile, rows, self.published)
    }

    /// For each day, the first places and what each island's place was on the day before.
    fn previous_ranks(&self) -> Vec<Vec<(u64, usize, Option<u32>)>> {
        let mut before: Vec<u32> = vec![0; self.dataset.islands.len()];
        let mut tops = Vec::new();
        for day in 0..self.timeline.days.len() {
            let ranked = self.timeline.ranked(day);
            let first = ranked.iter().take(RANKING_LENGTH);
            let top = first.map(|(peak, island)| {
                (
                    *peak,
                    *island,
                    Some(before[*island]).filter(|rank| *rank > 0),
                )
            });
            tops.push(top.collect());
            before.fill(0);
            for (at, (_, island)) in ranked.iter().enumerate() {
                before[*island] = row_number(at + 1);
            }
        }
        tops
    }

    fn ranking(&self, day: usize, top: &[(u64, usize, Option<u32>)]) -> Vec<u8> {
        let places = top
            .iter()
            .zip(1..)
            .map(|((peak_ccu, island, previous_rank), rank)| render::Place {
                rank,
                previous_rank: *previous_rank,
                island: &self.dataset.islands[*island],
                peak_ccu: *peak_ccu,
            });
        let texts = &self.timeline.day_texts;
        let previous = day.checked_sub(1).map(|day| texts[day].as_str());
        render::ranking(&texts[day], previous, places, self.published)
    }

    /// For each day, the islands first seen on it.
    fn new_by_day(&self) -> Vec<Vec<usize>> {
        let mut new = vec![Vec::new(); self.timeline.days.len()];
        for island in 0..self.dataset.islands.len() {
            if let Some(first) = self.timeline.of(island).first() {
                new[first.day as usize].push(island);
            }
        }
        new
    }

    fn new_islands(&self, day: usize, islands: &[usize]) -> Vec<u8> {
        let date = self.timeline.day_texts[day].as_str();
        let mut islands: Vec<(usize, Metrics)> = islands
            .iter()
            .map(|island| (*island, self.timeline.metrics_on(*island, day)))
            .collect();
        islands.sort_by_key(|(_, metrics)| std::cmp::Reverse(metrics.count(SortField::PeakCcu)));
        let rows: Vec<Vec<u8>> = islands
            .iter()
            .map(|(island, metrics)| {
                let mut out = Vec::new();
                render::summary(
                    &mut out,
                    &seen(&self.timeline, *island),
                    Some(date),
                    metrics,
                );
                out
            })
            .collect();
        render::new_islands(date, rows.iter().map(Vec::as_slice), self.published)
    }

    /// What the rows of islands without metrics of the newest day have in common. It is stored once,
    /// and stands as a NUL at the end of each.
    fn unplayed_end(&self) -> Vec<u8> {
        render::unplayed_end(self.timeline.day_texts.last().map(String::as_str))
    }

    fn write_rows<W: Write>(&self, out: &mut SnapshotWriter<W>) -> io::Result<()> {
        let end = self.unplayed_end();
        let texts = self
            .rows
            .iter()
            .map(|row| match row.strip_suffix(&end[..]) {
                Some(start) => Cow::Owned([start, b"\0"].concat()),
                None => Cow::Borrowed(&row[..]),
            });
        write_texts(out, (Section::RowText, Section::RowEnds), texts)?;
        let codes: Vec<u64> = self
            .dataset
            .islands
            .iter()
            .map(|island| island.code.number())
            .collect();
        out.longs(Section::Codes, &codes)?;
        self.orders.write(out)?;
        let mut tools = CreatedIn::ALL.map(|_| Vec::new());
        let mut row_tools = vec![NO_TOOL; self.rows.len()];
        for (row, island) in self.dataset.islands.iter().enumerate() {
            if let Some(tool) = island.created_in {
                tools[tool as usize].push(row_number(row));
                row_tools[row] = tool as u8;
            }
        }
        out.section(Section::RowTools, &row_tools)?;
        self.orders
            .write_groups(out, (Section::ToolStarts, Section::ToolOrders), &tools)?;
        let sections = IndexSections {
            texts: (Section::TitleText, Section::TitleEnds),
            suffix_rows: Section::TitleSuffixRows,
            samples: Section::TitleSamples,
            common: Section::TitleCommon,
            common_rows: Section::TitleCommonRows,
        };
        write_index(
            out,
            &sections,
            self.dataset.islands.iter().map(|island| &*island.title),
        )
    }

    fn write_tags<W: Write>(&self, out: &mut SnapshotWriter<W>) -> io::Result<()> {
        let mut members: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (row, island) in self.dataset.islands.iter().enumerate() {
            for tag in &island.tags {
                let rows = members.entry(tag).or_default();
                // A tag named twice by one island is still one filter match.
                if rows.last() != Some(&row_number(row)) {
                    rows.push(row_number(row));
                }
            }
        }
        write_texts(
            out,
            (Section::TagNames, Section::TagNameEnds),
            members.keys(),
        )?;
        let mut row_tags = vec![Vec::new(); self.rows.len()];
        for (tag, rows) in members.values().enumerate() {
            for row in rows {
                row_tags[*row as usize].push(row_number(tag));
            }
        }
        let groups: Vec<Vec<u32>> = members.into_values().collect();
        self.orders
            .write_groups(out, (Section::TagStarts, Section::TagOrders), &groups)?;
        let mut starts = vec![0];
        for tags in &row_tags {
            starts.push(starts[starts.len() - 1] + row_number(tags.len()));
        }
        out.ints(Section::RowTagStarts, &starts)?;
        out.ints(Section::RowTags, &row_tags.concat())
    }
}

fn seen<'t>(timeline: &'t Timeline<'_>, island: usize) -> render::Seen<'t> {
    let entries = timeline.of(island);
    let text = |entry: &super::timeline::Entry| timeline.day_texts[entry.day as usize].as_str();
    render::Seen {
        island: &timeline.dataset.islands[island],
        first: entries.first().map(text),
        last: entries.last().map(text),
    }
}
