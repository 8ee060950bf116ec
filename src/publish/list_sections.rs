//! Sections of the lists: rows, orders, filters, and the search indexes over titles and slugs.
//!
//! The order of the rows by each sort field and direction is computed once, for all rows and for each
//! group. The payload has the rank of each value and not the value: a filter by values needs a section
//! of its own.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::history_input::{Creator, HistoryInput};
use super::render;
use super::text_index::write_index;
use crate::dataset::{Island, Metrics};
use crate::model::{CreatedIn, SortField, SortOrder};
use crate::snapshot::{SLUGS, Section, SnapshotWriter, TITLES};

/// Value of `RowTools` for an island without a tool.
const NO_TOOL: u8 = u8::MAX;
/// Value of `RowCreators` for an island without a creator.
const NO_CREATOR: u32 = u32::MAX;

/// Writes the sections of the island list and of the creator list. `rows` are the rows of the
/// islands.
pub(crate) fn write<W: Write>(
    input: &HistoryInput<'_>,
    rows: &[Vec<u8>],
    creators: &[Creator<'_>],
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    // The common end of all rows without metrics on the latest day is stored once. A NUL at the end
    // of a row stands for it.
    let end = render::null_metrics_suffix(input.latest_day());
    let texts = rows.iter().map(|row| match row.strip_suffix(&end[..]) {
        Some(start) => Cow::Owned([start, b"\0"].concat()),
        None => Cow::Borrowed(&row[..]),
    });
    write_texts(out, (Section::RowText, Section::RowEnds), texts)?;
    let islands = &input.catalogue.islands;
    let codes: Vec<u64> = islands.iter().map(|island| island.code.number()).collect();
    out.longs(Section::Codes, &codes)?;
    let orders = RowOrders::write(&input.latest, out)?;
    write_tools(islands, &orders, out)?;
    write_index(out, TITLES, islands.iter().map(|island| &*island.title))?;
    write_creators(creators, &orders, islands.len(), out)?;
    write_tags(islands, &orders, out)
}

/// Writes each row's tool and the filter by tool.
fn write_tools<W: Write>(
    islands: &[Island],
    orders: &RowOrders,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let mut members = CreatedIn::ALL.map(|_| Vec::new());
    let mut row_tools = vec![NO_TOOL; islands.len()];
    for (row, island) in islands.iter().enumerate() {
        if let Some(tool) = island.created_in {
            members[tool as usize].push(row_number(row));
            row_tools[row] = tool as u8;
        }
    }
    out.section(Section::RowTools, &row_tools)?;
    let sections = (Section::ToolStarts, Section::ToolOrders);
    orders.write_groups(out, sections, members.iter())
}

/// Writes each row's creator, the filter by creator, and the list of creators with its search
/// index.
fn write_creators<W: Write>(
    creators: &[Creator<'_>],
    orders: &RowOrders,
    islands: usize,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let mut row_creators = vec![NO_CREATOR; islands];
    for (number, creator) in (0..).zip(creators) {
        for row in &creator.islands {
            row_creators[*row as usize] = number;
        }
    }
    out.ints(Section::RowCreators, &row_creators)?;
    let sections = (Section::CreatorStarts, Section::CreatorOrders);
    let members = creators.iter().map(|creator| &creator.islands);
    orders.write_groups(out, sections, members)?;
    let sections = (Section::CreatorRowText, Section::CreatorRowEnds);
    write_texts(out, sections, creators.iter().map(Creator::list_row))?;
    let slugs = || creators.iter().map(|creator| creator.slug);
    write_texts(
        out,
        (Section::CreatorSlugs, Section::CreatorSlugEnds),
        slugs(),
    )?;
    let mut by_slug: Vec<u32> = (0..row_number(creators.len())).collect();
    by_slug.sort_unstable_by_key(|creator| creators[*creator as usize].slug);
    out.ints(Section::CreatorsBySlug, &by_slug)?;
    write_index(out, SLUGS, slugs())
}

/// Writes the names of all tags, the filter by tag, and each row's tags.
fn write_tags<W: Write>(
    islands: &[Island],
    orders: &RowOrders,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let mut members: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (row, island) in (0..).zip(islands) {
        for tag in island.tags() {
            let rows = members.entry(tag).or_default();
            // A tag that occurs twice on one island is one match.
            if rows.last() != Some(&row) {
                rows.push(row);
            }
        }
    }
    write_texts(
        out,
        (Section::TagNames, Section::TagNameEnds),
        members.keys(),
    )?;
    let sections = (Section::TagStarts, Section::TagOrders);
    orders.write_groups(out, sections, members.values())?;
    let mut row_tags = vec![Vec::new(); islands.len()];
    for (tag, rows) in (0..).zip(members.values()) {
        for row in rows {
            row_tags[*row as usize].push(tag);
        }
    }
    let mut starts = vec![0];
    for tags in &row_tags {
        starts.push(starts[starts.len() - 1] + row_number(tags.len()));
    }
    out.ints(Section::RowTagStarts, &starts)?;
    out.ints(Section::RowTags, &row_tags.concat())
}

/// For each sort field and direction, the position of each row in the final order.
struct RowOrders(Vec<Vec<u32>>);

impl RowOrders {
    /// Writes the orders of all rows, and for each sort field the dense rank of each row's value,
    /// from 1; 0 if it is null.
    fn write<W: Write>(latest: &[Metrics], out: &mut SnapshotWriter<W>) -> io::Result<RowOrders> {
        let rows = row_number(latest.len());
        let (mut ranks, mut orders, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for field in SortField::ALL {
            let value = |row: u32| latest[row as usize].count(field);
            let mut distinct: Vec<u64> = (0..rows).filter_map(value).collect();
            distinct.sort_unstable();
            distinct.dedup();
            ranks.extend((0..rows).map(|row| match value(row) {
                Some(count) => row_number(distinct.partition_point(|other| *other <= count)),
                None => 0,
            }));
            for order in SortOrder::ALL {
                let mut sorted: Vec<u32> = (0..rows).collect();
                // Rows are numbered by code, and a stable sort keeps ties in that order.
                match order {
                    SortOrder::Asc => {
                        sorted.sort_by_key(|row| (value(*row).is_none(), value(*row)));
                    }
                    SortOrder::Desc => sorted.sort_by_key(|row| Reverse(value(*row))),
                }
                let mut position_of = vec![0; sorted.len()];
                for (position, row) in (0..).zip(&sorted) {
                    position_of[*row as usize] = position;
                }
                positions.push(position_of);
                orders.append(&mut sorted);
            }
        }
        out.ints(Section::Ranks, &ranks)?;
        out.ints(Section::Orders, &orders)?;
        Ok(RowOrders(positions))
    }

    /// Writes the orders of groups, given as their member rows.
    fn write_groups<'g, W: Write>(
        &self,
        out: &mut SnapshotWriter<W>,
        (starts_section, orders_section): (Section, Section),
        groups: impl Iterator<Item = &'g Vec<u32>>,
    ) -> io::Result<()> {
        let (mut starts, mut orders) = (vec![0], Vec::new());
        for members in groups {
            starts.push(starts[starts.len() - 1] + members.len() as u64);
            for positions in &self.0 {
                let at = orders.len();
                orders.extend_from_slice(members);
                orders[at..].sort_unstable_by_key(|row| positions[*row as usize]);
            }
        }
        out.longs(starts_section, &starts)?;
        out.ints(orders_section, &orders)
    }
}

/// Converts an index of a row, creator, tag or day to its number in the file.
pub(crate) fn row_number(at: usize) -> u32 {
    u32::try_from(at).expect("the platform has far fewer than 2^32 islands")
}

/// Writes concatenated texts and the end of each. Returns 0 and these ends.
pub(crate) fn write_texts<W: Write>(
    out: &mut SnapshotWriter<W>,
    (text_section, ends_section): (Section, Section),
    texts: impl Iterator<Item = impl AsRef<[u8]>>,
) -> io::Result<Vec<u64>> {
    let (mut all, mut ends) = (Vec::new(), vec![0]);
    for text in texts {
        all.extend_from_slice(text.as_ref());
        ends.push(all.len() as u64);
    }
    out.section(text_section, &all)?;
    out.longs(ends_section, &ends)?;
    Ok(ends)
}
