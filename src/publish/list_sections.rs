//! Sections of the lists: rows, orders, filters, and the search indexes over titles and slugs.
//!
//! The order of the rows by each sort field and direction is computed once, for all rows and for each
//! group. The payload has the rank of each value and not the value: a filter by values needs a section
//! of its own.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use zerocopy::little_endian::{U32, U64};

use super::history_input::{Creator, HistoryInput};
use super::packed_day::row_number;
use super::render;
use super::text_index::write_index;
use crate::dataset::{Island, Metrics};
use crate::model::{CreatedIn, SortField, SortOrder};
use crate::snapshot::{SLUGS, Section, SnapshotWriter, TITLES};

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
    out.lists::<u8>(Section::Rows, texts)?;
    let islands = &input.catalogue.islands;
    let codes = islands.iter().map(|island| island.code.number());
    out.array::<U64>(Section::Codes, codes)?;
    let orders = RowOrders::write(&input.latest, out)?;
    write_tools(islands, &orders, out)?;
    write_index(out, TITLES, islands.iter().map(|island| &*island.title))?;
    write_creators(creators, &orders, out)?;
    write_tags(islands, &orders, out)
}

fn write_tools<W: Write>(
    islands: &[Island],
    orders: &RowOrders,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let mut members = CreatedIn::ALL.map(|_| Vec::new());
    for (row, island) in (0..).zip(islands) {
        if let Some(tool) = island.created_in {
            members[tool as usize].push(row);
        }
    }
    let sections = (Section::ToolOrders, Section::RowTools);
    orders.write_groups(out, sections, members.iter())
}

/// Writes the filter by creator, and the list of creators with its search index.
fn write_creators<W: Write>(
    creators: &[Creator<'_>],
    orders: &RowOrders,
    out: &mut SnapshotWriter<W>,
) -> io::Result<()> {
    let sections = (Section::CreatorOrders, Section::RowCreators);
    let members = creators.iter().map(|creator| &creator.islands);
    orders.write_groups(out, sections, members)?;
    let rows = creators.iter().map(Creator::list_row);
    out.lists::<u8>(Section::CreatorRows, rows)?;
    let slugs = || creators.iter().map(|creator| creator.slug);
    out.lists::<u8>(Section::CreatorSlugs, slugs())?;
    let mut by_slug: Vec<u32> = (0..row_number(creators.len())).collect();
    by_slug.sort_unstable_by_key(|creator| creators[*creator as usize].slug);
    out.array::<U32>(Section::CreatorsBySlug, by_slug)?;
    write_index(out, SLUGS, slugs())
}

/// Writes the names of all tags and the filter by tag.
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
    out.lists::<u8>(Section::TagNames, members.keys())?;
    let sections = (Section::TagOrders, Section::RowTags);
    orders.write_groups(out, sections, members.values())
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
        out.array::<U32>(Section::Ranks, ranks)?;
        out.array::<U32>(Section::Orders, orders)?;
        Ok(RowOrders(positions))
    }

    /// Writes the orders of groups, given as their member rows, and the groups of each row.
    fn write_groups<'g, W: Write>(
        &self,
        out: &mut SnapshotWriter<W>,
        (orders_section, of_rows_section): (Section, Section),
        groups: impl Iterator<Item = &'g Vec<u32>>,
    ) -> io::Result<()> {
        let mut of_rows = vec![Vec::new(); self.0[0].len()];
        let orders = (0..).zip(groups).map(|(group, members)| {
            for row in members {
                of_rows[*row as usize].push(U32::new(group));
            }
            let mut orders = Vec::with_capacity(members.len() * self.0.len());
            for positions in &self.0 {
                let at = orders.len();
                orders.extend(members.iter().copied().map(U32::new));
                orders[at..].sort_unstable_by_key(|row| positions[row.get() as usize]);
            }
            orders
        });
        out.lists::<U32>(orders_section, orders)?;
        out.lists::<U32>(of_rows_section, of_rows.iter())?;
        Ok(())
    }
}
